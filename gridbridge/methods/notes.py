"""The notes of a local task, in TMPDIR/.gridbridge: each is there whole, or counts as none.

sge-methods/finish writes them in the same way, from a shell.
"""

import os

from gridbridge.errors import NoRoom, ParseError, StateError
from gridbridge.model.message import MAX_BYTES, Message, decode
from gridbridge.shell import files

NO_ROOM = (28, 122)  # ENOSPC, EDQUOT: errno(3), which is one import less
TRIED = "tried"  # what is written to find out whether there is room


def write(path: str, data: bytes = b"") -> None:
    """Put a note there, written beside and renamed; NoRoom where TMPDIR takes no more."""
    try:
        files.replace(path, data, durable=False)
    except StateError as error:
        raise lack(error.__cause__, path) or error from error


def read(path: str) -> Message | None:
    """Read a note that is a message; None where there is none, or an empty or cut one."""
    try:
        return decode(files.read(path, MAX_BYTES, os.getuid())[0])
    except (FileNotFoundError, ParseError):
        return None


def number(path: str) -> float | None:
    """Read a note that is a number; None where there is none, or an empty one."""
    try:
        return float(files.read(path, MAX_BYTES, os.getuid())[0])
    except (FileNotFoundError, ValueError):
        return None


def require_room(folder: str) -> None:
    """Raise NoRoom unless the folder takes a note of the largest size."""
    path = f"{folder}/{TRIED}"
    write(path, bytes(MAX_BYTES))
    files.remove(path)


def lack(error: BaseException | None, path: str) -> NoRoom | None:
    """Return what to tell where the filesystem of TMPDIR is full, or a quota there is used up."""
    if not isinstance(error, OSError) or error.errno not in NO_ROOM:
        return None
    return NoRoom(f"no room in $TMPDIR: {path}: {error.strerror}")
