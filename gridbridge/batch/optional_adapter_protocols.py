"""Optional abilities of batch systems, a Protocol for each.

batch/batch_adapter_table names the modules that fulfil these Protocols. `Where` is the value by
which an adapter reaches a cluster, as in batch_adapter_protocols. This module holds only
annotations for mypy.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Protocol, TypeVar

from gridbridge.model.campaigns.task_deletions_and_preemptions import (
    CellRequestsAndResources,
    WaitingLocalRequest,
)
from gridbridge.model.cluster_snapshot import ListedJobStatus, QueueInstanceStatus
from gridbridge.model.elastic.balance_plan import SavedBatchProgramOutputs
from gridbridge.model.job_request import JobRequest, JobSpec, Pairs, Variant
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
from gridbridge.model.qconf_attributes import QconfSettings
from gridbridge.model.site.setup_findings_and_edits import BestEffortCellFacts, CellQconfSettings
from gridbridge.model.site.site_check_facts import ClusterFacts
from gridbridge.model.transfer_name import TransferAttemptId

Where = TypeVar("Where", contravariant=True)


class CampaignArrayEndReader(Protocol[Where]):
    """Queries how the tasks of a campaign's arrays ended."""

    def query_array_ends(
        self, where: Where, arrays: Sequence[ArrayEndQuery], /
    ) -> Mapping[str, Mapping[int, JobEnd | FutureDatedJobEnd | None]]:
        """Return the ends of ended array tasks, by the array's account and task index from 1.

        The end is None if the accounting records contradict each other. Tasks that were not queried
        may be included.
        """
        ...

    def query_begun_indices(self, where: Where, arrays: Mapping[int, str], /) -> dict[int, frozenset[int]]:
        """Return the indices of live array tasks, at least of all tasks that have begun.

        `arrays` maps array ids to accounts. An array is left out if no array of that account lives.
        """
        ...

    def query_array_limits(self, where: Where, /) -> ClusterArrayLimits:
        """Return the cluster's limits on array jobs."""
        ...


class LocalTaskGuard(Protocol[Where]):
    """Guards a local task whose job is remote, so that it is not started a second time.

    Every call may be repeated, and raises CommandFailed if it was not done.
    """

    def remove_task_guard(self, where: Where, local: TransferAttemptId, guard: str, /) -> None:
        """Remove this guard of a task, so that it may start again (model.transfer.guard)."""
        ...

    def release_into_queue(self, where: Where, local: TransferAttemptId, queue: str, guard: str, /) -> None:
        """Release a task into the transfer queue that recorded its remote job, and no other one."""
        ...

    def set_task_guard(self, where: Where, local: TransferAttemptId, guard: str, /) -> None:
        """Guard a task by a hold or a far start time, so that it does not start again."""
        ...

    def query_job_requests(self, where: Where, jobs: tuple[int, ...], /) -> dict[int, JobRequest]:
        """Return the current requests of jobs; gone jobs are left out.

        The result is empty for systems whose job list already shows every guard.
        """
        ...

    def query_deferred_jobs(self, where: Where, /) -> frozenset[int]:
        """Return the ids of all users' jobs that wait for their start time."""
        ...

    def keep_job_off_queues(
        self, where: Where, local: TransferAttemptId, other_queues: Callable[[str], str], /
    ) -> None:
        """Replace a job's queue list until `restore_queue_list` is called.

        `other_queues` computes the new list from the job's own. Raises GridbridgeError if no other
        queue could run the job.
        """
        ...

    def restore_queue_list(self, where: Where, local: TransferAttemptId, /) -> None:
        """Restore a job's own queue list."""
        ...

    def require_runnable_variant(
        self, where: Where, local: TransferAttemptId, variants: Callable[[JobRequest], Iterable[Variant]], /
    ) -> None:
        """Raise GridbridgeError if the home cluster could run no variant of a job's request."""
        ...

    def query_job_rerun(
        self,
        where: Where,
        local: TransferAttemptId,
        transfer_queues: Collection[str],
        of_queues: Callable[[JobRequest, Mapping[str, str]], str],
        /,
    ) -> str:
        """Return `yes` or `no`: whether a job is rerun after its host was lost.

        For a job without `-r`, `of_queues` decides this from the request and the `rerun` setting of
        each home queue.
        """
        ...


class ClusterCheckFactsReader(Protocol[Where]):
    """Reads the facts of a cluster that `gridbridge check` reports."""

    def query_cluster_facts(self, where: Where, now: float, /) -> ClusterFacts:
        """Return version, clock offset and slots, or why there is no answer; never raises."""
        ...


class JobSubmissionExplainer(Protocol[Where]):
    """Explains how a job would be submitted, without a query to the cluster."""

    def explain_request_refusal(self, request: JobRequest, /) -> str:
        """Return why the system can't satisfy a job's request; empty if it can, as far as known."""
        ...

    def build_submission_command(self, where: Where, spec: JobSpec, /) -> tuple[str, ...]:
        """Return the client's command line for a job's submission."""
        ...


class TransferRemoteClusterSetup(Protocol[Where]):
    """Sets up a cluster as the remote cluster of a transfer queue."""

    HAS_OPERATORS: bool  # whether the service may act on others' jobs
    HAS_ENVIRONMENTS: bool  # whether the cluster has parallel environments, renamed by a mapping

    def count_batch_slots(self, where: Where, /) -> int:
        """Return the number of batch slots for remote jobs."""
        ...

    def read_remote_setup(self, where: Where, of_host: str, home: CellQconfSettings, /) -> CellQconfSettings:
        """Return the cluster's objects that a transfer from this host involves."""
        ...


