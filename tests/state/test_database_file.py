"""Creation, migration and refusal of state files, on a full disk and by other users, and after kill -9."""

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
from gridbridge.transfer.transfer_history_rows import TransferRows

Build = Callable[..., Transfer]

MIGRATION = """
import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

def upgrade():
    op.add_column("transfers", sa.Column("colour", sa.Text, nullable=False, server_default="red"))
    {then}
"""


def url_of(path: Path) -> str:
    return f"sqlite:///{path}"


def transfers_in(path: Path) -> TransferRows:
    return TransferRows(StateFile.open(url_of(path)))


def run(code: str, path: Path) -> subprocess.Popen[bytes]:
    """Run code in a separate process, with an open state file `db` and a transfer `one`."""
    head = """
import sys
from datetime import UTC, datetime
from gridbridge.model.transfer.transfers_and_actions import Transfer
from gridbridge.state.state_file import StateFile
from gridbridge.state import state_file as file
from gridbridge.transfer.transfer_history_rows import TransferRows
noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
one = Transfer(name="gb.alpha.7.0.1", uid=1001, owner="", remote="", queue="", phase="",
               record="", wake="", rerun="", created_at=noon, updated_at=noon)
db = StateFile.open(sys.argv[1])
transfers = TransferRows(db)
"""
    return subprocess.Popen(
        [sys.executable, "-c", head + code, url_of(path)],
        stdin=subprocess.PIPE,  # code that reads standard input waits
        stdout=subprocess.PIPE,
    )


def integrity(path: Path) -> str:
    return str(sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone()[0])


@pytest.mark.parametrize("is_begun", [False, True], ids=["no file", "an empty file"])
def test_a_new_state_file_belongs_to_its_owner_alone(tmp_path: Path, a_transfer: Build, is_begun: bool) -> None:
    """A process that is killed right after the creation of the file leaves an empty file."""
    if is_begun:
        (tmp_path / "state.db").touch(0o600)
    before = os.umask(0)
    try:
        transfers_in(tmp_path / "state.db").insert_or_update_transfer(a_transfer())
    finally:
        os.umask(before)

    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {"state.db": 0o600, "state.db-journal": 0o600}


@pytest.fixture
def earlier(tmp_path: Path, a_transfer: Build) -> Path:
    transfers_in(tmp_path / "state.db").insert_or_update_transfer(a_transfer())
    return tmp_path / "state.db"


def with_another_migration(folder: Path, patch: pytest.MonkeyPatch, then: str = "") -> None:
    """Add a migration to the program, which adds a column and continues with `then`."""
    folder = shutil.copytree(state_file.MIGRATIONS, folder / "versions")
    (folder / "v0002_colour.py").write_text(MIGRATION.format(then=then))
    patch.setattr(state_file, "MIGRATIONS", str(folder))
    patch.setattr(state_file, "HEAD", "0002")


def columns(path: Path) -> list[str]:
    return [row[1] for row in sqlite3.connect(path).execute("PRAGMA table_info(transfers)")]


