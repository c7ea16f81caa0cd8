"""A snapshot of a Grid Engine cell: its hosts, queues and waiting jobs.

Waiting jobs with equal requests form one row, so that 100,000 jobs become a few rows.
"""

from dataclasses import dataclass
from datetime import datetime

from gridbridge.model.elastic.cell_configuration import ANYBODY, JobAccessIdentity
from gridbridge.model.fixed_paths import BEST_EFFORT
from gridbridge.model.states import JobState, QueueInstanceState, QueueInstanceStateFact

TRUE = ("TRUE", "true", "1")  # as qstat shows a boolean that was asked for (complex(5))


@dataclass(frozen=True, slots=True, kw_only=True)
class CellHost:
    """An execution host."""

    name: str
    load: float | None = None  # None: its daemon has not told
    left: tuple[tuple[str, str], ...] = ()  # consumables, as far as nobody uses them
    values: tuple[tuple[str, str], ...] = ()  # what else it tells of itself


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningTaskGroup:
    """Tasks of one owner and job name that started together in a queue instance."""

    owner: str
    name: str
    slots: int  # of all of them
    since: datetime | None  # None: they are just being started


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueInstance:
    """A queue on one host."""

    queue: str
    host: str
    used: int  # slots, and so the next two
    reserved: int
    total: int
    state: QueueInstanceState
    running: tuple[int, ...] = ()  # the slots of each job or task that runs or starts here
    is_taken: bool = False  # one of them has the host alone
    begun: tuple[RunningTaskGroup, ...] = ()  # whose they are
    promised: int = 0  # slots of advance reservations, also of those that begin later

    @property
    def is_usable(self) -> bool:
        """Whether the instance's slots count as capacity; overload alone is ignored."""
        return self.state.facts <= {QueueInstanceStateFact.LOADED}

    @property
    def is_wanted(self) -> bool:
        """Whether tasks run, start or hold reserved slots in the queue instance."""
        return bool(self.running or self.used or self.reserved or self.promised)

    @property
    def free(self) -> int:
        """The number of slots that a job can use now."""
        return 0 if self.state.facts else max(0, self.total - self.used - self.reserved)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResourceRequests:
    """The resources and queues that a task requests."""

    slots: int = 1  # of a range the least
    pe: str = ""  # its parallel environment, maybe with wildcards
    requests: tuple[tuple[str, str], ...] = ()  # hard ones: resources and values, as written
    queues: tuple[str, ...] = ()  # hard ones: any of them will do
    array: int = 0  # whose tasks alone it is, if a number of them may run
    is_range: bool = False  # it may have more slots than these
    is_on_all: bool = False  # it asks for all hosts that are there: a further one doesn't help
    groups: tuple[
        "TaskResourceRequests", ...
    ] = ()  # how the slots lie, if there are several ways at once
    others: tuple["TaskResourceRequests", ...] = ()  # what it may have instead, each of them larger
    identity: JobAccessIdentity = ANYBODY  # as far as lists of queues or environments judge by it

    @property
    def makes_way(self) -> bool:
        """Whether the task requests best-effort queues, whose tasks are preempted."""
        return any(name == BEST_EFFORT and text in TRUE for name, text in self.requests)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingJobGroup:
    """The waiting jobs of one owner, shape and state.

    Owners are kept apart, so that one owner's jobs never change how long another's have waited.
    """

    shape: TaskResourceRequests
    state: JobState
    jobs: tuple[int, ...]  # in the order of the scheduler's list
    tasks: int  # of all of them together
    first_since: datetime | None  # when the first of the list was submitted
    oldest_since: datetime | None  # when the oldest was; None: the list does not tell
    capped: int = 0  # so many of the tasks may not start beside those that run (qsub(1), -tc)
    is_deferred: bool = False  # their start time is in the future
    is_dependent: bool = False  # they wait for the end of other jobs
    is_inner: bool = False  # they run on what a container job has: oarsub -t inner=JOB
    is_campaign: bool = False  # they are tasks of campaigns
    kinds: tuple[tuple[str, str, int], ...] = ()  # owner, job name and tasks

    @property
    def first(self) -> int:
        """The lowest job number."""
        return min(self.jobs)

    @property
    def slots(self) -> int:
        """The number of slots of all tasks together."""
        return self.tasks * self.shape.slots

    @property
    def can_start(self) -> bool:
        """Whether the scheduler may start the jobs now."""
        return self.state.can_start and not self.is_deferred

    @property
    def fills_gaps(self) -> bool:
        """Whether the jobs only use spare slots, so that a cluster never grows for them."""
        return self.is_campaign or self.shape.makes_way


@dataclass(frozen=True, slots=True, kw_only=True)
class GridEngineCellSnapshot:
    """The hosts, queue instances and waiting jobs of a cell at one moment."""

    hosts: tuple[CellHost, ...]
    instances: tuple[QueueInstance, ...]
    waiting: tuple[WaitingJobGroup, ...]  # in the order of the scheduler's list
    granted: tuple[tuple[str, int], ...] = ()  # slots in use, by parallel environment
    left: tuple[tuple[str, str], ...] = ()  # consumables of the whole cell, such as licences
