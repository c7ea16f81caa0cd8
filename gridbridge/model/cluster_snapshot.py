"""A snapshot of one cluster: its queues, gridbridge's own jobs, and the numbers of waiting tasks and free slots.

Jobs that do not concern gridbridge are only counted, because a cluster may have 100,000 waiting jobs.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from gridbridge.model.job_and_queue_states import OPEN, JobState, QueueInstanceState
from gridbridge.model.transfer_name import NO_TASK


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterJobListRow:
    """A row of a job list: a job, a running task, or all waiting tasks of an array."""

    job_id: int
    tasks: tuple[range, ...] = ()  # task numbers of an array; empty: no array
    name: str
    owner: str
    state: JobState
    queue: str = ""  # queue instance such as all.q@host; empty: pending
    since: datetime | None = None  # start time of a running job, submission time of a pending job
    slots: int = 1  # slots of each task

    @property
    def task(self) -> int:
        """The task number; 0 for a job that is no array, and for a row of several tasks."""
        return self.tasks[0][0] if self.task_count == 1 and self.tasks else NO_TASK

    @property
    def task_count(self) -> int:
        """The number of tasks in a row of a job list."""
        return sum(map(len, self.tasks)) if self.tasks else 1

    def covers(self, task: int) -> bool:
        """Say whether a row of a job list contains a task; a row without task numbers contains all tasks of the job."""
        return not self.tasks or any(task in tasks for tasks in self.tasks)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedJobStatus:
    """A job in a job list, with its errors and the scheduler's reasons for waiting."""

    job_id: int
    owner: str
    rows: tuple[ClusterJobListRow, ...]
    errors: tuple[str, ...] = ()  # one error text for each failed task
    hindrances: tuple[str, ...] = ()  # the scheduler's reasons why the job waits

    @property
    def submitted_at(self) -> datetime | None:
        """The earliest time in the job list: the submission of a waiting job, or the start of a running task."""
        return min((row.since for row in self.rows if row.since), default=None)


_Rows = tuple[dict[int, ClusterJobListRow], tuple[ClusterJobListRow, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueInstanceStatus:
    """A queue on one host, with its slots and its state."""

    name: str  # queue instance, such as all.q@host
    slots_used: int
    slots_reserved: int  # slots in advance reservations
    slots_total: int
    state: QueueInstanceState = OPEN
    takes_batch: bool = True
    sends_away: bool = False  # the queue sends its jobs to another cluster
    says_stay: bool = False  # the queue offers remote=FALSE, and runs all its jobs itself
    is_besteffort: bool = False  # ordinary jobs preempt the jobs of the queue
    slots_yielding: int = 0  # slots of preemptible jobs

    @property
    def queue(self) -> str:
        """The name of the queue, without the host."""
        return self.name.partition("@")[0]

    @property
    def host(self) -> str:
        """The name of the host."""
        return self.name.rpartition("@")[2]

    @property
    def takes_work(self) -> bool:
        """Whether batch jobs can start on the queue instance now."""
        return not self.state.facts and self.takes_batch

    @property
    def free_slots(self) -> int:
        """The number of slots that are neither used nor reserved; 0 in a closed queue."""
        free = self.slots_total - self.slots_used - self.slots_reserved
        return max(0, free) if self.takes_work else 0

    @property
    def free_for_others(self) -> int:
        """The number of slots that an ordinary job can get: free slots and slots of preemptible jobs."""
        yielding = self.slots_yielding if self.takes_work else 0
        return 0 if self.is_besteffort else self.free_slots + yielding


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """A cluster's queues, gridbridge's own jobs, and numbers of waiting tasks and free slots, at one moment."""

    cluster: str
    taken_at: datetime
    queues: tuple[QueueInstanceStatus, ...] = ()
    jobs: Mapping[int, tuple[ClusterJobListRow, ...]]  # rows of gridbridge's jobs, by job id
    copies: tuple[ClusterJobListRow, ...] = ()  # copies that OAR made of gridbridge's jobs; not in `jobs`
    pending: int  # waiting tasks that may start; without tasks of campaigns
    free_slots: int  # free slots in ordinary queues; consumable resources may allow fewer
    besteffort_slots: int | None = None  # free slots for preemptible jobs
    _by_task: dict[int, _Rows] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def batch_slots(self) -> int:
        """The number of slots in ordinary batch queues, open or closed, without transfer queues."""
        return sum(queue.slots_total for queue in self._own_queues())

    @property
    def used_batch_slots(self) -> int:
        """The number of used slots in ordinary batch queues, without transfer queues."""
        return sum(queue.slots_used for queue in self._own_queues())

    def _own_queues(self) -> Iterator[QueueInstanceStatus]:
        for queue in self.queues:
            if queue.takes_batch and not queue.sends_away and not queue.is_besteffort:
                yield queue

    def find(self, job_id: int, task: int = NO_TASK) -> ClusterJobListRow | None:
        """Return the job list row of a task, or the first row of a job; None if the list lacks the job."""
        rows = self.jobs.get(job_id, ())
        if task == NO_TASK or len(rows) < 2:
            return next((row for row in rows if task == NO_TASK or row.covers(task)), None)
        alone, shared_rows = self._rows_of(job_id)
        return alone.get(task) or next((row for row in shared_rows if row.covers(task)), None)

    def _rows_of(self, job_id: int) -> _Rows:
        if job_id not in self._by_task:
            rows = self.jobs[job_id]
            alone = {row.task: row for row in reversed(rows) if row.task}
            self._by_task[job_id] = alone, tuple(row for row in rows if not row.task)
        return self._by_task[job_id]


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignJobsAtCluster:
    """The jobs that campaigns had sent to a cluster before the cluster's job list was read."""

    jobs: frozenset[int] = frozenset()  # job ids, held or released
    released: frozenset[str] = frozenset()  # job names of released jobs
    is_watched: bool = False  # another program waits for the cluster's shared answer
