"""The open state file: its transactions, queries and changes. Only the service account opens the file.

No WAL file: before SQLite 3.51.3 two processes that write at once can corrupt it (sqlite.org/wal.html). The rollback
journal is not deleted, because after a power cut a deleted journal can reappear and undo the last commit (pragma
synchronous, EXTRA).
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from sqlite3 import Connection as Sqlite
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from gridbridge.errors import DatabaseDriverMissing, StateError
from gridbridge.shell.optional_libraries import missing_library_message
from gridbridge.state import versions

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite


T = TypeVar("T")
RequireLead = Callable[[sa.Connection], None]  # raises MasterDeposed if the process may change nothing
PORTION = 5000  # a change has at most this many rows; 5000 rows take a tenth of a second


class StateFile:
    """The open state file, for use in one thread.

    Each call is a transaction, unless `transaction()` groups calls. A failed transaction is rolled back, and raises
    StateError.
    """

    def __init__(self, engine: sa.Engine, name: str, require_lead: RequireLead | None = None) -> None:
        self._engine = engine
        self._name = name
        self._require_lead = require_lead
        self._is_lead_checked = False  # whether `require_lead` was called in the present transaction
        self._connection: sa.Connection | None = None
        self._group: ExitStack | None = None
        self._failed = False

    @classmethod
    def open(
        cls, url: str, *, is_unchanged: bool = False, require_lead: RequireLead | None = None, session: str = ""
    ) -> "StateFile":
        """Open the database at `sqlite:////PATH` or `postgresql://...`; create or migrate the database first.

        With `is_unchanged` nothing is created or migrated, and each later change raises StateError. Each transaction
        calls `require_lead` before its first change. `session` is the name of the sessions at PostgreSQL. Raises
        StateError for a newer schema or an unusable file.
        """
        return cls(*open_or_migrate_state_file(url, is_unchanged=is_unchanged, session=session), require_lead)

    def close(self) -> None:
        self._engine.dispose()

    @property
    def dialect(self) -> str:
        """The kind of the database: sqlite or postgresql."""
        return self._engine.dialect.name

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Group all calls in a `with` block into one transaction; a failed call rolls back all changes."""
        if self._group is not None:
            yield
            return
        with ExitStack() as group:
            self._group = group
            try:
                yield
            finally:
                self._group = None

    def rows(self, query: sa.Executable, **values: object) -> Sequence[sa.RowMapping]:
        with self._connection_in_transaction() as connection, convert_database_errors(self._name):
            return connection.execute(query, values).mappings().all()

    def query_rows_as(self, kind: type[T], query: sa.Executable, **values: object) -> tuple[T, ...]:
        """Return the rows of an SQL query as values of dataclass `kind`, whose fields are the columns."""
        return tuple(kind(**row) for row in self.rows(query, **values))

    def count_rows_by_table(self) -> dict[str, int]:
        """Return the number of rows of each table, counted in one transaction a table."""
        counts = {}
        for name in sorted(sa.inspect(self._engine).get_table_names()):
            (row,) = self.rows(sa.select(sa.func.count().label("rows")).select_from(sa.table(name)))
            counts[name] = row["rows"]
        return counts

    def execute(
        self, change: sa.Executable, values: Mapping[str, object] | Sequence[Mapping[str, object]] | None = None
    ) -> sa.CursorResult[Any]:
        """Execute an SQL change with some values, or once for each of several rows of values."""
        with self._connection_in_transaction() as connection, convert_database_errors(self._name):
            if self._require_lead and not self._is_lead_checked:
                self._require_lead(connection)
                self._is_lead_checked = True
            return connection.execute(change, values)

    def execute_for_each_row(self, change: sa.Executable, rows: Sequence[Mapping[str, object]]) -> None:
        """Execute a change for each of many rows; after each 5000 rows other programs can write."""
        for at in range(0, len(rows), PORTION):
            self.execute(change, rows[at : at + PORTION])

    def upsert(self, table: sa.Table, unless: sa.ColumnElement[bool] | None = None) -> sa.Executable:
        """Return a statement that inserts a row, or replaces the row with the same key, if `unless` is not true."""
        adding = _insert_statement_of_dialect(self.dialect == "sqlite", table)
        key = [column.name for column in table.primary_key]
        changed = {column.name: adding.excluded[column.name] for column in table.c if column.name not in key}
        where = None if unless is None else sa.not_(unless)
        return adding.on_conflict_do_update(index_elements=key, set_=changed, where=where)

    def insert_if_missing(self, table: sa.Table) -> sa.Executable:
        """Return a statement that inserts a row, unless a row with this key exists."""
        return _insert_statement_of_dialect(self.dialect == "sqlite", table).on_conflict_do_nothing()

    def limit_lock_waits(self, limit_ms: int) -> None:
        """Let later statements of this transaction wait at most this long for rows that another transaction has locked.

        For SQLite this has no effect, because a transaction locks the whole file when it begins.
        """
        if self.dialect == "postgresql":
            self.execute(sa.text(f"SET LOCAL lock_timeout = {limit_ms:d}"))

    @contextmanager
    def _connection_in_transaction(self) -> Iterator[sa.Connection]:
        if self._connection is None and self._group is not None:
            self._group.enter_context(self._begin_transaction())
        if self._connection is None:
            with self._begin_transaction() as connection:
                yield connection
            return
        self._require_no_failed_change()
        try:
            yield self._connection
        except BaseException:
            self._failed = True
            raise

    @contextmanager
    def _begin_transaction(self) -> Iterator[sa.Connection]:
        with convert_database_errors(self._name), self._engine.begin() as self._connection:
            self._failed = self._is_lead_checked = False
            try:
                yield self._connection
            finally:
                self._connection = None
            self._require_no_failed_change()

    def _require_no_failed_change(self) -> None:
        if self._failed:
            raise StateError(f"{self._name}: nothing was stored, because a change of this transaction failed")


