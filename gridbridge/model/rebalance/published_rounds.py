"""Rounds of rebalancing, as they are published: when one began, and when one ended."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum


class RebalanceRound(StrEnum):
    """What a round is about: one of each kind runs at a time."""

    TASKS = "tasks"
    DATASETS = "datasets"
    READING = "reading"  # replicas are read at the end of one about datasets


LONGEST_ROUND = {
    RebalanceRound.TASKS: timedelta(minutes=30),
    # an hour of beginning, then the next one may begin
    RebalanceRound.DATASETS: timedelta(hours=3),
    RebalanceRound.READING: timedelta(hours=26),  # an hour of beginning, and a day of the last act
}
WORDS = {
    RebalanceRound.TASKS: "round about tasks",
    RebalanceRound.DATASETS: "round about datasets",
    RebalanceRound.READING: "reading of replicas",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRebalanceRound:
    """The last round of a kind that ended, and the first one since that began."""

    began_at: datetime
    ended_at: datetime | None = None

    @property
    def is_open(self) -> bool:
        """Whether none has ended since that one began."""
        return self.ended_at is None or self.ended_at < self.began_at


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRebalancePause:
    """Whether somebody wants nothing to be moved, and since when; None: it may be."""

    since: datetime | None