class HostTagStore(Protocol[Where]):
    """Keeps tags of hosts that are halted and woken."""

    def query_host_tags(self, where: Where, /) -> Mapping[str, tuple[str, ...]]:
        """Return the tags of all tagged hosts."""
        ...

    def list_taggable_hosts(self, where: Where, /) -> tuple[str, ...]:
        """Return all hosts of the cluster, each of which may have tags."""
        ...

    def replace_host_tags(self, where: Where, host: str, host_tags: tuple[str, ...], /) -> None:
        """Replace all tags of a host."""
        ...


class ClusterDemandReader(Protocol[Where]):
    """Reads a cluster's hosts and waiting jobs, for the balancer."""

    def query_demand_outputs(self, where: Where, /) -> tuple[SavedBatchProgramOutputs, str]:
        """Return the current output of the client programs, in UTC, and the master's host."""
        ...


class BlockedJobReader(Protocol[Where]):
    """Reads the waiting jobs that are blocked by preemptible tasks."""

    def query_blocked_jobs(self, where: Where, /) -> CellRequestsAndResources:
        """Return the waiting jobs, the running tasks and the free resources of a cluster."""
        ...

    def query_possible_instances(self, where: Where, shortage: WaitingLocalRequest, /) -> frozenset[str]:
        """Return the queue instances that could run a job if all consumables sufficed."""
        ...


class JobEndWatcher(Protocol[Where]):
    """Reports job ends through a program that runs permanently on the transfer host."""

    def end_watcher_command(self, where: Where, /) -> tuple[str, ...]:
        """Return the command line of the program that reports job ends."""
        ...


class SshJobEndStream(Protocol[Where]):
    """Reports job ends over a persistent ssh connection."""

    def listen_for_job_ends(self, where: Where, /) -> Iterator[list[int]]:
        """Yield the ids of jobs as they end; yield an empty list about once a second."""
        ...


class JobAccountReader(Protocol[Where]):
    """Queries the accounts of many jobs at once, because job ids are reused."""

    def query_job_accounts(self, where: Where, jobs: tuple[int, ...], /) -> dict[int, str]:
        """Return the accounts of these jobs; gone jobs are left out."""
        ...


class JobAccountingReader(Protocol[Where]):
    """Reads a cluster's accounting records of ended jobs."""

    def query_accounting_records(self, where: Where, job_id: int, /) -> tuple[JobRunAccounting, ...]:
        """Return the accounting records of a job, of all its tasks and runs."""
        ...

    def read_accounting_lines(
        self, data: bytes, prefix: str, /
    ) -> tuple[tuple[tuple[str, JobRunAccounting], ...], int]:
        """Parse whole lines of the accounting file whose account begins with `prefix`.

        Returns each record with its line, and the number of lines that could not be parsed.
        """
        ...

    def settle_job_end(
        self, records: Sequence[JobRunAccounting | RemoteJobRunAccounting], now: datetime, /
    ) -> tuple[JobEnd | None, bool]:
        """Return the end that a job's records tell, and whether they contradict each other."""
        ...


class UserJobRequestReader(Protocol[Where]):
    """Shows users the request of their job, before and after its submission."""

    def query_submitted_job(self, where: Where, job: int, task: int = 0, /) -> JobRequestAndSubmitOptions:
        """Return a listed job; ParseError if the job or the task does not exist."""
        ...

    def query_job_standing(self, where: Where, job: int, /) -> ListedJobStatus | None:
        """Return a listed job's states and scheduling hindrances; None if it is not listed."""
        ...

    def query_queue_admission(self, where: Where, queue: str, /) -> QueueJobAndUserRestrictions:
        """Return which users' and kinds of jobs a queue accepts."""
        ...

    def preview_submitted_job(self, where: Where, words: tuple[str, ...], person: str, /) -> JobRequestAndSubmitOptions:
        """Return the job that the client would submit with these options; ParseError if none."""
        ...


class UserJobAlterer(Protocol[Where]):
    """Lets users change their waiting jobs."""

    def build_resource_options(self, hard: Pairs, soft: Pairs, stays: bool, /) -> tuple[str, ...]:
        """Return the client options that replace a job's resources."""
        ...

    def build_alter_command(self, where: Where, job: str, options: tuple[str, ...], /) -> tuple[str, ...]:
        """Return the command line that changes a job."""
        ...

    def alter_job(self, where: Where, job: str, options: tuple[str, ...], /) -> None:
        """Change a job's request."""
        ...


class TransferQueueMaker(Protocol[Where]):
    """Lets set-up make transfer queues by editing the cluster's objects."""

    def read_home_setup(self, where: Where, of_host: str, /) -> CellQconfSettings:
        """Return the cluster's objects that a transfer queue on this host involves."""
        ...

    def count_slots_on_host(self, where: Where, host: str, /) -> Mapping[str, int]:
        """Return the slots of every queue on a host."""
        ...

    def query_queue_instances(self, where: Where, cluster: str, /) -> tuple[QueueInstanceStatus, ...]:
        """Return every queue instance with its state letters and slots."""
        ...

    def query_queue_settings(self, where: Where, /) -> Mapping[str, QconfSettings]:
        """Return the configuration of every queue."""
        ...

    def query_besteffort_cell(self, where: Where, /) -> BestEffortCellFacts:
        """Return the objects that best-effort queues involve."""
        ...

    def shell_environment_line(self, where: Where, /) -> str:
        """Return the sh line that exports the cluster's environment."""
        ...


class TransferQueueLister(Protocol[Where]):
    """Lists transfer queues that the cluster's owner makes by hand."""

    def list_transfer_queues(self, where: Where, /) -> dict[str, int]:
        """Return the slots of the transfer queues, by queue name."""
        ...
