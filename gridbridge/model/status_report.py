"""What commands show people about the service and about one job: facts, each with the reason."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from gridbridge.model.published import ShownEvent, ShownTransfer

FIRST_EVENTS, LAST_EVENTS = 10, 40  # of an attempt that are shown when there are more
UNPRINTABLE = "\N{REPLACEMENT CHARACTER}"  # replaces what would control a reader's terminal


def printable_text(text: str) -> str:
    """Replace control characters: texts come from people's own messages."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else UNPRINTABLE for letter in text)


def with_noun(number: int, singular: str, more: str = "") -> str:
    """Return a number with its noun: 1 slot, 2 slots."""
    return f"{number} {singular if number == 1 else more or singular + 's'}"


def format_duration(passed: timedelta) -> str:
    """Write a duration in one or two units."""
    seconds = max(0, round(passed.total_seconds()))
    if seconds < 120:
        return f"{seconds} s"
    minutes, hours = seconds // 60, seconds // 3600
    if hours < 2:
        return f"{minutes} min"
    return f"{hours} h {minutes % 60} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterReport:
    """A cluster: whether it answers, and what it has."""

    cluster: str
    answers: bool
    taken_at: datetime | None
    waiting: int | None  # tasks of anybody that could start
    free_slots: int | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueReport:
    """A transfer queue: whether it takes jobs."""

    queue: str
    cluster: str
    is_open: bool
    used: int
    total: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferReport:
    """A transfer and what it waits for."""

    job: str  # 12, or 12.3
    transfer: ShownTransfer
    waits_for: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteReport:
    """Everything; `alarm` says that the rest may be old, and is empty when it is not."""

    alarm: str
    clusters: tuple[ClusterReport, ...] = ()
    queues: tuple[QueueReport, ...] = ()
    transfers: tuple[TransferReport, ...] = ()
    drained: tuple[str, ...] = ()  # clusters that no queue leads to, and why
    late: tuple[str, ...] = ()  # rounds of other programs that don't end, or rest


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferAttempt:
    """One attempt to run a task elsewhere in words: where it is, both sides, what it waits for."""

    transfer: ShownTransfer
    where: str
    here: str
    there: str
    waits_for: str  # empty once it is over
    events: tuple[ShownEvent, ...]
    left_out: int = 0  # events between the first and the last ones


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskExplanation:
    """A local task with its attempts, the newest last."""

    job: str
    attempts: tuple[TransferAttempt, ...]
    left_out: int = 0  # earlier ones


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedDecision:
    """A program's decision, a row of the state file; its inputs suffice to decide again."""

    number: int
    at: datetime
    program: str
    sentence: str
    inputs: Mapping[str, object]  # as JSON has them
