"""The state file is made, migrated, refused, and survives kill -9 and a full disk."""

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.errors import StateError
from gridbridge.model.transfer.transfers_and_actions import Transfer
from gridbridge.state import column_types, state_file
from gridbridge.state.state_file import StateFile
from gridbridge.transfer.transfer_rows import TransferRows

Build = Callable[..., Transfer]

MIGRATION = """
import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

def upgrade():
    op.add_column("transfers", sa.Column("colour", sa.Text, nullable=False, server_default="red"))
    {then}
"""


def url_of(path: Path) -> str:
    return f"sqlite:///{path}"


def transfers_in(path: Path) -> TransferRows:
    return TransferRows(StateFile.open(url_of(path)))


def run(code: str, path: Path) -> subprocess.Popen[bytes]:
    """Run code with a state file `db` open and a transfer `one`, in a process of its own."""
    head = """
import sys
from datetime import UTC, datetime
from gridbridge.model.transfer.transfers_and_actions import Transfer
from gridbridge.state.state_file import StateFile
from gridbridge.state import state_file as file
from gridbridge.transfer.transfer_rows import TransferRows
noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
one = Transfer(name="gb.alpha.7.0.1", uid=1001, owner="", remote="", queue="", phase="",
               record="", wake="", rerun="", created_at=noon, updated_at=noon)
db = StateFile.open(sys.argv[1])
transfers = TransferRows(db)
"""
    return subprocess.Popen(
        [sys.executable, "-c", head + code, url_of(path)],
        stdin=subprocess.PIPE,  # where it reads, it waits
        stdout=subprocess.PIPE,
    )


def integrity(path: Path) -> str:
    return str(sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone()[0])


def test_only_the_owner_can_open_it(tmp_path: Path, a_transfer: Build) -> None:
    before = os.umask(0)
    try:
        transfers_in(tmp_path / "state.db").put_transfer(a_transfer())
    finally:
        os.umask(before)

    assert {one.name: one.stat().st_mode & 0o777 for one in tmp_path.iterdir()} == {
        "state.db": 0o600,
        "state.db-journal": 0o600,
    }


def test_an_empty_file_becomes_a_state_file(tmp_path: Path) -> None:
    """It is what kill -9 leaves right after the file was made."""
    (tmp_path / "state.db").touch()

    assert transfers_in(tmp_path / "state.db").open_transfers() == ()


def with_another_migration(folder: Path, patch: pytest.MonkeyPatch, then: str = "") -> None:
    """Have the program know another migration, which adds a column and goes on with `then`."""
    folder = shutil.copytree(state_file.MIGRATIONS, folder / "versions")
    (folder / "v0003_colour.py").write_text(MIGRATION.format(then=then))
    patch.setattr(state_file, "MIGRATIONS", str(folder))
    patch.setattr(state_file, "HEAD", "0003")


def columns(path: Path) -> list[str]:
    return [row[1] for row in sqlite3.connect(path).execute("PRAGMA table_info(transfers)")]


def test_a_file_of_an_earlier_schema_is_migrated(
    tmp_path: Path, a_transfer: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a program that acts; one that only reads refuses it."""
    path = tmp_path / "state.db"
    transfers_in(path).put_transfer(a_transfer())
    before = path.read_bytes()
    with_another_migration(tmp_path, monkeypatch)

    with pytest.raises(StateError, match="wrong schema 0002; expected 0003"):
        StateFile.open(url_of(path), is_unchanged=True)
    assert path.read_bytes() == before
    assert transfers_in(path).open_transfers() == (a_transfer(),)
    assert columns(path)[-1] == "colour"
    assert StateFile.open(url_of(path), is_unchanged=True)


def test_a_file_that_a_newer_program_migrated_is_refused(
    tmp_path: Path, a_transfer: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state.db"
    transfers_in(path).put_transfer(a_transfer())
    with monkeypatch.context() as newer:
        with_another_migration(tmp_path, newer)
        StateFile.open(url_of(path))
    before = path.read_bytes()

    with pytest.raises(StateError, match="schema 0003 is too new; expected at most 0002"):
        StateFile.open(url_of(path))
    assert path.read_bytes() == before


def test_a_migration_that_fails_leaves_the_file_as_it_was(
    tmp_path: Path, a_transfer: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state.db"
    transfers_in(path).put_transfer(a_transfer())
    before = columns(path)
    with monkeypatch.context() as newer:
        with_another_migration(tmp_path, newer, then='op.drop_table("ghosts")')
        with pytest.raises(StateError, match="no such table: ghosts"):
            StateFile.open(url_of(path))

    assert columns(path) == before
    assert transfers_in(path).open_transfers() == (a_transfer(),)


def test_the_migrations_make_the_schema_of_the_program(database: StateFile) -> None:
    for store in ("state", "transfer", "campaigns.store", "elastic", "rebalance"):
        package = import_module(f"gridbridge.{store}")
        for module in iter_modules(package.__path__, f"{package.__name__}."):
            import_module(module.name)  # METADATA collects the tables of imported modules

    with database._engine.begin() as connection:
        assert [] == compare_metadata(MigrationContext.configure(connection), column_types.METADATA)


def test_alembic_stays_away_when_nothing_has_to_migrate(tmp_path: Path) -> None:
    """It costs more than all else of a short command's start."""
    StateFile.open(url_of(tmp_path / "state.db"))
    out, _ = run("print('alembic' in sys.modules)", tmp_path / "state.db").communicate(timeout=60)

    assert out == b"False\n"


def test_no_part_for_another_database_is_loaded() -> None:
    """SQLAlchemy's for PostgreSQL takes as long as a command's own modules."""
    program = """
import importlib, pkgutil, sys
from gridbridge import state
for module in pkgutil.iter_modules(state.__path__, "gridbridge.state."):
    importlib.import_module(module.name)
print("sqlalchemy.dialects.postgresql" in sys.modules)
"""
    argv = (sys.executable, "-I", "-c", program)
    ran = subprocess.run(argv, capture_output=True, text=True, check=True)

    assert ran.stdout == "False\n"


def test_a_file_that_may_not_change_is_read_and_never_written(tmp_path: Path, a_transfer: Build) -> None:
    """Nor is it made; a name may hold what a URI gives a meaning."""
    path = tmp_path / "odd?name #1.db"
    url = f"sqlite:///{path}".replace("?", "%3F").replace("#", "%23")
    with pytest.raises(StateError, match=r"no state file yet$"):
        StateFile.open(url, is_unchanged=True)
    TransferRows(StateFile.open(url)).put_transfer(a_transfer())
    before = {each: each.read_bytes() for each in tmp_path.iterdir()}

    transfers = TransferRows(StateFile.open(url, is_unchanged=True))

    assert len(transfers.open_transfers()) == 1
    with pytest.raises(StateError, match="readonly database"):
        transfers.put_transfer(a_transfer())
    assert {each: each.read_bytes() for each in tmp_path.iterdir()} == before


def test_a_server_refuses_changes_where_none_may_be_made(state_url: str) -> None:
    campaigns = CampaignRows(StateFile.open(state_url))
    unchanged = CampaignRows(StateFile.open(state_url, is_unchanged=True))

    assert unchanged.all_campaigns() == campaigns.all_campaigns()
    with pytest.raises(StateError, match=r"read-?only"):
        unchanged.drop_unsent_tasks(1)


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"#!/bin/sh\n" * 500, "file is not a database"), (b"\0" * 4096, "file is not a database")],
    ids=["script", "zeros"],
)
def test_a_file_that_is_no_database_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "state.db").write_bytes(content)

    with pytest.raises(StateError, match=f"state.db: {reason}"):
        StateFile.open(url_of(tmp_path / "state.db"))
    assert (tmp_path / "state.db").read_bytes() == content


