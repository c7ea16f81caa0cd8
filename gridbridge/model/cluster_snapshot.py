"""A snapshot of one cluster: queues, our jobs, and counts of jobs and slots.

A snapshot of a cluster with 100,000 waiting jobs keeps only counts and our own jobs.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from gridbridge.model.states import OPEN, JobState, QueueInstanceState
from gridbridge.model.transfer_name import NO_TASK


@dataclass(frozen=True, slots=True, kw_only=True)
class JobListRow:
    """One row of a job list: a job, a running task, or all waiting tasks of an array."""

    job_id: int
    tasks: tuple[range, ...] = ()  # numbers of an array's tasks; empty: no array
    name: str
    owner: str
    state: JobState
    queue: str = ""  # queue instance such as all.q@host; empty: pending
    since: datetime | None = None  # time of start, or of submission while pending
    slots: int = 1  # number of slots of each task

    @property
    def task(self) -> int:
        """The task number; 0 for a job that is no array and for a row of several tasks."""
        return self.tasks[0][0] if self.task_count == 1 and self.tasks else NO_TASK

    @property
    def task_count(self) -> int:
        """The number of tasks in the job list row."""
        return sum(map(len, self.tasks)) if self.tasks else 1

    def covers(self, task: int) -> bool:
        """Whether the row contains a task; a row without task numbers contains every task."""
        return not self.tasks or any(task in tasks for tasks in self.tasks)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedJobStatus:
    """A listed job with its rows, its errors and the scheduler's wait reasons."""

    job_id: int
    owner: str
    rows: tuple[JobListRow, ...]
    errors: tuple[str, ...] = ()  # error texts, one for each failed task
    hindrances: tuple[str, ...] = ()  # the scheduler's reasons why the job waits

    @property
    def submitted_at(self) -> datetime | None:
        """The submission time; for running tasks the list only shows their start."""
        return min((row.since for row in self.rows if row.since), default=None)


_Rows = tuple[dict[int, JobListRow], tuple[JobListRow, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueInstanceStatus:
    """One queue on one host, a queue instance."""

    name: str  # name of the queue instance, such as all.q@host
    slots_used: int
    slots_reserved: int  # number of slots in advance reservations
    slots_total: int
    state: QueueInstanceState = OPEN
    takes_batch: bool = True  # whether the queue accepts batch jobs
    sends_away: bool = False  # whether the queue sends its jobs to a third cluster
    says_stay: bool = False  # whether the queue offers remote=FALSE and so runs all jobs itself
    is_besteffort: bool = False  # whether all other jobs preempt the jobs of this queue
    slots_yielding: int = 0  # number of slots used by preemptible jobs of the queue

    @property
    def queue(self) -> str:
        """The queue part of the queue instance's name."""
        return self.name.partition("@")[0]

    @property
    def host(self) -> str:
        """The host part of the queue instance's name."""
        return self.name.rpartition("@")[2]

    @property
    def takes_work(self) -> bool:
        """Whether batch jobs can start on the queue instance: no queue fact prevents starts."""
        return not self.state.facts and self.takes_batch

    @property
    def free_slots(self) -> int:
        """Number of slots neither used nor reserved; 0 in a closed queue, never negative."""
        free = self.slots_total - self.slots_used - self.slots_reserved
        return max(0, free) if self.takes_work else 0

    @property
    def free_for_others(self) -> int:
        """Number of slots for an ordinary job: free slots, and slots of preemptible jobs."""
        yielding = self.slots_yielding if self.takes_work else 0
        return 0 if self.is_besteffort else self.free_slots + yielding


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """The queues, our jobs and the counts of one cluster at one moment."""

    cluster: str
    taken_at: datetime
    queues: tuple[QueueInstanceStatus, ...] = ()
    jobs: Mapping[int, tuple[JobListRow, ...]]  # rows of our jobs by job id
    copies: tuple[JobListRow, ...] = ()  # OAR's copies of our jobs, not in `jobs`
    pending: int  # number of eligible waiting tasks, without campaign tasks
    free_slots: int  # number of free slots in own queues; consumables may allow fewer
    besteffort_slots: int | None = None  # number of free slots for preemptible jobs
    _by_task: dict[int, _Rows] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def batch_slots(self) -> int:
        """Number of all slots in the cluster's own ordinary batch queues, open or closed."""
        return sum(queue.slots_total for queue in self._own_queues())

    @property
    def used_batch_slots(self) -> int:
        """Number of used slots in the cluster's own ordinary batch queues."""
        return sum(queue.slots_used for queue in self._own_queues())

    def _own_queues(self) -> Iterator[QueueInstanceStatus]:
        """Yield the cluster's own queues for ordinary batch jobs."""
        for queue in self.queues:
            if queue.takes_batch and not queue.sends_away and not queue.is_besteffort:
                yield queue

    def find(self, job_id: int, task: int = NO_TASK) -> JobListRow | None:
        """Return the list row of a job's task, or the job's first row; None if unlisted."""
        rows = self.jobs.get(job_id, ())
        if task == NO_TASK or len(rows) < 2:
            return next((row for row in rows if task == NO_TASK or row.covers(task)), None)
        alone, shared_rows = self._rows_of(job_id)
        return alone.get(task) or next((row for row in shared_rows if row.covers(task)), None)

    def _rows_of(self, job_id: int) -> _Rows:
        """Return an array's rows of single tasks by task, and all its other rows."""
        if job_id not in self._by_task:
            rows = self.jobs[job_id]
            alone = {row.task: row for row in reversed(rows) if row.task}
            self._by_task[job_id] = alone, tuple(row for row in rows if not row.task)
        return self._by_task[job_id]


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignJobsAtCluster:
    """Jobs that campaigns sent to a cluster, recorded before the cluster is queried."""

    jobs: frozenset[int] = frozenset()  # ids of all jobs, released or held
    released: frozenset[str] = frozenset()  # names of the released jobs
    is_watched: bool = False  # whether a program waits for the cluster's answer
