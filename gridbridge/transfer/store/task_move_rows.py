"""The table of task moves that rebalancing requests and the poller carries out."""

from dataclasses import asdict, fields
from datetime import datetime

from sqlalchemy import BigInteger, Column, Table, bindparam, delete, select

from gridbridge.model.transfer.transfer_row import (
    IN_FLIGHT,
    TaskMoveStage,
    TaskMoveState,
    TransferKey,
)
from gridbridge.state.database.columns import METADATA, MomentColumn, PrintableText
from gridbridge.state.database.transaction import StateFile

MOVES = Table(
    "transfer_moves",
    METADATA,
    Column("name", PrintableText, primary_key=True),
    Column("uid", BigInteger, primary_key=True, autoincrement=False),
    *(Column(name, PrintableText, nullable=False) for name in ("source", "target")),
    Column("asked_at", MomentColumn, nullable=False),
    *(Column(name, PrintableText, nullable=False) for name in ("stage", "reason")),
    Column("slots", BigInteger, nullable=False, server_default="1"),
)
_MOVING = tuple(MOVES.c[field.name] for field in fields(TaskMoveState))
_OLDEST_FIRST = select(*_MOVING).order_by(MOVES.c.asked_at, MOVES.c.name, MOVES.c.uid)
_IN_FLIGHT = _OLDEST_FIRST.where(MOVES.c.stage.in_(IN_FLIGHT))
_DROPPED = select(MOVES.c.name, MOVES.c.uid).where(
    MOVES.c.stage == TaskMoveStage.DROPPED,
    MOVES.c.asked_at.between(bindparam("at"), bindparam("until")),
)


class TaskMoveRows:
    """The table of moves of tasks that wait at remote clusters."""

    def __init__(self, database: StateFile) -> None:
        self._database = database
        self._upsert = database.upsert(MOVES)

    def put(self, move: TaskMoveState) -> None:
        """Insert or update the move of a task."""
        self._database.execute(self._upsert, asdict(move))

    def in_flight(self) -> tuple[TaskMoveState, ...]:
        """Return the task moves that have not ended, oldest first."""
        rows = map(dict, self._database.rows(_IN_FLIGHT))
        return tuple(TaskMoveState(**row | {"stage": TaskMoveStage(row["stage"])}) for row in rows)

    def dropped(self, at: datetime, until: datetime) -> frozenset[TransferKey]:
        """Return the transfers whose moves were requested in a period and then dropped."""
        rows = self._database.rows(_DROPPED, at=at, until=until)
        return frozenset((row["name"], row["uid"]) for row in rows)

    def forget(self, before: datetime) -> None:
        """Delete ended task moves that were requested before `before`."""
        ended = MOVES.c.stage.not_in(IN_FLIGHT)
        self._database.execute(delete(MOVES).where(ended, MOVES.c.asked_at < before))
