"""The decision journal: decisions with the inputs from which they can be replayed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gridbridge.errors import GridbridgeError
from gridbridge.state.database import StateFile
from gridbridge.state.database.decision_journal_table import JournalledDecisionRows

KEPT_BYTES = 64 << 20  # most bytes of all decisions; the oldest are deleted first
ROWS = 100  # most transfers, tasks or nodes in one entry; the rest is counted
MOST_TOLD = 20  # actions in an entry's sentence


class InputsNotJournalled(GridbridgeError):
    """A decision cannot be replayed, because the journal lacks some of its inputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionJournalEntry:
    """A decision for the journal, with its inputs as JSON values."""

    at: datetime
    program: str
    sentence: str
    inputs: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ProgramDecisionReplay:
    """How the journalled decisions of a program are replayed and shown to people."""

    name: str  # the program's name in the journal
    replay: Callable[[Mapping[str, Any]], list[str]]  # stored inputs to action sentences
    summarize: Callable[[Sequence[str]], list[str]] = list  # merges equal actions


def make_journal_entry(
    program: str,
    at: datetime,
    inputs: Mapping[str, object],
    actions: Sequence[str],
    sentences: Sequence[str] | None = None,
) -> DecisionJournalEntry:
    """Return a journal entry whose sentence lists the first 20 actions and counts the rest.

    `sentences` are shorter texts of the actions for people.
    """
    sentences = actions if sentences is None else sentences
    texts = [*sentences[:MOST_TOLD]]
    texts += [f"{more} more"] if (more := len(sentences) - MOST_TOLD) > 0 else []
    stored = {**inputs, "actions": list(actions)}
    return DecisionJournalEntry(at=at, program=program, sentence="; ".join(texts), inputs=stored)


class DecisionJournal:
    """The decision journal in a state file, for all programs that share the file."""

    def __init__(self, database: StateFile) -> None:
        self._decisions = JournalledDecisionRows(database)

    def keep(self, entry: DecisionJournalEntry) -> None:
        """Store a decision in the journal; StateError if the disk is full."""
        self._decisions.record(at=entry.at, program=entry.program, sentence=entry.sentence, inputs=entry.inputs)

    def forget(self, before: datetime) -> None:
        """Delete journalled decisions from before a time, and the oldest beyond 64 MB."""
        self._decisions.forget(before, KEPT_BYTES)