def test_a_program_that_acts_migrates_a_file_of_an_earlier_schema(
    tmp_path: Path, earlier: Path, a_transfer: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that only reads the state file refuses the earlier schema."""
    before = earlier.read_bytes()
    with_another_migration(tmp_path, monkeypatch)

    with pytest.raises(StateError, match="wrong schema 0001; expected 0002"):
        StateFile.open(url_of(earlier), is_unchanged=True)
    assert earlier.read_bytes() == before
    assert transfers_in(earlier).open_transfers() == (a_transfer(),)
    assert columns(earlier)[-1] == "colour"
    assert StateFile.open(url_of(earlier), is_unchanged=True)


def test_a_state_file_that_a_newer_program_migrated_is_refused(tmp_path: Path, earlier: Path) -> None:
    with pytest.MonkeyPatch.context() as newer:
        with_another_migration(tmp_path, newer)
        StateFile.open(url_of(earlier))
    before = earlier.read_bytes()

    with pytest.raises(StateError, match="schema 0002 is too new; expected at most 0001"):
        StateFile.open(url_of(earlier))
    assert earlier.read_bytes() == before


def test_a_failed_migration_leaves_the_state_file_unchanged(tmp_path: Path, earlier: Path, a_transfer: Build) -> None:
    before = columns(earlier)
    with pytest.MonkeyPatch.context() as newer:
        with_another_migration(tmp_path, newer, then='op.drop_table("ghosts")')
        with pytest.raises(StateError, match="no such table: ghosts"):
            StateFile.open(url_of(earlier))

    assert columns(earlier) == before
    assert transfers_in(earlier).open_transfers() == (a_transfer(),)


def test_the_migrations_create_the_schema_that_the_tables_of_the_program_define(database: StateFile) -> None:
    for store in ("state", "transfer", "campaigns.store", "elastic", "rebalance"):
        package = import_module(f"gridbridge.{store}")
        for module in iter_modules(package.__path__, f"{package.__name__}."):
            import_module(module.name)  # METADATA collects the tables of imported modules

    with database._engine.begin() as connection:
        assert [] == compare_metadata(MigrationContext.configure(connection), column_types.METADATA)


def test_a_program_does_not_import_alembic_for_a_state_file_of_the_present_schema(tmp_path: Path) -> None:
    """The import would take longer than the rest of a short command's start."""
    StateFile.open(url_of(tmp_path / "state.db"))
    out, _ = run("print('alembic' in sys.modules)", tmp_path / "state.db").communicate(timeout=60)

    assert out == b"False\n"


def test_the_state_package_does_not_import_sqlalchemys_code_for_postgresql() -> None:
    """The import takes as long as the import of a command's own modules."""
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


def test_a_state_file_opened_as_unchanged_is_read_and_neither_created_nor_written(
    tmp_path: Path, a_transfer: Build
) -> None:
    """The path may contain characters with a meaning in URIs."""
    path = tmp_path / "odd?name #1.db"
    url = f"sqlite:///{path}".replace("?", "%3F").replace("#", "%23")
    with pytest.raises(StateError, match=r"no state file yet$"):
        StateFile.open(url, is_unchanged=True)
    TransferRows(StateFile.open(url)).insert_or_update_transfer(a_transfer())
    before = {each: each.read_bytes() for each in tmp_path.iterdir()}

    transfers = TransferRows(StateFile.open(url, is_unchanged=True))

    assert len(transfers.open_transfers()) == 1
    with pytest.raises(StateError, match="readonly database"):
        transfers.insert_or_update_transfer(a_transfer())
    assert {each: each.read_bytes() for each in tmp_path.iterdir()} == before


def test_a_database_opened_as_unchanged_refuses_changes(state_url: str) -> None:
    campaigns = CampaignRows(StateFile.open(state_url))
    unchanged = CampaignRows(StateFile.open(state_url, is_unchanged=True))

    assert unchanged.all_campaigns() == campaigns.all_campaigns()
    with pytest.raises(StateError, match=r"read-?only"):
        unchanged.remove_all_unsent_tasks(1)


def make_bookmarks(path: Path) -> None:
    sqlite3.connect(path).execute("CREATE TABLE bookmarks (url TEXT)")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: path.write_bytes(b"#!/bin/sh\n" * 500), "file is not a database"),
        (lambda path: path.write_bytes(b"\0" * 4096), "file is not a database"),
        (make_bookmarks, "not a state file of gridbridge"),
    ],
    ids=["script", "zeros", "another program's database"],
)
def test_a_file_that_is_no_state_file_is_refused_and_left_unchanged(
    tmp_path: Path, make: Callable[[Path], object], reason: str
) -> None:
    make(tmp_path / "state.db")
    before = (tmp_path / "state.db").read_bytes()

    with pytest.raises(StateError, match=f"state.db: {reason}"):
        StateFile.open(url_of(tmp_path / "state.db"))
    assert (tmp_path / "state.db").read_bytes() == before


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("sqlite:////nowhere/state.db", "/nowhere/state.db: No such file or directory"),
        ("sqlite:////dev", "/dev: unable to open database file"),
        ("sqlite://", "No such file or directory"),
        ("state.db", "Could not parse"),
        ("nosql:///state.db", "Can't load plugin"),
        (
            "postgresql://gridbridge@127.0.0.1:1/gridbridge",
            r"psycopg is not installed; to install it, run: .*pip.* install 'psycopg\[binary\]>=3\.1'",
        ),
        ("postgresql://gridbridge:secret@127.0.0.1:1/gridbridge", "postgresql://"),
    ],
    ids=["folder missing", "a folder", "no file", "no url", "no such software", "driver missing", "with a password"],
)
def test_an_unusable_url_of_the_state_file_is_refused(url: str, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "psycopg" in reason:
        monkeypatch.setitem(sys.modules, "psycopg", None)

    with pytest.raises(StateError, match=reason) as refused:
        StateFile.open(url)
    assert "secret" not in str(refused.value)


def test_a_kill_during_a_transaction_leaves_the_old_state(earlier: Path, a_transfer: Build) -> None:
    """The transaction is larger than SQLite's cache, so a part of it is already in the file."""
    size = earlier.stat().st_size
    child = run(
        """
with db.transaction():
    for uid in range(2000):
        transfers.insert_or_update_transfer(one.with_changes(uid=uid, reason="x" * 4000))
    print("written", flush=True)
    sys.stdin.read()
""",
        earlier,
    )
    assert child.stdout.readline() == b"written\n"
    child.kill()
    child.wait()
    assert earlier.stat().st_size > size

    assert transfers_in(earlier).open_transfers() == (a_transfer(),)
    assert integrity(earlier) == "ok"


@pytest.mark.killing
def test_a_kill_at_any_moment_leaves_only_complete_transactions(tmp_path: Path) -> None:
    """Each transaction changes two transfers; the child process prints each committed number."""
    path = tmp_path / "state.db"
    code = """
last = max((one.remote_id for one in transfers.open_transfers()), default=0)
for number in range(last + 1, 1000000):
    with db.transaction():
        transfers.insert_or_update_transfer(one.with_changes(remote_id=number))
        transfers.insert_or_update_transfer(one.with_changes(uid=1002, remote_id=number))
    print(number, flush=True)
"""
    for _ in range(8):
        child = run(code, path)
        first = child.stdout.readline()
        time.sleep(random.random() / 10)  # kill at a random moment
        child.send_signal(signal.SIGKILL)
        told = [int(line) for line in (first + child.stdout.read()).splitlines(True) if line[-1:] == b"\n"]
        child.wait()
        kept = {one.remote_id for one in transfers_in(path).open_transfers()}

        assert kept in ({told[-1]}, {told[-1] + 1})
    assert integrity(path) == "ok"


def test_two_processes_that_write_at_once_lose_no_change(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    code = """
for _ in range(100):
    with db.transaction():
        seen = transfers.find_transfer(one.name, one.uid) or one
        transfers.insert_or_update_transfer(seen.with_changes(missed_polls=seen.missed_polls + 1))
"""
    children = [run(code, path) for _ in range(2)]  # both processes also try to create the file

    assert [child.wait(timeout=120) for child in children] == [0, 0]
    found = transfers_in(path).find_transfer("gb.alpha.7.0.1", 1001)
    assert found.missed_polls == 200


pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="mounts, and becomes other users")]


