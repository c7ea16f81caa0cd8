"""Values of nikita: the tasks that it looks at, and those that it deletes."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from gridbridge.model.campaigns.preemption import BlockedLocalRequest, PreemptedTasks


class CancellationReason(StrEnum):
    """Why nikita deletes a task."""

    OVERFLOW = "overflow"  # more tasks wait at the cluster than the flood rate allows
    WAITED = "waited"  # the task waited too long
    OVERRAN = "overran"  # the task ran on long after its walltime
    CANCELLED = "cancelled"  # the owner cancelled the campaign; no mark is stored
    MADE_WAY = "made-way"  # preempted: a local job lacked resources that the task held
    UNWANTED = "unwanted"  # the owner cancelled the task
    MOVED = "moved"  # moved by gridbridge rebalance: it waits, and could start elsewhere
    UNNEEDED = "unneeded"  # a waiting prologue without remaining tasks
    LEFT = "left"  # MOVED or UNNEEDED, after the task was held and deleted
    NEVER_BEGAN = "never-began"  # OVERFLOW or WAITED, after the task was held and deleted


REASONS_OF_WAITING = (
    CancellationReason.OVERFLOW,
    CancellationReason.WAITED,
    CancellationReason.NEVER_BEGAN,
)
REASONS_OF_MOVES = (CancellationReason.MOVED, CancellationReason.UNNEEDED, CancellationReason.LEFT)
REASONS_ONLY_WAITING = (
    *REASONS_OF_WAITING,
    *REASONS_OF_MOVES,
)  # for these reasons a running task is not deleted
REASONS_HELD_FIRST = (
    CancellationReason.LEFT,
    CancellationReason.NEVER_BEGAN,
)  # these tasks are held first, then deleted
REASONS_IF_STILL_WAITING = tuple(  # a task that has started by then is left running
    wiped_for for wiped_for in REASONS_ONLY_WAITING if wiped_for not in REASONS_HELD_FIRST
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDeletionMark:
    """A stored mark: a task is to be deleted, for this reason."""

    wiped_for: CancellationReason


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockJump:
    """A step by which this host's clock was set forward."""

    at: datetime  # time after the jump
    by_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HostClockReadings:
    """Readings of this host's wall and monotonic clocks, with earlier clock jumps."""

    boot: str  # boot id of the machine
    wall: datetime
    steady_s: float  # since the boot
    leaps: tuple[ClockJump, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMissingSince:
    """Since when a cluster has not listed a task with unknown end; None: it lists it."""

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
    marked: CancellationReason | None = None  # reason of an earlier mark
    is_cancelled: bool = False  # the owner cancelled the campaign


@dataclass(frozen=True, slots=True, kw_only=True)
class NikitaTimeouts:
    """How long nikita lets tasks wait, or run on after their walltime."""

    grace_s: float  # for waiting tasks above the flood rate
    waiting_s: float
    over_walltime_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NikitaSituation:
    """All that nikita's decision looks at: the listed tasks and the limits."""

    now: datetime
    parts: tuple[ArrayTasksInSameState, ...]
    allowed: Mapping[str, int]  # tasks that may wait, by cluster
    patience: NikitaTimeouts
    to_wide: frozenset[str] = frozenset()  # clusters where one multi-slot task may wait besides
    contests: tuple[
        BlockedLocalRequest, ...
    ] = ()  # local requests that wait for resources of tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayCancellation:
    """Tasks of an array that are deleted for one reason."""

    campaign: int
    array: int
    cluster: str
    wiped_for: CancellationReason
    places: tuple[range, ...]

    @property
    def tasks(self) -> int:
        """The number of deleted tasks."""
        return sum(map(len, self.places))


@dataclass(frozen=True, slots=True, kw_only=True)
class NikitaDeletionPlan:
    """The deletions of one cycle of nikita."""

    wipes: tuple[ArrayCancellation, ...] = ()
    # of those that were to be wiped, and are still there
    repeated: tuple[ArrayCancellation, ...] = ()
    moved: tuple[ArrayCancellation, ...] = ()  # those of them that wait still, and start elsewhere
    cancelled: tuple[ArrayCancellation, ...] = ()  # campaigns and tasks that their owners cancelled
    spared: tuple[ArrayCancellation, ...] = ()  # marked earlier for waiting, but running now
    ways: tuple[PreemptedTasks, ...] = ()  # preemptions for local requests, one per cluster
