"""Published start and end times of the last rebalancing rounds."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum


class RebalanceRound(StrEnum):
    """The kinds of rebalancing round; at most one round of each kind runs at a time."""

    TASKS = "tasks"
    DATASETS = "datasets"
    READING = "reading"  # replicas are read at the end of a round about datasets


LONGEST_ROUND = {
    RebalanceRound.TASKS: timedelta(minutes=30),
    # a round begins copies for an hour, then the next round may begin
    RebalanceRound.DATASETS: timedelta(hours=3),
    RebalanceRound.READING: timedelta(hours=26),  # an hour of begun reads, and a day for the last
}
WORDS = {
    RebalanceRound.TASKS: "round about tasks",
    RebalanceRound.DATASETS: "round about datasets",
    RebalanceRound.READING: "reading of replicas",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRebalanceRound:
    """The last end of a kind's round, and the start of the first round after it."""

    began_at: datetime
    ended_at: datetime | None = None

    @property
    def is_open(self) -> bool:
        """Whether no round of this kind has ended since `began_at`."""
        return self.ended_at is None or self.ended_at < self.began_at


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRebalancePause:
    """The start of a pause of all rebalancing moves; None: moves are not paused."""

    since: datetime | None
