"""Writes messages into the spool, and wakes starters that sleep on FIFOs.

The spool has mode 1733: anybody may add files, so the service relies only on a file's content and uid. Starters
load this module, so it imports little.
"""

import os
import stat

from gridbridge.errors import StateError
from gridbridge.model.fixed_paths import SPOOL
from gridbridge.model.transfer_messages_in_spool import TransferMessage, encode_message_cutting_reason
from gridbridge.shell import safe_files

WAKE = "wake"
MESSAGE = "m."  # name prefix of a complete message
MARK = "m.mark"  # name of an empty file; its age shows when files of the spool were last lost
IN_PLACE = "w."  # name prefix of a message that a shell writes without a rename: it ends with an empty line


def send_spool_message(message: TransferMessage, spool: str = SPOOL) -> str:
    """Write a message into the spool, and return the path of its file; raise StateError on failure."""
    path = f"{spool}/{safe_files.random_file_name(MESSAGE)}"
    safe_files.replace_file_atomically(path, encode_message_cutting_reason(message))
    return path


def create_starter_wake_fifo(spool: str = SPOOL) -> str:
    """Create the FIFO on which a starter sleeps until somebody writes to it; return the FIFO's name."""
    name = safe_files.random_file_name()
    ensure_starter_wake_fifo(name, spool)
    return name


def ensure_starter_wake_fifo(name: str, spool: str = SPOOL) -> None:
    """Create a starter's FIFO if it is missing; other users may write to the FIFO."""
    path = f"{spool}/{WAKE}/{name}"
    try:
        os.mkfifo(path, 0o600)
        os.chmod(path, 0o622)  # noqa: S103 - the service, another user, writes to the FIFO
    except FileExistsError:
        return
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}") from error


def remove_starter_wake_fifo(name: str, spool: str = SPOOL) -> None:
    """Remove a starter's FIFO, if this is permitted."""
    try:
        if name.isalnum():
            safe_files.remove_file(f"{spool}/{WAKE}/{name}")
    except OSError:
        return


def wake_starter(name: str, spool: str = SPOOL, owner: int | None = None) -> bool:
    """Wake the starter that sleeps on a FIFO of uid `owner` (None: any uid); return False if none sleeps."""
    end = _open_starter_wake_fifo(name, spool, owner)
    if end < 0:
        return False
    try:
        os.write(end, b"\n")
    except BlockingIOError:
        return True  # the FIFO is full of earlier calls, so the starter wakes anyway
    except OSError:
        return False
    finally:
        os.close(end)
    return True


def is_starter_asleep(name: str, owner: int, spool: str = SPOOL) -> bool:
    end = _open_starter_wake_fifo(name, spool, owner)
    if end >= 0:
        os.close(end)
    return end >= 0


def _open_starter_wake_fifo(name: str, spool: str, owner: int | None) -> int:
    """Open a FIFO for writing; return -1 if nobody reads it, or if it is no FIFO of `owner`."""
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
