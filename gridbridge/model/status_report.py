"""Reports that commands show about the service and about one job."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from gridbridge.model.published import PublishedTransfer, PublishedTransferEvent

FIRST_EVENTS, LAST_EVENTS = 10, 40  # events shown at the begin and end of a long history
UNPRINTABLE = "\N{REPLACEMENT CHARACTER}"  # character shown for a control character


def replace_control_characters(text: str) -> str:
    """Replace control characters of users' texts, which could control a terminal."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else UNPRINTABLE for letter in text)


def number_with_noun(number: int, singular: str, more: str = "") -> str:
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
    waiting: int | None  # number of eligible waiting tasks of all owners
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
class TransferAndAwaitedEvent:
    """A transfer and the event that it waits for."""

    job: str  # local job id, such as 12, or 12.3 for a task of an array
    transfer: PublishedTransfer
    waits_for: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteStatusReport:
    """The whole site report; a nonempty `alarm` says that the report may be old."""

    alarm: str
    clusters: tuple[ClusterStatusReport, ...] = ()
    queues: tuple[TransferQueueReport, ...] = ()
    transfers: tuple[TransferAndAwaitedEvent, ...] = ()
    drained: tuple[str, ...] = ()  # drained clusters without a transfer queue, with reasons
    late: tuple[str, ...] = ()  # findings about stuck or paused rounds of other programs


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferAttemptExplanation:
    """One transfer attempt in words: place, home state, remote state and wait."""

    transfer: PublishedTransfer
    where: str
    here: str
    there: str
    waits_for: str  # event that the transfer waits for; empty: a closed transfer
    events: tuple[PublishedTransferEvent, ...]
    left_out: int = 0  # number of omitted events between the first and the last events


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTaskExplanation:
    """A local task with its transfer attempts, newest last."""

    job: str
    attempts: tuple[TransferAttemptExplanation, ...]
    left_out: int = 0  # number of omitted earlier attempts


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalledProgramDecision:
    """A program's decision from the state file, with the inputs to repeat the decision."""

    number: int
    at: datetime
    program: str
    sentence: str
    inputs: Mapping[str, object]  # JSON values of the decision's inputs
