"""Open the state file: settings, file mode, schema.

SQLite uses its rollback journal instead of WAL: with SQLite before 3.51.3, two processes that write
at once can corrupt a WAL file (sqlite.org/wal.html, the WAL-reset bug). WAL's advantage, readers
beside a writer, is rarely needed here. The journal persists, because a deleted journal can reappear
after a power cut and undo the last commit (pragma synchronous, EXTRA).
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from sqlite3 import Connection as Sqlite
from typing import TYPE_CHECKING
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from gridbridge.errors import StateError
from gridbridge.state.migrations import versions

if TYPE_CHECKING:
    from alembic.config import Config

BUSY_S = 30  # longer than the longest transaction, deleting a day's transfers
JOURNAL_BYTES = 4 << 20  # journal size that a large transaction leaves
POSTGRESQL = "postgresql+psycopg"  # SQLAlchemy's own choice is psycopg2
MIGRATIONS = "gridbridge.state:migrations"
HEAD = max(name[1:5] for name in os.listdir(versions.__path__[0]) if name.startswith("v"))
_VERSION = text("SELECT version_num FROM alembic_version")


def open_or_migrate_state_file(url: str, *, is_unchanged: bool = False) -> tuple[Engine, str]:
    """Open the state at `url`, created or migrated as needed; also return its name.

    With `is_unchanged` the state must exist and cannot be changed.
    """
    with convert_database_errors("state"):
        address = make_url(url)
    is_file = address.get_backend_name() == "sqlite"
    name = address.database or "" if is_file else address.render_as_string(hide_password=True)
    engine = _engine(address, name, is_unchanged)
    try:
        with convert_database_errors(name), engine.begin() as connection:
            (_require_head if is_unchanged else _migrate)(connection, name)
    except StateError:
        engine.dispose()
        raise
    return engine, name


@contextmanager
def convert_database_errors(name: str) -> Iterator[None]:
    """Convert database errors to a StateError of one line."""
    try:
        yield
    except SQLAlchemyError as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        raise StateError(f"{name}: {str(cause).splitlines()[0]}") from error


def _engine(address: URL, name: str, is_unchanged: bool) -> Engine:
    try:
        if address.get_backend_name() == "sqlite":
            return (_sqlite_reader if is_unchanged else _sqlite_engine)(address, name)
        if address.get_backend_name() == "postgresql":
            address = address.set(drivername=POSTGRESQL)
        return create_engine(address, execution_options={"postgresql_readonly": is_unchanged})
    except ImportError as error:
        raise StateError(f"{name}: {error}; it comes with gridbridge[postgresql]") from error
    except SQLAlchemyError as error:
        raise StateError(f"{name}: {error}") from error


def _sqlite_engine(address: URL, path: str) -> Engine:
    _create(path)
    engine = create_engine(address, connect_args={"timeout": BUSY_S, "isolation_level": None})
    event.listen(engine, "connect", _set_up)
    event.listen(engine, "begin", _begin)
    return engine


def _sqlite_reader(address: URL, path: str) -> Engine:
    """Open an existing SQLite file read-only."""
    if not os.path.exists(path):
        raise StateError(f"{path}: not there yet")
    reading = address.set(database=f"file:{quote(path)}", query={"mode": "ro", "uri": "true"})
    return create_engine(reading, connect_args={"timeout": BUSY_S})


def _create(path: str) -> None:
    """Create an empty file with mode 0600 if there is none.

    SQLite gives its journal the same mode. An existing file is not opened here: closing it would
    drop the locks that this process may hold on it (fcntl(2)).
    """
    folder = os.path.dirname(path) or "."
    if os.path.isdir(folder) and not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
        raise StateError(f"{folder}: not writable")
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}") from error


def _set_up(connection: Sqlite, _: object) -> None:
    for setting in (
        "journal_mode = PERSIST",
        f"journal_size_limit = {JOURNAL_BYTES}",
        "synchronous = FULL",  # commits survive a power cut
    ):
        connection.execute(f"PRAGMA {setting}")


def _begin(connection: Connection) -> None:
    """Take the write lock first; a later upgrade of a read lock would fail, not wait."""
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _migrate(connection: Connection, name: str) -> None:
    """Migrate the schema to HEAD within the open transaction; refuse foreign schemas."""
    version = _version(connection, name)
    if version == HEAD:
        return
    if version > HEAD:
        raise StateError(f"{name}: schema {version} is newer than {HEAD}, the newest that this program knows")
    from alembic import command, util  # the import takes 100 ms and is rarely needed

    try:
        command.upgrade(alembic_config(connection), "head")
    except util.CommandError as error:
        raise StateError(f"{name}: {error}") from error


def _require_head(connection: Connection, name: str) -> None:
    version = _version(connection, name)
    if version != HEAD:
        raise StateError(f"{name}: schema {version or 'none'} is not {HEAD}; whoever acts makes it")


def _version(connection: Connection, name: str) -> str:
    """Return the schema's version; empty for an empty database."""
    inspector = inspect(connection)
    if inspector.has_table("alembic_version"):
        return str(connection.execute(_VERSION).scalar() or "")
    if inspector.get_table_names():
        raise StateError(f"{name}: not a state file of gridbridge")
    return ""


def alembic_config(connection: Connection) -> "Config":
    """Return the Alembic configuration for this connection's transaction."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", MIGRATIONS)
    config.attributes["connection"] = connection
    return config
