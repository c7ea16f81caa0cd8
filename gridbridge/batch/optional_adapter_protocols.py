"""Describes each optional ability of a batch system's adapter by a Protocol, for mypy only."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Protocol, TypeVar

from gridbridge.model.campaigns.task_deletions_and_preemptions import CellRequestsAndResources, WaitingLocalRequest
from gridbridge.model.cluster_snapshot import ListedJobStatus, QueueInstanceStatus
from gridbridge.model.elastic import elastic_nodes
from gridbridge.model.elastic.balancer_config_sections import MachineBootstrapSection
from gridbridge.model.elastic.grid_engine_cell import CellConfiguration, GridEngineCellSnapshot, TaskResourceRequests
from gridbridge.model.job_request import JobRequest, Pairs, Variant
from gridbridge.model.jobs_and_accounting import (
    ArrayEndQuery,
    ClusterArrayLimits,
    FutureDatedJobEnd,
    JobEnd,
    JobRequestAndSubmitOptions,
    JobRunAccounting,
    QueueJobAndUserRestrictions,
    RemoteJobRunAccounting,
)
from gridbridge.model.qconf_attribute_parser import QconfSettings
from gridbridge.model.site.setup_findings_and_edits import BestEffortCellFacts, CellQconfSettings, GridEngineObject
from gridbridge.model.transfer_name import TransferAttemptId

AccessSettings = TypeVar("AccessSettings", contravariant=True)


class CampaignArrayEndReader(Protocol[AccessSettings]):
    def query_array_ends(
        self, access: AccessSettings, arrays: Sequence[ArrayEndQuery], /
    ) -> Mapping[str, Mapping[int, JobEnd | FutureDatedJobEnd | None]]:
        """Return ends as {account string: {task index from 1: end}}; None if records contradict each other.

        The result may have unrequested tasks.
        """

    def query_begun_indices(self, access: AccessSettings, arrays: Mapping[int, str], /) -> dict[int, frozenset[int]]:
        """Return the indices of each array's begun (maybe also waiting) tasks; skip ended arrays and reused ids."""

    def query_array_limits(self, access: AccessSettings, /) -> ClusterArrayLimits:
        """Return the cluster's limits on array jobs."""


class ClusterDemandReader(Protocol[AccessSettings]):
    """Reads hosts and waiting jobs for the balancer from the outputs of status programs."""

    OUTPUT_FILES: tuple[str, ...]
    OPTIONAL_FILES: tuple[str, ...]

    def query_demand_outputs(self, access: AccessSettings, /) -> tuple[dict[str, bytes], str]:
        """Return the outputs, with times in UTC, and the host name of the master."""

    def parse_demand_outputs(
        self, outputs: Mapping[str, bytes], zone: tzinfo, queue: str, /
    ) -> tuple[GridEngineCellSnapshot, CellConfiguration]:
        """Parse outputs with times in `zone`; a cluster without queues has its slots in `queue`."""


class ExecutionHostMembership(Protocol):
    """Adds machines to the home cluster as execution hosts, and removes hosts; calls may be repeated.

    Raises CommandFailed, HostNotReached for a silent machine, and SshAccessRejected for a wrong host key.
    """

    def join_host_to_cluster(self, node: elastic_nodes.MachineToJoinCell) -> elastic_nodes.HostJoinStep:
        """Do the steps that a joining machine still lacks; queues are enabled once the daemon reports."""

    def close_host_to_new_tasks(self, host: str) -> None:
        """Disable all queue instances of a host, so that no further task starts on the host."""

    def open_host_to_tasks(self, host: str, closed: frozenset[str]) -> elastic_nodes.HostJoinStep:
        """Enable a host's queues except queues in `closed`; return CLOSED if such a queue stays disabled."""

    def command_to_reopen_host(self, host: str) -> str:
        """Return the command with which an administrator lets a powered-on host run tasks again."""

    def commands_to_end_host_tasks(self, host: str) -> str:
        """Return the commands by which an administrator ends the tasks of a dead host."""

    def commands_to_remove_host(self, host: str) -> str:
        """Return the commands by which an administrator removes a vanished host."""

    def check_host_before_removal(self, host: str) -> elastic_nodes.HostCheckBeforeRemoval:
        """Query whether a host is idle, closed to new tasks, and in the cluster's list of hosts."""

    def preempt_best_effort_tasks(self, host: str) -> bool:
        """Preempt the best-effort tasks of a closed host; return whether the host is empty."""

    def prepare_power_off(self, host: str) -> None:
        """Tell the batch system that a closed and idle host will be switched off."""

    def query_rerunnable_tasks(self, hosts: Iterable[str]) -> Mapping[str, tuple[TaskResourceRequests, ...]]:
        """Return the resource requests of the rerunnable tasks of each host."""

    def reschedule_host_tasks(self, host: str) -> bool:
        """Reschedule all tasks of a closed host; return False if some task is not rerunnable."""

    def remove_host(self, host: str, *, is_dead: bool) -> str:
        """Remove a closed and idle host from the cluster and from the hosts files.

        Returns what still refers to the host, with a command that shows it; empty after the removal.
        """


