"""Hosts, jobs and tasks with copies, as rebalancing sees them at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from gridbridge.model.campaigns.campaign import Campaign
from gridbridge.model.cluster_snapshot import ClusterSnapshot
from gridbridge.model.transfer_name import parse_transfer_name

AHEAD = timedelta(minutes=1)  # tolerated lead of another host's clock in a shared state file
STUCK = timedelta(minutes=15)  # a move that takes longer no longer counts as under way
NEVER = datetime.min.replace(tzinfo=UTC)


def happened_within(at: datetime, now: datetime, limit: timedelta) -> bool:
    """Say whether an event is recent: `now - limit < at <= now + AHEAD`.

    A timestamp in the future comes from a clock that was ahead, and is ignored. A pause of minutes
    would otherwise last until this timestamp.
    """
    return at <= now + AHEAD and now - at < limit


def past_moment_or_never(at: datetime, now: datetime) -> datetime:
    """Return a past timestamp unchanged; return NEVER for a timestamp in the future."""
    return at if at <= now + AHEAD else NEVER


class PlacementHostState(StrEnum):
    """The state of a host, set by an administrator or observed by the service."""

    ALIVE = "alive"
    DISABLED = "disabled"  # the host gets no new copies
    DRAIN = "drain"  # the host works, and its copies move to other hosts
    DISK_FULL = "disk_full"
    DEAD = "dead"  # all copies on the host are lost
    UNKNOWN = "unknown"  # an unrecognised state: the host gets no new copies


class PlacementTaskState(StrEnum):
    """The state of a task; only waiting tasks are moved."""

    WAITING = "waiting"
    RUNNING = "running"
    MOVING = "moving"
    BUSY = "busy"  # a command of the owner is changing the dataset
    STAYING = "staying"  # the task does not move for a TaskNotMovedReason
    UNKNOWN = "unknown"


class TaskNotMovedReason(StrEnum):
    """The reasons why a task in state STAYING is not moved."""

    HELD = "held"  # the task is held, or has not waited long enough
    DROPPED = "dropped"  # a recent move of the task failed
    RECALLED = "recalled"  # the task was recalled as often as its queue allows
    SILENT = "silent"  # the cluster does not answer, and may still start the task
    STUCK = "stuck"  # a move of the task has been failing for a long time


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementHost:
    """A host, cluster or storage area of copies, compared with its own kind only."""

    name: str
    kind: str = ""
    is_up: bool = True
    is_read_only: bool = False
    state: PlacementHostState = PlacementHostState.ALIVE
    used_bytes: int = 0
    max_bytes: int = 0
    slots: int = 1
    mean_active: float = 0.0  # mean share of used slots of late, 0 to 1
    zone: str = ""  # copies of a task are placed in different zones as far as possible
    is_shared: bool = False  # the disk also holds files that are no copies
    room: int | None = None  # slots free for more tasks; None: slots don't limit this host

    @property
    def free_bytes(self) -> int:
        """The free disk space of the host in bytes, never negative."""
        return max(0, self.max_bytes - self.used_bytes)

    @property
    def is_live(self) -> bool:
        """Whether the host is up and not dead, drained, disabled or in an unknown state."""
        lost = (
            PlacementHostState.DEAD,
            PlacementHostState.DRAIN,
            PlacementHostState.DISABLED,
            PlacementHostState.UNKNOWN,
        )
        return self.is_up and self.state not in lost


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementJobOrDataset:
    """A job for rebalancing: a campaign, a transferred array job, or a dataset."""

    name: str
    is_autobalanced: bool = True  # the owner lets automatic rounds move the job
    replicas: int = 0  # spare copies wanted of each task, besides the running one
    last_run: datetime | None = None
    max_per_host: int | None = None  # most copies of the job's tasks on a host
    hosts: frozenset[str] | None = None  # hosts allowed for the job's tasks; None: any host
    resting: frozenset[str] = frozenset()  # barred hosts: an action on the job failed recently
    away: frozenset[str] = frozenset()  # barred hosts with unreadable copies of the job
    full: frozenset[str] = frozenset()  # barred hosts: no task of the job could start now
    owner: str = ""  # repairs and evacuations serve the owners in turn
    spare: int = 0  # copies beyond the requested number: spare copies are not moved


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementTask:
    """A task of a job, and the hosts that hold its copies."""

    job: str
    number: int
    size_bytes: int = 0
    state: PlacementTaskState = PlacementTaskState.WAITING
    live: str = ""  # host of the live copy; empty: no live copy
    replicas: tuple[str, ...] = ()  # hosts of the replicas, sorted by name
    # hosts of damaged or replaced copies, which do not count as replicas
    spoilt: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()  # lost hosts that held a whole copy; these copies do not count
    has_original: bool = False  # an original can be copied when no copy is readable
    slots: int = 1  # slots that the running task uses
    stays: TaskNotMovedReason = TaskNotMovedReason.HELD  # reason of the state STAYING

    def __post_init__(self) -> None:
        """Sort the replicas by host name: plans use the first and the last replica."""
        if len(self.replicas) > 1:
            object.__setattr__(self, "replicas", tuple(sorted(self.replicas)))

    @property
    def key(self) -> tuple[str, int]:
        """The key of the task: the job's name and the task number."""
        return self.job, self.number

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts of the task's copies, the live copy's host first."""
        return (self.live, *self.replicas) if self.live else self.replicas


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentPlacementMoveTimes:
    """Times of recent moves, by host or by job."""

    hosts: Mapping[str, datetime] = field(default_factory=dict)  # host: last arrival of a task
    replicated: Mapping[str, datetime] = field(default_factory=dict)  # host: last new replica
    jobs: Mapping[str, datetime] = field(default_factory=dict)  # job: last rebalancing


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementSnapshot:
    """Hosts, jobs, tasks and recent moves at one moment: the input of every plan."""

    now: datetime
    hosts: tuple[PlacementHost, ...] = ()
    jobs: tuple[PlacementJobOrDataset, ...] = ()
    tasks: tuple[PlacementTask, ...] = ()
    recent: RecentPlacementMoveTimes = RecentPlacementMoveTimes()


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignTaskAtCluster:
    """A campaign task that a cluster lists, or a moved task not listed yet."""

    campaign: int
    task: int
    array: int
    place: int  # index in the array job
    cluster: str
    slots: int  # slots used by the task
    is_waiting: bool  # whether waiting for least_wait_s, neither held nor being moved
    is_running: bool = False
    is_moving: bool = False
    stays: TaskNotMovedReason = TaskNotMovedReason.HELD  # why a task that is not waiting stays


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferredTask:
    """A local job's task that was sent to a remote cluster or is recalled."""

    transfer: str  # name of the transfer
    uid: int
    cluster: str
    slots: int
    is_waiting: bool  # whether waiting for least_wait_s, and can be recalled to the home cluster
    is_running: bool = False
    is_moving: bool = False
    stays: TaskNotMovedReason = TaskNotMovedReason.HELD  # why a task that is not waiting stays
    target: str = ""  # the cluster to which the task is being moved

    @property
    def key(self) -> tuple[str, int]:
        """The job's name for rebalancing, and the task number in this job."""
        name = parse_transfer_name(self.transfer)
        return f"gb.{name.cluster}.{name.job}", name.task


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksObservedAtClusters:
    """Campaigns, transferred tasks and answers of all clusters at one moment."""

    now: datetime
    answers: Mapping[str, ClusterSnapshot | None]  # last answer of each cluster; None: no answer
    campaigns: tuple[Campaign, ...] = ()  # unfinished campaigns
    tasks: tuple[CampaignTaskAtCluster, ...] = ()
    away: tuple[TransferredTask, ...] = ()
    staying: frozenset[str] = frozenset()  # transferred jobs that no automatic round may move
    reached: frozenset[str] = frozenset()  # clusters where a transferred task may start
    unsent: Mapping[int, int] = field(default_factory=dict)  # number of unsent tasks by campaign
    closed: frozenset[tuple[int, str]] = frozenset()  # (campaign, cluster closed to the campaign)
    drained: frozenset[str] = frozenset()
    dead: frozenset[str] = frozenset()  # clusters without an answer for a long time
    recent: RecentPlacementMoveTimes = field(default_factory=RecentPlacementMoveTimes)


