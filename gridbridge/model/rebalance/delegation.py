"""Datasets that the service looks after, the areas they may be in, and what was carried of late."""

from dataclasses import dataclass
from datetime import datetime

from gridbridge.model.rebalance.datasets import Dataset
from gridbridge.model.rebalance.storage_areas import MeasuredArea


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegatedDataset:
    """A dataset as its owner's record has it, and the file by which the owner lets the service."""

    uid: int
    owner: str
    file: str  # in the folder of campaign files
    dataset: Dataset
    is_busy: bool = False  # a command works on it just now

    @property
    def name(self) -> str:
        """What it is called here: each owner has names of their own."""
        return f"{self.owner}/{self.dataset.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedReplica:
    """A replica that the service had made or removed, or tried to."""

    token: str = ""  # in the state file
    dataset: str  # OWNER/NAME
    target: str = ""  # where it was to come; empty: it was to be removed alone
    source: str = ""  # where it was to be removed; empty: nowhere
    size_bytes: int = 0
    began_at: datetime
    ended_at: datetime | None = None  # None: it goes on, or was killed
    why: str = ""  # it was not done


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageState:
    """Everything at one moment."""

    now: datetime
    kept: tuple[DelegatedDataset, ...] = ()
    areas: tuple[MeasuredArea, ...] = ()
    drained: frozenset[str] = frozenset()  # clusters and areas
    carried: tuple[CarriedReplica, ...] = ()  # of late, and what goes on
    leaving: frozenset[tuple[str, str]] = frozenset()  # OWNER/NAME and an area: another came for it
