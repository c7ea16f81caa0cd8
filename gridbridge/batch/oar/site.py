"""Answers `gridbridge check` and `gridbridge setup` about an OAR server, and explains job submissions."""

from gridbridge.batch.oar import oar_commands
from gridbridge.batch.oar.oar_commands import Argv
from gridbridge.batch.oar.status import count_oar_slots
from gridbridge.batch.oar.submit import run_client
from gridbridge.errors import GridbridgeError, ParseError, SshAccessRejected
from gridbridge.model.job_request import JobRequest, JobSpec
from gridbridge.model.site.setup_findings_and_edits import CellQconfSettings
from gridbridge.model.site.site_check_facts import ClusterFacts
from gridbridge.model.transfer_route import OarServerAccess

HAS_OPERATORS = False
HAS_ENVIRONMENTS = False
THIS_HOST = "this host"


def query_cluster_facts(server: OarServerAccess, now: float) -> ClusterFacts:
    """Return an OAR server's version, clock offset and slots, or the reason for no answer."""
    try:
        return ClusterFacts(
            version=query_oar_version(server),
            ahead_s=query_clock_offset_s(server, now),
            slots=count_batch_slots(server),
            master=host_of_oar_clients(server),
        )
    except GridbridgeError as error:
        return ClusterFacts(trouble=str(error), is_shut=isinstance(error, SshAccessRejected))


def read_remote_setup(server: OarServerAccess, _of_host: str, home: CellQconfSettings) -> CellQconfSettings:
    """Return an OAR server's set-up, in which each parallel environment of the home cluster means slots of one node."""
    query_oar_version(server)
    return CellQconfSettings.bare(host_of_oar_clients(server), home.environments)


def explain_request_refusal(request: JobRequest) -> str:
    """Return the reason why OAR can't satisfy a request; empty if none is known."""
    return oar_commands.explain_request_refusal(request)


def build_submission_command(server: OarServerAccess, spec: JobSpec) -> Argv:
    """Return the command line of oarsub that submits a job."""
    return oar_commands.oarsub_command(server, spec)


def host_of_oar_clients(server: OarServerAccess) -> str:
    """Return the host on which OAR's client programs run."""
    return server.login.host if server.login else THIS_HOST


def query_oar_version(server: OarServerAccess) -> str:
    """Return the version of OAR's client programs, for example `OAR 2.5.9`."""
    text = run_client(server, oar_commands.show_oar_version_command(server)).checked().stdout.decode("utf-8", "replace")
    return f"OAR {text.partition(':')[2].split('(')[0].strip()}" if ":" in text else text.strip()


def query_clock_offset_s(server: OarServerAccess, now: float) -> float:
    """Return the seconds by which the clock of OAR's client host is ahead of `now`."""
    text = run_client(server, oar_commands.TELL_TIME).checked().stdout.decode("utf-8", "replace").strip()
    try:
        return float(text) - now
    except ValueError as error:
        raise ParseError(f"date: {text[:40]!r} is not a time") from error


def count_batch_slots(server: OarServerAccess) -> int:
    """Return the number of slots of all nodes."""
    return count_oar_slots(server)
