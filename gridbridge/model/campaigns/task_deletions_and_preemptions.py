"""Values of nikita: listed tasks, deletions, and tasks preempted for a waiting local request.

Amounts are of consumables: of a host, such as memory, or of the whole cluster, such as licences.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from gridbridge.model.job_request import Pairs

Amounts = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingLocalRequest:
    """The resources that a waiting local job, or a task of it, requests."""

    job: int
    task: int = 0  # first waiting task of the array job; 0: no array job
    slots: int = 1  # requested slots; of a range the least number
    amounts: Amounts = field(default_factory=dict)  # requested amounts of a whole task
    # default requests, which count only where the resource exists
    defaults: Amounts = field(default_factory=dict)
    alone: frozenset[str] = frozenset()  # requested resources that need an exclusive host
    pe: str = ""  # parallel environment, possibly with wildcards
    queues: tuple[str, ...] = ()  # acceptable queues; empty: any queue
    others: Pairs = ()  # all other requested resources


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueInstanceResources:
    """A queue instance where local jobs may start now, with its free resources."""

    name: str  # name such as all.q@host
    slots: int
    free: Amounts = field(default_factory=dict)  # free amounts of the host
    own: Amounts = field(default_factory=dict)  # free amounts of the queue itself
    alone: frozenset[str] = frozenset()  # resources that make the host exclusive

    @property
    def host(self) -> str:
        """The host of the queue instance."""
        return self.name.rpartition("@")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJobWithResources:
    """A running job or task, with the resources that it holds."""

    job: int
    task: int = 0
    host: str
    since: datetime | None = None
    amounts: Amounts = field(default_factory=dict)
    alone: frozenset[str] = frozenset()  # resources that make the host exclusive to the job
    makes_way: bool = False  # whether the job is preemptible: in a best-effort queue
    is_deleting: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRequestsAndResources:
    """A cluster's waiting requests, running jobs and free resources."""

    asked: tuple[WaitingLocalRequest, ...] = ()  # waiting requests in the scheduler's order
    holders: tuple[RunningJobWithResources, ...] = ()
    places: tuple[QueueInstanceResources, ...] = ()
    free: Amounts = field(default_factory=dict)  # free amounts of the whole cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignArrayJob:
    """The campaign and array of a job at a cluster, with its tasks that are being deleted."""

    campaign: int
    array: int
    ending: frozenset[int] = frozenset()  # indices of tasks that are being deleted
    is_ending: bool = False  # whether all tasks are being deleted


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptibleTask:
    """A running best-effort task of a campaign, with the resources that it holds."""

    campaign: int
    array: int
    place: int
    host: str
    since: datetime
    amounts: Amounts = field(default_factory=dict)
    alone: frozenset[str] = frozenset()
    is_ending: bool = False  # whether the task is being deleted


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedLocalRequest:
    """A local request that could start if best-effort tasks released their resources."""

    cluster: str
    asked: WaitingLocalRequest
    places: tuple[QueueInstanceResources, ...]
    free: Amounts = field(default_factory=dict)  # free amounts of the whole cluster
    tasks: tuple[PreemptibleTask, ...]
    others: frozenset[str] = frozenset()  # hosts that also run jobs of other people


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksPreemptedForRequest:
    """Tasks that are ended so that one local request can start."""

    cluster: str
    job: int
    task: int  # first waiting task of the array job; 0: no array job
    host: str
    lacked: tuple[str, ...]  # names of the resources that the request lacked
    tasks: tuple[PreemptibleTask, ...]


ArrayJobsById = Mapping[int, CampaignArrayJob]  # campaign arrays by job id at one cluster
LocalRequestId = tuple[str, int, int]  # cluster, job, task
PreemptionHistory = Mapping[LocalRequestId, tuple[datetime, ...]]  # times at which tasks were preempted for a request


class NikitaDeletionReason(StrEnum):
    """Why nikita deletes a task."""

    OVERFLOW = "overflow"  # more tasks wait at the cluster than the flood rate allows
    WAITED = "waited"  # the task waited too long
    OVERRAN = "overran"  # the task ran on long after its walltime
    CANCELLED = "cancelled"  # the owner cancelled the campaign; no mark is stored
    MADE_WAY = "made-way"  # preempted: a local job lacked resources that the task held
    UNWANTED = "unwanted"  # the owner cancelled the task
    MOVED = "moved"  # rebalancing moves the waiting task to another cluster
    UNNEEDED = "unneeded"  # a waiting prologue without remaining tasks
    LEFT = "left"  # replaces MOVED or UNNEEDED once the task was held and deleted
    NEVER_BEGAN = "never-began"  # replaces OVERFLOW or WAITED once the task was held and deleted


