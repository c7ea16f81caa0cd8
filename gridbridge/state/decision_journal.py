"""The decision journal: decisions of programs, with the inputs needed to make each decision again."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import Column, ColumnElement, Table, Text, delete, func, insert, literal, or_, select

from gridbridge.errors import GridbridgeError
from gridbridge.model.published_status_and_reports import JournalledDecisionWithInputs
from gridbridge.state import column_types
from gridbridge.state.state_file import StateFile

KEPT_BYTES = 64 << 20  # the journal keeps only the newest decisions, up to this size
ROWS = 100  # an entry has at most this many transfers, tasks or nodes
MOST_TOLD = 20  # the sentence of an entry names at most this many actions


class InputsNotJournalled(GridbridgeError):
    """Raised if the journal lacks inputs that are needed to repeat a decision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionJournalEntry:
    at: datetime
    program: str
    sentence: str
    inputs: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ProgramDecisionReplay:
    name: str
    replay: Callable[[Mapping[str, Any]], list[str]]  # decides again from inputs; returns a sentence for each action
    summarize: Callable[[Sequence[str]], list[str]] = list  # merges sentences about equal actions


def make_journal_entry(
    program: str,
    at: datetime,
    inputs: Mapping[str, object],
    actions: Sequence[str],
    sentences: Sequence[str] | None = None,
) -> DecisionJournalEntry:
    """Return a journal entry; its sentence names the first 20 `sentences`, by default the actions."""
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
    def __init__(self, database: StateFile) -> None:
        self._database = database
        self._new_bytes = 0  # bytes stored since the last deletion

    def store_decision(self, entry: DecisionJournalEntry) -> None:
        """Store a decision in the journal; raise StateError if the disk is full.

        After each KEPT_BYTES the oldest decisions are deleted, because thousands of campaigns make long decisions.
        """
        values = {field.name: getattr(entry, field.name) for field in fields(entry)}
        # encoded before the transaction begins, because this takes long for large inputs
        text = column_types.to_json_text(values.pop("inputs"))
        self._database.execute(insert(DECISIONS).values(**values, inputs=literal(text, Text)))
        self._new_bytes += len(text)
        if self._new_bytes > KEPT_BYTES:
            self._database.execute(delete(DECISIONS).where(_is_beyond_size_limit(KEPT_BYTES)))
            self._new_bytes = 0

    def find_decision(self, number: int) -> JournalledDecisionWithInputs | None:
        query = _DECISION.where(DECISIONS.c.id == number)
        return next(iter(self._database.query_rows_as(JournalledDecisionWithInputs, query)), None)

    def last_decisions(self, count: int) -> tuple[JournalledDecisionWithInputs, ...]:
        """Return the newest journalled decisions, sorted from old to new."""
        query = _DECISION.order_by(DECISIONS.c.id.desc()).limit(count)
        return self._database.query_rows_as(JournalledDecisionWithInputs, query)[::-1]

    def delete_old_decisions(self, before: datetime, most_bytes: int = KEPT_BYTES) -> None:
        """Delete decisions from before a time, and then the oldest until at most `most_bytes` remain."""
        self._database.execute(delete(DECISIONS).where(or_(DECISIONS.c.at < before, _is_beyond_size_limit(most_bytes))))


def _is_beyond_size_limit(most_bytes: int) -> ColumnElement[bool]:
    """Return the SQL condition for the oldest decisions, after whose deletion at most `most_bytes` remain."""
    size = func.length(DECISIONS.c.sentence) + func.length(DECISIONS.c.inputs)
    sizes = select(DECISIONS.c.id, func.sum(size).over(order_by=DECISIONS.c.id.desc()).label("bytes")).subquery()
    return DECISIONS.c.id.in_(select(sizes.c.id).where(sizes.c.bytes > most_bytes))