def test_a_state_file_in_an_unwritable_folder_is_refused(as_user: Callable[..., object], spool_folder: Path) -> None:
    folder = spool_folder.parent / "lib"
    folder.mkdir(mode=0o755)

    with pytest.raises(StateError, match="lib: not writable"):
        as_user(10001, lambda: StateFile.open(url_of(folder / "state.db")))


@pytest.mark.parametrize("mode", [0o600, 0o644], ids=["unreadable", "readable"])
def test_a_state_file_of_another_user_is_refused(as_user: Callable[..., object], spool_folder: Path, mode: int) -> None:
    folder = spool_folder.parent / "lib"
    folder.mkdir()
    folder.chmod(0o777)
    StateFile.open(url_of(folder / "state.db")).close()
    (folder / "state.db").chmod(mode)

    with pytest.raises(StateError, match=r"state\.db: "):
        as_user(10001, lambda: StateFile.open(url_of(folder / "state.db")))


def test_a_transaction_on_a_full_disk_fails_without_losing_stored_transfers(
    small_disk: Path, a_transfer: Build
) -> None:
    path = small_disk / "state.db"
    database = StateFile.open(url_of(path))
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 500_000)
    kept = fill(database, a_transfer)

    def change() -> None:
        with database.transaction():
            for uid in range(500):
                TransferRows(database).insert_or_update_transfer(a_transfer(uid=uid, reason="y" * 4000))

    with pytest.raises(StateError, match="database or disk is full"):
        change()
    assert TransferRows(database).open_transfers() == kept
    ballast.unlink()
    TransferRows(database).insert_or_update_transfer(a_transfer(uid=9999, reason="z" * 4000))

    assert [one.uid for one in TransferRows(database).open_transfers()] == [*range(len(kept)), 9999]
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_state_file_on_a_full_disk_is_readable_and_a_new_one_is_refused(small_disk: Path, a_transfer: Build) -> None:
    url, new = url_of(small_disk / "state.db"), url_of(small_disk / "new.db")
    TransferRows(StateFile.open(url)).insert_or_update_transfer(a_transfer())
    (small_disk / "ballast").write_bytes(b"x" * shutil.disk_usage(small_disk).free)

    assert TransferRows(StateFile.open(url)).open_transfers() == (a_transfer(),)
    with pytest.raises(StateError, match=r"new\.db: database or disk is full"):
        StateFile.open(new)
    (small_disk / "ballast").unlink()
    assert TransferRows(StateFile.open(new)).open_transfers() == ()


def fill(database: StateFile, a_transfer: Build) -> tuple[Transfer, ...]:
    kept: list[Transfer] = []
    while True:
        one = a_transfer(uid=len(kept), reason="x" * 4000)
        try:
            TransferRows(database).insert_or_update_transfer(one)
        except StateError as error:
            if str(error).endswith("state.db: database or disk is full"):
                return tuple(kept)
            raise
        kept.append(one)
