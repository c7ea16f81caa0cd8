"""A cluster at one moment: its queues, the jobs that matter to us, and two counts.

Of a cluster with 100,000 waiting jobs only the counts and our own jobs are kept.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from gridbridge.model.ids import NO_TASK
from gridbridge.model.states import OPEN, JobState, QueueState


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """One row of a job list: a job, a running task, or an array's waiting tasks together."""

    job_id: int
    tasks: tuple[range, ...] = ()  # empty for a job that is no array
    name: str
    owner: str
    state: JobState
    queue: str = ""  # all.q@host; empty while pending
    since: datetime | None = None  # start, or submission while pending; None when not printed
    slots: int = 1  # of each task

    @property
    def task(self) -> int:
        """The task's number; 0 for a job that is no array and for several tasks together."""
        return self.tasks[0][0] if self.task_count == 1 and self.tasks else NO_TASK

    @property
    def task_count(self) -> int:
        """How many tasks this row stands for."""
        return sum(map(len, self.tasks)) if self.tasks else 1

    def covers(self, task: int) -> bool:
        """Whether this row tells of that task; a row without tasks tells of every one."""
        return not self.tasks or any(task in tasks for tasks in self.tasks)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStanding:
    """A listed job: its rows, what is wrong with it, and what keeps it from starting."""

    job_id: int
    owner: str
    rows: tuple[JobStatus, ...]
    errors: tuple[str, ...] = ()  # one for each failed task
    hindrances: tuple[str, ...] = ()  # in the scheduler's words; empty if it names none

    @property
    def submitted_at(self) -> datetime | None:
        """When the job was submitted; for running tasks the list only says when they began."""
        return min((row.since for row in self.rows if row.since), default=None)


_Rows = tuple[dict[int, JobStatus], tuple[JobStatus, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatus:
    """One queue on one host (a queue instance)."""

    name: str  # all.q@host
    slots_used: int
    slots_reserved: int  # by advance reservations
    slots_total: int
    state: QueueState = OPEN
    takes_batch: bool = True  # it takes batch jobs
    sends_away: bool = False  # its jobs run at yet another cluster: its slots are not this one's
    says_stay: bool = False  # it says that none of its jobs runs elsewhere
    is_besteffort: bool = False  # its jobs make way for all others
    slots_yielding: int = 0  # of those used: by jobs that make way for others in the same queue

    @property
    def queue(self) -> str:
        """The queue's part of the name."""
        return self.name.partition("@")[0]

    @property
    def host(self) -> str:
        """The host's part of the name."""
        return self.name.rpartition("@")[2]

    @property
    def takes_work(self) -> bool:
        """Whether batch jobs can start: without any fact, since each of them forbids that."""
        return not self.state.facts and self.takes_batch

    @property
    def free_slots(self) -> int:
        """Slots neither used nor reserved, none while it takes no work; never negative."""
        free = self.slots_total - self.slots_used - self.slots_reserved
        return max(0, free) if self.takes_work else 0

    @property
    def free_for_others(self) -> int:
        """Slots that a job may have for which others make way."""
        yielding = self.slots_yielding if self.takes_work else 0
        return 0 if self.is_besteffort else self.free_slots + yielding


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """One cluster at one moment."""

    cluster: str
    taken_at: datetime
    queues: tuple[QueueStatus, ...] = ()
    jobs: Mapping[int, tuple[JobStatus, ...]]  # by job id: only ours, in the order listed
    copies: tuple[JobStatus, ...] = ()  # jobs that OAR made by itself from ours; not among `jobs`
    pending: int  # tasks that could start: neither held nor in error, nor of a campaign
    free_slots: (
        int  # of its own queues, as they count them; shared hosts and consumables may allow fewer
    )
    besteffort_slots: int | None = None  # free for jobs that make way; None: it has no such jobs
    _by_task: dict[int, _Rows] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def batch_slots(self) -> int:
        """The slots of its own queues for ordinary batch jobs, whether they are open or not."""
        return sum(queue.slots_total for queue in self._own_queues())

    @property
    def used_batch_slots(self) -> int:
        """How many of these slots are used."""
        return sum(queue.slots_used for queue in self._own_queues())

    def _own_queues(self) -> Iterator[QueueStatus]:
        """Give its own queues for ordinary batch jobs."""
        for queue in self.queues:
            if queue.takes_batch and not queue.sends_away and not queue.is_besteffort:
                yield queue

    def find(self, job_id: int, task: int = NO_TASK) -> JobStatus | None:
        """Look up a job's task, or its first row; None when the cluster does not list it."""
        rows = self.jobs.get(job_id, ())
        if task == NO_TASK or len(rows) < 2:
            return next((row for row in rows if task == NO_TASK or row.covers(task)), None)
        alone, shared_rows = self._rows_of(job_id)
        return alone.get(task) or next((row for row in shared_rows if row.covers(task)), None)

    def _rows_of(self, job_id: int) -> _Rows:
        """Return an array's rows by task, and those of several tasks or of every one."""
        if job_id not in self._by_task:
            rows = self.jobs[job_id]
            alone = {row.task: row for row in reversed(rows) if row.task}
            self._by_task[job_id] = alone, tuple(row for row in rows if not row.task)
        return self._by_task[job_id]


@dataclass(frozen=True, slots=True, kw_only=True)
class SentJob:
    """What campaigns have sent to a cluster, as it is recorded before the cluster is asked."""

    jobs: frozenset[int] = frozenset()  # ids, also of what is not released yet
    released: frozenset[str] = frozenset()  # names
    is_watched: bool = False  # some program wants to know what the cluster answers
