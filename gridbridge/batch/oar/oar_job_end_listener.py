"""Listens for the ends that jobs report on an OAR server's frontend (oarsub(1), --notify)."""

from collections.abc import Iterator

from gridbridge.batch.oar.oar_commands import HERE
from gridbridge.errors import GridbridgeError
from gridbridge.model.transfer_name import job_ids_in_pushed_report
from gridbridge.model.transfer_route import OarServerAccess
from gridbridge.shell import ssh

LISTENER = f"{HERE}/listen.pl"
COMMAND = "exec /usr/bin/env LC_ALL=C PATH=/usr/bin:/bin /usr/bin/perl - {}"  # sh, csh


def listen_for_job_ends(server: OarServerAccess) -> Iterator[list[int]]:
    """Yield the ids of jobs that report their end; an empty list about once a second.

    An id is only a hint: any user of the frontend may write to the FIFO. Raises CommandFailed when
    the connection ends.
    """
    if server.login is None:
        raise GridbridgeError("ends are told over a connection by ssh alone")
    with open(LISTENER, "rb") as text:
        for chunk in ssh.stream_output_over_ssh(server.login, COMMAND.format(server.ends), text.read()):
            yield job_ids_in_pushed_report(chunk)
