"""A snapshot of a Grid Engine cell: its hosts, queues and waiting jobs.

Waiting jobs with equal requests form one group, so that 100,000 jobs become a few groups.
"""

from dataclasses import dataclass
from datetime import datetime

from gridbridge.model.elastic.cell_configuration import ANYBODY, JobAccessIdentity
from gridbridge.model.fixed_paths import BEST_EFFORT
from gridbridge.model.states import JobState, QueueInstanceState, QueueInstanceStateFact

TRUE = ("TRUE", "true", "1")  # how qstat shows a requested boolean (complex(5))


@dataclass(frozen=True, slots=True, kw_only=True)
class CellHost:
    """An execution host."""

    name: str
    load: float | None = None  # None: the execution daemon reports no load
    left: tuple[tuple[str, str], ...] = ()  # names and free amounts of consumables
    values: tuple[tuple[str, str], ...] = ()  # names and values of all other resources


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningTaskGroup:
    """Tasks of one owner and job name that started together in a queue instance."""

    owner: str
    name: str
    slots: int  # slots of all tasks together
    since: datetime | None  # start time; None: the tasks are just starting


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueInstance:
    """A Grid Engine queue on one host: its slots, state and running tasks."""

    queue: str
    host: str
    used: int  # slots in use
    reserved: int  # reserved slots
    total: int  # all slots
    state: QueueInstanceState
    running: tuple[int, ...] = ()  # slots of each job or task that runs or starts here
    is_taken: bool = False  # a running task has the host exclusively
    begun: tuple[RunningTaskGroup, ...] = ()  # running tasks by owner and job name
    promised: int = 0  # slots of present and future advance reservations

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

    slots: int = 1  # the least of a slot range
    pe: str = ""  # requested parallel environment, maybe with wildcards
    requests: tuple[tuple[str, str], ...] = ()  # hard resource requests and values, as written
    queues: tuple[str, ...] = ()  # hard queue requests; any queue suffices
    array: int = 0  # array job with limited running tasks (-tc); 0: no limit
    is_range: bool = False  # a slot range: the task may get more than `slots`
    is_on_all: bool = False  # requests all hosts of the cluster: a new node does not help
    groups: tuple["TaskResourceRequests", ...] = ()  # requests of a task with several parts
    others: tuple["TaskResourceRequests", ...] = ()  # larger alternatives
    identity: JobAccessIdentity = ANYBODY  # the facts that access lists check

    @property
    def makes_way(self) -> bool:
        """Whether the task requests best-effort queues, whose tasks are preempted."""
        return any(name == BEST_EFFORT and text in TRUE for name, text in self.requests)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingJobGroup:
    """The waiting jobs of one owner with equal requests and state.

    Each owner has groups of its own, so that no owner's jobs change the wait of another owner.
    """

    shape: TaskResourceRequests
    state: JobState
    jobs: tuple[int, ...]  # job numbers in the order of the scheduler's list
    tasks: int  # number of tasks of all jobs together
    first_since: datetime | None  # submission of the first job in the scheduler's list
    oldest_since: datetime | None  # submission of the oldest job; None: unknown
    capped: int = 0  # tasks that -tc keeps waiting (qsub(1))
    is_deferred: bool = False  # the jobs' start time is in the future
    is_dependent: bool = False  # the jobs wait for the end of other jobs
    is_inner: bool = False  # the jobs run inside a container job: oarsub -t inner=JOB
    is_campaign: bool = False  # the jobs are tasks of campaigns
    kinds: tuple[tuple[str, str, int], ...] = ()  # owner, job name and number of tasks

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
    left: tuple[tuple[str, str], ...] = ()  # free consumables of the whole cell, such as licences
