"""Decisions as the journal keeps them, with the rows from which they can be made again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from gridbridge.errors import GridbridgeError
from gridbridge.state.database import StateFile
from gridbridge.state.database.decisions import DecisionRows

KEPT_BYTES = 64 << 20  # of all decisions together; the oldest go first
ROWS = 100  # transfers, tasks or nodes in one entry; further ones are only counted
MOST_TOLD = 20  # actions in the one sentence


class NotKept(GridbridgeError):
    """A decision can't be made again: it looked at more than is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """A decision that is to be kept, with the rows that it looked at as JSON has them."""

    at: datetime
    program: str
    sentence: str
    inputs: Mapping[str, object]


class JournalledDecision(Protocol):
    """A module of a capability by which a decision that was kept is made again."""

    PROGRAM: str  # under which its decisions are kept

    def again(self, situation: Mapping[str, Any]) -> list[str]:
        """Decide from the rows that were kept; return the actions, one sentence each."""
        ...

    def said(self, actions: Sequence[str]) -> list[str]:
        """Say these actions to people, equal ones in one sentence."""
        ...


def telling(
    program: str,
    at: datetime,
    inputs: Mapping[str, object],
    actions: Sequence[str],
    sentences: Sequence[str] | None = None,
) -> JournalEntry:
    """Return an entry whose sentence has the first actions, and how many more there are.

    `said` is how they are said to people, where that is shorter.
    """
    sentences = actions if sentences is None else sentences
    texts = [*sentences[:MOST_TOLD]]
    texts += [f"{more} more"] if (more := len(sentences) - MOST_TOLD) > 0 else []
    stored = {**inputs, "actions": list(actions)}
    return JournalEntry(at=at, program=program, sentence="; ".join(texts), inputs=stored)


class DecisionJournal:
    """The decisions of programs that have the same state file."""

    def __init__(self, database: StateFile) -> None:
        self._decisions = DecisionRows(database)

    def keep(self, entry: JournalEntry) -> None:
        """Keep a decision; StateError when there is no room for it."""
        self._decisions.record(
            at=entry.at, program=entry.program, sentence=entry.sentence, inputs=entry.inputs
        )

    def forget(self, before: datetime) -> None:
        """Remove decisions from before that time, and the oldest of more than are kept."""
        self._decisions.forget(before, KEPT_BYTES)
