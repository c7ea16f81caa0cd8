"""What nikita looks at, and what it wipes: tasks that wait or run where they should not."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from gridbridge.model.campaigns.preemption import BlockedRequest, Preemption


class WipedFor(StrEnum):
    """Why a task was deleted."""

    OVERFLOW = "overflow"  # more wait at its cluster than may
    WAITED = "waited"  # for too long
    OVERRAN = "overran"  # it ran on long after its walltime
    CANCELLED = "cancelled"  # its owner cancelled the campaign: it is never marked
    MADE_WAY = "made-way"  # a local job lacked what it held
    UNWANTED = "unwanted"  # its owner cancelled the task
    MOVED = "moved"  # it waits there, and could start elsewhere (gridbridge rebalance)
    UNNEEDED = "unneeded"  # it is a prologue that waits, and no task is left
    LEFT = "left"  # MOVED or UNNEEDED, and deleted: held before it began
    NEVER_BEGAN = "never-began"  # OVERFLOW or WAITED, and deleted: held before it began


OF_WAITING = (WipedFor.OVERFLOW, WipedFor.WAITED, WipedFor.NEVER_BEGAN)
OF_MOVES = (WipedFor.MOVED, WipedFor.UNNEEDED, WipedFor.LEFT)
ONLY_WAITING = (*OF_WAITING, *OF_MOVES)  # for these reasons a task that runs is not deleted
HELD = (WipedFor.LEFT, WipedFor.NEVER_BEGAN)  # these tasks are held before they are deleted
IF_WAITING = tuple(  # a task that runs by then runs on
    wiped_for for wiped_for in ONLY_WAITING if wiped_for not in HELD
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CancellationMark:
    """A task is to be wiped."""

    wiped_for: WipedFor


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockJump:
    """The clock of this host was set forward."""

    at: datetime  # by the new time
    by_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CancellationClocks:
    """What this host's clocks said at one moment, and how the settable one was set before that."""

    boot: str  # which start of the machine
    wall: datetime
    steady_s: float  # since that start
    leaps: tuple[ClockJump, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingSince:
    """Since when a cluster has not listed a task whose end is not known; None: it lists it."""

    campaign: int
    array: int
    place: int
    since: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedArray:
    """Tasks of an array of which a cluster says the same."""

    campaign: int
    array: int
    cluster: str
    places: tuple[range, ...]
    since: datetime  # when they began to wait, or to run
    is_waiting: bool
    walltime_s: int
    is_test: bool = False
    slots: int = 1  # of one task
    marked: WipedFor | None = None  # they were to be wiped before
    is_cancelled: bool = False  # their owner cancelled the campaign


@dataclass(frozen=True, slots=True, kw_only=True)
class CancellationPatience:
    """How long nikita leaves tasks alone."""

    grace_s: float  # of waiting tasks above the flood rate
    waiting_s: float
    over_walltime_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedAttempt:
    """All tasks of campaigns at the clusters that answered, and work there."""

    now: datetime
    parts: tuple[ListedArray, ...]
    allowed: Mapping[str, int]  # to wait, by cluster
    patience: CancellationPatience
    to_wide: frozenset[str] = frozenset()  # clusters where one task of several slots may wait, too
    contests: tuple[BlockedRequest, ...] = ()  # local requests that wait for what tasks hold


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayCancellation:
    """Some tasks of an array are deleted."""

    campaign: int
    array: int
    cluster: str
    wiped_for: WipedFor
    places: tuple[range, ...]

    @property
    def tasks(self) -> int:
        """How many they are."""
        return sum(map(len, self.places))


@dataclass(frozen=True, slots=True, kw_only=True)
class CancellationPlan:
    """What nikita does in one cycle."""

    wipes: tuple[ArrayCancellation, ...] = ()
    repeated: tuple[
        ArrayCancellation, ...
    ] = ()  # of those that were to be wiped, and are still there
    moved: tuple[ArrayCancellation, ...] = ()  # those of them that wait still, and start elsewhere
    cancelled: tuple[ArrayCancellation, ...] = ()  # campaigns and tasks, by their owners
    spared: tuple[ArrayCancellation, ...] = ()  # of those, too: they were to wait no more, and run
    ways: tuple[Preemption, ...] = ()  # for local requests, one a cluster
