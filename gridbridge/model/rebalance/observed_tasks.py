"""Campaigns, transferred jobs and their remote tasks, input of rebalancing."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from gridbridge.model.campaigns.campaign import Campaign
from gridbridge.model.cluster_snapshot import ClusterSnapshot
from gridbridge.model.rebalance.placement_snapshot import RecentPlacementMoveTimes, TaskNotMovedReason
from gridbridge.model.transfer_name import parse_transfer_name


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
