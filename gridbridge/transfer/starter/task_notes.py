"""Reads and writes a local task's notes, files in TMPDIR/.gridbridge.

An empty or truncated note counts as missing. sge-methods/finish writes notes in the same way.
"""

import os

from gridbridge.errors import NoRoom, ParseError, StateError
from gridbridge.model.message import MAX_BYTES, StarterMessage, decode
from gridbridge.shell import files

NO_ROOM = (28, 122)  # ENOSPC, EDQUOT of errno(3), as numbers to save an import
TRIED = "tried"  # the note that tests for free space


def write(path: str, data: bytes = b"") -> None:
    """Write a note atomically, by a rename; NoRoom when TMPDIR is full."""
    try:
        files.replace(path, data, durable=False)
    except StateError as error:
        raise lack(error.__cause__, path) or error from error


def read(path: str) -> StarterMessage | None:
    """Read a note that holds a message; None for a missing, empty or truncated note."""
    try:
        return decode(files.read(path, MAX_BYTES, os.getuid())[0])
    except (FileNotFoundError, ParseError):
        return None


def number(path: str) -> float | None:
    """Read a note that holds a number; None for a missing or empty note."""
    try:
        return float(files.read(path, MAX_BYTES, os.getuid())[0])
    except (FileNotFoundError, ValueError):
        return None


def require_room(folder: str) -> None:
    """Raise NoRoom unless the folder has space for a note of the largest size."""
    path = f"{folder}/{TRIED}"
    write(path, bytes(MAX_BYTES))
    files.remove(path)


def lack(error: BaseException | None, path: str) -> NoRoom | None:
    """Return NoRoom if TMPDIR's filesystem is full or the quota is used up, else None."""
    if not isinstance(error, OSError) or error.errno not in NO_ROOM:
        return None
    return NoRoom(f"no room in $TMPDIR: {path}: {error.strerror}")
