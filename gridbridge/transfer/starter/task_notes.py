"""Reads and writes a local task's notes, files in TMPDIR/.gridbridge.

An empty or truncated note counts as missing. sge-methods/finish writes notes in the same way.
"""

import os

from gridbridge.errors import JobTmpdirFull, ParseError, StateError
from gridbridge.model.transfer_message import MAX_BYTES, TransferMessage, decode_transfer_message
from gridbridge.shell import safe_files

NO_ROOM = (28, 122)  # ENOSPC and EDQUOT of errno(3), as numbers to save an import
TRIED = "tried"  # name of the note that is written to test for free space


def write_note(path: str, data: bytes = b"") -> None:
    """Write a note atomically, by a rename; JobTmpdirFull when TMPDIR is full."""
    try:
        safe_files.replace_file_atomically(path, data, durable=False)
    except StateError as error:
        raise tmpdir_full_error_of(error.__cause__, path) or error from error


def read_note_message(path: str) -> TransferMessage | None:
    """Read a note that holds a message; None for a missing, empty or truncated note."""
    try:
        return decode_transfer_message(safe_files.read_file_only_owner_writes(path, MAX_BYTES, os.getuid())[0])
    except (FileNotFoundError, ParseError):
        return None


def read_note_number(path: str) -> float | None:
    """Read a note that holds a number; None for a missing or empty note."""
    try:
        return float(safe_files.read_file_only_owner_writes(path, MAX_BYTES, os.getuid())[0])
    except (FileNotFoundError, ValueError):
        return None


def require_note_space(folder: str) -> None:
    """Raise JobTmpdirFull unless the folder has space for the largest note."""
    path = f"{folder}/{TRIED}"
    write_note(path, bytes(MAX_BYTES))
    safe_files.remove_file(path)


def tmpdir_full_error_of(error: BaseException | None, path: str) -> JobTmpdirFull | None:
    """Return JobTmpdirFull if TMPDIR's filesystem is full or the quota is used up, else None."""
    if not isinstance(error, OSError) or error.errno not in NO_ROOM:
        return None
    return JobTmpdirFull(f"no room in $TMPDIR: {path}: {error.strerror}")
