"""The state file is made, migrated, refused, and survives kill -9 and a full disk."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from alembic import command
from alembic.script import ScriptDirectory

from gridbridge.errors import StateError
from gridbridge.model.accounting import Cursor, Place, RemoteRecord, Source
from gridbridge.model.message import Message, Outcome
from gridbridge.model.transfer.transfer import Transfer
from gridbridge.state.database import Database
from gridbridge.state.database.accounting import Accounting
from gridbridge.state.database.campaigns import Campaigns
from gridbridge.state.database.file import HEAD, alembic_config
from gridbridge.state.database.transfers import Transfers
from tests.states import job_state

Build = Callable[..., Transfer]

# What tests/state/state-0001.sql holds. It was made by putting this into a new state file and
# `sqlite3 state.db .dump`; it stays as it is once a release has written such files.
KEPT = {"name": "gb.alpha.7.0.1", "remote_id": 12, "reason": "caf\u00e9 100%"}
VERDICT = Message(outcome=Outcome.EXIT, exit_status="3")
CURSOR = Cursor(
    cluster="beta",
    path="/var/lib/gridengine/beta/common/accounting",
    place=Place(device=2**64 - 1, inode=2**63, offset=3_000_000_000, tail="00ff"),
    skipped=2,
)
RECORD = RemoteRecord(
    transfer="gb.alpha.7.0.1",
    cluster="beta",
    source=Source.ACCOUNTING,
    mark="00aa",
    job_id=12,
    owner="alice",
    queue="all.q",
    host="beta-n1",
    ended_at=datetime(2026, 3, 1, 12, tzinfo=UTC),
    failed=100,
    exit_status=137,
    wallclock_s=60.5,
    user_s=1.25,
    system_s=0.0,
    max_rss_kb=4760.0,
)


def url_of(path: Path) -> str:
    return f"sqlite:///{path}"


def transfers_in(path: Path) -> Transfers:
    return Transfers(Database.open(url_of(path)))


def run(code: str, path: Path) -> subprocess.Popen[bytes]:
    """Run code with a state file `db` open and a transfer `one`, in a process of its own."""
    head = """
import sys
from datetime import UTC, datetime
from gridbridge.model.transfer.transfer import Transfer
from gridbridge.state.database import Database
from gridbridge.state.database.transfers import Transfers
noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
one = Transfer(name="gb.alpha.7.0.1", uid=1001, owner="", remote="", queue="", phase="",
               record="", wake="", rerun="", created_at=noon, updated_at=noon)
db = Database.open(sys.argv[1])
transfers = Transfers(db)
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
        transfers_in(tmp_path / "state.db").put(a_transfer())
    finally:
        os.umask(before)

    assert {one.name: one.stat().st_mode & 0o777 for one in tmp_path.iterdir()} == {
        "state.db": 0o600,
        "state.db-journal": 0o600,
    }


def test_an_empty_file_becomes_a_state_file(tmp_path: Path) -> None:
    """It is what kill -9 leaves right after the file was made."""
    (tmp_path / "state.db").touch()

    assert transfers_in(tmp_path / "state.db").open() == ()


def test_a_file_of_the_first_schema_is_read(tmp_path: Path, a_transfer: Build) -> None:
    dump = (Path(__file__).parent / "state-0001.sql").read_text()
    sqlite3.connect(tmp_path / "state.db").executescript(dump)

    database = Database.open(url_of(tmp_path / "state.db"))

    assert Transfers(database).open() == (a_transfer(**KEPT, verdict=VERDICT),)
    assert [one.text for one in Transfers(database).events("gb.alpha.7.0.1", 1001)] == ["sent"]


