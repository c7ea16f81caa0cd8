"""Answers `gridbridge check` about an embedded cluster, and explains job submissions."""

from gridbridge import __version__
from gridbridge.batch.embedded import embedded_command_lines_and_answers
from gridbridge.batch.embedded.embedded_command_lines_and_answers import Argv
from gridbridge.batch.embedded.status import query_cluster_snapshot
from gridbridge.errors import GridbridgeError
from gridbridge.model.job_request import JobRequest, JobSpec
from gridbridge.model.site.site_check_facts import ClusterFacts
from gridbridge.model.transfer_route import EmbeddedClusterAccess


def query_cluster_facts(folder: EmbeddedClusterAccess, _now: float) -> ClusterFacts:
    """Return the cluster's slots and gridbridge's version, or the reason for no answer."""
    try:
        cluster, _ = query_cluster_snapshot(folder, "", ())
    except GridbridgeError as error:
        return ClusterFacts(trouble=str(error), master=folder.path)
    return ClusterFacts(version=__version__, slots=cluster.queues[0].slots_total, master=folder.path)


def list_transfer_queues(folder: EmbeddedClusterAccess) -> dict[str, int]:
    """Return the number of slots of each transfer queue, by queue name."""
    _, *queues = query_cluster_snapshot(folder, "", ())[0].queues
    return {queue.name.partition("@")[0]: queue.slots_total for queue in queues}


def explain_request_refusal(request: JobRequest) -> str:
    """Return the reason why an embedded cluster can't satisfy a request; empty if it can."""
    return embedded_command_lines_and_answers.explain_request_refusal(request)


def build_submission_command(folder: EmbeddedClusterAccess, spec: JobSpec) -> Argv:
    """Return the command line that submits a job."""
    return embedded_command_lines_and_answers.submit_held_job_command(folder, spec)
