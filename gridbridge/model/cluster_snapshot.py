"""A snapshot of one cluster: queues, gridbridge's jobs, and counts of waiting tasks and free slots."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from gridbridge.model.job_and_queue_states import OPEN, JobState, QueueInstanceState
from gridbridge.model.transfer_name import NO_TASK


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterJobListRow:
    """A row of a job list: a job, a running task, or all waiting tasks of an array."""

    job_id: int
    tasks: tuple[range, ...] = ()  # task numbers of an array job; empty: no array job
    name: str
    owner: str
    state: JobState
    queue: str = ""  # queue instance such as all.q@host; empty: the job waits
    since: datetime | None = None  # time of the job's start, or of a waiting job's submission
    slots: int = 1  # slots of each task

    @property
    def single_task_number(self) -> int:
        """The task number; 0 for a job that is no array, and for a row with several tasks."""
        return self.tasks[0][0] if self.task_count == 1 and self.tasks else NO_TASK

    @property
    def task_count(self) -> int:
        return sum(map(len, self.tasks)) if self.tasks else 1

    def contains_task(self, task: int) -> bool:
        """Say whether the row contains a task; a row without task numbers contains all tasks."""
        return not self.tasks or any(task in tasks for tasks in self.tasks)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedJobStatus:
    """A listed job with its errors; `hindrances` has the scheduler's reasons why the job waits."""

    job_id: int
    owner: str
    rows: tuple[ClusterJobListRow, ...]
    errors: tuple[str, ...] = ()  # one error text for each failed task
    hindrances: tuple[str, ...] = ()

    @property
    def submitted_at(self) -> datetime | None:
        """The earliest time in the job list: the job's submission, or a task's start."""
        return min((row.since for row in self.rows if row.since), default=None)


_Rows = tuple[dict[int, ClusterJobListRow], tuple[ClusterJobListRow, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueInstanceStatus:
    name: str  # queue instance, such as all.q@host
    slots_used: int
    slots_reserved: int
    slots_total: int
    state: QueueInstanceState = OPEN
    takes_batch: bool = True
    sends_away: bool = False  # whether the queue sends its jobs to another cluster
    says_stay: bool = False  # whether the queue sends no job away (remote=FALSE)
    is_besteffort: bool = False
    slots_yielding: int = 0  # used slots that preemptible jobs would yield to ordinary jobs

    @property
    def queue_name(self) -> str:
        """The name of the queue, without the host."""
        return self.name.partition("@")[0]

    @property
    def host_name(self) -> str:
        return self.name.rpartition("@")[2]

    @property
    def can_start_batch_jobs(self) -> bool:
        return not self.state.facts and self.takes_batch

    @property
    def free_slots(self) -> int:
        """The number of slots that are neither used nor reserved; 0 in a closed queue."""
        free = self.slots_total - self.slots_used - self.slots_reserved
        return max(0, free) if self.can_start_batch_jobs else 0

    @property
    def slots_free_for_ordinary_jobs(self) -> int:
        """The number of slots that ordinary jobs can get: free slots, and slots of preemptible jobs."""
        yielding = self.slots_yielding if self.can_start_batch_jobs else 0
        return 0 if self.is_besteffort else self.free_slots + yielding


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """A cluster at one moment: queues, gridbridge's jobs, and numbers of waiting tasks and free slots."""

    cluster: str
    taken_at: datetime
    queues: tuple[QueueInstanceStatus, ...] = ()
    jobs: Mapping[int, tuple[ClusterJobListRow, ...]]  # job list rows of gridbridge's jobs, by job id
    copies: tuple[ClusterJobListRow, ...] = ()  # rows of copies that OAR made of gridbridge's jobs
    pending: int  # number of waiting tasks that may start, without tasks of campaigns
    free_slots: int  # free slots in ordinary queues; fewer if consumable resources are short
    besteffort_slots: int | None = None  # free slots for preemptible jobs; None: no preemptible jobs here
    _by_task: dict[int, _Rows] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def batch_slots(self) -> int:
        """The number of slots in ordinary batch queues, open or closed, without transfer queues."""
        return sum(queue.slots_total for queue in self._ordinary_batch_queues())

    @property
    def used_batch_slots(self) -> int:
        """The number of used slots in ordinary batch queues, without transfer queues."""
        return sum(queue.slots_used for queue in self._ordinary_batch_queues())

    def _ordinary_batch_queues(self) -> Iterator[QueueInstanceStatus]:
        for queue in self.queues:
            if queue.takes_batch and not queue.sends_away and not queue.is_besteffort:
                yield queue

    def find_job_list_row(self, job_id: int, task: int = NO_TASK) -> ClusterJobListRow | None:
        """Return the row of a task, or the first row of a job; None if no row is listed."""
        rows = self.jobs.get(job_id, ())
        if task == NO_TASK or len(rows) < 2:
            return next((row for row in rows if task == NO_TASK or row.contains_task(task)), None)
        alone, shared_rows = self._job_list_rows_of_job(job_id)
        return alone.get(task) or next((row for row in shared_rows if row.contains_task(task)), None)

    def _job_list_rows_of_job(self, job_id: int) -> _Rows:
        if job_id not in self._by_task:
            rows = self.jobs[job_id]
            alone = {row.single_task_number: row for row in reversed(rows) if row.single_task_number}
            self._by_task[job_id] = alone, tuple(row for row in rows if not row.single_task_number)
        return self._by_task[job_id]


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignJobsSentBeforeListing:
    """The campaign jobs that had been sent to a cluster before its job list was read."""

    jobs: frozenset[int] = frozenset()  # job ids, held or released
    released: frozenset[str] = frozenset()
    is_watched: bool = False  # whether the programs of campaigns need the cluster's answer too
