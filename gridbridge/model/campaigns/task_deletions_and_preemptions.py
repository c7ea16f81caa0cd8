"""The facts from which nikita decides, and the deletions of tasks that nikita decides on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from gridbridge.model.job_request import Pairs

Amounts = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingLocalRequest:
    """The resources that a waiting local job or task requests."""

    job: int
    task: int = 0  # first waiting task of the array job; 0: no array job
    slots: int = 1  # requested slots; the smallest number of a range
    amounts: Amounts = field(default_factory=dict)  # amounts for all slots of a task
    defaults: Amounts = field(default_factory=dict)  # default requests, which count only where the resource exists
    alone: frozenset[str] = frozenset()  # requested resources for exclusive use of a host
    pe: str = ""  # parallel environment, possibly with wildcards
    queues: tuple[str, ...] = ()  # acceptable queues; empty: any queue
    others: Pairs = ()  # all requested resources that are no amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeQueueInstanceResources:
    """A queue instance at which local jobs may start now, with its free resources."""

    name: str  # queue instance, such as all.q@host
    slots: int
    free: Amounts = field(default_factory=dict)  # free amounts of the host's resources
    own: Amounts = field(default_factory=dict)  # free amounts of the queue's resources
    alone: frozenset[str] = frozenset()  # resources for exclusive use of the host

    @property
    def host(self) -> str:
        """The name of the queue instance's host."""
        return self.name.rpartition("@")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJobWithResources:
    """A running job or task, with the resources that the job or task holds."""

    job: int
    task: int = 0
    host: str
    since: datetime | None = None
    amounts: Amounts = field(default_factory=dict)
    alone: frozenset[str] = frozenset()  # held resources for exclusive use of the host
    makes_way: bool = False  # the job runs in a best-effort queue
    is_deleting: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRequestsAndResources:
    """The waiting requests, running jobs and free resources of a Grid Engine cluster."""

    asked: tuple[WaitingLocalRequest, ...] = ()  # requests in the scheduler's order
    holders: tuple[RunningJobWithResources, ...] = ()
    places: tuple[FreeQueueInstanceResources, ...] = ()
    free: Amounts = field(default_factory=dict)  # free amounts of the whole cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignArrayJob:
    """The campaign and array of a job at a cluster, with the tasks that are being deleted."""

    campaign: int
    array: int
    ending: frozenset[int] = frozenset()  # array indices of tasks that are being deleted
    is_ending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptibleTask:
    """A running best-effort task of a campaign, with the resources that the task holds."""

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
    others: frozenset[str] = frozenset()  # hosts with running jobs that were submitted without gridbridge


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksPreemptedForRequest:
    """Best-effort tasks that are preempted so that one local request can start."""

    cluster: str
    job: int
    task: int  # first waiting task of the array job; 0: no array job
    host: str
    lacked: tuple[str, ...]
    tasks: tuple[PreemptibleTask, ...]


ArrayJobsById = Mapping[int, CampaignArrayJob]  # campaign arrays by job id
LocalRequestId = tuple[str, int, int]  # cluster, job, task
PreemptionHistory = Mapping[LocalRequestId, tuple[datetime, ...]]  # for each request the times of its preemptions


class NikitaDeletionReason(StrEnum):
    """Why nikita deletes a task of a campaign."""

    OVERFLOW = "overflow"  # more tasks wait at the cluster than the flood rate allows
    WAITED = "waited"
    OVERRAN = "overran"  # the task ran on long after its walltime
    CANCELLED = "cancelled"  # the owner cancelled the campaign
    MADE_WAY = "made-way"  # preempted, because a local job lacked resources
    UNWANTED = "unwanted"
    MOVED = "moved"  # rebalancing moves the waiting task to another cluster
    UNNEEDED = "unneeded"  # a waiting prologue that no task needs any more
    LEFT = "left"  # replaces MOVED or UNNEEDED after the task was held and deleted
    NEVER_BEGAN = "never-began"  # replaces OVERFLOW or WAITED after the task was held and deleted


REASONS_OF_WAITING = (NikitaDeletionReason.OVERFLOW, NikitaDeletionReason.WAITED, NikitaDeletionReason.NEVER_BEGAN)
REASONS_OF_MOVES = (NikitaDeletionReason.MOVED, NikitaDeletionReason.UNNEEDED, NikitaDeletionReason.LEFT)
REASONS_ONLY_WAITING = (*REASONS_OF_WAITING, *REASONS_OF_MOVES)  # only waiting tasks are deleted for these reasons
REASONS_HELD_FIRST = (NikitaDeletionReason.LEFT, NikitaDeletionReason.NEVER_BEGAN)  # held before the deletion
REASONS_IF_STILL_WAITING = tuple(  # a task that has started meanwhile is not deleted
    wiped_for for wiped_for in REASONS_ONLY_WAITING if wiped_for not in REASONS_HELD_FIRST
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDeletionMark:
    """A mark in the state file that nikita must delete a task, with the reason."""

    wiped_for: NikitaDeletionReason


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMissingSince:
    """The time since which a job list lacks an unfinished task; None if the job list shows the task again."""

    campaign: int
    array: int
    place: int
    since: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayTasksWithSameStateAndAge:
    """Tasks of an array with equal states and equal start times of the state."""

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
    is_cancelled: bool = False  # the owner cancelled the campaign and not only tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class NikitaTimeouts:
    """The times for which nikita lets tasks wait, or run after their walltime."""

    grace_s: float  # how long tasks may wait above the flood rate
    waiting_s: float
    over_walltime_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NikitaSituation:
    """The facts from which one cycle of nikita decides."""

    now: datetime
    parts: tuple[ArrayTasksWithSameStateAndAge, ...]
    allowed: Mapping[str, int]  # number of tasks that may wait, by cluster
    patience: NikitaTimeouts
    to_wide: frozenset[str] = frozenset()  # clusters at which a multi-slot task may wait above `allowed`
    contests: tuple[
        LocalRequestBlockedByCampaigns, ...
    ] = ()  # local requests that wait for resources of best-effort tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayTaskDeletion:
    """Tasks of an array that are deleted for the same reason."""

    campaign: int
    array: int
    cluster: str
    wiped_for: NikitaDeletionReason
    places: tuple[range, ...]

    @property
    def tasks(self) -> int:
        """The number of tasks to delete."""
        return sum(map(len, self.places))


@dataclass(frozen=True, slots=True, kw_only=True)
class NikitaDeletionPlan:
    """The deletions that one cycle of nikita decides on."""

    wipes: tuple[ArrayTaskDeletion, ...] = ()
    repeated: tuple[ArrayTaskDeletion, ...] = ()  # tasks that were deleted before, but are still in the job list
    moved: tuple[ArrayTaskDeletion, ...] = ()  # waiting tasks to start at another cluster
    cancelled: tuple[ArrayTaskDeletion, ...] = ()  # tasks that their owners cancelled
    spared: tuple[ArrayTaskDeletion, ...] = ()  # tasks that have started since they were marked for deletion
    ways: tuple[TasksPreemptedForRequest, ...] = ()  # at most one preemption at each cluster
