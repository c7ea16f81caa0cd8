"""The decision journal: decisions of programs, with the inputs from which each decision can be replayed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import Column, Table, Text, delete, func, insert, literal, or_, select

from gridbridge.errors import GridbridgeError
from gridbridge.model.published_status_and_reports import JournalledProgramDecision
from gridbridge.state import column_types
from gridbridge.state.state_file import StateFile

KEPT_BYTES = 64 << 20  # at most this many bytes of all decisions; the oldest are deleted first
ROWS = 100  # at most this many transfers, tasks or nodes in one entry
MOST_TOLD = 20  # at most this many actions in the sentence of an entry


class InputsNotJournalled(GridbridgeError):
    """An error for a decision that cannot be replayed, because the journal lacks some inputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionJournalEntry:
    """A decision of a program for the journal, with inputs as JSON values."""

    at: datetime
    program: str
    sentence: str
    inputs: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ProgramDecisionReplay:
    """Functions that replay the journalled decisions of one program, and show the decisions to people."""

    name: str
    replay: Callable[[Mapping[str, Any]], list[str]]  # turns stored inputs into action sentences
    summarize: Callable[[Sequence[str]], list[str]] = list  # merges equal actions


def make_journal_entry(
    program: str,
    at: datetime,
    inputs: Mapping[str, object],
    actions: Sequence[str],
    sentences: Sequence[str] | None = None,
) -> DecisionJournalEntry:
    """Return a journal entry with the first 20 sentences (by default: actions) and the number of further sentences."""
    sentences = actions if sentences is None else sentences
    texts = [*sentences[:MOST_TOLD]]
    texts += [f"{more} more"] if (more := len(sentences) - MOST_TOLD) > 0 else []
    stored = {**inputs, "actions": list(actions)}
    return DecisionJournalEntry(at=at, program=program, sentence="; ".join(texts), inputs=stored)


DECISIONS = Table(
    "decisions",
    column_types.METADATA,
    column_types.row_number_column("id"),
    *column_types.time_columns("at"),
    *column_types.text_columns("program", "sentence"),
    Column("inputs", column_types.JsonColumn, nullable=False),
)

_DECISION = select(
    DECISIONS.c.id.label("number"), *(DECISIONS.c[name] for name in ("at", "program", "sentence", "inputs"))
)


class DecisionJournal:
    """The decision journal in a state file, for all programs that use this state file."""

    def __init__(self, database: StateFile) -> None:
        self._database = database

    def store_entry(self, entry: DecisionJournalEntry) -> None:
        """Store a decision in the journal; raise StateError if the disk is full."""
        values = {field.name: getattr(entry, field.name) for field in fields(entry)}
        # encoded before the transaction begins, because large inputs take time
        inputs = literal(column_types.to_json_text(values.pop("inputs")), Text)
        self._database.execute(insert(DECISIONS).values(**values, inputs=inputs))

    def find_decision(self, number: int) -> JournalledProgramDecision | None:
        """Return the journalled decision with a number; None if the journal has no such decision."""
        query = _DECISION.where(DECISIONS.c.id == number)
        return next(iter(self._database.read(JournalledProgramDecision, query)), None)

    def last_decisions(self, count: int) -> tuple[JournalledProgramDecision, ...]:
        """Return the newest journalled decisions, sorted from old to new."""
        query = _DECISION.order_by(DECISIONS.c.id.desc()).limit(count)
        return self._database.read(JournalledProgramDecision, query)[::-1]

    def delete_old_decisions(self, before: datetime, most_bytes: int = KEPT_BYTES) -> None:
        """Delete decisions from before a time, then the oldest decisions until `most_bytes` remain."""
        size = func.length(DECISIONS.c.sentence) + func.length(DECISIONS.c.inputs)
        sizes = select(DECISIONS.c.id, func.sum(size).over(order_by=DECISIONS.c.id.desc()).label("bytes")).subquery()
        is_surplus = DECISIONS.c.id.in_(select(sizes.c.id).where(sizes.c.bytes > most_bytes))
        self._database.execute(delete(DECISIONS).where(or_(DECISIONS.c.at < before, is_surplus)))
