"""What set-up, check and explain ask of a cell, and what a job would be submitted with."""

from collections.abc import Mapping

from gridbridge.batch.gridengine import client_commands, objects, qconf
from gridbridge.batch.gridengine.client_commands import Argv
from gridbridge.errors import GridbridgeError, SshAccessRejected
from gridbridge.model.qconf_attributes import QconfSettings, is_transfer_queue
from gridbridge.model.request import JobRequest, JobSpec
from gridbridge.model.route import GridEngineCell
from gridbridge.model.site.host_facts import ClusterFacts
from gridbridge.model.site.setup_findings import BestEffortCell, CellSetup
from gridbridge.model.snapshot import QueueStatus

HAS_OPERATORS = True
HAS_ENVIRONMENTS = True


def facts(cell: GridEngineCell, now: float) -> ClusterFacts:
    """Return the qmaster's version and clock, or why it gave no answer."""
    try:
        master = objects.master(cell)
    except GridbridgeError as error:
        return ClusterFacts(trouble=str(error), is_shut=isinstance(error, SshAccessRejected))
    try:
        objects.check_answers(cell)
        ahead_s = objects.master_offset_s(cell, now)
        return ClusterFacts(version=objects.version(cell), ahead_s=ahead_s, master=master)
    except GridbridgeError as error:
        port = objects.other_port(cell) if master and not cell.login else 0
        return ClusterFacts(trouble=str(error), master=master, other_port=port)


def slots(cell: GridEngineCell) -> int:
    """Return how many batch slots it has, those of transfer and best-effort queues left out."""
    transfers = {name for name, queue in objects.queues(cell).items() if is_transfer_queue(queue)}
    queues = objects.queue_instances(cell, "")
    ours = (queue for queue in queues if not queue.is_besteffort)
    own = (queue for queue in ours if queue.name.partition("@")[0] not in transfers)
    return sum(queue.slots_total for queue in own if queue.takes_batch)


def remote_setup(cell: GridEngineCell, of_host: str, _home: CellSetup) -> CellSetup:
    """Return what a transfer from that host touches here."""
    return objects.far_setup(cell) if cell.login else objects.cell_setup(cell, of_host)


def home_setup(cell: GridEngineCell, of_host: str) -> CellSetup:
    """Return what a transfer queue on that host touches where it is."""
    return objects.cell_setup(cell, of_host)


def slots_on(cell: GridEngineCell, host: str) -> Mapping[str, int]:
    """Return the slots of every queue on a host."""
    return objects.slots_on(cell, host)


def queue_instances(cell: GridEngineCell, cluster: str) -> tuple[QueueStatus, ...]:
    """Return every queue on every host with its letters and slots."""
    return objects.queue_instances(cell, cluster)


def queues(cell: GridEngineCell) -> Mapping[str, QconfSettings]:
    """Return the configuration of every queue."""
    return objects.queues(cell)


def besteffort_cell(cell: GridEngineCell) -> BestEffortCell:
    """Return what best-effort queues touch."""
    return objects.besteffort_cell(cell)


def environment(cell: GridEngineCell) -> str:
    """Return the line that points a shell at the cell."""
    return qconf.environment(cell)


def refusal(request: JobRequest) -> str:
    """Return why no cell can be asked for it: what a cell can't give only its qmaster knows."""
    return client_commands.refusal(request)


def submission(cell: GridEngineCell, spec: JobSpec) -> Argv:
    """Return the command line of a job's submission."""
    return client_commands.submit_held(cell, spec)
