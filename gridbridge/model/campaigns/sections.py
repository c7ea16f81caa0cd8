"""What gridbridge.toml says of campaigns."""

from dataclasses import dataclass

from gridbridge.model.settings import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """The one process that sends campaigns' tasks."""

    interval_s: float = setting(15.0, "the pause between two cycles of --loop", "s", 5, 3600)
    forgotten_s: float = setting(
        60.0, "a task that is neither listed nor accounted for counts as deleted", "s", 10, 86400
    )
    max_tasks: int = setting(1000, "the most tasks of one array", "tasks", 1, 75000)
