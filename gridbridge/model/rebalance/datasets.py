"""Datasets of users: files or directory trees, their checksums and replicas."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from gridbridge.errors import ParseError
from gridbridge.model.key_settings import ConfigTextFormat
from gridbridge.model.rebalance.rebalance_section import MeasuredStorageArea

DATASET_NAME = ConfigTextFormat(
    holds=re.compile("[A-Za-z0-9][A-Za-z0-9_.+-]{0,99}").fullmatch,
    right="letters, digits, _ . + and -, a letter or digit first, at most 100",
)
DIGEST = 64  # hexadecimal digits of a SHA-256 checksum
BETWEEN = "  ./"  # in a line of sha256sum(1), between the checksum and the relative file name
REPLICA_MARK = ".gridbridge.replica"  # file in each replica: name and sha256 of the dataset
MOST_NAMED = 2  # differing files named in a message

Sums = Mapping[str, str]  # checksum of each file, by relative file name


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetReplica:
    """A dataset's copy in a storage area, as the last check found the copy."""

    storage: str
    size_bytes: int
    is_whole: bool  # every checksum matched at the last read
    checked_at: datetime
    why: str = ""  # reason why the replica is not whole
    is_away: bool = False  # the last check could not reach the storage area or the replica

    @property
    def is_whole_now(self) -> bool:
        """Whether the last check could read the replica and every checksum matched."""
        return self.is_whole and not self.is_away


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """An owner's record of a dataset; `sha256` is the checksum of its checksum list."""

    name: str
    path: str
    is_tree: bool
    files: int
    size_bytes: int
    sha256: str
    wished: int
    replicas: tuple[DatasetReplica, ...] = ()
    may_move: bool = True  # replicas may move to even out disk usage
    begun: tuple[str, ...] = ()  # storage areas with an unfinished copy

    @property
    def whole(self) -> tuple[str, ...]:
        """The storage areas with a complete, readable replica."""
        return tuple(replica.storage for replica in self.replicas if replica.is_whole_now)

    @property
    def touched(self) -> tuple[str, ...]:
        """The storage areas with a replica or an unfinished copy of the dataset."""
        return tuple(dict.fromkeys((*self.storages, *self.begun)))

    @property
    def storages(self) -> tuple[str, ...]:
        """The storage areas with a replica, complete or damaged."""
        return tuple(replica.storage for replica in self.replicas)

    def holding(self, replica: DatasetReplica) -> "Dataset":
        """Return the dataset with this replica, replacing the same area's record."""
        other_replicas = tuple(held for held in self.replicas if held.storage != replica.storage)
        return replace(self, replicas=(*other_replicas, replica))

    def beginning(self, storage: str) -> "Dataset":
        """Return the dataset with an unfinished copy recorded for a storage area."""
        return replace(self, begun=tuple(dict.fromkeys((*self.begun, storage))))

    def ended(self, storage: str) -> "Dataset":
        """Return the dataset without the unfinished copy in a storage area."""
        return replace(self, begun=tuple(area for area in self.begun if area != storage))

    def without(self, storage: str) -> "Dataset":
        """Return the dataset without any replica or unfinished copy in a storage area."""
        other_replicas = tuple(replica for replica in self.replicas if replica.storage != storage)
        return replace(self.ended(storage), replicas=other_replicas)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceReplicaActInOwnerFile:
    """A replica action of the service, as recorded in the owner's files."""

    at: datetime
    target: str = ""  # area of the new replica; empty: a replica was only removed
    source: str = ""  # area of the removed replica; empty: a replica was only added
    why: str = ""  # reason why the action failed


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedAreaOrDataset:
    """A storage area that gets no replica, or a dataset that stays, with the reason."""

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
    """Name missing, changed and extra files of a replica; empty for none."""
    differences = [*_missing(expected, actual), *_extra(expected, actual)]
    more = f" and {len(differences) - MOST_NAMED} more" if len(differences) > MOST_NAMED else ""
    return ", ".join(differences[:MOST_NAMED]) + more


def _missing(expected: Sums, actual: Sums) -> Iterator[str]:
    for name, digest in expected.items():
        if name not in actual:
            yield f"{printable_file_name(name)} is missing"
        elif actual[name] != digest:
            yield f"{printable_file_name(name)} has another checksum"


def _extra(expected: Sums, actual: Sums) -> Iterator[str]:
    return (f"{printable_file_name(name)} is unexpected" for name in actual if name not in expected)


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
    """A dataset delegated to the service, and the file that delegates it."""

    uid: int
    owner: str
    file: str  # the delegating file, in the folder of campaign files
    dataset: Dataset
    is_busy: bool = False  # a user's command is changing the dataset

    @property
    def name(self) -> str:
        """The dataset's unique name OWNER/NAME: two owners may use the same NAME."""
        return f"{self.owner}/{self.dataset.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceReplicaAct:
    """A replica that the service made, moved or removed, successfully or not."""

    token: str = ""  # key in the state file
    dataset: str  # OWNER/NAME
    target: str = ""  # area of the new replica; empty: a replica is only removed
    source: str = ""  # area that loses its replica; empty: a replica is only added
    size_bytes: int = 0
    began_at: datetime
    ended_at: datetime | None = None  # None: still running, or killed
    why: str = ""  # reason why the action failed


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetStorageSnapshot:
    """Delegated datasets, storage areas and recent replica actions at one moment."""

    now: datetime
    kept: tuple[DelegatedDataset, ...] = ()
    areas: tuple[MeasuredStorageArea, ...] = ()
    drained: frozenset[str] = frozenset()  # names of drained clusters and storage areas
    carried: tuple[ServiceReplicaAct, ...] = ()  # recent and running replica actions
    leaving: frozenset[tuple[str, str]] = frozenset()  # OWNER/NAME, area of a replaced replica
