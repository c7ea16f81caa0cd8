"""Answers `gridbridge setup` and `gridbridge check` about a cell, and explains job submissions."""

from collections.abc import Mapping

from gridbridge.batch.gridengine import cell_object_queries, client_commands, qconf
from gridbridge.batch.gridengine.client_commands import Argv
from gridbridge.errors import GridbridgeError, SshAccessRejected
from gridbridge.model.cluster_snapshot import QueueInstanceStatus
from gridbridge.model.job_request import JobRequest, JobSpec
from gridbridge.model.qconf_attributes import QconfSettings, is_transfer_queue
from gridbridge.model.site.setup_findings_and_edits import BestEffortCellFacts, CellQconfSettings
from gridbridge.model.site.site_check_facts import ClusterFacts
from gridbridge.model.transfer_route import GridEngineCellAccess

HAS_OPERATORS = True
HAS_ENVIRONMENTS = True


def query_cluster_facts(cell: GridEngineCellAccess, now: float) -> ClusterFacts:
    """Return the qmaster's version and clock offset, or the reason for no answer."""
    try:
        master = cell_object_queries.read_acting_qmaster(cell)
    except GridbridgeError as error:
        return ClusterFacts(trouble=str(error), is_shut=isinstance(error, SshAccessRejected))
    try:
        cell_object_queries.require_qmaster_answer(cell)
        ahead_s = cell_object_queries.query_qmaster_clock_offset_s(cell, now)
        return ClusterFacts(version=cell_object_queries.query_client_version(cell), ahead_s=ahead_s, master=master)
    except GridbridgeError as error:
        port = cell_object_queries.find_other_qmaster_port(cell) if master and not cell.login else 0
        return ClusterFacts(trouble=str(error), master=master, other_port=port)


def count_batch_slots(cell: GridEngineCellAccess) -> int:
    """Return the number of slots in batch queues, without transfer and best-effort queues."""
    transfers = {
        name for name, queue in cell_object_queries.query_queue_settings(cell).items() if is_transfer_queue(queue)
    }
    queues = cell_object_queries.query_queue_instances(cell, "")
    ours = (queue for queue in queues if not queue.is_besteffort)
    own = (queue for queue in ours if queue.name.partition("@")[0] not in transfers)
    return sum(queue.slots_total for queue in own if queue.takes_batch)


def read_remote_setup(cell: GridEngineCellAccess, of_host: str, _home: CellQconfSettings) -> CellQconfSettings:
    """Return the cell's queues, hosts and other objects that transfers from a host involve."""
    return (
        cell_object_queries.query_remote_cell_setup(cell)
        if cell.login
        else cell_object_queries.query_cell_setup(cell, of_host)
    )


def read_home_setup(cell: GridEngineCellAccess, of_host: str) -> CellQconfSettings:
    """Return the cell's queues, hosts and other objects that a transfer queue on a host involves."""
    return cell_object_queries.query_cell_setup(cell, of_host)


def count_slots_on_host(cell: GridEngineCellAccess, host: str) -> Mapping[str, int]:
    """Return the number of slots of each queue on a host."""
    return cell_object_queries.count_slots_on_host(cell, host)


def query_queue_instances(cell: GridEngineCellAccess, cluster: str) -> tuple[QueueInstanceStatus, ...]:
    """Return all queue instances with state letters and slots."""
    return cell_object_queries.query_queue_instances(cell, cluster)


def query_queue_settings(cell: GridEngineCellAccess) -> Mapping[str, QconfSettings]:
    """Return each queue's configuration, by queue name."""
    return cell_object_queries.query_queue_settings(cell)


def query_besteffort_cell(cell: GridEngineCellAccess) -> BestEffortCellFacts:
    """Return the cell's queues and other objects that best-effort queues involve."""
    return cell_object_queries.query_besteffort_cell(cell)


def shell_environment_line(cell: GridEngineCellAccess) -> str:
    """Return the sh line that exports the cell's environment variables."""
    return qconf.cell_environment_shell_line(cell)


def explain_request_refusal(request: JobRequest) -> str:
    """Return the reason why no cell can satisfy a request; empty if none is known."""
    return client_commands.explain_request_refusal(request)


def build_submission_command(cell: GridEngineCellAccess, spec: JobSpec) -> Argv:
    """Return the command line that submits a job."""
    return client_commands.submit_held_job_command(cell, spec)
