"""The state file's core: one transaction, and what each group of tables asks of it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    CursorResult,
    Engine,
    Executable,
    RowMapping,
    Table,
    not_,
)

from gridbridge.errors import StateError
from gridbridge.state.database.state_file import open_engine, telling

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite

PORTION = 5000  # rows that are changed at once: a tenth of a second


class StateFile:
    """The state file, open; for one thread.

    The groups of tables (Transfers, Decisions ...) are made over it. Every method of theirs is
    one transaction unless `transaction()` groups several, of whatever tables. Each raises
    StateError when the file can't be read or written; nothing of that transaction is kept then,
    and the next one may succeed.
    """

    def __init__(self, engine: Engine, name: str) -> None:
        self._engine = engine
        self._name = name
        self._connection: Connection | None = None
        self._group: ExitStack | None = None
        self._failed = False

    @classmethod
    def open(cls, url: str, *, is_unchanged: bool = False) -> "StateFile":
        """Open the state at `sqlite:////PATH` or `postgresql://...`, made or migrated first.

        With `is_unchanged` it has to be there as this program knows it, and each change fails.
        Raises StateError for a newer schema, and for anything that is not a state file or can't
        be written.
        """
        return cls(*open_engine(url, is_unchanged=is_unchanged))

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

    def rows(self, query: Executable, **values: object) -> Sequence[RowMapping]:
        """Return what a query finds."""
        with self._begun() as connection, telling(self._name):
            return connection.execute(query, values).mappings().all()

    def execute(
        self,
        change: Executable,
        values: Mapping[str, object] | Sequence[Mapping[str, object]] | None = None,
    ) -> CursorResult[Any]:
        """Make a change, or the same for each of several values."""
        with self._begun() as connection, telling(self._name):
            try:
                return connection.execute(change, values)
            except OverflowError as error:  # a number in somebody's message is too large
                raise StateError(f"{self._name}: {error}") from error

    def execute_each(self, change: Executable, rows: Sequence[Mapping[str, object]]) -> None:
        """Make the same change for each of many rows; others write the file between portions.

        Where a transaction is open all of it is part of that. No rows: nothing.
        """
        for at in range(0, len(rows), PORTION):
            self.execute(change, rows[at : at + PORTION])

    def upsert(self, table: Table, unless: ColumnElement[bool] | None = None) -> Executable:
        """Return the statement that adds a row to a table, or replaces the one with its key.

        A row of which `unless` holds already stays as it is.
        """
        adding = _insertion(self._engine.dialect.name == "sqlite", table)
        key = [column.name for column in table.primary_key]
        names = (column.name for column in table.c)
        changed = {name: adding.excluded[name] for name in names if name not in key}
        where = None if unless is None else not_(unless)
        return adding.on_conflict_do_update(index_elements=key, set_=changed, where=where)

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


def _insertion(is_sqlite: bool, table: Table) -> "sqlite.Insert | postgresql.Insert":
    """Return the dialect's own insertion; its import takes a tenth of SQLAlchemy's time."""
    if is_sqlite:
        from sqlalchemy.dialects.sqlite import insert

        return insert(table)
    from sqlalchemy.dialects import postgresql

    return postgresql.insert(table)
