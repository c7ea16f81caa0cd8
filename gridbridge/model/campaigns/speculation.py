"""Copies of tasks at the end of a campaign: what is looked at, and what is decided."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gridbridge.model.campaigns.campaign import Array, TaskOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class CompetingAttempt:
    """One attempt of a task that had a copy; all of them run for the same task."""

    campaign: int
    task: int
    attempt: int
    array: int
    place: int  # in its array
    cluster: str
    outcome: TaskOutcome
    is_copy: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveAttempt:
    """One attempt that has not ended as far as is known."""

    task: int
    attempt: int
    cluster: str
    elapsed_s: float  # since it began; since it was sent, where its cluster does not answer


@dataclass(frozen=True, slots=True, kw_only=True)
class StragglerTail:
    """The tasks of a campaign near its end of which every live attempt has run for a while."""

    campaign: int
    sent_s: float  # since the last of its tasks was sent
    durations_s: tuple[float, ...]  # of tasks that ended
    live: tuple[LiveAttempt, ...]
    failed_at: Mapping[int, tuple[str, ...]] = field(default_factory=dict)  # clusters, by task


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeculativeAttempts:
    """Tasks of a campaign that get a copy at a cluster."""

    campaign: int
    cluster: str
    tasks: tuple[int, ...]
    beyond_s: int  # they have run for longer


@dataclass(frozen=True, slots=True, kw_only=True)
class SupersededAttempts:
    """Attempts of an array whose tasks have succeeded otherwise: they are ended."""

    array: Array
    places: tuple[range, ...]
    is_whole: bool  # nothing else of the array is left


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCopy:
    """An attempt besides the one that a task is shown by."""

    attempt: int
    cluster: str
    outcome: TaskOutcome
    beyond_s: int | None  # why it was made; None: it is no copy

    @property
    def is_live(self) -> bool:
        """Whether it has not ended as far as is known."""
        return self.outcome is TaskOutcome.PENDING
