"""Store transfers, their histories, and moves of waiting tasks in the state file."""

from dataclasses import asdict, fields
from datetime import datetime

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Executable,
    Index,
    Table,
    and_,
    bindparam,
    delete,
    exists,
    insert,
    or_,
    select,
)

from gridbridge.model.transfer.transfers_and_actions import (
    IN_FLIGHT,
    OwnerSeenInHomeJobList,
    TaskMoveStage,
    Transfer,
    TransferEvent,
    TransferKey,
    WaitingTaskMove,
)
from gridbridge.model.transfer_name import parse_transfer_name
from gridbridge.state.column_types import (
    COUNTED,
    METADATA,
    JobStateColumn,
    PrintableTextColumn,
    TransferMessageColumn,
    UtcTimeColumn,
)
from gridbridge.state.state_file import StateFile


def _text_columns(*names: str) -> tuple[Column[str], ...]:
    return tuple(Column(name, PrintableTextColumn, nullable=False) for name in names)


TRANSFERS = Table(
    "transfers",
    METADATA,
    Column("name", PrintableTextColumn, primary_key=True),
    Column("uid", BigInteger, primary_key=True, autoincrement=False),
    Column("cluster", PrintableTextColumn, nullable=False),
    *(Column(name, BigInteger, nullable=False) for name in ("job", "task")),
    *_text_columns("owner", "remote", "queue", "phase", "record", "wake", "rerun"),
    *(Column(name, UtcTimeColumn, nullable=False) for name in ("created_at", "updated_at")),
    Column("remote_id", BigInteger, nullable=False),
    Column("desired", PrintableTextColumn, nullable=False),
    *(Column(name, JobStateColumn, nullable=False) for name in ("local_state", "remote_state")),
    Column("remote_host", PrintableTextColumn, nullable=False),
    Column("since", UtcTimeColumn),
    Column("missed_polls", BigInteger, nullable=False),
    *(Column(name, UtcTimeColumn) for name in ("missing_since", "seen_at")),
    Column("verdict", TransferMessageColumn),
    Column("closed_at", UtcTimeColumn),
    Column("pinned", Boolean, nullable=False),
    *_text_columns("claim", "claimed", "guard"),
    Column("reguarded", Boolean, nullable=False),
    *_text_columns("reason", "cause", "listed"),
    Index("transfers_closed_at", "closed_at"),
    Index("transfers_task", "cluster", "job", "task"),
)

EVENTS = Table(
    "events",
    METADATA,
    Column("id", COUNTED, primary_key=True),
    Column("name", PrintableTextColumn, nullable=False),
    Column("uid", BigInteger, nullable=False),
    Column("at", UtcTimeColumn, nullable=False),
    Column("text", PrintableTextColumn, nullable=False),
    Index("events_transfer", "name", "uid"),
)

_TRANSFER = tuple(TRANSFERS.c[field.name] for field in fields(Transfer))
_EVENT = tuple(EVENTS.c[field.name] for field in fields(TransferEvent))
_OLDEST_FIRST = select(*_TRANSFER).order_by(TRANSFERS.c.created_at, TRANSFERS.c.name, TRANSFERS.c.uid)
# Queries are built once, because building a query costs more than running the query.
_BY_NAME = _OLDEST_FIRST.where(TRANSFERS.c.name == bindparam("name"), TRANSFERS.c.uid == bindparam("uid"))
_OF_TASK = _OLDEST_FIRST.where(
    TRANSFERS.c.cluster == bindparam("cluster"),
    TRANSFERS.c.job == bindparam("job"),
    TRANSFERS.c.task == bindparam("task"),
)
_OPEN = _OLDEST_FIRST.where(TRANSFERS.c.closed_at.is_(None))
_ENDED = _OLDEST_FIRST.where(TRANSFERS.c.closed_at.is_not(None), TRANSFERS.c.record != "")
_REGUARDED = _OLDEST_FIRST.where(TRANSFERS.c.closed_at.is_not(None), TRANSFERS.c.reguarded)
_CLOSED_SINCE = _OLDEST_FIRST.where(TRANSFERS.c.closed_at >= bindparam("at"))
_UNPROVED = and_(
    TRANSFERS.c.closed_at.is_not(None),
    TRANSFERS.c.record == "",
    TRANSFERS.c.listed != OwnerSeenInHomeJobList.YES,
    ~TRANSFERS.c.reguarded,
)
_EVENTS_OF = (
    select(*_EVENT).where(EVENTS.c.name == bindparam("name"), EVENTS.c.uid == bindparam("uid")).order_by(EVENTS.c.id)
)
_ADD_EVENT = insert(EVENTS)
MOVES = Table(
    "transfer_moves",
    METADATA,
    Column("name", PrintableTextColumn, primary_key=True),
    Column("uid", BigInteger, primary_key=True, autoincrement=False),
    *_text_columns("source", "target"),
    Column("asked_at", UtcTimeColumn, nullable=False),
    *_text_columns("stage", "reason"),
    Column("slots", BigInteger, nullable=False, server_default="1"),
)
_MOVING = tuple(MOVES.c[field.name] for field in fields(WaitingTaskMove))
_MOVES_OLDEST_FIRST = select(*_MOVING).order_by(MOVES.c.asked_at, MOVES.c.name, MOVES.c.uid)
_MOVES_IN_FLIGHT = _MOVES_OLDEST_FIRST.where(MOVES.c.stage.in_(IN_FLIGHT))
_DROPPED_MOVES = select(MOVES.c.name, MOVES.c.uid).where(
    MOVES.c.stage == TaskMoveStage.DROPPED, MOVES.c.asked_at.between(bindparam("at"), bindparam("until"))
)


