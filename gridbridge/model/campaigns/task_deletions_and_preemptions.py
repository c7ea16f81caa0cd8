"""The facts from which nikita decides, and the task deletions that result."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from gridbridge.model.job_request import Pairs

Amounts = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingLocalRequest:
    """What a waiting job or task of the cluster's own users requests."""

    job: int
    task: int = 0  # first waiting task of an array job; 0: no array job
    slots: int = 1  # requested slots; of a slot range, the smallest number
    amounts: Amounts = field(default_factory=dict)  # amount for all slots of a task, by resource
    defaults: Amounts = field(default_factory=dict)  # default amount by resource; ignored where the resource is missing
    alone: frozenset[str] = frozenset()  # requested resources that mean exclusive use of a host
    pe: str = ""  # parallel environment, possibly with wildcards
    queues: tuple[str, ...] = ()  # acceptable queues; empty: any queue
    others: Pairs = ()  # requested resources without an amount


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeQueueInstanceResources:
    name: str  # queue instance, such as all.q@host
    slots: int
    free: Amounts = field(default_factory=dict)  # free amounts of the host, by resource
    own: Amounts = field(default_factory=dict)  # free amounts of the queue, by resource
    alone: frozenset[str] = frozenset()  # resources that mean exclusive use of the host

    @property
    def host_name(self) -> str:
        return self.name.rpartition("@")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJobWithResources:
    job: int
    task: int = 0
    host: str
    since: datetime | None = None
    amounts: Amounts = field(default_factory=dict)
    alone: frozenset[str] = frozenset()  # resources by which the job has the host alone
    makes_way: bool = False  # whether the job runs in a best-effort queue
    is_deleting: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRequestsAndResources:
    asked: tuple[WaitingLocalRequest, ...] = ()  # in the scheduler's order
    holders: tuple[RunningJobWithResources, ...] = ()
    places: tuple[FreeQueueInstanceResources, ...] = ()
    free: Amounts = field(default_factory=dict)  # free amounts of the whole cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignArrayJob:
    """The campaign and array of a job at a cluster, and the job's tasks that are being deleted."""

    campaign: int
    array: int
    ending: frozenset[int] = frozenset()  # array indices of tasks that are being deleted
    is_ending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptibleTask:
    campaign: int
    array: int
    place: int
    host: str
    since: datetime
    amounts: Amounts = field(default_factory=dict)
    alone: frozenset[str] = frozenset()
    is_ending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalRequestBlockedByCampaigns:
    """A local request that could start if best-effort tasks were preempted."""

    cluster: str
    asked: WaitingLocalRequest
    places: tuple[FreeQueueInstanceResources, ...]
    free: Amounts = field(default_factory=dict)
    tasks: tuple[PreemptibleTask, ...]
    others: frozenset[str] = frozenset()  # hosts with running jobs that can't be preempted


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksPreemptedForRequest:
    cluster: str
    job: int
    task: int  # first waiting task of an array job; 0: no array job
    host: str
    lacked: tuple[str, ...]
    tasks: tuple[PreemptibleTask, ...]


ArrayJobsById = Mapping[int, CampaignArrayJob]  # campaign arrays, by job id
LocalRequestId = tuple[str, int, int]  # cluster, job number, task number
PreemptionHistory = Mapping[LocalRequestId, tuple[datetime, ...]]  # times of preemptions, by request


class NikitaDeletionReason(StrEnum):
    OVERFLOW = "overflow"  # more tasks wait at the cluster than the flood rate allows
    WAITED = "waited"
    OVERRAN = "overran"  # the task runs long after the end of its walltime
    CANCELLED = "cancelled"  # the owner cancelled the campaign
    MADE_WAY = "made-way"  # the task is preempted, because a local job lacks resources
    UNWANTED = "unwanted"
    MOVED = "moved"  # rebalancing moves the waiting task to another cluster
    UNNEEDED = "unneeded"  # no task needs the waiting prologue any more
    LEFT = "left"  # replaces MOVED or UNNEEDED once the task was held and deleted
    NEVER_BEGAN = "never-began"  # replaces OVERFLOW or WAITED once the task was held and deleted


REASONS_OF_WAITING = (NikitaDeletionReason.OVERFLOW, NikitaDeletionReason.WAITED, NikitaDeletionReason.NEVER_BEGAN)
REASONS_OF_MOVES = (NikitaDeletionReason.MOVED, NikitaDeletionReason.UNNEEDED, NikitaDeletionReason.LEFT)
REASONS_ONLY_WAITING = (*REASONS_OF_WAITING, *REASONS_OF_MOVES)  # only waiting tasks are deleted for these reasons
REASONS_HELD_FIRST = (NikitaDeletionReason.LEFT, NikitaDeletionReason.NEVER_BEGAN)  # tasks were held before deletion
REASONS_IF_STILL_WAITING = tuple(  # a task that started after such a mark is not deleted
    wiped_for for wiped_for in REASONS_ONLY_WAITING if wiped_for not in REASONS_HELD_FIRST
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDeletionMark:
    """A mark in the state file: nikita must delete this task for this reason."""

    wiped_for: NikitaDeletionReason


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMissingSince:
    """When an unfinished task disappeared from the job list; None once the task is listed again."""

    campaign: int
    array: int
    place: int
    since: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayTasksWithSameStateAndAge:
    campaign: int
    array: int
    cluster: str
    places: tuple[range, ...]
    since: datetime  # when the tasks began to wait or to run
    is_waiting: bool
    walltime_s: int
    is_test: bool = False
    slots: int = 1
    marked: NikitaDeletionReason | None = None  # reason of a stored deletion mark
    is_cancelled: bool = False  # whether the owner cancelled the whole campaign
    may_start: bool = True  # False: nightly tasks by day


@dataclass(frozen=True, slots=True, kw_only=True)
class NikitaTimeouts:
    """How long nikita lets tasks wait, and run after their walltime."""

    grace_s: float  # how long tasks may wait above the flood rate
    waiting_s: float
    over_walltime_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NikitaSituation:
    now: datetime
    parts: tuple[ArrayTasksWithSameStateAndAge, ...]
    allowed: Mapping[str, int]  # number of tasks that may wait, by cluster
    patience: NikitaTimeouts
    to_wide: frozenset[str] = frozenset()  # clusters where one multi-slot task may wait in addition to `allowed`
    contests: tuple[
        LocalRequestBlockedByCampaigns, ...
    ] = ()  # local requests that wait for resources held by best-effort tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayTaskDeletion:
    campaign: int
    array: int
    cluster: str
    wiped_for: NikitaDeletionReason
    places: tuple[range, ...]

    @property
    def task_count(self) -> int:
        return sum(map(len, self.places))


@dataclass(frozen=True, slots=True, kw_only=True)
class NikitaDeletionPlan:
    wipes: tuple[ArrayTaskDeletion, ...] = ()
    repeated: tuple[ArrayTaskDeletion, ...] = ()  # tasks that were deleted before, but are still in the job list
    moved: tuple[ArrayTaskDeletion, ...] = ()
    cancelled: tuple[ArrayTaskDeletion, ...] = ()
    spared: tuple[ArrayTaskDeletion, ...] = ()  # tasks to leave alone, because they started after the mark
    ways: tuple[TasksPreemptedForRequest, ...] = ()  # at most one preemption at each cluster