def _insert_statement_of_dialect(is_sqlite: bool, table: sa.Table) -> "sqlite.Insert | postgresql.Insert":
    if is_sqlite:
        from sqlalchemy.dialects.sqlite import insert

        return insert(table)
    from sqlalchemy.dialects import postgresql

    return postgresql.insert(table)


BUSY_S = 30  # longer than the longest transaction, which deletes the transfers of a day
JOURNAL_BYTES = 4 << 20  # after a larger transaction, the journal shrinks to this size
POSTGRESQL = "postgresql+psycopg"  # names the driver, because SQLAlchemy's default is psycopg2
# so that a lost network is an error after at most 10 s (libpq, "Parameter Key Words"); a URL may set other values
NETWORK_LIMITS = {
    "connect_timeout": "5",
    "tcp_user_timeout": "10000",  # in ms
    "keepalives_idle": "5",
    "keepalives_interval": "2",
}
MIGRATION_LOCK = sa.text("SELECT pg_advisory_xact_lock(20020901)")  # two hosts may start at the same time
MIGRATIONS = versions.__path__[0]
HEAD = max(name[1:5] for name in os.listdir(MIGRATIONS) if name.startswith("v"))


def open_or_migrate_state_file(url: str, *, is_unchanged: bool = False, session: str = "") -> tuple[sa.Engine, str]:
    """Open the database at `url` as `StateFile.open` does; return its engine, and its name for messages."""
    with convert_database_errors("state"):
        address = sa.make_url(url)
    is_file = address.get_backend_name() == "sqlite"
    name = address.database or "" if is_file else address.render_as_string(hide_password=True)
    engine = _make_database_engine(address, name, is_unchanged, session)
    try:
        with convert_database_errors(name), engine.begin() as connection:
            (_require_present_state_file_schema if is_unchanged else _migrate_state_file_schema)(connection, name)
    except StateError:
        engine.dispose()
        raise
    return engine, name


@contextmanager
def convert_database_errors(name: str) -> Iterator[None]:
    """Turn errors of the database into StateError with a message of one line."""
    try:
        yield
    except SQLAlchemyError as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        raise StateError(f"{name}: {str(cause).splitlines()[0]}") from error
    except OverflowError as error:  # a number in a user's message may be too large for the database
        raise StateError(f"{name}: {error}") from error


