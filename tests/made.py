"""State files for tests: tables are copied, and no write waits for the disk.

The migrations run for the first file of a process: they take 0.15 s of CPU, and two thousand tests
need a file. tests/state, which tests the migrations, uses the real ones.
"""

from sqlite3 import Connection as Sqlite

from sqlalchemy import Connection, text

from gridbridge.state import state_file

MIGRATED = text("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name != 'sqlite_stat1' ORDER BY rowid")
ALIKE = text("SELECT tbl, idx, stat FROM sqlite_stat1")
KNOWN_ALIKE = text("INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES (:tbl, :idx, :stat)")
VERSION = text("INSERT INTO alembic_version VALUES (:head)")
_migrate, _set_up = state_file._migrate_state_file_schema, state_file._set_sqlite_pragmas
_tables: list[str] = []
_alike: list[dict[str, str]] = []


def migrate(connection: Connection, name: str) -> None:
    """Migrate as `_migrate_state_file_schema` does, but copy the tables into an empty SQLite file."""
    is_empty = connection.dialect.name == "sqlite" and not state_file._schema_version_of_state_file(connection, name)
    if is_empty and _tables:
        for one in _tables:
            connection.exec_driver_sql(one)
        connection.execute(VERSION, {"head": state_file.HEAD})
        connection.exec_driver_sql("ANALYZE alembic_version")
        connection.exec_driver_sql("DELETE FROM sqlite_stat1")
        connection.execute(KNOWN_ALIKE, _alike)
        connection.exec_driver_sql("ANALYZE sqlite_schema")
        return
    _migrate(connection, name)
    if is_empty:
        _tables.extend(connection.execute(MIGRATED).scalars())
        _alike.extend(map(dict, connection.execute(ALIKE).mappings()))


def set_up(connection: Sqlite, record: object) -> None:
    """Do the same as `_set_sqlite_pragmas`, but never wait for the disk: no test cuts the power."""
    _set_up(connection, record)
    connection.execute("PRAGMA synchronous = OFF")