def test_another_programs_database_is_refused(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "state.db").execute("CREATE TABLE bookmarks (url TEXT)")

    with pytest.raises(StateError, match="not a state file of gridbridge"):
        StateFile.open(url_of(tmp_path / "state.db"))


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("sqlite:////nowhere/state.db", "/nowhere/state.db: No such file or directory"),
        ("sqlite:////dev", "/dev: unable to open database file"),
        ("sqlite://", "No such file or directory"),
        ("state.db", "Could not parse"),
        ("nosql:///state.db", "Can't load plugin"),
    ],
    ids=["folder missing", "a folder", "no file", "no url", "no such software"],
)
def test_a_place_that_cannot_be_is_refused(url: str, reason: str) -> None:
    with pytest.raises(StateError, match=reason):
        StateFile.open(url)


def test_a_password_is_not_shown() -> None:
    with pytest.raises(StateError) as refused:
        StateFile.open("postgresql://gridbridge:secret@127.0.0.1:1/gridbridge")

    assert "secret" not in str(refused.value)


def test_a_missing_driver_is_told_with_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)

    with pytest.raises(StateError, match=r"psycopg.*; install gridbridge\[postgresql\]"):
        StateFile.open("postgresql://gridbridge@127.0.0.1:1/gridbridge")


def test_a_kill_in_a_transaction_leaves_the_old_state(tmp_path: Path, a_transfer: Build) -> None:
    """The transaction is larger than SQLite's cache, so a part of it is in the file already."""
    path = tmp_path / "state.db"
    transfers_in(path).put_transfer(a_transfer())
    size = path.stat().st_size
    child = run(
        """
with db.transaction():
    for uid in range(2000):
        transfers.put_transfer(one.but(uid=uid, reason="x" * 4000))
    print("written", flush=True)
    sys.stdin.read()
""",
        path,
    )
    assert child.stdout.readline() == b"written\n"
    child.kill()
    child.wait()
    assert path.stat().st_size > size

    assert transfers_in(path).open_transfers() == (a_transfer(),)
    assert integrity(path) == "ok"


@pytest.mark.killing
def test_a_kill_at_any_moment_leaves_whole_transactions(tmp_path: Path) -> None:
    """Two transfers change together; the reader of the pipe knows what was committed."""
    path = tmp_path / "state.db"
    code = """
last = max((one.remote_id for one in transfers.open_transfers()), default=0)
for number in range(last + 1, 1000000):
    with db.transaction():
        transfers.put_transfer(one.but(remote_id=number))
        transfers.put_transfer(one.but(uid=1002, remote_id=number))
    print(number, flush=True)
"""
    for _ in range(8):
        child = run(code, path)
        first = child.stdout.readline()
        time.sleep(random.random() / 10)  # the moment of the kill is what varies
        child.send_signal(signal.SIGKILL)
        told = [int(line) for line in (first + child.stdout.read()).splitlines(True) if line[-1:] == b"\n"]
        child.wait()
        kept = {one.remote_id for one in transfers_in(path).open_transfers()}

        assert kept in ({told[-1]}, {told[-1] + 1})
    assert integrity(path) == "ok"


def test_two_processes_write_without_losing_anything(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    code = """
for _ in range(100):
    with db.transaction():
        seen = transfers.find_transfer(one.name, one.uid) or one
        transfers.put_transfer(seen.but(missed_polls=seen.missed_polls + 1))
"""
    children = [run(code, path) for _ in range(2)]  # both make the file, too

    assert [child.wait(timeout=120) for child in children] == [0, 0]
    found = transfers_in(path).find_transfer("gb.alpha.7.0.1", 1001)
    assert found.missed_polls == 200
