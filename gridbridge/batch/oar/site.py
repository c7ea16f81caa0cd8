"""What set-up and check ask of an OAR server itself; each raises CommandFailed for no answer."""

from gridbridge.batch.oar import commands
from gridbridge.batch.oar.status import snapshot
from gridbridge.batch.oar.submit import call
from gridbridge.errors import ParseError
from gridbridge.model.route import OarServer

HERE = "this host"


def place(server: OarServer) -> str:
    """Return the host whose client programs are asked."""
    return server.login.host if server.login else HERE


def version(server: OarServer) -> str:
    """Return what the client programs call themselves, e.g. `OAR 2.5.9`."""
    said = call(server, commands.show_version(server)).checked().stdout.decode("utf-8", "replace")
    return f"OAR {said.partition(':')[2].split('(')[0].strip()}" if ":" in said else said.strip()


def ahead_s(server: OarServer, now: float) -> float:
    """Return how far the clock of its client programs' host is ahead of `now`."""
    said = call(server, commands.TELL_TIME).checked().stdout.decode("utf-8", "replace").strip()
    try:
        return float(said) - now
    except ValueError as error:
        raise ParseError(f"date: {said[:40]!r} is no time") from error


def slots(server: OarServer) -> int:
    """Return how many slots all its nodes have."""
    return sum(queue.slots_total for queue in snapshot(server, "", ())[0].queues)