def _make_database_engine(address: sa.URL, name: str, is_unchanged: bool, session: str) -> sa.Engine:
    try:
        if address.get_backend_name() == "sqlite":
            return (_make_read_only_sqlite_engine if is_unchanged else _make_sqlite_engine)(address, name)
        if address.get_backend_name() == "postgresql":
            limits = {"application_name": session or "gridbridge", **NETWORK_LIMITS}
            address = address.set(drivername=POSTGRESQL, query={**limits, **address.query})
        return sa.create_engine(address, execution_options={"postgresql_readonly": is_unchanged})
    except ImportError as error:
        raise DatabaseDriverMissing(f"{name}: {missing_library_message('psycopg')}") from error
    except SQLAlchemyError as error:
        raise StateError(f"{name}: {error}") from error


def _make_sqlite_engine(address: sa.URL, path: str) -> sa.Engine:
    _create_missing_sqlite_file(path)
    engine = sa.create_engine(address, connect_args={"timeout": BUSY_S, "isolation_level": None})
    sa.event.listen(engine, "connect", _set_sqlite_pragmas)
    sa.event.listen(engine, "begin", _begin_immediate_sqlite_transaction)
    return engine


def _make_read_only_sqlite_engine(address: sa.URL, path: str) -> sa.Engine:
    if not os.path.exists(path):
        raise StateError(f"{path}: no state file yet")
    reading = address.set(database=f"file:{quote(path)}", query={"mode": "ro", "uri": "true"})
    return sa.create_engine(reading, connect_args={"timeout": BUSY_S})


def _create_missing_sqlite_file(path: str) -> None:
    """Create a missing file with mode 0600; opening an existing file would drop locks (fcntl(2))."""
    folder = os.path.dirname(path) or "."
    if os.path.isdir(folder) and not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
        raise StateError(f"{folder}: not writable")
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}") from error


def _set_sqlite_pragmas(connection: Sqlite, _: object) -> None:
    connection.execute("PRAGMA journal_mode = PERSIST")
    connection.execute(f"PRAGMA journal_size_limit = {JOURNAL_BYTES}")
    connection.execute("PRAGMA synchronous = FULL")  # so that commits survive a power cut


def _begin_immediate_sqlite_transaction(connection: sa.Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")  # IMMEDIATE, because a later upgrade of a read lock would fail


def _migrate_state_file_schema(connection: sa.Connection, name: str) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(MIGRATION_LOCK)
    version = _schema_version_of_state_file(connection, name)
    if version == HEAD:
        return
    if version > HEAD:
        raise StateError(f"{name}: schema {version} is too new; expected at most {HEAD}")
    from alembic.migration import MigrationContext  # imported here, because this takes 100 ms and is rarely needed
    from alembic.operations import Operations
    from alembic.script import ScriptDirectory
    from alembic.util import CommandError

    migrations = ScriptDirectory(MIGRATIONS, version_locations=[MIGRATIONS])
    context = MigrationContext.configure(connection)
    try:
        context.stamp(migrations, version or "base")  # creates the version table, which v0001 needs
    except CommandError as error:
        raise StateError(f"{name}: {error}") from error
    with Operations.context(context):
        for migration in reversed(tuple(migrations.iterate_revisions(HEAD, version or None))):
            migration.module.upgrade()
    context.stamp(migrations, HEAD)


def _require_present_state_file_schema(connection: sa.Connection, name: str) -> None:
    version = _schema_version_of_state_file(connection, name)
    if version != HEAD:
        raise StateError(f"{name}: wrong schema {version or 'none'}; expected {HEAD}, made by the next acting program")


def _schema_version_of_state_file(connection: sa.Connection, name: str) -> str:
    inspector = sa.inspect(connection)
    if inspector.has_table("alembic_version"):
        return str(connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar() or "")
    if inspector.get_table_names():
        raise StateError(f"{name}: not a state file of gridbridge")
    return ""
