"""The log file on a program's standard error, opened again after a rotation.

A program's log was opened by the program's parent, and logrotate moves the file away. Before each
event the file of that name is compared with the open file, and opened if they differ.
"""

import logging
import os

STREAMS = (1, 2)  # both, if they lead to the same file
MOST_CHARACTERS = 16_384  # of an event: what people wrote may be in it


class RotatedLog(logging.StreamHandler):  # type: ignore[type-arg] # generic for mypy alone
    """Writes events to standard error, and reopens its file after a rotation."""

    def __init__(self) -> None:
        super().__init__()
        self._path = _path()

    def emit(self, record: logging.LogRecord) -> None:
        """Write an event; into a new file if the old one was moved away."""
        if self._path:
            follow(self._path)
        super().emit(record)

    def format(self, record: logging.LogRecord) -> str:
        """Return an event's text; of a very long one the middle is left out."""
        text = super().format(record)
        if len(text) <= MOST_CHARACTERS:
            return text
        half = MOST_CHARACTERS // 2
        return f"{text[:half]}... ({len(text) - 2 * half} characters left out) ...{text[-half:]}"


def _path() -> str:
    """Return the name of the file on standard error; empty if there is no file."""
    try:
        path = os.readlink("/proc/self/fd/2")
        is_file = os.path.isfile(path) and os.path.samestat(os.stat(path), os.fstat(2))
    except OSError:
        return ""
    return path if is_file else ""


def follow(path: str) -> None:
    """Lead the streams on an old file to the file of this name.

    If the new file can't be opened, the old file stays: else events would be in no file.
    """
    before = os.fstat(2)
    try:
        if os.path.samestat(os.stat(path), before):
            return
    except OSError:
        pass  # moved away, and there is no new one yet
    try:
        end = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError:
        return
    for stream in STREAMS:
        if os.path.samestat(os.fstat(stream), before):
            os.dup2(end, stream)
    os.close(end)
