"""The open state file: transactions, queries and changes for all groups of tables."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Connection, CursorResult, Engine, Executable, RowMapping, Table, not_

from gridbridge.errors import StateError
from gridbridge.state.database.state_file import convert_database_errors, open_or_migrate_state_file

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite

PORTION = 5000  # most rows in one change, which takes a tenth of a second


class StateFile:
    """The open state file, for one thread.

    Classes such as CampaignRows are built over it. Each method is one transaction, unless
    `transaction()` groups several methods. Methods raise StateError if the file cannot be read or
    written. Then the whole transaction is rolled back, and the next transaction may succeed.
    """

    def __init__(self, engine: Engine, name: str) -> None:
        self._engine = engine
        self._name = name
        self._connection: Connection | None = None
        self._group: ExitStack | None = None
        self._failed = False

    @classmethod
    def open(cls, url: str, *, is_unchanged: bool = False) -> "StateFile":
        """Open the state at `sqlite:////PATH` or `postgresql://...`, created or migrated first.

        With `is_unchanged` the state must exist with this program's schema, and each change fails.
        Raises StateError for a newer schema, for a foreign file, and for a file that
        cannot be written.
        """
        return cls(*open_or_migrate_state_file(url, is_unchanged=is_unchanged))

    def close(self) -> None:
        """Close the state file."""
        self._engine.dispose()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Group changes into one transaction that begins with the first change.

        If one change fails, all are rolled back even if the caller continues, because SQLite itself
        rolls back on a full disk.
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
        """Return the rows of an SQL query."""
        with self._begun() as connection, convert_database_errors(self._name):
            return connection.execute(query, values).mappings().all()

    def execute(
        self, change: Executable, values: Mapping[str, object] | Sequence[Mapping[str, object]] | None = None
    ) -> CursorResult[Any]:
        """Execute an SQL change, or the same change for each of several values."""
        with self._begun() as connection, convert_database_errors(self._name):
            try:
                return connection.execute(change, values)
            except OverflowError as error:  # a message may contain too large a number
                raise StateError(f"{self._name}: {error}") from error

    def execute_each(self, change: Executable, rows: Sequence[Mapping[str, object]]) -> None:
        """Execute a change for many rows, in batches between which others can write.

        Within an open transaction all batches belong to it. No rows change nothing.
        """
        for at in range(0, len(rows), PORTION):
            self.execute(change, rows[at : at + PORTION])

    def upsert(self, table: Table, unless: ColumnElement[bool] | None = None) -> Executable:
        """Return a statement that inserts a row or replaces the row with its key.

        Existing rows for which `unless` holds stay unchanged.
        """
        adding = _insertion(self._engine.dialect.name == "sqlite", table)
        key = [column.name for column in table.primary_key]
        names = (column.name for column in table.c)
        changed = {name: adding.excluded[name] for name in names if name not in key}
        where = None if unless is None else not_(unless)
        return adding.on_conflict_do_update(index_elements=key, set_=changed, where=where)

    @contextmanager
    def _begun(self) -> Iterator[Connection]:
        """Join the open transaction, or begin one."""
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
        with convert_database_errors(self._name), self._engine.begin() as self._connection:
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
    """Return the insert statement of the dialect, whose import is slow and so deferred."""
    if is_sqlite:
        from sqlalchemy.dialects.sqlite import insert

        return insert(table)
    from sqlalchemy.dialects import postgresql

    return postgresql.insert(table)
