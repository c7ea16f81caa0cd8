"""Datasets of users: files or folders, with checksums and replicas."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from gridbridge.errors import ParseError
from gridbridge.model.config_key_descriptions import ConfigTextFormat
from gridbridge.model.rebalance.rebalance_section import MeasuredStorageArea

DATASET_NAME = ConfigTextFormat(
    holds=re.compile("[A-Za-z0-9][A-Za-z0-9_.+-]{0,99}").fullmatch,
    right="at most 100 letters, digits, _ . + and -, a letter or digit first",
)
DIGEST = 64  # number of hexadecimal digits of a SHA-256 checksum
BETWEEN = "  ./"  # separator of checksum and relative file name in a line of sha256sum(1)
REPLICA_MARK = ".gridbridge.replica"  # this file in each replica has the dataset's name and checksum
MOST_NAMED = 2  # a message names at most this many differing files

Sums = Mapping[str, str]  # maps a relative file name to its checksum


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetReplica:
    """A dataset's replica in a storage area, as found by the last check."""

    storage: str
    size_bytes: int
    is_whole: bool  # whether every checksum matched when the replica was last read
    checked_at: datetime
    why: str = ""
    is_away: bool = False  # whether the last check failed to reach the storage area or the replica

    @property
    def is_whole_now(self) -> bool:
        """Whether the last check read the replica and every checksum matched."""
        return self.is_whole and not self.is_away


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """An owner's record of a dataset; `sha256` is the checksum of the list of checksums."""

    name: str
    path: str
    is_tree: bool
    files: int
    size_bytes: int
    sha256: str
    wished: int
    replicas: tuple[DatasetReplica, ...] = ()
    may_move: bool = True  # whether replicas may be moved to even out disk usage
    begun: tuple[str, ...] = ()  # storage areas with an unfinished copy

    @property
    def areas_with_whole_replica(self) -> tuple[str, ...]:
        return tuple(replica.storage for replica in self.replicas if replica.is_whole_now)

    @property
    def areas_with_replica_or_copy(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.areas_with_replica, *self.begun)))

    @property
    def areas_with_replica(self) -> tuple[str, ...]:
        """The storage areas with a replica, complete or damaged."""
        return tuple(replica.storage for replica in self.replicas)

    def with_replica(self, replica: DatasetReplica) -> "Dataset":
        """Return the dataset with a replica's new record in place of the area's old record."""
        other_replicas = tuple(held for held in self.replicas if held.storage != replica.storage)
        return replace(self, replicas=(*other_replicas, replica))

    def with_unfinished_copy(self, storage: str) -> "Dataset":
        return replace(self, begun=tuple(dict.fromkeys((*self.begun, storage))))

    def without_unfinished_copy(self, storage: str) -> "Dataset":
        return replace(self, begun=tuple(area for area in self.begun if area != storage))

    def without_storage_area(self, storage: str) -> "Dataset":
        """Return the dataset without any replica or unfinished copy in a storage area."""
        other_replicas = tuple(replica for replica in self.replicas if replica.storage != storage)
        return replace(self.without_unfinished_copy(storage), replicas=other_replicas)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceReplicaActInOwnerFile:
    at: datetime
    target: str = ""  # storage area of the new replica; empty if a replica is only removed
    source: str = ""  # storage area of the removed replica; empty if a replica is only made
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedAreaOrDataset:
    what: str
    reason: str


def format_as_sha256sum_output(sums: Sums) -> bytes:
    """Write checksums in the format of `sha256sum -z`, sorted by file name."""
    rows = (f"{digest}{BETWEEN}{name}\0" for name, digest in sorted(sums.items()))
    return "".join(rows).encode("utf-8", "surrogateescape")


def parse_sha256sum_output(text: bytes) -> dict[str, str]:
    """Parse the output of `sha256sum -z`; raise ParseError for any other text."""
    rows = text.decode("utf-8", "surrogateescape").split("\0")
    if rows.pop():
        raise ParseError("checksums: truncated; expected the complete output of sha256sum -z")
    sums = {}
    for row in rows:
        digest, between, name = row[:DIGEST], row[DIGEST:][: len(BETWEEN)], row[DIGEST:][4:]
        if between != BETWEEN or not name:
            raise ParseError(f"checksums: {row[:80]!r} is no line of sha256sum -z")
        sums[name] = digest
    return sums


def describe_checksum_differences(expected: Sums, actual: Sums) -> str:
    """Name the missing, changed and extra files of a replica; empty if there are none."""
    faults = {
        name: "has another checksum" if name in actual else "is missing"
        for name, digest in expected.items()
        if actual.get(name) != digest
    }
    faults |= {name: "is unexpected" for name in actual if name not in expected}
    more = f" and {len(faults) - MOST_NAMED} more" if len(faults) > MOST_NAMED else ""
    return ", ".join(f"{printable_file_name(name)} {faults[name]}" for name in [*faults][:MOST_NAMED]) + more


def format_bytes(count: int) -> str:
    """Return a number of bytes with a decimal unit: `1.2 GB`."""
    value, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB", "PB", "EB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"


def printable_file_name(name: str) -> str:
    """Return a file's name with unprintable characters escaped."""
    return name if name.isprintable() else ascii(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegatedDataset:
    uid: int
    owner: str
    file: str  # name of the delegation's file in the folder of campaign files
    dataset: Dataset
    is_busy: bool = False  # whether a user's command is changing the dataset

    @property
    def name(self) -> str:
        """The dataset's unique name OWNER/NAME; other owners may use the same NAME."""
        return f"{self.owner}/{self.dataset.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceReplicaAct:
    """A copy, move or removal of a replica by the service, successful or not."""

    token: str = ""  # key of the action's row in the state file
    dataset: str  # OWNER/NAME
    target: str = ""  # storage area of the new replica; empty if a replica is only removed
    source: str = ""  # storage area of the removed replica; empty if a replica is only made
    size_bytes: int = 0
    began_at: datetime
    ended_at: datetime | None = None  # None: the action still runs, or was killed
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetStorageSnapshot:
    now: datetime
    kept: tuple[DelegatedDataset, ...] = ()
    areas: tuple[MeasuredStorageArea, ...] = ()
    drained: frozenset[str] = frozenset()  # names of drained clusters and storage areas
    carried: tuple[ServiceReplicaAct, ...] = ()  # recent and running actions on replicas
    leaving: frozenset[tuple[str, str]] = frozenset()  # (OWNER/NAME, storage area) of each replica to remove
