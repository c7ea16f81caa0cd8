"""Store transfers, their histories, and moves of waiting tasks in the state file."""

from dataclasses import asdict, fields
from datetime import datetime

import sqlalchemy as sql

from gridbridge.model.transfer import transfers_and_actions
from gridbridge.model.transfer.transfers_and_actions import TaskMoveStage, Transfer, TransferEvent, WaitingTaskMove
from gridbridge.model.transfer_name import parse_transfer_name
from gridbridge.state import column_types
from gridbridge.state.column_types import JobStateColumn, PrintableTextColumn, TransferMessageColumn, UtcTimeColumn
from gridbridge.state.state_file import StateFile


def _text_columns(*names: str) -> tuple[sql.Column[str], ...]:
    return tuple(sql.Column(name, PrintableTextColumn, nullable=False) for name in names)


TRANSFERS = sql.Table(
    "transfers",
    column_types.METADATA,
    sql.Column("name", PrintableTextColumn, primary_key=True),
    sql.Column("uid", sql.BigInteger, primary_key=True, autoincrement=False),
    sql.Column("cluster", PrintableTextColumn, nullable=False),
    *(sql.Column(name, sql.BigInteger, nullable=False) for name in ("job", "task")),
    *_text_columns("owner", "remote", "queue", "phase", "record", "wake", "rerun"),
    *(sql.Column(name, UtcTimeColumn, nullable=False) for name in ("created_at", "updated_at")),
    sql.Column("remote_id", sql.BigInteger, nullable=False),
    sql.Column("desired", PrintableTextColumn, nullable=False),
    *(sql.Column(name, JobStateColumn, nullable=False) for name in ("local_state", "remote_state")),
    sql.Column("remote_host", PrintableTextColumn, nullable=False),
    sql.Column("since", UtcTimeColumn),
    sql.Column("missed_polls", sql.BigInteger, nullable=False),
    *(sql.Column(name, UtcTimeColumn) for name in ("missing_since", "seen_at")),
    sql.Column("verdict", TransferMessageColumn),
    sql.Column("closed_at", UtcTimeColumn),
    sql.Column("pinned", sql.Boolean, nullable=False),
    *_text_columns("claim", "claimed", "guard"),
    sql.Column("reguarded", sql.Boolean, nullable=False),
    *_text_columns("reason", "cause", "listed"),
    sql.Index("transfers_closed_at", "closed_at"),
    sql.Index("transfers_task", "cluster", "job", "task"),
)

EVENTS = sql.Table(
    "events",
    column_types.METADATA,
    sql.Column("id", column_types.COUNTED, primary_key=True),
    sql.Column("name", PrintableTextColumn, nullable=False),
    sql.Column("uid", sql.BigInteger, nullable=False),
    sql.Column("at", UtcTimeColumn, nullable=False),
    sql.Column("text", PrintableTextColumn, nullable=False),
    sql.Index("events_transfer", "name", "uid"),
)

_TRANSFER = tuple(TRANSFERS.c[field.name] for field in fields(Transfer))
_EVENT = tuple(EVENTS.c[field.name] for field in fields(TransferEvent))
_OLDEST_FIRST = sql.select(*_TRANSFER).order_by(TRANSFERS.c.created_at, TRANSFERS.c.name, TRANSFERS.c.uid)
# Queries are built once, because building a query costs more than running the query.
_BY_NAME = _OLDEST_FIRST.where(TRANSFERS.c.name == sql.bindparam("name"), TRANSFERS.c.uid == sql.bindparam("uid"))
_OF_TASK = _OLDEST_FIRST.where(
    TRANSFERS.c.cluster == sql.bindparam("cluster"),
    TRANSFERS.c.job == sql.bindparam("job"),
    TRANSFERS.c.task == sql.bindparam("task"),
)
_OPEN = _OLDEST_FIRST.where(TRANSFERS.c.closed_at.is_(None))
_ENDED = _OLDEST_FIRST.where(TRANSFERS.c.closed_at.is_not(None), TRANSFERS.c.record != "")
_REGUARDED = _OLDEST_FIRST.where(TRANSFERS.c.closed_at.is_not(None), TRANSFERS.c.reguarded)
_CLOSED_SINCE = _OLDEST_FIRST.where(TRANSFERS.c.closed_at >= sql.bindparam("at"))
_UNPROVED = sql.and_(
    TRANSFERS.c.closed_at.is_not(None),
    TRANSFERS.c.record == "",
    TRANSFERS.c.listed != transfers_and_actions.OwnerSeenInHomeJobList.YES,
    ~TRANSFERS.c.reguarded,
)
_EVENTS_OF = (
    sql.select(*_EVENT)
    .where(EVENTS.c.name == sql.bindparam("name"), EVENTS.c.uid == sql.bindparam("uid"))
    .order_by(EVENTS.c.id)
)
_ADD_EVENT = sql.insert(EVENTS)
MOVES = sql.Table(
    "transfer_moves",
    column_types.METADATA,
    sql.Column("name", PrintableTextColumn, primary_key=True),
    sql.Column("uid", sql.BigInteger, primary_key=True, autoincrement=False),
    *_text_columns("source", "target"),
    sql.Column("asked_at", UtcTimeColumn, nullable=False),
    *_text_columns("stage", "reason"),
    sql.Column("slots", sql.BigInteger, nullable=False, server_default="1"),
)
_MOVING = tuple(MOVES.c[field.name] for field in fields(WaitingTaskMove))
_MOVES_OLDEST_FIRST = sql.select(*_MOVING).order_by(MOVES.c.asked_at, MOVES.c.name, MOVES.c.uid)
_MOVES_IN_FLIGHT = _MOVES_OLDEST_FIRST.where(MOVES.c.stage.in_(transfers_and_actions.IN_FLIGHT))
_DROPPED_MOVES = sql.select(MOVES.c.name, MOVES.c.uid).where(
    MOVES.c.stage == TaskMoveStage.DROPPED, MOVES.c.asked_at.between(sql.bindparam("at"), sql.bindparam("until"))
)


