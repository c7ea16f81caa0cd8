"""The forecast of a campaign's end, and the numbers from which the end is forecast."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignRunTimesAtCluster:
    cluster: str
    durations_s: tuple[float, ...] = ()  # run times of a sample of the ended tasks
    elapsed_s: tuple[float, ...] = ()
    ended: int = 0  # number of tasks that ended in the last `watched_s` seconds
    watched_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignProgressForForecast:
    left: int  # number of tasks that have not started yet
    services: tuple[CampaignRunTimesAtCluster, ...]
    pause_s: float = 0.0  # pause between two cycles of the runner, during which free slots stay free


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignForecast:
    """The forecast for a campaign's end; a value that can't be forecast is None."""

    throughput: float | None = None  # number of tasks that end per second
    p50_s: float | None = None  # with a probability of 50 %, the campaign ends within this time
    p90_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfwayForecast:
    """The forecast made when half of a campaign's tasks had ended, and the actual end of the campaign."""

    campaign: int
    made_at: datetime
    p50_at: datetime
    p90_at: datetime
    ended_at: datetime | None = None
