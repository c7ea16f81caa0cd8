"""Answers `gridbridge check` and set-up about an OAR server, and explains submissions to it."""

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
    """Return version, clock offset and slots of an OAR server, or why it did not answer."""
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
    """Return the set-up of an OAR server; any parallel environment gets slots of one node."""
    query_oar_version(server)
    return CellQconfSettings.bare(host_of_oar_clients(server), home.environments)


def explain_request_refusal(request: JobRequest) -> str:
    """Return why OAR can't satisfy a request; empty if it can, as far as known."""
    return oar_commands.explain_request_refusal(request)


def build_submission_command(server: OarServerAccess, spec: JobSpec) -> Argv:
    """Return oarsub's command line for a job."""
    return oar_commands.oarsub_command(server, spec)


def host_of_oar_clients(server: OarServerAccess) -> str:
    """Return the host on which OAR's client programs run."""
    return server.login.host if server.login else THIS_HOST


def query_oar_version(server: OarServerAccess) -> str:
    """Return the version of OAR's client programs, e.g. `OAR 2.5.9`."""
    text = run_client(server, oar_commands.show_oar_version_command(server)).checked().stdout.decode("utf-8", "replace")
    return f"OAR {text.partition(':')[2].split('(')[0].strip()}" if ":" in text else text.strip()


def query_clock_offset_s(server: OarServerAccess, now: float) -> float:
    """Return how far the client host's clock is ahead of `now`."""
    text = run_client(server, oar_commands.TELL_TIME).checked().stdout.decode("utf-8", "replace").strip()
    try:
        return float(text) - now
    except ValueError as error:
        raise ParseError(f"date: {text[:40]!r} is no time") from error


def count_batch_slots(server: OarServerAccess) -> int:
    """Return the number of slots of all nodes."""
    return count_oar_slots(server)
