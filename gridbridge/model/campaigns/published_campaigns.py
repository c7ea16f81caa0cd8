"""What everybody may see of campaigns: their states and numbers, never their parameters."""

from dataclasses import dataclass
from datetime import datetime

from gridbridge.model.campaigns.campaign import CampaignState
from gridbridge.model.campaigns.jdl import CampaignType


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownAtCluster:
    """A campaign at one of its clusters."""

    cluster: str
    waiting: int = 0  # there
    running: int = 0
    ended: int | None = None  # for good; None, as below, unless a single campaign is shown
    failed: int | None = None  # of those
    job_ratio: float | None = None  # tasks that are sent for a free slot
    ended_per_h: float | None = None  # in the last hour; None: none did
    mean_s: float | None = None  # mean run time of a task there


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownErrors:
    """What became of the forecasts that were made halfway, of the campaigns that have ended."""

    forecasts: int
    p90_held: int
    median_error: float  # of the P50, as a share of the time that was left


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCampaign:
    """One campaign."""

    number: int
    name: str
    owner: str
    submitted_at: datetime
    type: CampaignType
    state: CampaignState
    clusters: tuple[str, ...]
    tasks: int
    ended: int  # for good
    failed: int  # of those
    cancelled: int = 0  # of those that ended, by their owner
    waiting: int = 0  # not sent, or to be sent again
    ended_per_h: float | None = None  # tasks; None, as below: unknown
    mean_s: float | None = None  # mean run time of ended tasks
    p50_at: datetime | None = None  # by then all have ended, with this probability
    p90_at: datetime | None = None
    forecast_error: float | None = None  # of the P50 that was told halfway, once it has ended
    at: tuple[ShownAtCluster, ...] = ()
    events: int = 0  # that are open
    sinks: tuple[str, ...] = ()  # clusters whose results its owner has not trusted
    ending_at: tuple[str, ...] = ()  # clusters at which tasks of a cancelled one may live

    @property
    def tasks_running(self) -> int:
        """How many tasks run, as their clusters list them; a task and its copies count as one."""
        listed = sum(at.running for at in self.at)
        return min(listed, self.tasks - self.ended)

    @property
    def tasks_waiting(self) -> int:
        """How many tasks wait: here, on their way, or at a cluster."""
        return self.tasks - self.ended - self.tasks_running if self.state.is_alive else 0

    @property
    def tasks_to_fix(self) -> int:
        """How many failed tasks may be tried again; none of a cancelled campaign."""
        return 0 if self.state is CampaignState.CANCELLED else self.failed


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCampaigns:
    """All of them, by number."""

    at: datetime
    campaigns: tuple[ShownCampaign, ...] = ()
    errors: ShownErrors | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownGridCluster:
    """One cluster as campaigns find it; what is None was not asked of late, or not answered."""

    name: str
    kind: str
    answered_at: datetime | None = None
    slots: int | None = None
    used: int | None = None
    free: int | None = None  # for best-effort tasks
    free_for_normal: int | None = None  # for ordinary ones, for which best-effort ones make way
    waiting: int = 0  # tasks of campaigns
    running: int = 0  # the same
    used_by_campaigns: int = 0  # slots of those that run


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownGrid:
    """All clusters that campaigns may use, by name."""

    at: datetime
    clusters: tuple[ShownGridCluster, ...] = ()
