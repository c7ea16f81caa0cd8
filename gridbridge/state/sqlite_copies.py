"""Copies and replaces an SQLite state file; run as a program of the account that owns the file.

Another account's file left in the folder, a lock file above all, would stop the service. Root therefore calls this
module by setpriv(1) and writes nothing there itself.
"""

import os
import shutil
import signal
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing, suppress

from gridbridge.errors import StateError
from gridbridge.shell import program_lock_file, safe_files
from gridbridge.shell.hung_poller_kill import find_poller_lock_holder
from gridbridge.state.state_file import BUSY_S, HEAD

FORMER = ".before-restore"
COPY, RESTORED = ".copy", ".restored"
TRIES, TRY_S = 60, 1.0  # for each lock of a program that is told to stop
PROGRAM = ("-I", "-m", "gridbridge.state.sqlite_copies")
COPYING, CHECKING, REPLACING, STOPPING = "copy", "check", "replace", "stop-and-replace"


def copy_state_file(path: str) -> str:
    """Copy a state file that may be in use to PATH.copy by SQLite's backup interface; return the schema's version.

    Writers wait meanwhile, because a copy in several steps would begin again after each change by another process.
    """
    copy = f"{path}{COPY}"
    _create_empty_file(copy)
    with (
        closing(sqlite3.connect(f"file:{path}?mode=rw", timeout=BUSY_S, uri=True)) as source,
        closing(sqlite3.connect(copy)) as target,
    ):
        source.backup(target)
    return require_restorable_file(copy)


def require_restorable_file(path: str) -> str:
    """Return the schema version of a state file; raise StateError for a damaged file or a newer schema."""
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            ((verdict,), *_) = database.execute("PRAGMA integrity_check(1)").fetchall()
            ((version,),) = database.execute("SELECT version_num FROM alembic_version").fetchall()
    except (sqlite3.Error, ValueError) as error:
        raise StateError(f"{path}: no state file of gridbridge: {error}") from error
    if verdict != "ok" or version > HEAD:
        wrong = verdict if verdict != "ok" else f"schema {version} is too new; expected at most {HEAD}"
        raise StateError(f"{path}: {wrong}")
    return str(version)


def replace_state_file(path: str, locks: Sequence[str], is_stopping: bool = False) -> list[str]:
    """Put PATH.restored in the place of PATH in one step, while no program runs; keep PATH as PATH.before-restore.

    Return the locks whose programs were stopped; without `is_stopping` a held lock raises StateError. A kill leaves
    the former file or the new one in place.
    """
    stopped = [lock for lock in locks if _take_lock(lock, is_stopping)]
    if os.path.exists(path):
        _end_last_transaction(path)
        safe_files.remove_file(f"{path}{FORMER}")
        os.link(path, f"{path}{FORMER}")
    os.rename(f"{path}{RESTORED}", path)
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(folder)
    os.close(folder)
    return stopped


def _take_lock(lock: str, is_stopping: bool) -> bool:
    """Take a lock until this process ends; return whether its program was stopped, perhaps again and again."""
    stopped: list[int] = []

    def stop_holder() -> None:
        if is_stopping and (pid := find_poller_lock_holder(lock)):
            stopped.append(pid)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)

    for _ in range(TRIES if is_stopping else 1):
        if program_lock_file.wait_for_lock_until_exit(lock, stop_holder, TRY_S):
            return bool(stopped)
    raise StateError(f"{lock}: its program still runs")


def _end_last_transaction(path: str) -> None:
    """Roll a killed program's transaction back: its journal would be applied to the file that takes this path."""
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=rw", timeout=BUSY_S, uri=True)) as database:
            database.execute("BEGIN IMMEDIATE")
    except sqlite3.DatabaseError:  # a damaged file, for which its journal is of no use
        safe_files.remove_file(f"{path}-journal")


def _create_empty_file(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))


def _receive_restored_file(path: str) -> None:
    """Write standard input to PATH.restored."""
    restored = f"{path}{RESTORED}"
    _create_empty_file(restored)
    with open(restored, "wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
        file.flush()
        os.fsync(file.fileno())


def main() -> None:
    """Copy the file, or check or replace it by standard input; print the schema and the locks of stopped programs."""
    verb, path, *locks = sys.argv[1:]
    stopped: list[str] = []
    try:
        if verb == COPYING:
            schema = copy_state_file(path)
        else:
            _receive_restored_file(path)
            schema = require_restorable_file(f"{path}{RESTORED}")
        if verb in (REPLACING, STOPPING):
            stopped = replace_state_file(path, locks, verb == STOPPING)
    except StateError as error:
        sys.exit(str(error))
    except (OSError, sqlite3.Error) as error:
        sys.exit(f"{path}: {getattr(error, 'strerror', '') or error}")
    finally:
        if verb != COPYING:
            safe_files.remove_file(f"{path}{RESTORED}")
    os.write(1, "\n".join((schema, *stopped)).encode())


if __name__ == "__main__":
    main()
