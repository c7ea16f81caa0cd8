"""What set-up, check and explain ask of an OAR server, and what a job would be submitted with."""

from gridbridge.batch.oar import oar_commands
from gridbridge.batch.oar.oar_commands import Argv
from gridbridge.batch.oar.status import snapshot
from gridbridge.batch.oar.submit import call
from gridbridge.errors import GridbridgeError, ParseError, SshAccessRejected
from gridbridge.model.request import JobRequest, JobSpec
from gridbridge.model.route import OarServer
from gridbridge.model.site.host_facts import ClusterFacts
from gridbridge.model.site.setup_findings import CellSetup

HAS_OPERATORS = False
HAS_ENVIRONMENTS = False
HERE = "this host"


def facts(server: OarServer, now: float) -> ClusterFacts:
    """Return its version, clock and slots, which need its database, or why it gave no answer."""
    try:
        return ClusterFacts(
            version=version(server),
            ahead_s=ahead_s(server, now),
            slots=slots(server),
            master=place(server),
        )
    except GridbridgeError as error:
        return ClusterFacts(trouble=str(error), is_shut=isinstance(error, SshAccessRejected))


def remote_setup(server: OarServer, _of_host: str, home: CellSetup) -> CellSetup:
    """Return what counts there: it gives slots of one node to any parallel environment."""
    version(server)
    return CellSetup.bare(place(server), home.environments)


def refusal(request: JobRequest) -> str:
    """Return why OAR can't give what a job asks for; empty when it can, as far as we know."""
    return oar_commands.refusal(request)


def submission(server: OarServer, spec: JobSpec) -> Argv:
    """Return oarsub's command line."""
    return oar_commands.oarsub(server, spec)


def place(server: OarServer) -> str:
    """Return the host whose client programs are asked."""
    return server.login.host if server.login else HERE


def version(server: OarServer) -> str:
    """Return what the client programs call themselves, e.g. `OAR 2.5.9`."""
    text = (
        call(server, oar_commands.show_version(server)).checked().stdout.decode("utf-8", "replace")
    )
    return f"OAR {text.partition(':')[2].split('(')[0].strip()}" if ":" in text else text.strip()


def ahead_s(server: OarServer, now: float) -> float:
    """Return how far the clock of its client programs' host is ahead of `now`."""
    text = call(server, oar_commands.TELL_TIME).checked().stdout.decode("utf-8", "replace").strip()
    try:
        return float(text) - now
    except ValueError as error:
        raise ParseError(f"date: {text[:40]!r} is no time") from error


def slots(server: OarServer) -> int:
    """Return how many slots all its nodes have."""
    return sum(queue.slots_total for queue in snapshot(server, "", ())[0].queues)