@pytest.mark.parametrize("letters", ["", "qw", "hRwq", "dS", "tT", "Eqw", "s", "z", "rX"])
def test_letters_of_an_older_file_become_the_same_facts(tmp_path: Path, letters: str) -> None:
    dump = (Path(__file__).parent / "state-0001.sql").read_text()
    plain = sqlite3.connect(tmp_path / "state.db")
    plain.executescript(dump)
    plain.execute("UPDATE transfers SET local_state = 'hr', remote_state = ?", (letters,))
    plain.commit()

    (known,) = Transfers(Database.open(url_of(tmp_path / "state.db"))).open()

    assert (known.local_state, known.remote_state) == (job_state("hr"), job_state(letters))


def test_a_file_of_the_second_schema_is_read(tmp_path: Path) -> None:
    """tests/state/state-0002.sql was made as the first one was, with a cursor and a record."""
    dump = (Path(__file__).parent / "state-0002.sql").read_text()
    sqlite3.connect(tmp_path / "state.db").executescript(dump)

    database = Database.open(url_of(tmp_path / "state.db"))

    assert Accounting(database).cursors() == (CURSOR,)
    assert Accounting(database).records_of("alpha", 7, 0) == (RECORD,)
    assert Transfers(database).open() == ()
    untold = replace(RECORD, mark="00bb", wallclock_s=None, user_s=None, system_s=None)
    march = datetime(2026, 3, 1, tzinfo=UTC)
    assert Accounting(database).put_record(untold, march) == (RECORD, untold)


def test_the_migrations_make_the_schema_of_the_program(database: Database) -> None:
    with database._engine.begin() as connection:
        config = alembic_config(connection)
        command.check(config)

        assert ScriptDirectory.from_config(config).get_current_head() == HEAD


def test_alembic_stays_away_when_nothing_has_to_migrate(tmp_path: Path) -> None:
    """It costs more than all else of a short command's start."""
    Database.open(url_of(tmp_path / "state.db"))
    out, _ = run("print('alembic' in sys.modules)", tmp_path / "state.db").communicate(timeout=60)

    assert out == b"False\n"


def test_no_part_for_another_database_is_loaded() -> None:
    """SQLAlchemy's for PostgreSQL takes as long as a command's own modules."""
    program = """
import importlib, pkgutil, sys
from gridbridge.state import database
for module in pkgutil.walk_packages(database.__path__, "gridbridge.state.database."):
    importlib.import_module(module.name)
print("sqlalchemy.dialects.postgresql" in sys.modules)
"""
    argv = (sys.executable, "-I", "-c", program)
    ran = subprocess.run(argv, capture_output=True, text=True, check=True)

    assert ran.stdout == "False\n"


def test_a_file_that_may_not_change_is_read_and_never_written(
    tmp_path: Path, a_transfer: Build
) -> None:
    """Nor is it made, or brought to another schema; a name may hold what a URI gives a meaning."""
    path = tmp_path / "odd?name #1.db"
    url = f"sqlite:///{path}".replace("?", "%3F").replace("#", "%23")
    with pytest.raises(StateError, match=r"not there yet$"):
        Database.open(url, is_unchanged=True)
    Transfers(Database.open(url)).put(a_transfer())
    before = {each: each.read_bytes() for each in tmp_path.iterdir()}

    transfers = Transfers(Database.open(url, is_unchanged=True))

    assert len(transfers.open()) == 1
    with pytest.raises(StateError, match="readonly database"):
        transfers.put(a_transfer())
    assert {each: each.read_bytes() for each in tmp_path.iterdir()} == before
    with sqlite3.connect(path) as plain:
        plain.execute("UPDATE alembic_version SET version_num = '0001'")
    with pytest.raises(StateError, match=f"schema 0001 is not {HEAD}"):
        Database.open(url, is_unchanged=True)


def test_a_server_refuses_changes_where_none_may_be_made(state_url: str) -> None:
    campaigns = Campaigns(Database.open(state_url))
    unchanged = Campaigns(Database.open(state_url, is_unchanged=True))

    assert unchanged.all() == campaigns.all()
    with pytest.raises(StateError, match=r"read-?only"):
        unchanged.drop_waiting(1)


