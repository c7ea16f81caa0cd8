"""The notes of a local task, in TMPDIR/.gridbridge: an empty or cut note counts as none.

sge-methods/finish writes them in the same way, from a shell.
"""

import os

from gridbridge.errors import NoRoom, ParseError, StateError
from gridbridge.model.message import MAX_BYTES, StarterMessage, decode
from gridbridge.shell import files

NO_ROOM = (28, 122)  # ENOSPC, EDQUOT: errno(3), which is one import less
TRIED = "tried"  # the note that is written to test for room


def write(path: str, data: bytes = b"") -> None:
    """Write a note under another name and rename it; NoRoom where TMPDIR takes no more."""
    try:
        files.replace(path, data, durable=False)
    except StateError as error:
        raise lack(error.__cause__, path) or error from error


def read(path: str) -> StarterMessage | None:
    """Read a note that is a message; None for a missing, empty or cut note."""
    try:
        return decode(files.read(path, MAX_BYTES, os.getuid())[0])
    except (FileNotFoundError, ParseError):
        return None


def number(path: str) -> float | None:
    """Read a note that is a number; None for a missing or empty note."""
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
    """Return the error for a full filesystem of TMPDIR, or a used up quota there."""
    if not isinstance(error, OSError) or error.errno not in NO_ROOM:
        return None
    return NoRoom(f"no room in $TMPDIR: {path}: {error.strerror}")