class HostMembershipMaker(Protocol[AccessSettings]):
    def create_host_membership_adapter(
        self, settings: MachineBootstrapSection, access: AccessSettings, /
    ) -> ExecutionHostMembership:
        """Return the object that adds hosts to a cluster; only new machines need `settings`."""


class LocalTaskRestartGuard(Protocol[AccessSettings]):
    """Keeps a transferred task from starting again; calls may be repeated, and raise CommandFailed."""

    def remove_home_start_guard(self, access: AccessSettings, local: TransferAttemptId, guard: str, /) -> None:
        """Remove a task's guard, so that the task may start again."""

    def pin_and_release_task(self, access: AccessSettings, local: TransferAttemptId, queue: str, guard: str, /) -> None:
        """Restrict a task to the transfer queue of the task's remote job, and remove the task's guard."""

    def set_home_start_guard(self, access: AccessSettings, local: TransferAttemptId, guard: str, /) -> None:
        """Guard a task by a hold or a start time far in the future, so that the task does not start again."""

    def query_job_requests(self, access: AccessSettings, jobs: tuple[int, ...], /) -> dict[int, JobRequest]:
        """Return the present requests of jobs that have not ended; empty if the job list already shows all guards."""

    def query_deferred_jobs(self, access: AccessSettings, /) -> frozenset[int]:
        """Return the ids of all jobs, of any user, that wait for their start time."""

    def keep_job_off_queues(
        self, access: AccessSettings, local: TransferAttemptId, other_queues: Callable[[str], str], /
    ) -> None:
        """Give a job the queue list `other_queues(present list)`; raise GridbridgeError if no queue is left."""

    def restore_queue_list(self, access: AccessSettings, local: TransferAttemptId, /) -> None:
        """Restore the queue list that a job had before `keep_job_off_queues`."""

    def require_runnable_at_home(
        self, access: AccessSettings, local: TransferAttemptId, variants: Callable[[JobRequest], Iterable[Variant]], /
    ) -> None:
        """Raise GridbridgeError if the home cluster could run no variant of a job's request."""

    def query_rerun_setting(
        self,
        access: AccessSettings,
        local: TransferAttemptId,
        transfer_queues: Collection[str],
        of_queues: Callable[[JobRequest, Mapping[str, str]], str],
        /,
    ) -> str:
        """Return `yes` if a job is rerun after the loss of its host, else `no`.

        For a job without qsub's `-r`, `of_queues` decides by the request and the home queues' `rerun` settings.
        """


class RemoteClusterSetupReader(Protocol[AccessSettings]):
    HAS_OPERATORS: bool  # whether the service account may act on all users' jobs
    HAS_ENVIRONMENTS: bool

    def count_batch_slots(self, access: AccessSettings, /) -> int:
        """Return the number of the cluster's slots that remote jobs may use."""

    def read_remote_setup(self, access: AccessSettings, of_host: str, home: CellQconfSettings, /) -> CellQconfSettings:
        """Return the cluster's queues, hosts and other objects that transfers from a host involve."""


