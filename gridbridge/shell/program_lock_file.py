"""The lock of a program such as the poller, held until exit (flock(2)); its mtime is the heartbeat."""

import fcntl
import os
import time

from gridbridge.errors import StateError

TYPE_CHECKING = False  # importing typing would take as long as importing json
if TYPE_CHECKING:
    from collections.abc import Callable

# Root must not block if account gridbridge replaces the lock file by a FIFO.
OPTIONS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
VERSION_BYTES = 100
PATIENCE_S = 60.0
PAUSE_S = 0.2


def take_lock_until_exit(path: str, version: str = "") -> bool:
    """Take a program's lock until this process ends; return False if another process holds the lock.

    Only the owner may open the file, because any reader can lock it. A second lock, by lockf, shows the pid (fcntl(2),
    F_GETLK); this process loses the second lock if it opens the file again.
    """
    end = _open_lock_file(path)
    try:
        fcntl.flock(end, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.lockf(end, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    _write_lock_holder_version(end, version)
    return True


def _open_lock_file(path: str) -> int:
    try:
        end = os.open(path, os.O_RDWR | os.O_CREAT | OPTIONS, 0o600)
        os.fchmod(end, 0o600)
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}") from error
    return end


def _write_lock_holder_version(end: int, version: str) -> None:
    try:
        os.ftruncate(end, 0)
        os.pwrite(end, version.encode(), 0)
    except OSError:
        return


def lock_file_holder_version(path: str) -> str | None:
    """Return the holder's version, perhaps empty; None if no process holds the lock or the file is unreadable."""
    if not is_lock_file_held(path):
        return None
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | OPTIONS)) as file:
            return (file.read(VERSION_BYTES) or b"").decode("ascii", "replace")
    except OSError:
        return None


class MomentaryProgramLock:
    """Holds a lock in a `with` block, whose value is False if another process holds the lock."""

    def __init__(self, path: str, *, is_shared: bool = False) -> None:
        self._path = path
        self._how = fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX

    def __enter__(self) -> bool:
        try:
            self._end = os.open(self._path, os.O_RDWR | os.O_CREAT | OPTIONS, 0o600)
            fcntl.flock(self._end, self._how | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            raise StateError(f"{self._path}: {error.strerror}") from error
        return True

    def __exit__(self, *_: object) -> None:
        os.close(self._end)


def wait_for_lock_until_exit(path: str, announce: "Callable[[], None]", most_s: float = PATIENCE_S) -> bool:
    """Wait at most `most_s` for a program's lock; hold the lock until this process ends, or return False."""
    end = _open_lock_file(path)
    until = time.monotonic() + most_s
    is_told = False
    while not _lock_exclusively_if_free(end):
        if time.monotonic() > until:
            os.close(end)
            return False
        if not is_told:
            announce()
        is_told = True
        time.sleep(PAUSE_S)
    return True


def _lock_exclusively_if_free(end: int) -> bool:
    try:
        fcntl.flock(end, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def renew_lock_file_heartbeat(path: str, ahead_s: float = 0) -> None:
    """Set the lock file's time to `ahead_s` seconds from now, as a heartbeat, even on a full disk."""
    until = time.time() + ahead_s
    try:
        os.utime(path, (until, until), follow_symlinks=False)
    except OSError:
        return


def last_lock_file_heartbeat(path: str) -> float:
    """Return the time of the last heartbeat in a program's lock file; 0 if the file can't be examined."""
    try:
        return os.stat(path, follow_symlinks=False).st_mtime
    except OSError:
        return 0.0


def is_lock_file_held(path: str) -> bool | None:
    """Say whether a process holds a lock; None if this process may not open the lock file."""
    try:
        end = os.open(path, os.O_RDONLY | OPTIONS)
    except PermissionError:
        return None
    except OSError:
        return False
    try:
        fcntl.flock(end, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(end)
    return False
