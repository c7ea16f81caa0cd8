"""What gridbridge.toml says of campaigns."""

from dataclasses import dataclass

from gridbridge.model.campaigns.jobratio import Law
from gridbridge.model.settings import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """The one process that sends campaigns' tasks."""

    interval_s: float = setting(15.0, "the pause between two cycles of --loop", "s", 5, 3600)
    forgotten_s: float = setting(
        60.0, "a task that is neither listed nor accounted for counts as deleted", "s", 10, 86400
    )
    max_tasks: int = setting(1000, "the most tasks of one array", "tasks", 1, 75000)


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignsAt:
    """How campaigns use a cluster."""

    predictor: Law = setting(Law.MEASURED, "how the number of tasks for its free slots is learnt")
    flood_rate: float = setting(
        0.1, "so many tasks of campaigns may wait, for each of its slots", "", 0, 10
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Nikita:
    """What deletes tasks that wait or run where they should not."""

    interval_s: float = setting(60.0, "the pause between two cycles of --loop", "s", 5, 3600)
    grace_s: float = setting(
        60.0, "tasks above the flood rate wait so long before they are deleted", "s", 10, 86400
    )
    waiting_s: float = setting(
        900.0, "a task that waits longer is deleted, and sent again", "s", 60, 2592000
    )
    over_walltime_s: float = setting(
        1800.0, "a task that runs so long after its walltime is deleted", "s", 60, 2592000
    )
