"""The poller's lock: held as long as the process that took it lives (flock(2)).

Its file's time is the holder's sign of life. Hot programs load this module.
"""

import fcntl
import os
import time

from gridbridge.errors import StateError

TYPE_CHECKING = False  # typing's own costs as much as json
if TYPE_CHECKING:
    from collections.abc import Callable

# Whoever looks, as root, waits at no FIFO that the service account put in the place of the file.
OPTIONS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
VERSION_BYTES = 100
PATIENCE_S = 60.0
PAUSE_S = 0.2


def take(path: str, version: str = "") -> bool:
    """Hold the lock as long as this process lives; False when another one does.

    The lock's file says which version of the code holds the lock, if the disk has room.
    Nobody else may open the file: who can read it can lock it. The second lock is what tells
    its holder's process id (fcntl(2), F_GETLK); it is lost if this process opens the file again.
    """
    end = _opened(path)
    try:
        fcntl.flock(end, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.lockf(end, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    _note(end, version)
    return True


def _opened(path: str) -> int:
    try:
        end = os.open(path, os.O_RDWR | os.O_CREAT | OPTIONS, 0o600)
        os.fchmod(end, 0o600)
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}") from error
    return end


def _note(end: int, version: str) -> None:
    try:
        os.ftruncate(end, 0)
        os.pwrite(end, version.encode(), 0)
    except OSError:
        return


def version_of_holder(path: str) -> str | None:
    """Return which version of the code holds the lock; empty if the file does not say it.

    None without a holder, or if we may not see the holder.
    """
    if not is_held(path):
        return None
    try:
        with open(path, "rb", opener=_open) as file:
            return (file.read(VERSION_BYTES) or b"").decode("ascii", "replace")
    except OSError:
        return None


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | OPTIONS)


class MomentaryLock:
    """The lock for a moment, where nobody else holds it: `with Held(path) as is_ours`.

    Several may share it, where nobody holds it alone.
    """

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


def await_turn(path: str, announce: "Callable[[], None]", most_s: float = PATIENCE_S) -> bool:
    """Hold the lock as long as this process lives, if need be after a wait; False: in vain."""
    end = _opened(path)
    until = time.monotonic() + most_s
    is_told = False
    while not _locked(end):
        if time.monotonic() > until:
            os.close(end)
            return False
        if not is_told:
            announce()
        is_told = True
        time.sleep(PAUSE_S)
    return True


def _locked(end: int) -> bool:
    try:
        fcntl.flock(end, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def beat(path: str, ahead_s: float = 0) -> None:
    """Show that the holder lives, and will do so again within that many seconds.

    It needs no room, so it works on a full disk; other parts report a disk that can't be written.
    """
    until = time.time() + ahead_s
    try:
        os.utime(path, (until, until), follow_symlinks=False)
    except OSError:
        return


def last_beat(path: str) -> float:
    """Return when the holder showed that it lives, 0 when that can't be seen."""
    try:
        return os.stat(path, follow_symlinks=False).st_mtime
    except OSError:
        return 0.0


def is_held(path: str) -> bool | None:
    """Say whether some process holds the lock; None when that is not ours to see.

    Asked with a shared lock, so that two who ask at once don't take each other for the holder.
    """
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
