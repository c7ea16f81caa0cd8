"""The decision journal: decisions of programs, with the inputs from which each decision can be replayed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Column, Executable, Integer, Table, Text, bindparam, delete, func, insert, or_, select

from gridbridge.errors import GridbridgeError
from gridbridge.model.published_status_and_reports import JournalledProgramDecision
from gridbridge.state.column_types import (
    COUNTED,
    METADATA,
    JsonColumn,
    PrintableTextColumn,
    UtcTimeColumn,
    to_json_text,
)
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
    """Return a journal entry whose sentence names the first 20 actions and counts the others.

    `sentences` are shorter texts of the actions for people.
    """
    sentences = actions if sentences is None else sentences
    texts = [*sentences[:MOST_TOLD]]
    texts += [f"{more} more"] if (more := len(sentences) - MOST_TOLD) > 0 else []
    stored = {**inputs, "actions": list(actions)}
    return DecisionJournalEntry(at=at, program=program, sentence="; ".join(texts), inputs=stored)


class DecisionJournal:
    """The decision journal in a state file, for all programs that use this state file."""

    def __init__(self, database: StateFile) -> None:
        self._decisions = JournalledDecisionRows(database)

    def keep(self, entry: DecisionJournalEntry) -> None:
        """Store a decision in the journal; raise StateError if the disk is full."""
        self._decisions.record(at=entry.at, program=entry.program, sentence=entry.sentence, inputs=entry.inputs)

    def forget(self, before: datetime) -> None:
        """Delete decisions from before a time, then the oldest decisions until the journal has at most 64 MB."""
        self._decisions.forget(before, KEPT_BYTES)


DECISIONS = Table(
    "decisions",
    METADATA,
    Column("id", COUNTED, primary_key=True),
    Column("at", UtcTimeColumn, nullable=False),
    Column("program", PrintableTextColumn, nullable=False),
    Column("sentence", PrintableTextColumn, nullable=False),
    Column("inputs", JsonColumn, nullable=False),
)

_DECISION = (DECISIONS.c.id.label("number"), *(DECISIONS.c[name] for name in ("at", "program", "sentence", "inputs")))
_ONE = select(*_DECISION).where(DECISIONS.c.id == bindparam("number"))
_LAST = select(*_DECISION).order_by(DECISIONS.c.id.desc()).limit(bindparam("count", type_=Integer))
_SIZE = func.length(DECISIONS.c.sentence) + func.length(DECISIONS.c.inputs)
_SIZES = select(DECISIONS.c.id, func.sum(_SIZE).over(order_by=DECISIONS.c.id.desc()).label("bytes")).subquery()
_FORGET = delete(DECISIONS).where(
    or_(
        DECISIONS.c.at < bindparam("before"),
        DECISIONS.c.id.in_(select(_SIZES.c.id).where(_SIZES.c.bytes > bindparam("most"))),
    )
)
_ADD = insert(DECISIONS).values(
    at=bindparam("of_at"),
    program=bindparam("of_program"),
    sentence=bindparam("of_sentence"),
    inputs=bindparam("of_inputs", type_=Text),
)


class JournalledDecisionRows:
    """Reads and writes the journal's table of decisions."""

    def __init__(self, database: StateFile) -> None:
        self._database = database

    def record(self, *, at: datetime, program: str, sentence: str, inputs: Mapping[str, object]) -> None:
        """Insert a decision with its inputs into the journal.

        The inputs are encoded before the transaction begins, because large inputs take time.
        """
        values = {"of_at": at, "of_program": program, "of_sentence": sentence}
        values["of_inputs"] = to_json_text(inputs)
        self._database.execute(_ADD, values)

    def find(self, number: int) -> JournalledProgramDecision | None:
        """Return the journalled decision with a number; None if the journal has no such decision."""
        decisions = self._select(_ONE, number=number)
        return decisions[0] if decisions else None

    def last(self, count: int) -> tuple[JournalledProgramDecision, ...]:
        """Return the newest journalled decisions, sorted from old to new."""
        return self._select(_LAST, count=count)[::-1]

    def forget(self, before: datetime, most_bytes: int) -> None:
        """Delete decisions from before a time, then the oldest decisions until `most_bytes` remain."""
        self._database.execute(_FORGET, {"before": before, "most": most_bytes})

    def _select(self, query: Executable, **values: object) -> tuple[JournalledProgramDecision, ...]:
        return tuple(JournalledProgramDecision(**row) for row in self._database.rows(query, **values))
