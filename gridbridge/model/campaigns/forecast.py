"""When a campaign will end, as far as that can be told."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterThroughput:
    """What a cluster does for a campaign."""

    cluster: str
    durations_s: tuple[float, ...] = ()  # of tasks that ended there, a sample
    elapsed_s: tuple[float, ...] = ()  # of those that run
    ended: int = 0  # tasks, in the last `watched_s`
    watched_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignProgress:
    """A campaign at a moment."""

    left: int  # tasks that don't run yet
    services: tuple[ClusterThroughput, ...]
    pause_s: float = 0.0  # between two cycles: so long a free slot may wait for a task


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignForecast:
    """The end of a campaign; None is unknown."""

    throughput: float | None = None  # tasks a second
    p50_s: float | None = None  # by then it has ended, with this probability
    p90_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredForecast:
    """A forecast that was made halfway, and what came of it."""

    campaign: int
    made_at: datetime
    p50_at: datetime
    p90_at: datetime
    ended_at: datetime | None = None