REASONS_OF_WAITING = (NikitaDeletionReason.OVERFLOW, NikitaDeletionReason.WAITED, NikitaDeletionReason.NEVER_BEGAN)
REASONS_OF_MOVES = (NikitaDeletionReason.MOVED, NikitaDeletionReason.UNNEEDED, NikitaDeletionReason.LEFT)
REASONS_ONLY_WAITING = (*REASONS_OF_WAITING, *REASONS_OF_MOVES)  # reasons that delete waiting tasks only
REASONS_HELD_FIRST = (
    NikitaDeletionReason.LEFT,
    NikitaDeletionReason.NEVER_BEGAN,
)  # reasons of tasks that were held before their deletion
REASONS_IF_STILL_WAITING = tuple(  # reasons that spare a task that has started meanwhile
    wiped_for for wiped_for in REASONS_ONLY_WAITING if wiped_for not in REASONS_HELD_FIRST
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDeletionMark:
    """A stored mark that a task must be deleted, with the reason."""

    wiped_for: NikitaDeletionReason


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockJump:
    """A step by which this host's clock was set forward."""

    at: datetime  # clock time just after the jump
    by_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HostClockReadings:
    """Readings of this host's wall and monotonic clocks, with earlier clock jumps."""

    boot: str  # boot id of the machine
    wall: datetime
    steady_s: float  # monotonic clock, since the boot
    leaps: tuple[ClockJump, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMissingSince:
    """The time since which an unfinished task is not listed; None: it is listed again."""

    campaign: int
    array: int
    place: int
    since: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayTasksInSameState:
    """Tasks of an array that a cluster lists in the same state since the same time."""

    campaign: int
    array: int
    cluster: str
    places: tuple[range, ...]
    since: datetime  # when these tasks began to wait or to run
    is_waiting: bool
    walltime_s: int
    is_test: bool = False
    slots: int = 1  # slots of one task
    marked: NikitaDeletionReason | None = None  # stored deletion reason; None: not marked
    is_cancelled: bool = False  # whether the owner cancelled the campaign


@dataclass(frozen=True, slots=True, kw_only=True)
class NikitaTimeouts:
    """How long nikita lets tasks wait, or run on after their walltime."""

    grace_s: float  # allowed waiting time of tasks above the flood rate
    waiting_s: float
    over_walltime_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NikitaSituation:
    """The input of nikita's decision: listed tasks, limits and blocked requests."""

    now: datetime
    parts: tuple[ArrayTasksInSameState, ...]
    allowed: Mapping[str, int]  # number of tasks that may wait, by cluster
    patience: NikitaTimeouts
    to_wide: frozenset[str] = frozenset()  # clusters where a multi-slot task may exceed `allowed`
    contests: tuple[BlockedLocalRequest, ...] = ()  # local requests that wait for resources of best-effort tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayTaskDeletion:
    """Tasks of an array that are deleted for one reason."""

    campaign: int
    array: int
    cluster: str
    wiped_for: NikitaDeletionReason
    places: tuple[range, ...]

    @property
    def tasks(self) -> int:
        """The number of deleted tasks."""
        return sum(map(len, self.places))


@dataclass(frozen=True, slots=True, kw_only=True)
class NikitaDeletionPlan:
    """The deletions of one cycle of nikita."""

    wipes: tuple[ArrayTaskDeletion, ...] = ()
    # tasks that an earlier cycle deleted and their clusters still list
    repeated: tuple[ArrayTaskDeletion, ...] = ()
    moved: tuple[ArrayTaskDeletion, ...] = ()  # waiting tasks that must leave their cluster
    cancelled: tuple[ArrayTaskDeletion, ...] = ()  # tasks cancelled by their owners
    spared: tuple[ArrayTaskDeletion, ...] = ()  # tasks that were marked while waiting and run now
    ways: tuple[TasksPreemptedForRequest, ...] = ()  # preemptions for local requests, at most one per cluster
