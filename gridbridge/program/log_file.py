"""The files of a program's streams: opened again after a rotation, and lines with their time.

A program's log was opened by the program's parent, and logrotate moves the file away. Before each
event or line the file of that name is compared with the open file, and opened if they differ. A
line that was cut there, as on a full disk, is ended.
"""

import fcntl
import logging
import os
import stat
import time
from contextlib import suppress
from typing import TextIO

from gridbridge.shell import files

STREAMS = OUTPUT, ERRORS = 1, 2  # both are reopened together if they lead to the same file
MOST_CHARACTERS = 16_384  # of an event: what people wrote may be in it


def dated(text: str, stream: TextIO | None) -> str:
    """Begin each line with the time if the stream is appended to a file, as cron does."""
    if stream is None:  # closed by the shell: >&-
        return text
    try:
        end = stream.fileno()
        is_file = stat.S_ISREG(os.fstat(end).st_mode)
        is_log = is_file and bool(fcntl.fcntl(end, fcntl.F_GETFL) & os.O_APPEND)
    except (OSError, ValueError):
        return text
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return "\n".join(f"{at} {part}" for part in text.split("\n")) if is_log else text


class RotatedFile:
    """The file on a stream of this process, if there is one."""

    def __init__(self, stream: int) -> None:
        self._stream = stream
        self._path = _path(stream)

    def follow(self) -> None:
        """Lead the streams on an old file to the file of this name.

        If the new file can't be opened, the old file stays: else events would be in no file.
        """
        if self._path:
            _follow(self._path, self._stream)
            _end_line(self._path, self._stream)


class RotatedLog(logging.StreamHandler):  # type: ignore[type-arg] # generic for mypy alone
    """Writes events to standard error, and reopens its file after a rotation."""

    def __init__(self) -> None:
        super().__init__()
        self._file = RotatedFile(ERRORS)

    def emit(self, record: logging.LogRecord) -> None:
        """Write an event; into a new file if the old one was moved away."""
        self._file.follow()
        super().emit(record)

    def format(self, record: logging.LogRecord) -> str:
        """Return an event's text; of a very long one the middle is left out."""
        text = super().format(record)
        if len(text) <= MOST_CHARACTERS:
            return text
        half = MOST_CHARACTERS // 2
        return f"{text[:half]}... ({len(text) - 2 * half} characters left out) ...{text[-half:]}"


def _path(stream: int) -> str:
    """Return the name of the file on a stream; empty if there is no file."""
    try:
        path = os.readlink(f"/proc/self/fd/{stream}")
        is_file = os.path.isfile(path) and os.path.samestat(os.stat(path), os.fstat(stream))
    except OSError:
        return ""
    return path if is_file else ""


def _end_line(path: str, stream: int) -> None:
    """End a cut line, whoever wrote it; without room or rights it stays."""
    with suppress(OSError), open(path, "rb", opener=files.open_at_once) as file:
        if file.seek(0, os.SEEK_END) and os.pread(file.fileno(), 1, file.tell() - 1) != b"\n":
            os.write(stream, b"\n")


def _follow(path: str, stream: int) -> None:
    before = os.fstat(stream)
    try:
        if os.path.samestat(os.stat(path), before):
            return
    except OSError:
        pass  # moved away, and there is no new one yet
    try:
        end = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError:
        return
    for descriptor in STREAMS:
        if os.path.samestat(os.fstat(descriptor), before):
            os.dup2(end, descriptor)
    os.close(end)
