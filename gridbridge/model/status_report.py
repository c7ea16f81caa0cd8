"""Reports that commands show about the service and about one job."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from gridbridge.model.published import PublishedTransfer, PublishedTransferEvent

FIRST_EVENTS, LAST_EVENTS = 10, 40  # events shown of an attempt with more events
UNPRINTABLE = "\N{REPLACEMENT CHARACTER}"  # replaces control characters


def printable_text(text: str) -> str:
    """Replace control characters in people's texts, which could control a terminal."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else UNPRINTABLE for letter in text)


def with_noun(number: int, singular: str, more: str = "") -> str:
    """Return a number with its noun: 1 slot, 2 slots."""
    return f"{number} {singular if number == 1 else more or singular + 's'}"


def format_duration(passed: timedelta) -> str:
    """Format a duration in one or two units."""
    seconds = max(0, round(passed.total_seconds()))
    if seconds < 120:
        return f"{seconds} s"
    minutes, hours = seconds // 60, seconds // 3600
    if hours < 2:
        return f"{minutes} min"
    return f"{hours} h {minutes % 60} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatusReport:
    """Whether a cluster answers, with its waiting tasks and free slots."""

    cluster: str
    answers: bool
    taken_at: datetime | None
    waiting: int | None  # eligible waiting tasks of all owners
    free_slots: int | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferQueueReport:
    """Whether a transfer queue takes jobs, with the reason."""

    queue: str
    cluster: str
    is_open: bool
    used: int
    total: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferReport:
    """A transfer and the event that it waits for."""

    job: str  # 12, or 12.3
    transfer: PublishedTransfer
    waits_for: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteStatusReport:
    """The whole site report; a nonempty `alarm` says that the report may be old."""

    alarm: str
    clusters: tuple[ClusterStatusReport, ...] = ()
    queues: tuple[TransferQueueReport, ...] = ()
    transfers: tuple[TransferReport, ...] = ()
    drained: tuple[str, ...] = ()  # drained clusters without a transfer queue, with reasons
    late: tuple[str, ...] = ()  # stuck or paused rounds of other programs


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferAttemptExplanation:
    """One transfer attempt in words: place, home state, remote state and wait."""

    transfer: PublishedTransfer
    where: str
    here: str
    there: str
    waits_for: str  # empty for a closed transfer
    events: tuple[PublishedTransferEvent, ...]
    left_out: int = 0  # events between the first and the last ones


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTaskExplanation:
    """A local task with its transfer attempts, newest last."""

    job: str
    attempts: tuple[TransferAttemptExplanation, ...]
    left_out: int = 0  # earlier attempts


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedDecision:
    """A program's decision from the state file, with the inputs to repeat it."""

    number: int
    at: datetime
    program: str
    sentence: str
    inputs: Mapping[str, object]  # JSON values
