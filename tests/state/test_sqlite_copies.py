"""A state file is copied while programs write, and is replaced only whole, valid, and while no program runs."""

import fcntl
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from gridbridge.errors import StateError
from gridbridge.state import sqlite_copies
from gridbridge.state.sqlite_copies import COPY, FORMER, RESTORED
from gridbridge.state.state_file import HEAD, StateFile

WRITER = """
import os, sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
database.execute("PRAGMA journal_mode = PERSIST")
database.execute("PRAGMA cache_size = 1")
database.execute("BEGIN IMMEDIATE")
database.execute("DELETE FROM x")
database.executemany("INSERT INTO x VALUES (?, ?)", ((n, "y" * 900) for n in range(1, 500)))
print("changed", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return the path of a state file with 500 rows in a further table `x`."""
    path = str(tmp_path / "state.db")
    StateFile.open(f"sqlite:///{path}").close()
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE x(n, text)")
        database.executemany("INSERT INTO x VALUES (?, ?)", ((-n, "x" * 900) for n in range(500)))
    return path


def rows(path: str) -> int:
    with closing(sqlite3.connect(path)) as database:
        return int(database.execute("SELECT count(*) FROM x WHERE n <= 0").fetchone()[0])


def call(*words: str, stdin: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [sys.executable, *sqlite_copies.PROGRAM, *words], input=stdin, capture_output=True, check=False
    )


def killed_writer(path: str) -> None:
    """Leave a journal, by which the next reader rolls the killed writer's transaction back."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout
        assert writer.stdout.readline() == b"changed\n"
        writer.kill()


def test_a_copy_has_no_change_of_a_killed_writer(path: str) -> None:
    killed_writer(path)

    done = call("copy", path)

    assert (done.stdout.decode(), done.stderr, done.returncode) == (HEAD, b"", 0)
    assert rows(f"{path}{COPY}") == 500
    assert os.stat(f"{path}{COPY}").st_mode & 0o777 == 0o600


def test_the_journal_of_the_former_file_does_not_change_the_restored_file(path: str) -> None:
    sqlite_copies.copy_state_file(path)
    backup = Path(f"{path}{COPY}").read_bytes()
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DELETE FROM x WHERE n < -100")
    killed_writer(path)

    done = call("replace", path, f"{path}.lock", stdin=backup)

    assert (done.stdout.decode(), done.stderr) == (HEAD, b"")
    assert (rows(path), rows(f"{path}{FORMER}")) == (500, 101)
    assert not os.path.exists(f"{path}{RESTORED}")


def test_nothing_is_replaced_while_a_program_runs(path: str) -> None:
    sqlite_copies.copy_state_file(path)
    backup, before = Path(f"{path}{COPY}").read_bytes(), Path(path).read_bytes()
    with open(f"{path}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = call("replace", path, f"{path}.lock", stdin=backup)

    assert (done.stdout, done.stderr.decode()) == (b"", f"{path}.lock: its program still runs\n")
    assert Path(path).read_bytes() == before
    assert not os.path.exists(f"{path}{RESTORED}")


HOLDER = """
import sys
from gridbridge.shell.program_lock_file import take_lock_until_exit
assert take_lock_until_exit(sys.argv[1])
print(flush=True)
sys.stdin.read()
"""


def test_a_program_is_stopped_if_asked_and_named(path: str) -> None:
    sqlite_copies.copy_state_file(path)
    backup, lock = Path(f"{path}{COPY}").read_bytes(), f"{path}.lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout
        holder.stdout.readline()
        done = call("stop-and-replace", path, lock, stdin=backup)

    assert (done.stdout.decode().splitlines(), holder.returncode) == ([HEAD, lock], -15)


def test_a_damaged_former_file_is_replaced_too(path: str) -> None:
    sqlite_copies.copy_state_file(path)
    backup = Path(f"{path}{COPY}").read_bytes()
    Path(path).write_bytes(b"no database" * 1000)
    Path(f"{path}-journal").write_bytes(b"its journal")

    assert call("replace", path, stdin=backup).returncode == 0
    assert rows(path) == 500


@pytest.mark.parametrize(
    ("statement", "wrong"),
    [
        ("DROP TABLE alembic_version", "no state file of gridbridge: no such table: alembic_version"),
        ("UPDATE alembic_version SET version_num = '9999'", "schema 9999 is too new"),
    ],
)
def test_a_foreign_or_newer_file_is_refused(path: str, statement: str, wrong: str) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(statement)

    with pytest.raises(StateError, match=wrong):
        sqlite_copies.require_restorable_file(path)


def test_a_cut_file_is_refused(path: str) -> None:
    whole = Path(path).read_bytes()

    done = call("replace", path, stdin=whole[: len(whole) // 2])

    assert done.returncode == 1
    assert done.stderr.decode().startswith(f"{path}{RESTORED}: ")
    assert Path(path).read_bytes() == whole
