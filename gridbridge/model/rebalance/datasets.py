"""Datasets: a file or a tree of a person's, with the checksum of each file, and its replicas."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from gridbridge.errors import ParseError
from gridbridge.model.rebalance.rebalance_section import MeasuredStorageArea
from gridbridge.model.settings import TextFormat

DATASET_NAME = TextFormat(
    holds=re.compile("[A-Za-z0-9][A-Za-z0-9_.+-]{0,99}").fullmatch,
    right="letters, digits, _ . + and -, a letter or digit first, at most 100",
)
DIGEST = 64  # letters of a SHA-256
BETWEEN = "  ./"  # sha256sum(1): a digest, and a name below the folder
REPLICA_MARK = ".gridbridge.replica"  # in a replica: the name and sha256 of its dataset
MOST_NAMED = 2  # of the files that differ

Sums = Mapping[str, str]  # by the name below the top


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A copy in a storage area, as it was when it was checked last."""

    storage: str
    size_bytes: int
    is_whole: bool  # when it was read last
    checked_at: datetime
    why: str = ""  # it is not whole
    is_away: bool = False  # it could not be read then: its area, or what we had there, is away

    @property
    def is_whole_now(self) -> bool:
        """Whether it was read when it was checked last, and was whole."""
        return self.is_whole and not self.is_away


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """What its owner keeps of it; `sha256` is that of the list of checksums."""

    name: str
    path: str
    is_tree: bool
    files: int
    size_bytes: int
    sha256: str
    wished: int
    replicas: tuple[Replica, ...] = ()
    may_move: bool = True  # to even disks out
    begun: tuple[str, ...] = ()  # areas in which a copy was begun that did not come to its end

    @property
    def whole(self) -> tuple[str, ...]:
        """The areas with a whole replica."""
        return tuple(replica.storage for replica in self.replicas if replica.is_whole_now)

    @property
    def touched(self) -> tuple[str, ...]:
        """The areas with anything of it: a replica, or a copy that was begun."""
        return tuple(dict.fromkeys((*self.storages, *self.begun)))

    @property
    def storages(self) -> tuple[str, ...]:
        """The areas with a replica, whole or not."""
        return tuple(replica.storage for replica in self.replicas)

    def holding(self, replica: Replica) -> "Dataset":
        """Return it with this replica, instead of what was known of one there."""
        other_replicas = tuple(held for held in self.replicas if held.storage != replica.storage)
        return replace(self, replicas=(*other_replicas, replica))

    def beginning(self, storage: str) -> "Dataset":
        """Return it with a copy that is begun there."""
        return replace(self, begun=tuple(dict.fromkeys((*self.begun, storage))))

    def ended(self, storage: str) -> "Dataset":
        """Return it without the copy that was begun there."""
        return replace(self, begun=tuple(area for area in self.begun if area != storage))

    def without(self, storage: str) -> "Dataset":
        """Return it with nothing there."""
        other_replicas = tuple(replica for replica in self.replicas if replica.storage != storage)
        return replace(self.ended(storage), replicas=other_replicas)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaOutcome:
    """What the service had done about a dataset, as its owner's own files tell it."""

    at: datetime
    target: str = ""  # where a replica was made; empty: one was removed
    source: str = ""  # where one was removed, or is to be; empty: it is one more
    why: str = ""  # it was not done


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedReplicaArea:
    """An area that gets no copy, or a dataset that stays, and why."""

    what: str
    reason: str


def format_checksums(sums: Sums) -> bytes:
    """Write checksums as `sha256sum -z` does, in the order of the names."""
    rows = (f"{digest}{BETWEEN}{name}\0" for name, digest in sorted(sums.items()))
    return "".join(rows).encode("utf-8", "surrogateescape")


def parse_checksums(text: bytes) -> dict[str, str]:
    """Read what `sha256sum -z` printed; ParseError for anything else."""
    rows = text.decode("utf-8", "surrogateescape").split("\0")
    if rows.pop():
        raise ParseError("checksums: cut short")
    sums = {}
    for row in rows:
        digest, between, name = row[:DIGEST], row[DIGEST:][: len(BETWEEN)], row[DIGEST:][4:]
        if between != BETWEEN or not name:
            raise ParseError(f"checksums: {row[:80]!r} is none")
        sums[name] = digest
    return sums


def dataset_mismatch(expected: Sums, actual: Sums) -> str:
    """Say what is not as it should be, nothing when all is."""
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
    return (f"{printable_file_name(name)} is not of it" for name in actual if name not in expected)


def format_bytes(count: int) -> str:
    """Return a number of bytes for a reader: `1.2 GB`."""
    value, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB", "PB", "EB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"


def printable_file_name(name: str) -> str:
    """Return a file's name as a line of text."""
    return name if name.isprintable() else ascii(name)


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
    areas: tuple[MeasuredStorageArea, ...] = ()
    drained: frozenset[str] = frozenset()  # clusters and areas
    carried: tuple[CarriedReplica, ...] = ()  # of late, and what goes on
    leaving: frozenset[tuple[str, str]] = frozenset()  # OWNER/NAME and an area: another came for it
