"""Reads and writes a local task's notes, files in TMPDIR/.gridbridge.

An empty or truncated note counts as missing. sge-methods/finish writes notes in the same way.
"""

import os

from gridbridge.errors import ParseError, StateError, TmpdirFull
from gridbridge.model.message import MAX_BYTES, StarterMessage, decode_message
from gridbridge.shell import files

NO_ROOM = (28, 122)  # ENOSPC, EDQUOT of errno(3), as numbers to save an import
TRIED = "tried"  # the note that tests for free space


def write_note(path: str, data: bytes = b"") -> None:
    """Write a note atomically, by a rename; TmpdirFull when TMPDIR is full."""
    try:
        files.replace_file(path, data, durable=False)
    except StateError as error:
        raise note_space_error(error.__cause__, path) or error from error


def read_note_message(path: str) -> StarterMessage | None:
    """Read a note that holds a message; None for a missing, empty or truncated note."""
    try:
        return decode_message(files.read_safe_file(path, MAX_BYTES, os.getuid())[0])
    except (FileNotFoundError, ParseError):
        return None


def read_note_number(path: str) -> float | None:
    """Read a note that holds a number; None for a missing or empty note."""
    try:
        return float(files.read_safe_file(path, MAX_BYTES, os.getuid())[0])
    except (FileNotFoundError, ValueError):
        return None


def require_note_space(folder: str) -> None:
    """Raise TmpdirFull unless the folder has space for a note of the largest size."""
    path = f"{folder}/{TRIED}"
    write_note(path, bytes(MAX_BYTES))
    files.remove_file(path)


def note_space_error(error: BaseException | None, path: str) -> TmpdirFull | None:
    """Return TmpdirFull if TMPDIR's filesystem is full or the quota is used up, else None."""
    if not isinstance(error, OSError) or error.errno not in NO_ROOM:
        return None
    return TmpdirFull(f"no room in $TMPDIR: {path}: {error.strerror}")
