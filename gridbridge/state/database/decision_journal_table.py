"""The table of the decision journal."""

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import Column, Executable, Integer, Table, Text, bindparam, delete, func, insert, or_, select

from gridbridge.model.status_report import JournalledProgramDecision
from gridbridge.state.database.column_types import (
    COUNTED,
    METADATA,
    JsonColumn,
    PrintableTextColumn,
    UtcTimeColumn,
    to_json_text,
)
from gridbridge.state.database.transaction import StateFile

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
    """Reads and writes the table of journalled decisions."""

    def __init__(self, database: StateFile) -> None:
        self._database = database

    def record(self, *, at: datetime, program: str, sentence: str, inputs: Mapping[str, object]) -> None:
        """Insert a decision with its inputs into the journal.

        The inputs are encoded before the transaction begins, because they may be large.
        """
        values = {"of_at": at, "of_program": program, "of_sentence": sentence}
        values["of_inputs"] = to_json_text(inputs)
        self._database.execute(_ADD, values)

    def find(self, number: int) -> JournalledProgramDecision | None:
        """Return the journalled decision of this number; None if it is not in the journal."""
        decisions = self._select(_ONE, number=number)
        return decisions[0] if decisions else None

    def last(self, count: int) -> tuple[JournalledProgramDecision, ...]:
        """Return the newest journalled decisions, oldest first."""
        return self._select(_LAST, count=count)[::-1]

    def forget(self, before: datetime, most_bytes: int) -> None:
        """Delete journalled decisions from before a time, and the oldest beyond `most_bytes`."""
        self._database.execute(_FORGET, {"before": before, "most": most_bytes})

    def _select(self, query: Executable, **values: object) -> tuple[JournalledProgramDecision, ...]:
        return tuple(JournalledProgramDecision(**row) for row in self._database.rows(query, **values))
