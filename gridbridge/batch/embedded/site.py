"""What check asks of an embedded cluster, and what a job would be submitted with."""

from gridbridge import __version__
from gridbridge.batch.embedded import embedded_commands
from gridbridge.batch.embedded.embedded_commands import Argv
from gridbridge.batch.embedded.status import snapshot
from gridbridge.errors import GridbridgeError
from gridbridge.model.request import JobRequest, JobSpec
from gridbridge.model.route import EmbeddedFolder
from gridbridge.model.site.host_facts import ClusterFacts


def facts(folder: EmbeddedFolder, _now: float) -> ClusterFacts:
    """Return its slots, or why it gave no answer; its version and clock are ours."""
    try:
        cluster, _ = snapshot(folder, "", ())
    except GridbridgeError as error:
        return ClusterFacts(trouble=str(error), master=folder.path)
    return ClusterFacts(
        version=__version__, slots=cluster.queues[0].slots_total, master=folder.path
    )


def transfer_queues(folder: EmbeddedFolder) -> dict[str, int]:
    """Return the slots of its transfer queues, by name."""
    _, *queues = snapshot(folder, "", ())[0].queues
    return {queue.name.partition("@")[0]: queue.slots_total for queue in queues}


def refusal(request: JobRequest) -> str:
    """Return why the cluster can't give what a job asks for; empty when it can."""
    return embedded_commands.refusal(request)


def submission(folder: EmbeddedFolder, spec: JobSpec) -> Argv:
    """Return the command line of a job's submission."""
    return embedded_commands.submit_held(folder, spec)