class TransferRows:
    def __init__(self, database: StateFile) -> None:
        self._database = database
        self._upsert = database.upsert(TRANSFERS)

    def insert_or_update_transfer(self, transfer: Transfer) -> None:
        """Insert or update a transfer; raise ParseError for an invalid name."""
        name = parse_transfer_name(transfer.name)
        values = {column.name: getattr(transfer, column.name) for column in _TRANSFER}
        values |= {"cluster": name.cluster, "job": name.job, "task": name.task}
        self._database.execute(self._upsert, values)

    def find_transfer(self, name: str, uid: int) -> Transfer | None:
        return next(iter(self._select_transfers(_BY_NAME, name=name, uid=uid)), None)

    def transfers_of_task(self, cluster: str, job: int, task: int) -> tuple[Transfer, ...]:
        """Return all transfers of a local task, by all owners, the first attempt first."""
        transfers = self._select_transfers(_OF_TASK, cluster=cluster, job=job, task=task)
        return tuple(sorted(transfers, key=lambda transfer: (parse_transfer_name(transfer.name).attempt, transfer.uid)))

    def open_transfers(self) -> tuple[Transfer, ...]:
        """Return the open transfers, oldest first."""
        return self._select_transfers(_OPEN)

    def watched_closed_transfers(self) -> tuple[Transfer, ...]:
        """Return the closed transfers with a watched remote job, oldest first."""
        return self._select_transfers(_ENDED)

    def closed_transfers_with_guard(self) -> tuple[Transfer, ...]:
        """Return the closed transfers whose task at home may still have a guard, oldest first."""
        return self._select_transfers(_REGUARDED)

    def transfers_closed_since(self, at: datetime) -> tuple[Transfer, ...]:
        """Return the transfers that closed at or after `at`, oldest first."""
        return self._select_transfers(_CLOSED_SINCE, at=at)

    def add_transfer_event(self, event: TransferEvent) -> None:
        self._database.execute(_ADD_EVENT, asdict(event))

    def events_of_transfer(self, name: str, uid: int) -> tuple[TransferEvent, ...]:
        """Return a transfer's events in the order in which they were added."""
        return tuple(TransferEvent(**row) for row in self._database.rows(_EVENTS_OF, name=name, uid=uid))

    def delete_closed_transfers(self, before: datetime) -> int:
        """Delete transfers that closed before a time, and old events; return how many transfers were deleted."""
        theirs = sql.and_(TRANSFERS.c.name == EVENTS.c.name, TRANSFERS.c.uid == EVENTS.c.uid)
        closed = TRANSFERS.c.closed_at < before
        stray = sql.and_(EVENTS.c.at < before, ~sql.exists().where(theirs))
        with self._database.transaction():
            self._database.execute(sql.delete(EVENTS).where(sql.or_(sql.exists().where(theirs, closed), stray)))
            return self._database.execute(sql.delete(TRANSFERS).where(closed)).rowcount

    def delete_unproved_transfer(self, name: str, uid: int) -> None:
        """Delete a closed transfer if its owner is not proved."""
        it, events = (
            sql.delete(table).where(table.c.name == name, table.c.uid == uid) for table in (TRANSFERS, EVENTS)
        )
        with self._database.transaction():
            if self._database.execute(it.where(_UNPROVED)).rowcount:
                self._database.execute(events)

    def delete_unproved_transfers(self, before: datetime) -> None:
        """Delete unproved transfers that closed before `before`, and their events."""
        closed = sql.and_(TRANSFERS.c.closed_at < before, _UNPROVED)
        theirs = sql.and_(TRANSFERS.c.name == EVENTS.c.name, TRANSFERS.c.uid == EVENTS.c.uid)
        with self._database.transaction():
            self._database.execute(sql.delete(EVENTS).where(sql.exists().where(theirs, closed)))
            self._database.execute(sql.delete(TRANSFERS).where(closed))

    def _select_transfers(self, query: sql.Executable, **values: object) -> tuple[Transfer, ...]:
        return tuple(Transfer(**row) for row in self._database.rows(query, **values))


class TaskMoveRows:
    def __init__(self, database: StateFile) -> None:
        self._database = database
        self._upsert = database.upsert(MOVES)

    def insert_or_update_task_move(self, move: WaitingTaskMove) -> None:
        self._database.execute(self._upsert, asdict(move))

    def unfinished_task_moves(self) -> tuple[WaitingTaskMove, ...]:
        """Return the moves that have not ended, oldest first."""
        rows = map(dict, self._database.rows(_MOVES_IN_FLIGHT))
        return tuple(WaitingTaskMove(**row | {"stage": TaskMoveStage(row["stage"])}) for row in rows)

    def transfers_with_abandoned_move(
        self, at: datetime, until: datetime
    ) -> frozenset[transfers_and_actions.TransferKey]:
        """Return the transfers whose move was requested between `at` and `until`, and given up later."""
        rows = self._database.rows(_DROPPED_MOVES, at=at, until=until)
        return frozenset((row["name"], row["uid"]) for row in rows)

    def delete_ended_task_moves(self, before: datetime) -> None:
        ended = MOVES.c.stage.not_in(transfers_and_actions.IN_FLIGHT)
        self._database.execute(sql.delete(MOVES).where(ended, MOVES.c.asked_at < before))
