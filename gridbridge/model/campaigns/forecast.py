"""The forecast of a campaign's end, and the progress from which it is computed."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignRunTimesAtCluster:
    """Run times of ended and running tasks of a campaign at one cluster."""

    cluster: str
    durations_s: tuple[float, ...] = ()  # run times of a sample of ended tasks
    elapsed_s: tuple[float, ...] = ()  # times since the starts of running tasks
    ended: int = 0  # number of tasks that ended in the last `watched_s`
    watched_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignProgressForForecast:
    """The progress of a campaign, from which its end is forecast."""

    left: int  # number of tasks that have not started
    services: tuple[CampaignRunTimesAtCluster, ...]
    pause_s: float = 0.0  # pause between cycles, during which a free slot may stay idle


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignForecast:
    """The forecast end of a campaign; unknown values are None."""

    throughput: float | None = None  # tasks per second
    p50_s: float | None = None  # seconds until the end, with a probability of 50 %
    p90_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfwayForecast:
    """A forecast made halfway through a campaign, with the campaign's actual end."""

    campaign: int
    made_at: datetime
    p50_at: datetime
    p90_at: datetime
    ended_at: datetime | None = None
