"""The state file's verbs: what is kept of transfers, snapshots and decisions."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, fields
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import (
    Connection,
    CursorResult,
    Engine,
    Executable,
    Integer,
    RowMapping,
    Table,
    and_,
    bindparam,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite

from gridbridge.errors import StateError
from gridbridge.model.accounting import PER_TRANSFER, Cursor, Place, RemoteRecord, Source
from gridbridge.model.decision import Decision
from gridbridge.model.ids import parse_transfer
from gridbridge.model.transfer.transfer import Event, Listed, Transfer
from gridbridge.state.database.file import open_engine, telling
from gridbridge.state.database.schema import (
    CURSORS,
    DECISIONS,
    EVENTS,
    REMOTE_RECORDS,
    SNAPSHOTS,
    TRANSFERS,
)

ALWAYS = datetime(1, 1, 2, tzinfo=UTC)  # before anything was kept; a zone may be a day behind
_TRANSFER = tuple(TRANSFERS.c[field.name] for field in fields(Transfer))
_EVENT = tuple(EVENTS.c[field.name] for field in fields(Event))
_RECORD = tuple(REMOTE_RECORDS.c[field.name] for field in fields(RemoteRecord))
_OLDEST_FIRST = select(*_TRANSFER).order_by(
    TRANSFERS.c.created_at, TRANSFERS.c.name, TRANSFERS.c.uid
)
# Built once: building a query costs more than running it.
_BY_NAME = _OLDEST_FIRST.where(
    TRANSFERS.c.name == bindparam("name"), TRANSFERS.c.uid == bindparam("uid")
)
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
    TRANSFERS.c.listed != Listed.YES,
    ~TRANSFERS.c.reguarded,
)
_EVENTS_OF = (
    select(*_EVENT)
    .where(EVENTS.c.name == bindparam("name"), EVENTS.c.uid == bindparam("uid"))
    .order_by(EVENTS.c.id)
)
_RECORDS_OF = (
    select(*_RECORD)
    .where(
        REMOTE_RECORDS.c.home == bindparam("home"),
        REMOTE_RECORDS.c.job == bindparam("job"),
        REMOTE_RECORDS.c.task == bindparam("task"),
        REMOTE_RECORDS.c.kept_at >= bindparam("since"),
    )
    .order_by(REMOTE_RECORDS.c.ended_at, REMOTE_RECORDS.c.mark)
)
_DECISION = (
    DECISIONS.c.id.label("number"),
    *(DECISIONS.c[name] for name in ("at", "program", "sentence", "inputs")),
)
_ONE_DECISION = select(*_DECISION).where(DECISIONS.c.id == bindparam("number"))
_LAST_DECISIONS = (
    select(*_DECISION).order_by(DECISIONS.c.id.desc()).limit(bindparam("count", type_=Integer))
)
_SIZE = func.length(DECISIONS.c.sentence) + func.length(DECISIONS.c.inputs)
_SIZES = select(
    DECISIONS.c.id, func.sum(_SIZE).over(order_by=DECISIONS.c.id.desc()).label("bytes")
).subquery()
_FORGET_DECISIONS = delete(DECISIONS).where(
    or_(
        DECISIONS.c.at < bindparam("before"),
        DECISIONS.c.id.in_(select(_SIZES.c.id).where(_SIZES.c.bytes > bindparam("most"))),
    )
)
_ADD_EVENT, _ADD_SNAPSHOT, _ADD_DECISION = insert(EVENTS), insert(SNAPSHOTS), insert(DECISIONS)


class Database:
    """The state file, open; for one thread.

    Every method is one transaction unless `transaction()` groups several. Each raises
    StateError when the file can't be read or written; nothing of that transaction is kept then,
    and the next one may succeed.
    """

    def __init__(self, engine: Engine, name: str) -> None:
        self._engine = engine
        self._name = name
        self._upsert = _upsert(engine.dialect.name, TRANSFERS)
        self._upsert_cursor = _upsert(engine.dialect.name, CURSORS)
        self._upsert_record = _upsert(engine.dialect.name, REMOTE_RECORDS)
        self._connection: Connection | None = None
        self._group: ExitStack | None = None
        self._failed = False

    @classmethod
    def open(cls, url: str) -> "Database":
        """Open the state at `sqlite:////PATH` or `postgresql://...`, made or migrated first.

        Raises StateError for a newer schema, and for anything that is not a state file or can't
        be written.
        """
        return cls(*open_engine(url))

    def close(self) -> None:
        """Close the file."""
        self._engine.dispose()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Group changes: all of them are kept, or none. It costs nothing until there is one.

        Once one of them has failed none is kept, even if the caller goes on: a full disk makes
        SQLite roll back by itself.
        """
        if self._group is not None:
            yield
            return
        with ExitStack() as group:
            self._group = group
            try:
                yield
            finally:
                self._group = None

    def put(self, transfer: Transfer) -> None:
        """Keep a transfer, new or changed; ParseError when its name is none."""
        name = parse_transfer(transfer.name)
        values = {column.name: getattr(transfer, column.name) for column in _TRANSFER}
        values |= {"cluster": name.cluster, "job": name.job, "task": name.task}
        self._execute(self._upsert, values)

    def transfer(self, name: str, uid: int) -> Transfer | None:
        """Look a transfer up."""
        found = self._transfers(_BY_NAME, name=name, uid=uid)
        return found[0] if found else None

    def transfers_of(self, cluster: str, job: int, task: int) -> tuple[Transfer, ...]:
        """Return every attempt to run a local task elsewhere, by anybody, first attempt first."""
        found = self._transfers(_OF_TASK, cluster=cluster, job=job, task=task)
        return tuple(sorted(found, key=lambda one: (parse_transfer(one.name).attempt, one.uid)))

    def open_transfers(self) -> tuple[Transfer, ...]:
        """Return the transfers of which something may live, oldest first."""
        return self._transfers(_OPEN)

    def ended_transfers(self) -> tuple[Transfer, ...]:
        """Return the closed transfers whose remote jobs may still be listed, oldest first."""
        return self._transfers(_ENDED)

    def reguarded_transfers(self) -> tuple[Transfer, ...]:
        """Return the closed transfers whose tasks may have a guard still, oldest first."""
        return self._transfers(_REGUARDED)

    def closed_since(self, at: datetime) -> tuple[Transfer, ...]:
        """Return the transfers that closed at that time or later, oldest first."""
        return self._transfers(_CLOSED_SINCE, at=at)

    def add_event(self, event: Event) -> None:
        """Add a line to a transfer's history."""
        self._execute(_ADD_EVENT, asdict(event))

    def events(self, name: str, uid: int) -> tuple[Event, ...]:
        """Return a transfer's history in the order in which it was written."""
        return tuple(Event(**row) for row in self._rows(_EVENTS_OF, name=name, uid=uid))

    def record_snapshot(
        self,
        *,
        cluster: str,
        taken_at: datetime,
        ok: bool,
        took: timedelta,
        summary: Mapping[str, object],
    ) -> None:
        """Record that a cluster was asked, how long it took, and in short what it answered."""
        values = {"cluster": cluster, "taken_at": taken_at, "ok": ok}
        values |= {"took_s": took.total_seconds(), "summary": _json(summary)}
        self._execute(_ADD_SNAPSHOT, values)

    def record_decision(
        self, *, at: datetime, program: str, sentence: str, inputs: Mapping[str, object]
    ) -> None:
        """Record what a program decided, and from which rows."""
        values = {"at": at, "program": program, "sentence": sentence, "inputs": _json(inputs)}
        self._execute(_ADD_DECISION, values)

    def decision(self, number: int) -> Decision | None:
        """Look a decision up."""
        found = self._decisions(_ONE_DECISION, number=number)
        return found[0] if found else None

    def last_decisions(self, count: int) -> tuple[Decision, ...]:
        """Return the newest decisions, oldest first."""
        return self._decisions(_LAST_DECISIONS, count=count)[::-1]

    def forget_decisions(self, before: datetime, most_bytes: int) -> None:
        """Remove what was decided before that time, and the oldest of what is more than so much."""
        self._execute(_FORGET_DECISIONS, {"before": before, "most": most_bytes})

    def _decisions(self, query: Executable, **values: object) -> tuple[Decision, ...]:
        return tuple(
            Decision(**{**row, "inputs": json.loads(row["inputs"])})
            for row in self._rows(query, **values)
        )

    def put_cursor(self, cursor: Cursor) -> None:
        """Keep how far a cluster's accounting was read."""
        place = asdict(cursor.place)
        values = place | {"device": str(place["device"]), "inode": str(place["inode"])}
        values |= {"cluster": cursor.cluster, "path": cursor.path, "skipped": cursor.skipped}
        self._execute(self._upsert_cursor, values)

    def cursors(self) -> tuple[Cursor, ...]:
        """Return how far each cluster's accounting was read."""
        return tuple(_cursor(row) for row in self._rows(select(CURSORS)))

    def put_record(self, record: RemoteRecord, at: datetime) -> tuple[RemoteRecord, ...]:
        """Keep what a remote job used, once; return all that its task has now.

        None is added to more than enough of a transfer and owner. ParseError when it names no
        transfer.
        """
        name = parse_transfer(record.transfer)
        known = self.records_of(name.cluster, name.job, name.task)
        others = [one for one in known if _key(one) != _key(record)]
        theirs = [one for one in others if one.owner == record.owner]
        if [one.transfer for one in theirs].count(record.transfer) >= PER_TRANSFER:
            return known
        values = {column.name: getattr(record, column.name) for column in _RECORD}
        values |= {"home": name.cluster, "job": name.job, "task": name.task, "kept_at": at}
        self._execute(self._upsert_record, values)
        return (*others, record)

    def records_of(
        self, home: str, job: int, task: int, since: datetime | None = None
    ) -> tuple[RemoteRecord, ...]:
        """Return what the remote jobs of a local task used, in the order in which they ended.

        With `since` only what was kept from then on.
        """
        rows = self._rows(_RECORDS_OF, home=home, job=job, task=task, since=since or ALWAYS)
        return tuple(RemoteRecord(**{**row, "source": Source(row["source"])}) for row in rows)

    def forget_records(self, before: datetime) -> None:
        """Remove what was kept of remote jobs before that time."""
        self._execute(delete(REMOTE_RECORDS).where(REMOTE_RECORDS.c.kept_at < before))

    def forget(self, before: datetime) -> int:
        """Remove transfers closed before that time and all older records; return how many.

        Counted are the transfers. Their events go with them, whatever their time; those of
        transfers that were never kept go by their own time.
        """
        theirs = and_(TRANSFERS.c.name == EVENTS.c.name, TRANSFERS.c.uid == EVENTS.c.uid)
        closed = TRANSFERS.c.closed_at < before
        stray = and_(EVENTS.c.at < before, ~exists().where(theirs))
        with self.transaction():
            self._execute(delete(EVENTS).where(or_(exists().where(theirs, closed), stray)))
            self._execute(delete(SNAPSHOTS).where(SNAPSHOTS.c.taken_at < before))
            return self._execute(delete(TRANSFERS).where(closed)).rowcount

    def forget_unproved(self, name: str, uid: int) -> None:
        """Remove a transfer that is over and at rest, and that home's list did not prove."""
        it, events = (
            delete(table).where(table.c.name == name, table.c.uid == uid)
            for table in (TRANSFERS, EVENTS)
        )
        with self.transaction():
            if self._execute(it.where(_UNPROVED)).rowcount:
                self._execute(events)

    def sweep_unproved(self, before: datetime) -> None:
        """Remove all such that closed before that time, with their events."""
        gone = and_(TRANSFERS.c.closed_at < before, _UNPROVED)
        theirs = and_(TRANSFERS.c.name == EVENTS.c.name, TRANSFERS.c.uid == EVENTS.c.uid)
        with self.transaction():
            self._execute(delete(EVENTS).where(exists().where(theirs, gone)))
            self._execute(delete(TRANSFERS).where(gone))

    def _transfers(self, query: Executable, **values: object) -> tuple[Transfer, ...]:
        return tuple(Transfer(**row) for row in self._rows(query, **values))

    def _rows(self, query: Executable, **values: object) -> Sequence[RowMapping]:
        with self._begun() as connection, telling(self._name):
            return connection.execute(query, values).mappings().all()

    def _execute(
        self, change: Executable, values: Mapping[str, object] | None = None
    ) -> CursorResult[Any]:
        with self._begun() as connection, telling(self._name):
            try:
                return connection.execute(change, values)
            except OverflowError as error:  # a number of somebody's message
                raise StateError(f"{self._name}: {error}") from error

    @contextmanager
    def _begun(self) -> Iterator[Connection]:
        """Join the transaction that is open, or make one: for the group, or for this alone."""
        if self._connection is None and self._group is not None:
            self._group.enter_context(self._new())
        if self._connection is None:
            with self._new() as connection:
                yield connection
            return
        self._refuse_failed()
        try:
            yield self._connection
        except BaseException:
            self._failed = True
            raise

    @contextmanager
    def _new(self) -> Iterator[Connection]:
        with telling(self._name), self._engine.begin() as self._connection:
            self._failed = False
            try:
                yield self._connection
            finally:
                self._connection = None
            self._refuse_failed()

    def _refuse_failed(self) -> None:
        if self._failed:
            raise StateError(f"{self._name}: nothing was kept, since a change failed before")


def _key(record: RemoteRecord) -> tuple[str, str, str]:
    return record.cluster, record.mark, record.transfer


def _upsert(dialect: str, table: Table) -> Executable:
    adding = (sqlite.insert if dialect == "sqlite" else postgresql.insert)(table)
    key = [column.name for column in table.primary_key]
    names = (column.name for column in table.c)
    changed = {name: adding.excluded[name] for name in names if name not in key}
    return adding.on_conflict_do_update(index_elements=key, set_=changed)


def _cursor(row: RowMapping) -> Cursor:
    place = Place(
        device=int(row["device"]), inode=int(row["inode"]), offset=row["offset"], tail=row["tail"]
    )
    return Cursor(cluster=row["cluster"], path=row["path"], place=place, skipped=row["skipped"])


def _json(values: Mapping[str, object]) -> str:
    return json.dumps(values, sort_keys=True, default=str)
