"""The spool: how people's processes send messages to the service (the writers' half).

The folder belongs to the service account and has mode 1733: everybody may add a message,
nobody but the service may list it, and the sticky bit keeps each file its owner's. Names are
random, so nobody finds another's message or FIFO; what counts is a file's content and the uid
that the kernel tells. Hot programs load this module.
"""

import os
import stat

from gridbridge.errors import StateError
from gridbridge.model.message import StarterMessage, encode_short
from gridbridge.model.places import SPOOL
from gridbridge.shell import files

WAKE = "wake"  # the folder of the starters' FIFOs, below the spool
MESSAGE = "m."  # what a finished message's name begins with
MARK = "m.mark"  # as old as the spool is since it was last emptied: a record may not be older
IN_PLACE = "w."  # the same for a message that a shell writes in its place: an empty line ends it


def send(message: StarterMessage, spool: str = SPOOL) -> str:
    """Put a message into the spool and return its path; StateError when it can't be written."""
    path = f"{spool}/{files.random_name(MESSAGE)}"
    files.replace(path, encode_short(message))
    return path


def make_wake(spool: str = SPOOL) -> str:
    """Make the FIFO that a starter sleeps on, and return its name."""
    name = files.random_name()
    keep_wake(name, spool)
    return name


def keep_wake(name: str, spool: str = SPOOL) -> None:
    """Make a starter's FIFO if it is missing.

    Others may write: the service is another user. Only the service can list the names.
    """
    path = f"{spool}/{WAKE}/{name}"
    try:
        os.mkfifo(path, 0o600)
        os.chmod(path, 0o622)  # noqa: S103 - the service, another user, writes to it
    except FileExistsError:
        return
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}") from error


def remove_wake(name: str, spool: str = SPOOL) -> None:
    """Remove a FIFO that nobody will sleep on again; only its owner and the service may.

    Anything else that lies there (a folder) is left to its owner.
    """
    try:
        if name.isalnum():
            files.remove(f"{spool}/{WAKE}/{name}")
    except OSError:
        return


def wake(name: str, spool: str = SPOOL, owner: int | None = None) -> bool:
    """Wake the starter that sleeps on this FIFO; False when nobody does.

    With `owner`, a FIFO that is somebody else's is not touched.
    """
    end = _open_wake(name, spool, owner)
    if end < 0:
        return False
    try:
        os.write(end, b"\n")
    except BlockingIOError:
        return True  # full of earlier calls: it will wake
    except OSError:
        return False
    finally:
        os.close(end)
    return True


def is_asleep(name: str, owner: int, spool: str = SPOOL) -> bool:
    """Say whether a starter of that uid sleeps on this FIFO."""
    end = _open_wake(name, spool, owner)
    if end >= 0:
        os.close(end)
    return end >= 0


def _open_wake(name: str, spool: str, owner: int | None) -> int:
    """Open a FIFO that somebody reads; -1 for anything else."""
    if not name.isalnum():
        return -1
    path = f"{spool}/{WAKE}/{name}"
    try:
        end = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return -1
    facts = os.fstat(end)
    if stat.S_ISFIFO(facts.st_mode) and owner in (None, facts.st_uid):
        return end
    os.close(end)
    return -1
