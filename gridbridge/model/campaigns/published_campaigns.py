"""Campaigns and clusters as every user may see them: states and numbers, no parameters."""

from dataclasses import dataclass
from datetime import datetime

from gridbridge.model.campaigns.campaign import CampaignState
from gridbridge.model.campaigns.jdl import CampaignType


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCampaignAtCluster:
    """A campaign's task counts and rates at one of its clusters."""

    cluster: str
    waiting: int = 0  # tasks that wait at the cluster
    running: int = 0
    ended: int | None = None  # finally ended tasks; None in lists of many campaigns
    failed: int | None = None  # failed tasks among the ended
    job_ratio: float | None = None  # tasks sent for each free slot
    ended_per_h: float | None = None  # ended tasks in the last hour; None: no task ended
    mean_s: float | None = None  # mean run time of a task at the cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownForecastErrors:
    """How accurate the halfway forecasts of ended campaigns were."""

    forecasts: int
    p90_held: int
    median_error: float  # median P50 error, as a share of the remaining time


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCampaign:
    """A campaign as every user may see it."""

    number: int
    name: str
    owner: str
    submitted_at: datetime
    type: CampaignType
    state: CampaignState
    clusters: tuple[str, ...]
    tasks: int
    ended: int  # finally ended tasks
    failed: int  # failed tasks among the ended
    cancelled: int = 0  # ended tasks that their owner cancelled
    waiting: int = 0  # tasks that wait to be sent, first or again
    ended_per_h: float | None = None  # ended tasks per hour; None: unknown
    mean_s: float | None = None  # mean run time of ended tasks
    p50_at: datetime | None = None  # time by which all tasks have ended, with a probability of 50 %
    p90_at: datetime | None = None
    forecast_error: float | None = None  # P50 error of the halfway forecast; None before the end
    at: tuple[ShownCampaignAtCluster, ...] = ()
    events: int = 0  # open events
    sinks: tuple[str, ...] = ()  # black-hole clusters that the owner has not confirmed
    ending_at: tuple[str, ...] = ()  # clusters where tasks of a cancelled campaign may still live

    @property
    def tasks_running(self) -> int:
        """The running tasks, as clusters list them; a task and its copies count once."""
        listed = sum(at.running for at in self.at)
        return min(listed, self.tasks - self.ended)

    @property
    def tasks_waiting(self) -> int:
        """The waiting tasks: unsent, being sent, or waiting at a cluster."""
        return self.tasks - self.ended - self.tasks_running if self.state.is_alive else 0

    @property
    def tasks_to_fix(self) -> int:
        """The failed tasks that may be retried; none in a cancelled campaign."""
        return 0 if self.state is CampaignState.CANCELLED else self.failed


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCampaigns:
    """All campaigns as every user may see them, by number."""

    at: datetime
    campaigns: tuple[ShownCampaign, ...] = ()
    errors: ShownForecastErrors | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCampaignCluster:
    """A cluster's slots and campaign tasks; None: no recent answer of the cluster."""

    name: str
    kind: str
    answered_at: datetime | None = None
    slots: int | None = None
    used: int | None = None
    free: int | None = None  # free slots for best-effort tasks
    # free slots for ordinary tasks, which preempt best-effort tasks
    free_for_normal: int | None = None
    waiting: int = 0  # waiting tasks of campaigns
    running: int = 0  # running tasks of campaigns
    used_by_campaigns: int = 0  # slots of campaigns' running tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCampaignClusters:
    """All clusters that campaigns may use, by name."""

    at: datetime
    clusters: tuple[ShownCampaignCluster, ...] = ()
