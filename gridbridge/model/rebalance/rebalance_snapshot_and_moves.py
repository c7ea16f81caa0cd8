"""The input and the output of rebalancing: hosts, jobs, tasks, replicas and planned moves.

A host may be a cluster or a storage area; a job may be a campaign or a dataset. The main copy of a task is the
waiting or running task itself; the main copy of a dataset is its first replica.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from gridbridge.model.campaigns.campaign import Campaign
from gridbridge.model.cluster_snapshot import ClusterSnapshot
from gridbridge.model.transfer_name import parse_transfer_name

AHEAD = timedelta(minutes=1)  # another host's clock may be ahead by this much
STUCK = timedelta(minutes=15)  # a move that takes longer no longer counts as under way
NEVER = datetime.min.replace(tzinfo=UTC)


def happened_within(at: datetime, now: datetime, limit: timedelta) -> bool:
    """Say whether an event is recent: `now - limit < at <= now + AHEAD`.

    A later time comes from a wrong clock, and must not prolong a pause.
    """
    return at <= now + AHEAD and now - at < limit


def past_moment_or_never(at: datetime, now: datetime) -> datetime:
    """Return a past timestamp unchanged; return NEVER for a future timestamp."""
    return at if at <= now + AHEAD else NEVER


class RebalanceHostState(StrEnum):
    """The state of a host, set by an administrator or observed by the service."""

    ALIVE = "alive"
    DISABLED = "disabled"  # the host gets no new tasks or replicas
    DRAIN = "drain"  # the host works, and its tasks and replicas move to other hosts
    DISK_FULL = "disk_full"
    DEAD = "dead"  # all tasks and replicas on the host are lost
    UNKNOWN = "unknown"  # the state is not recognised; the host gets no new tasks or replicas


class RebalanceTaskState(StrEnum):
    """The state of a task; only waiting tasks are moved."""

    WAITING = "waiting"
    RUNNING = "running"
    MOVING = "moving"
    BUSY = "busy"
    STAYING = "staying"  # the task may not move; a TaskNotMovedReason says why
    UNKNOWN = "unknown"


class TaskNotMovedReason(StrEnum):
    """The reasons why a task in state STAYING is not moved."""

    HELD = "held"  # the task is held, or has not waited long enough
    DROPPED = "dropped"  # a recent move of the task failed
    RECALLED = "recalled"  # the task was recalled as often as its transfer queue allows
    SILENT = "silent"  # the cluster does not answer, and may still start the task
    STUCK = "stuck"  # a move of the task has been failing for a long time


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceHost:
    """A host, cluster or storage area; rebalancing compares only hosts of the same kind."""

    name: str
    kind: str = ""
    is_up: bool = True
    is_read_only: bool = False
    state: RebalanceHostState = RebalanceHostState.ALIVE
    used_bytes: int = 0
    max_bytes: int = 0
    slots: int = 1
    mean_active: float = 0.0  # recent mean share of used slots, 0 to 1
    zone: str = ""  # a task's replicas are placed in different zones as far as possible
    further_zones: tuple[str, ...] = ()  # the other zones of a storage area that several clusters share
    is_shared: bool = False  # whether the disk also has files other than replicas
    room: int | None = None  # slots that further tasks may use; None: no limit

    @property
    def zones(self) -> frozenset[str]:
        """All zones of the host; a host without a zone is in zone ''."""
        return frozenset((self.zone, *self.further_zones))

    @property
    def free_bytes(self) -> int:
        """The free disk space in bytes, never negative."""
        return max(0, self.max_bytes - self.used_bytes)

    @property
    def is_live(self) -> bool:
        """Whether the host is usable: up, and not dead, drained, disabled or in an unknown state."""
        return self.is_up and self.state in (RebalanceHostState.ALIVE, RebalanceHostState.DISK_FULL)


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceJobOrDataset:
    """A job to rebalance: a campaign, a transferred array job, or a dataset."""

    name: str
    is_autobalanced: bool = True  # whether the owner lets automatic rounds move the job
    replicas: int = 0  # wanted number of replicas of each task, not counting the main copy
    last_run: datetime | None = None
    max_per_host: int | None = None  # largest number of the job's tasks and replicas on one host
    hosts: frozenset[str] | None = None  # hosts allowed for the job's tasks; None: any host
    resting: frozenset[str] = frozenset()  # hosts barred because an action on the job failed there recently
    away: frozenset[str] = frozenset()  # hosts barred because of unreadable replicas of the job
    full: frozenset[str] = frozenset()  # hosts barred because no task of the job could start there now
    owner: str = ""
    spare: int = 0  # number of surplus replicas; automatic rounds move no job that has surplus replicas


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceTask:
    job: str
    number: int
    size_bytes: int = 0
    state: RebalanceTaskState = RebalanceTaskState.WAITING
    live: str = ""  # host of the main copy; empty: there is no main copy
    replicas: tuple[str, ...] = ()  # hosts of the other replicas, sorted by name
    spoilt: tuple[str, ...] = ()  # hosts of damaged or replaced replicas
    lost: tuple[str, ...] = ()  # lost hosts that held a whole replica
    has_original: bool = False  # whether the dataset's original can be copied if no replica is readable
    slots: int = 1
    stays: TaskNotMovedReason = TaskNotMovedReason.HELD  # why a task in state STAYING is not moved

    def __post_init__(self) -> None:
        """Sort the replicas by host name, because plans use the first and the last replica."""
        if len(self.replicas) > 1:
            object.__setattr__(self, "replicas", tuple(sorted(self.replicas)))

    @property
    def job_and_task_number(self) -> tuple[str, int]:
        return self.job, self.number

    @property
    def hosts_with_copy(self) -> tuple[str, ...]:
        """The hosts of the main copy and the replicas, the main copy's host first."""
        return (self.live, *self.replicas) if self.live else self.replicas


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentRebalanceMoveTimes:
    """The times of the last moves to each host, and of the last rebalancing of each job."""

    hosts: Mapping[str, datetime] = field(default_factory=dict)  # when each host last got a task
    replicated: Mapping[str, datetime] = field(default_factory=dict)  # when each host last got a replica
    jobs: Mapping[str, datetime] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceSnapshot:
    """Hosts, jobs, tasks and recent moves at one moment: the input of every plan."""

    now: datetime
    hosts: tuple[RebalanceHost, ...] = ()
    jobs: tuple[RebalanceJobOrDataset, ...] = ()
    tasks: tuple[RebalanceTask, ...] = ()
    recent: RecentRebalanceMoveTimes = RecentRebalanceMoveTimes()


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignTaskAtCluster:
    """A campaign's task that a cluster lists, or a moved task that no cluster lists yet."""

    campaign: int
    task: int
    array: int
    place: int
    cluster: str
    slots: int
    is_waiting: bool  # whether the task has waited for least_wait_s, and is neither held nor being moved
    is_running: bool = False
    is_moving: bool = False
    stays: TaskNotMovedReason = TaskNotMovedReason.HELD  # why the task is not moved if it has started or is held

    @property
    def job_and_task_number(self) -> tuple[str, int]:
        """The job's name in rebalancing, and the task number."""
        return str(self.campaign), self.task


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferredTask:
    """A task that was transferred to a remote cluster, or is being recalled."""

    transfer: str
    uid: int
    cluster: str
    slots: int
    is_waiting: bool  # whether the task has waited for least_wait_s, and can be recalled to the home cluster
    is_running: bool = False
    is_moving: bool = False
    stays: TaskNotMovedReason = TaskNotMovedReason.HELD  # why the task is not moved if it has started or is held
    target: str = ""

    @property
    def job_and_task_number(self) -> tuple[str, int]:
        """The job's name in rebalancing, and the task number."""
        name = parse_transfer_name(self.transfer)
        return f"gb.{name.cluster}.{name.job}", name.task


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksObservedAtClusters:
    now: datetime
    answers: Mapping[str, ClusterSnapshot | None]  # last answer of each cluster; None: no answer
    campaigns: tuple[Campaign, ...] = ()
    tasks: tuple[CampaignTaskAtCluster, ...] = ()
    away: tuple[TransferredTask, ...] = ()
    staying: frozenset[str] = frozenset()  # transferred jobs that automatic rounds don't move
    reached: frozenset[str] = frozenset()  # clusters where a transferred task may start
    unsent: Mapping[int, int] = field(default_factory=dict)  # number of unsent tasks of each campaign
    closed: frozenset[tuple[int, str]] = frozenset()  # pairs of a campaign and a cluster closed to it
    drained: frozenset[str] = frozenset()
    dead: frozenset[str] = frozenset()
    recent: RecentRebalanceMoveTimes = field(default_factory=RecentRebalanceMoveTimes)


class RebalanceMoveKind(StrEnum):
    LIVE = "live"  # the main copy moves to `target`, or the replica at `target` becomes the main copy
    REPLICA = "replica"  # a replica moves to `target`, or a new replica is copied from `source`
    DELETE = "delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceMove:
    kind: RebalanceMoveKind
    job: str
    number: int
    source: str
    target: str = ""  # empty: the replica at `source` is removed


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedMove:
    job: str
    number: int
    reason: str
    target: str = ""  # empty: no host may get the task


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidAndDroppedMoves:
    """A plan's valid and dropped moves, after a new query of the clusters."""

    moves: tuple[RebalanceMove, ...] = ()
    dropped: tuple[RejectedMove, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceMovePlan:
    """The moves that rebalancing plans; each move is checked again before execution."""

    moves: tuple[RebalanceMove, ...] = ()
    rejected: tuple[RejectedMove, ...] = ()
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLoadBeforeAfter:
    """A host's disk usage (0 to 1) and load score, before and after a plan."""

    host: str
    disk: float
    score: float
    disk_after: float
    score_after: float
