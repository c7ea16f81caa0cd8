"""What people see of a cluster that grows and shrinks: a row of numbers a round, and its ends."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from gridbridge.model.accounting import Place

BEGINNING = Place()


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """The numbers of one round, in the order of StarCluster's columns."""

    at: datetime
    hosts: int
    running: int  # tasks
    queued: int  # tasks that could start
    slots: int
    duration_s: int  # mean of the tasks that ended of late; 0: none did
    wait_s: int  # the same
    load: float  # mean of the hosts that tell theirs


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The tasks that ended in one minute."""

    minute: int  # since 1970
    tasks: int = 0
    run_s: float = 0.0  # of them together, as the next one
    wait_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """The tasks that ended of late, and how far the accounting file was read for them."""

    place: Place = BEGINNING
    minutes: tuple[Ended, ...] = ()  # in their order


def minute_of(at: datetime) -> int:
    """Return the minute that a moment is in."""
    return int(at.timestamp() // 60)


def together(minutes: Iterable[Ended]) -> tuple[Ended, ...]:
    """Return one row for each minute, in their order."""
    found = dict[int, Ended]()
    for one in minutes:
        so_far = found.get(one.minute, Ended(minute=one.minute))
        found[one.minute] = Ended(
            minute=one.minute,
            tasks=so_far.tasks + one.tasks,
            run_s=so_far.run_s + one.run_s,
            wait_s=so_far.wait_s + one.wait_s,
        )
    return tuple(found[minute] for minute in sorted(found))