class PlacementMoveKind(StrEnum):
    """The kinds of action on a task's copy."""

    LIVE = "live"  # the live copy moves to `target`, or the replica at `target` becomes live
    REPLICA = "replica"  # a replica moves to `target`, or a new replica is copied from `source`
    DELETE = "delete"  # the copy at `source` is removed


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementMove:
    """A move of one copy of a task from one host to another."""

    kind: PlacementMoveKind
    job: str
    number: int
    source: str
    target: str = ""  # empty: the copy at `source` is removed


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedMove:
    """A move that rebalancing considered and rejected, with the reason."""

    job: str
    number: int
    reason: str
    target: str = ""  # empty: the task moves to no host at all


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidAndDroppedMoves:
    """The still valid moves of a plan before execution, and the dropped moves."""

    moves: tuple[PlacementMove, ...] = ()
    dropped: tuple[RejectedMove, ...] = ()  # moves that are no longer valid


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceMovePlan:
    """Planned moves, none of them executed: each move is rechecked before execution."""

    moves: tuple[PlacementMove, ...] = ()
    rejected: tuple[RejectedMove, ...] = ()
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLoadBeforeAfter:
    """A host's disk usage, 0 to 1, and load score, before and after a plan."""

    host: str
    disk: float
    score: float
    disk_after: float
    score_after: float
