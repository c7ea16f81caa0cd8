"""What is read of campaigns and transfers, and what of their tasks clusters list."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from gridbridge.model.campaigns.campaign import Campaign
from gridbridge.model.ids import parse_transfer
from gridbridge.model.rebalance.placement_snapshot import RecentMoves, TaskStayReason
from gridbridge.model.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedCampaignTask:
    """A task of a campaign that a cluster lists, or that was moved and is listed nowhere yet."""

    campaign: int
    task: int
    array: int
    place: int  # in that array
    cluster: str
    slots: int  # of the task
    is_waiting: bool  # and long enough; neither held nor being moved
    is_running: bool = False
    is_moving: bool = False
    stays: TaskStayReason = TaskStayReason.HELD  # why, if it does not wait


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferredTask:
    """A task of a local job that a transfer queue has sent away, or that is on its way home."""

    transfer: str  # its name
    uid: int
    cluster: str
    slots: int
    is_waiting: bool  # and long enough, and it could come home
    is_running: bool = False
    is_moving: bool = False
    stays: TaskStayReason = TaskStayReason.HELD  # why, if it does not wait
    target: str = ""  # the cluster to which it is moved

    @property
    def key(self) -> tuple[str, int]:
        """The name of its job, and its number there."""
        name = parse_transfer(self.transfer)
        return f"gb.{name.cluster}.{name.job}", name.task


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedTasks:
    """Everything at one moment."""

    now: datetime
    answers: Mapping[str, ClusterSnapshot | None]  # of the clusters; None: it gave none
    campaigns: tuple[Campaign, ...] = ()  # that go on
    tasks: tuple[ListedCampaignTask, ...] = ()
    away: tuple[TransferredTask, ...] = ()
    staying: frozenset[str] = frozenset()  # jobs that were sent and that no round is to move
    reached: frozenset[str] = frozenset()  # clusters where a task that was sent away may start
    unsent: Mapping[int, int] = field(default_factory=dict)  # tasks of campaigns at no cluster
    closed: frozenset[tuple[int, str]] = frozenset()  # clusters that are closed to campaigns
    drained: frozenset[str] = frozenset()
    dead: frozenset[str] = frozenset()  # clusters that are silent for long
    recent: RecentMoves = field(default_factory=RecentMoves)
