"""The forecast of a campaign's end, and the run times from which the forecast is computed."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignRunTimesAtCluster:
    """The run times of a campaign's ended and running tasks at one cluster."""

    cluster: str
    durations_s: tuple[float, ...] = ()  # run times of some ended tasks
    elapsed_s: tuple[float, ...] = ()  # run times of running tasks up to now
    ended: int = 0  # number of tasks that ended in the last `watched_s` seconds
    watched_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignProgressForForecast:
    """The tasks of a campaign from which its end is forecast."""

    left: int  # number of tasks that have not started
    services: tuple[CampaignRunTimesAtCluster, ...]
    pause_s: float = 0.0  # pause between cycles of the runner, in which free slots stay idle


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignForecast:
    """The forecast end of a campaign; a value that can't be forecast is None."""

    throughput: float | None = None  # ended tasks per second
    p50_s: float | None = None  # seconds until the end, with a probability of 50 %
    p90_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfwayForecast:
    """A forecast at the time when half of a campaign's tasks had ended, with the actual end."""

    campaign: int
    made_at: datetime
    p50_at: datetime
    p90_at: datetime
    ended_at: datetime | None = None
