"""Reads lines that other programs append to a file, in spite of rotation and truncation.

The place to continue is found by a checksum of the last bytes read, whatever the file's name is. A rotated file is read
to its end before the new file.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from stat import S_ISREG

from gridbridge.errors import StateError
from gridbridge.model.jobs_and_accounting import AccountingFilePosition

STEP_BYTES = 8 << 20
TAIL_BYTES = 256
QUIET_S = 5.0  # how long after a rename a process may still write to the old file


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendedLines:
    lines: bytes
    place: AccountingFilePosition
    is_more: bool = False
    lost: str = ""  # message about lost lines; empty: no line was lost


def read_appended_lines(
    path: str, position: AccountingFilePosition, now: float, most: int = STEP_BYTES
) -> AppendedLines:
    """Read whole lines of at most `most` bytes; raise StateError if the file can't be read."""
    try:
        return _read_next_appended_lines(path, position, now, most)
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}") from error


def _read_next_appended_lines(path: str, position: AccountingFilePosition, now: float, most: int) -> AppendedLines:
    if _does_path_contain_position(path, position):
        return _read_lines_at_position(path, position, most)
    old = next((name for name in _find_rotated_files(path) if _does_path_contain_position(name, position)), "")
    if not old:
        why = f"{path}: the file was cut short or replaced, and no rotated file has the lines after the last reading"
        return _read_lines_at_position(path, AccountingFilePosition(), most, loss_message=why)
    step = _read_lines_at_position(old, position, most)
    if step.lines or step.is_more:
        return AppendedLines(lines=step.lines, place=step.place, is_more=True)
    status = os.stat(old)
    if now - status.st_mtime < QUIET_S:
        return step
    return _read_lines_at_position(_next_newer_rotated_file(path, old), AccountingFilePosition(), most)


def _next_newer_rotated_file(path: str, old: str) -> str:
    after = os.stat(old).st_mtime_ns
    newer = [name for name in _find_rotated_files(path) if os.stat(name).st_mtime_ns > after]
    return min(newer, key=lambda name: os.stat(name).st_mtime_ns, default=path)


def _find_rotated_files(path: str) -> Iterator[str]:
    folder, _, name = path.rpartition("/")
    for neighbour in sorted(os.listdir(folder or "/")):
        beside = f"{folder}/{neighbour}"
        is_beside = neighbour != name and neighbour.startswith(name)
        if is_beside and S_ISREG(os.lstat(beside).st_mode) and os.access(beside, os.R_OK, effective_ids=True):
            yield beside


def _does_path_contain_position(path: str, position: AccountingFilePosition) -> bool:
    try:
        with open(path, "rb", buffering=0) as file:
            return _does_file_contain_position(file.fileno(), position)
    except FileNotFoundError:  # logrotate has renamed the file, and no new file exists yet
        return False


def _does_file_contain_position(end: int, position: AccountingFilePosition) -> bool:
    status = os.fstat(end)
    if not position.offset:
        return position.inode in (0, status.st_ino)
    return status.st_size >= position.offset and _digest_of_bytes_before_offset(end, position.offset) == position.tail


def _read_lines_at_position(
    path: str, position: AccountingFilePosition, most: int, loss_message: str = ""
) -> AppendedLines:
    with open(path, "rb", buffering=0) as file:
        end = file.fileno()
        data = os.pread(end, most, position.offset)
        lines = data[: data.rfind(b"\n") + 1]
        is_more = len(data) == most
        offset = position.offset + (len(lines) or (most if is_more else 0))
        status = os.fstat(end)
        tail = _digest_of_bytes_before_offset(end, offset) if offset else ""
    position = AccountingFilePosition(device=status.st_dev, inode=status.st_ino, offset=offset, tail=tail)
    return AppendedLines(lines=lines, place=position, is_more=is_more, lost=loss_message)


def _digest_of_bytes_before_offset(end: int, offset: int) -> str:
    first = max(0, offset - TAIL_BYTES)
    return blake2b_hex_digest(os.pread(end, offset - first, first))


def blake2b_hex_digest(data: bytes) -> str:
    """Return a BLAKE2b checksum of 128 bits in hexadecimal."""
    return blake2b(data, digest_size=16).hexdigest()