class HostTagStore(Protocol[AccessSettings]):
    def query_host_tags(self, access: AccessSettings, /) -> Mapping[str, tuple[str, ...]]:
        """Return the tags of all tagged hosts."""

    def list_execution_hosts(self, access: AccessSettings, /) -> tuple[str, ...]:
        """Return all hosts of the cluster; each host may have tags."""

    def replace_host_tags(self, access: AccessSettings, host: str, host_tags: tuple[str, ...], /) -> None:
        """Replace all tags of a host."""


class BlockedJobReader(Protocol[AccessSettings]):
    """Reads the waiting jobs for which preemptible tasks leave no room."""

    def query_blocked_jobs(self, access: AccessSettings, /) -> CellRequestsAndResources:
        """Return a cluster's waiting jobs, running tasks and free resources."""

    def query_instances_able_to_run_job(
        self, access: AccessSettings, shortage: WaitingLocalRequest, /
    ) -> frozenset[str]:
        """Return the queue instances that could run a job if all consumable resources were free."""


class JobAccountingReader(Protocol[AccessSettings]):
    def query_accounting_records(self, access: AccessSettings, job: int | str, /) -> tuple[JobRunAccounting, ...]:
        """Return the accounting records of all tasks and runs of a job, or of jobs with a name or pattern."""

    def parse_records_by_account_prefix(
        self, data: bytes, prefix: str, /
    ) -> tuple[tuple[tuple[str, JobRunAccounting], ...], int]:
        """Return (line, record) pairs of accounts that begin with `prefix`, and the number of bad lines."""

    def decide_job_end(
        self, records: Sequence[JobRunAccounting | RemoteJobRunAccounting], now: datetime, /
    ) -> tuple[JobEnd | None, bool]:
        """Return the job end that accounting records show, and whether the records contradict each other."""


class UserJobQueriesAndChanges(Protocol[AccessSettings]):
    def query_submitted_job(self, access: AccessSettings, job: int, task: int = 0, /) -> JobRequestAndSubmitOptions:
        """Return a job's request and options; raise ParseError if the job or the task does not exist."""

    def query_job_states_and_wait_reasons(self, access: AccessSettings, job: int, /) -> ListedJobStatus | None:
        """Return a job's states and the scheduler's reasons for waiting; None if the job does not exist."""

    def query_queue_restrictions(self, access: AccessSettings, queue: str, /) -> QueueJobAndUserRestrictions:
        """Return the users and the kinds of jobs that a queue accepts."""

    def preview_submitted_job(
        self, access: AccessSettings, words: tuple[str, ...], person: str, /
    ) -> JobRequestAndSubmitOptions:
        """Return the job that options `words` would submit; raise ParseError for invalid options."""

    def build_resource_options(self, hard: Pairs, soft: Pairs, stays: bool, /) -> tuple[str, ...]:
        """Build the client options that replace a job's resources."""

    def build_alter_command(self, access: AccessSettings, job: str, options: tuple[str, ...], /) -> tuple[str, ...]:
        """Build the command line that changes a job."""

    def alter_job(self, access: AccessSettings, job: str, options: tuple[str, ...], /) -> None:
        """Change a job's request by options of the batch system's client program, such as qalter."""


class TransferQueueSetupReader(Protocol[AccessSettings]):
    def read_home_setup(self, access: AccessSettings, of_host: str, /) -> CellQconfSettings:
        """Return the cell's queues, hosts and other objects that a transfer queue on a host involves."""

    def count_queue_slots_on_host(self, access: AccessSettings, host: str, /) -> Mapping[str, int]:
        """Return the number of slots of each queue on a host."""

    def query_queue_instances(self, access: AccessSettings, cluster: str, /) -> tuple[QueueInstanceStatus, ...]:
        """Return all queue instances with state letters and slots."""

    def query_queue_settings(self, access: AccessSettings, /) -> Mapping[str, QconfSettings]:
        """Return each queue's configuration."""

    def read_besteffort_queue_setup(self, access: AccessSettings, /) -> BestEffortCellFacts:
        """Return the cell's queues and other objects that best-effort queues involve."""

    def query_object_lines(self, access: AccessSettings, shown: GridEngineObject, /) -> tuple[str, ...]:
        """Return the lines of an object that a set-up edit changes; no line for a missing object."""