class TransferRows:
    """The tables of transfers and their events."""

    def __init__(self, database: StateFile) -> None:
        self._database = database
        self._upsert = database.upsert(TRANSFERS)

    def put(self, transfer: Transfer) -> None:
        """Insert or update a transfer; ParseError for an invalid name."""
        name = parse_transfer_name(transfer.name)
        values = {column.name: getattr(transfer, column.name) for column in _TRANSFER}
        values |= {"cluster": name.cluster, "job": name.job, "task": name.task}
        self._database.execute(self._upsert, values)

    def find(self, name: str, uid: int) -> Transfer | None:
        """Return the transfer with this name and owner's uid; None for an unknown transfer."""
        transfers = self._select(_BY_NAME, name=name, uid=uid)
        return transfers[0] if transfers else None

    def of_task(self, cluster: str, job: int, task: int) -> tuple[Transfer, ...]:
        """Return all transfers of a local task, by all owners, the first attempt first."""
        transfers = self._select(_OF_TASK, cluster=cluster, job=job, task=task)
        return tuple(sorted(transfers, key=lambda transfer: (parse_transfer_name(transfer.name).attempt, transfer.uid)))

    def open(self) -> tuple[Transfer, ...]:
        """Return the open transfers, oldest first."""
        return self._select(_OPEN)

    def ended(self) -> tuple[Transfer, ...]:
        """Return the closed transfers whose remote job is still watched, oldest first."""
        return self._select(_ENDED)

    def reguarded(self) -> tuple[Transfer, ...]:
        """Return the closed transfers whose task may still be kept from starting at home, oldest first."""
        return self._select(_REGUARDED)

    def closed_since(self, at: datetime) -> tuple[Transfer, ...]:
        """Return the transfers that closed at or after `at`, oldest first."""
        return self._select(_CLOSED_SINCE, at=at)

    def add_event(self, event: TransferEvent) -> None:
        """Add an event to a transfer's history."""
        self._database.execute(_ADD_EVENT, asdict(event))

    def events(self, name: str, uid: int) -> tuple[TransferEvent, ...]:
        """Return a transfer's events in the order in which they were added."""
        return tuple(TransferEvent(**row) for row in self._database.rows(_EVENTS_OF, name=name, uid=uid))

    def forget(self, before: datetime) -> int:
        """Delete transfers that closed before `before`, with all their events; return the number of transfers.

        Events without a transfer are deleted if they are older than `before`.
        """
        theirs = and_(TRANSFERS.c.name == EVENTS.c.name, TRANSFERS.c.uid == EVENTS.c.uid)
        closed = TRANSFERS.c.closed_at < before
        stray = and_(EVENTS.c.at < before, ~exists().where(theirs))
        with self._database.transaction():
            self._database.execute(delete(EVENTS).where(or_(exists().where(theirs, closed), stray)))
            return self._database.execute(delete(TRANSFERS).where(closed)).rowcount

    def forget_unproved(self, name: str, uid: int) -> None:
        """Delete a closed transfer if no home job list has proved the owner."""
        it, events = (delete(table).where(table.c.name == name, table.c.uid == uid) for table in (TRANSFERS, EVENTS))
        with self._database.transaction():
            if self._database.execute(it.where(_UNPROVED)).rowcount:
                self._database.execute(events)

    def sweep_unproved(self, before: datetime) -> None:
        """Delete transfers that closed before `before` and whose owner is not proved, and their events."""
        closed = and_(TRANSFERS.c.closed_at < before, _UNPROVED)
        theirs = and_(TRANSFERS.c.name == EVENTS.c.name, TRANSFERS.c.uid == EVENTS.c.uid)
        with self._database.transaction():
            self._database.execute(delete(EVENTS).where(exists().where(theirs, closed)))
            self._database.execute(delete(TRANSFERS).where(closed))

    def _select(self, query: Executable, **values: object) -> tuple[Transfer, ...]:
        return tuple(Transfer(**row) for row in self._database.rows(query, **values))


class TaskMoveRows:
    """The table of moves of tasks that wait at remote clusters."""

    def __init__(self, database: StateFile) -> None:
        self._database = database
        self._upsert = database.upsert(MOVES)

    def put(self, move: WaitingTaskMove) -> None:
        """Insert or update the move of a task."""
        self._database.execute(self._upsert, asdict(move))

    def in_flight(self) -> tuple[WaitingTaskMove, ...]:
        """Return the moves that have not ended, oldest first."""
        rows = map(dict, self._database.rows(_MOVES_IN_FLIGHT))
        return tuple(WaitingTaskMove(**row | {"stage": TaskMoveStage(row["stage"])}) for row in rows)

    def dropped(self, at: datetime, until: datetime) -> frozenset[TransferKey]:
        """Return the transfers whose move was requested from `at` to `until` and then given up."""
        rows = self._database.rows(_DROPPED_MOVES, at=at, until=until)
        return frozenset((row["name"], row["uid"]) for row in rows)

    def forget(self, before: datetime) -> None:
        """Delete ended moves that were requested before `before`."""
        ended = MOVES.c.stage.not_in(IN_FLIGHT)
        self._database.execute(delete(MOVES).where(ended, MOVES.c.asked_at < before))
