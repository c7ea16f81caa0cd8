"""Published begin and end times of the last rebalancing rounds, and the storage areas that they measured."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from gridbridge.model.rebalance.rebalance_section import MeasuredStorageArea


class RebalanceRoundKind(StrEnum):
    """The kinds of rebalancing round; at most one round of each kind runs at a time."""

    TASKS = "tasks"
    DATASETS = "datasets"
    READING = "reading"  # verification of replicas, after a round about datasets


LONGEST_ROUND = {
    RebalanceRoundKind.TASKS: timedelta(minutes=30),
    RebalanceRoundKind.DATASETS: timedelta(hours=3),
    RebalanceRoundKind.READING: timedelta(hours=26),  # verifications begin for one hour; the last may take a day
}
WORDS = {
    RebalanceRoundKind.TASKS: "round about tasks",
    RebalanceRoundKind.DATASETS: "round about datasets",
    RebalanceRoundKind.READING: "reading of replicas",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRebalanceRound:
    """When the last round of a kind ended, and when the first round after that began."""

    began_at: datetime
    ended_at: datetime | None = None

    @property
    def is_open(self) -> bool:
        """Whether no round of this kind has ended since `began_at`."""
        return self.ended_at is None or self.ended_at < self.began_at


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRebalancePause:
    """The time at which a pause of all rebalancing moves began; None without a pause."""

    since: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedStorageAreas:
    """The storage areas as the last round about datasets measured them."""

    at: datetime
    areas: tuple[MeasuredStorageArea, ...] = ()
    drained: tuple[str, ...] = ()  # names of areas that are emptied
