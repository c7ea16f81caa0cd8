"""Faults of the power service for tests: a file of words, in force until changed."""

from collections.abc import Iterable, Mapping
from enum import Enum

from gridlab import paths
from gridlab.errors import UsageError

FILE = paths.PROVIDER / "faults"


class Fault(Enum):
    """A fault that real providers have."""

    REFUSE = "refuse"  # every request: try again later
    CAPACITY = "capacity"  # no node is to be had, though the quota is not reached
    HANG = "hang"  # no request is answered, and nothing done
    LOST = "lost"  # what is asked is done, but the answer never comes
    LIE = "lie"  # says that a node was created and runs; there is none
    NEVER = "never"  # a new node stays pending for ever
    SLOW = "slow"  # =SECONDS that a node is pending before it boots
    OTHERS = "others"  # the list has nodes of somebody else too
    PARTIAL = "partial"  # the newer half of the nodes is not on the list
    GARBLED = "garbled"  # the list breaks off in the middle


Faults = Mapping[Fault, float]


def read(words: Iterable[str]) -> Faults:
    """Parse fault words; raise UsageError with the known words."""
    return dict(_read(word) for word in words)


def current() -> Faults:
    """Return the present faults."""
    return read(FILE.read_text().split()) if FILE.exists() else {}


def switch(words: list[str]) -> None:
    """Set these faults, and remove all others."""
    read(words)
    beside = FILE.with_name(f".{FILE.name}.new")
    beside.write_text(" ".join(words))
    beside.rename(FILE)


def _read(word: str) -> tuple[Fault, float]:
    name, _, value = word.partition("=")
    try:
        return Fault(name), float(value or 0)
    except ValueError:
        known = ", ".join(fault.value for fault in Fault)
        raise UsageError(f"no such fault: {word}; known: {known}, slow with =SECONDS") from None
