"""The poller's lock: held as long as the process that took it lives (flock(2)).

Hot programs load this module.
"""

import fcntl
import os

from gridbridge.errors import StateError

OPTIONS = os.O_NOFOLLOW | os.O_CLOEXEC


def take(path: str) -> bool:
    """Hold the lock as long as this process lives; False when another one does.

    Nobody else may open the file: who can read it can lock it.
    """
    try:
        end = os.open(path, os.O_RDWR | os.O_CREAT | OPTIONS, 0o600)
        os.fchmod(end, 0o600)
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}") from error
    try:
        fcntl.flock(end, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


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
