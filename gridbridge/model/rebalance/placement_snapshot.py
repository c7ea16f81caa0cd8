"""How long ago something was that was noted with this host's clock, which may be set back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum

AHEAD = timedelta(minutes=1)  # of another host's clock, by which a shared state file is written
STUCK = timedelta(minutes=15)  # after which what is to be moved counts as on its way no more
NEVER = datetime.min.replace(tzinfo=UTC)


def happened_within(at: datetime, now: datetime, limit: timedelta) -> bool:
    """Say whether something was less than `limit` ago: `now - limit < at <= now + AHEAD`.

    A moment that is yet to come was noted by a clock that was ahead, and proves nothing: else what
    rests for minutes would rest until then.
    """
    return at <= now + AHEAD and now - at < limit


def past_moment_or_never(at: datetime, now: datetime) -> datetime:
    """Return a moment, NEVER for one that is yet to come."""
    return at if at <= now + AHEAD else NEVER


class HostState(StrEnum):
    """What somebody has said of a host, or is known of it."""

    ALIVE = "alive"
    DISABLED = "disabled"  # gets nothing new
    DRAIN = "drain"  # its copies go elsewhere while it works
    DISK_FULL = "disk_full"
    DEAD = "dead"  # what it held is lost
    UNKNOWN = "unknown"  # a word that nobody knows: gets nothing new


class TaskState(StrEnum):
    """What a task does; only what waits is moved."""

    WAITING = "waiting"
    RUNNING = "running"
    MOVING = "moving"
    BUSY = "busy"  # its owner works on it
    STAYING = "staying"  # it is held, or has not waited for long
    UNKNOWN = "unknown"


class TaskStayReason(StrEnum):
    """Why a task that is STAYING does."""

    HELD = "held"  # or it has not waited for long
    DROPPED = "dropped"  # it was to be moved a short time ago, and could not be
    RECALLED = "recalled"  # as often as its queue allows
    SILENT = "silent"  # its cluster is silent for long, and it may start there yet
    STUCK = "stuck"  # it is to be moved, and could not be for long


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementHost:
    """A place of copies; hosts are compared with those of their own kind alone."""

    name: str
    kind: str = ""
    is_up: bool = True
    is_read_only: bool = False
    state: HostState = HostState.ALIVE
    used_bytes: int = 0
    max_bytes: int = 0
    slots: int = 1
    mean_active: float = 0.0  # share of its slots that were used of late, 0 to 1
    zone: str = ""  # copies of a task are kept in different ones, as far as there are enough
    is_shared: bool = False  # with other files: more of it is used than its copies take
    room: int | None = None  # slots that more tasks could take there; None: they don't matter

    @property
    def free_bytes(self) -> int:
        """How much more it could hold."""
        return max(0, self.max_bytes - self.used_bytes)

    @property
    def is_live(self) -> bool:
        """Whether it holds and takes its share."""
        lost = (HostState.DEAD, HostState.DRAIN, HostState.DISABLED, HostState.UNKNOWN)
        return self.is_up and self.state not in lost


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementJob:
    """A campaign, an array, or a dataset."""

    name: str
    is_autobalanced: bool = True  # its owner lets it be moved without being asked
    replicas: int = 0  # wished for, besides the live copy
    last_run: datetime | None = None
    max_per_host: int | None = None  # copies of its tasks
    hosts: frozenset[str] | None = None  # where its tasks may go; None: anywhere
    resting: frozenset[str] = frozenset()  # hosts barred because something of it failed there
    away: frozenset[str] = frozenset()  # hosts barred because what it has there can't be seen
    full: frozenset[str] = frozenset()  # hosts barred because none of its tasks could start now
    owner: str = ""  # of what is repaired or leaves a host each owner has a turn
    spare: int = 0  # copies beyond what its owner wishes for: none of them is carried elsewhere


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementTask:
    """A task of a job and where its copies are."""

    job: str
    number: int
    size_bytes: int = 0
    state: TaskState = TaskState.WAITING
    live: str = ""  # the host of its live copy; empty: it has none
    replicas: tuple[str, ...] = ()  # by name
    # hosts with a copy that is not whole, or is to go, and does not count
    spoilt: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()  # hosts that are lost, with a whole copy that counts no more
    has_original: bool = False  # it can be copied from there when no copy can be read
    slots: int = 1  # that it takes where it runs
    stays: TaskStayReason = TaskStayReason.HELD  # why, if it is STAYING

    def __post_init__(self) -> None:
        """Have the replicas in one order, whoever named them: plans go by the first or the last."""
        if len(self.replicas) > 1:
            object.__setattr__(self, "replicas", tuple(sorted(self.replicas)))

    @property
    def key(self) -> tuple[str, int]:
        """What names it."""
        return self.job, self.number

    @property
    def hosts(self) -> tuple[str, ...]:
        """Where its copies are, the live one first."""
        return (self.live, *self.replicas) if self.live else self.replicas


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentMoves:
    """What was done of late, by name."""

    hosts: Mapping[str, datetime] = field(default_factory=dict)  # got a task
    replicated: Mapping[str, datetime] = field(default_factory=dict)  # got a replica
    jobs: Mapping[str, datetime] = field(default_factory=dict)  # were rebalanced


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementSnapshot:
    """Everything at one moment."""

    now: datetime
    hosts: tuple[PlacementHost, ...] = ()
    jobs: tuple[PlacementJob, ...] = ()
    tasks: tuple[PlacementTask, ...] = ()
    recent: RecentMoves = RecentMoves()