def test_a_newer_schema_is_refused(tmp_path: Path, a_transfer: Build) -> None:
    path = tmp_path / "state.db"
    transfers_in(path).put(a_transfer())
    with sqlite3.connect(path) as plain:
        plain.execute("UPDATE alembic_version SET version_num = '9999'")
    before = path.read_bytes()

    with pytest.raises(StateError, match=f"schema 9999 is newer than {HEAD}"):
        Database.open(url_of(path))
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"#!/bin/sh\n" * 500, "file is not a database"), (b"\0" * 4096, "file is not a database")],
    ids=["script", "zeros"],
)
def test_a_file_that_is_no_database_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "state.db").write_bytes(content)

    with pytest.raises(StateError, match=f"state.db: {reason}"):
        Database.open(url_of(tmp_path / "state.db"))
    assert (tmp_path / "state.db").read_bytes() == content


def test_another_programs_database_is_refused(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "state.db").execute("CREATE TABLE bookmarks (url TEXT)")

    with pytest.raises(StateError, match="not a state file of gridbridge"):
        Database.open(url_of(tmp_path / "state.db"))


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
        Database.open(url)


def test_a_password_is_not_shown() -> None:
    with pytest.raises(StateError) as refused:
        Database.open("postgresql://gridbridge:secret@127.0.0.1:1/gridbridge")

    assert "secret" not in str(refused.value)


def test_a_missing_driver_is_told_with_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)

    with pytest.raises(StateError, match=r"psycopg.*; it comes with gridbridge\[postgresql\]"):
        Database.open("postgresql://gridbridge@127.0.0.1:1/gridbridge")


def test_a_kill_in_a_transaction_leaves_the_old_state(tmp_path: Path, a_transfer: Build) -> None:
    """The transaction is larger than SQLite's cache, so a part of it is in the file already."""
    path = tmp_path / "state.db"
    transfers_in(path).put(a_transfer())
    size = path.stat().st_size
    child = run(
        """
with db.transaction():
    for uid in range(2000):
        transfers.put(one.but(uid=uid, reason="x" * 4000))
    print("written", flush=True)
    sys.stdin.read()
""",
        path,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"written\n"
    child.kill()
    child.wait()
    assert path.stat().st_size > size

    assert transfers_in(path).open() == (a_transfer(),)
    assert integrity(path) == "ok"


@pytest.mark.killing
def test_a_kill_at_any_moment_leaves_whole_transactions(tmp_path: Path) -> None:
    """Two transfers change together; the reader of the pipe knows what was committed."""
    path = tmp_path / "state.db"
    code = """
last = max((one.remote_id for one in transfers.open()), default=0)
for number in range(last + 1, 1000000):
    with db.transaction():
        transfers.put(one.but(remote_id=number))
        transfers.put(one.but(uid=1002, remote_id=number))
    print(number, flush=True)
"""
    for _ in range(8):
        child = run(code, path)
        assert child.stdout is not None
        first = child.stdout.readline()
        time.sleep(random.random() / 10)  # the moment of the kill is what varies
        child.send_signal(signal.SIGKILL)
        told = [
            int(line)
            for line in (first + child.stdout.read()).splitlines(True)
            if line[-1:] == b"\n"
        ]
        child.wait()
        kept = {one.remote_id for one in transfers_in(path).open()}

        assert kept in ({told[-1]}, {told[-1] + 1})
    assert integrity(path) == "ok"


def test_two_processes_write_without_losing_anything(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    code = """
for _ in range(100):
    with db.transaction():
        seen = transfers.find(one.name, one.uid) or one
        transfers.put(seen.but(missed_polls=seen.missed_polls + 1))
"""
    children = [run(code, path) for _ in range(2)]  # both make the file, too

    assert [child.wait(timeout=120) for child in children] == [0, 0]
    found = transfers_in(path).find("gb.alpha.7.0.1", 1001)
    assert found is not None
    assert found.missed_polls == 200
