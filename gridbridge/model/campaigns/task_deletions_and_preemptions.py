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
    task: int = 0  # array job: number of its first waiting task; 0: no array job
    slots: int = 1  # number of requested slots; of a range the smallest number
    amounts: Amounts = field(default_factory=dict)  # resource: amount for all slots of a task
    defaults: Amounts = field(default_factory=dict)  # resource: default amount, ignored where the resource is missing
    alone: frozenset[str] = frozenset()  # requested resources that stand for exclusive use of a host
    pe: str = ""  # parallel environment, possibly with wildcards
    queues: tuple[str, ...] = ()  # acceptable queues; empty: any queue
    others: Pairs = ()  # other requested resources: those that have no amount


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeQueueInstanceResources:
    """A queue instance at which local jobs may start now, with its free resources."""

    name: str  # queue instance, such as all.q@host
    slots: int
    free: Amounts = field(default_factory=dict)  # resource of the host: free amount
    own: Amounts = field(default_factory=dict)  # resource of the queue: free amount
    alone: frozenset[str] = frozenset()  # resources that stand for exclusive use of the host

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
    alone: frozenset[str] = frozenset()  # exclusive resources that the job holds, so that it has the host alone
    makes_way: bool = False  # whether the job runs in a best-effort queue
    is_deleting: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRequestsAndResources:
    asked: tuple[WaitingLocalRequest, ...] = ()  # in the order in which the scheduler considers the requests
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
    free: Amounts = field(default_factory=dict)  # free amounts of the whole cluster
    tasks: tuple[PreemptibleTask, ...]
    others: frozenset[str] = frozenset()  # hosts with running jobs that can't be preempted


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksPreemptedForRequest:
    cluster: str
    job: int
    task: int  # array job: number of its first waiting task; 0: no array job
    host: str
    lacked: tuple[str, ...]
    tasks: tuple[PreemptibleTask, ...]


ArrayJobsById = Mapping[int, CampaignArrayJob]  # job id: campaign array
LocalRequestId = tuple[str, int, int]  # cluster, job number, task number
PreemptionHistory = Mapping[LocalRequestId, tuple[datetime, ...]]  # request: when tasks were preempted for it


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
REASONS_HELD_FIRST = (NikitaDeletionReason.LEFT, NikitaDeletionReason.NEVER_BEGAN)  # held before the deletion
REASONS_IF_STILL_WAITING = tuple(  # for these reasons a task that has started since the mark is not deleted
    wiped_for for wiped_for in REASONS_ONLY_WAITING if wiped_for not in REASONS_HELD_FIRST
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDeletionMark:
    """A mark in the state file: nikita must delete this task for this reason."""

    wiped_for: NikitaDeletionReason


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMissingSince:
    """Since when a job list lacks an unfinished task; None: the job list shows the task again."""

    campaign: int
    array: int
    place: int
    since: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayTasksWithSameStateAndAge:
    """Tasks of an array that all wait, or all run, since the same time."""

    campaign: int
    array: int
    cluster: str
    places: tuple[range, ...]
    since: datetime  # when the tasks began to wait or to run
    is_waiting: bool
    walltime_s: int
    is_test: bool = False
    slots: int = 1  # slots of one task
    marked: NikitaDeletionReason | None = None  # reason of a stored deletion mark
    is_cancelled: bool = False  # whether the owner cancelled the whole campaign


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
    allowed: Mapping[str, int]  # cluster: number of tasks that may wait
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
    moved: tuple[ArrayTaskDeletion, ...] = ()  # waiting tasks that are to start at another cluster
    cancelled: tuple[ArrayTaskDeletion, ...] = ()  # tasks that their owners cancelled
    spared: tuple[ArrayTaskDeletion, ...] = ()  # tasks not to delete, because they have started since they were marked
    ways: tuple[TasksPreemptedForRequest, ...] = ()  # at most one preemption at each cluster
