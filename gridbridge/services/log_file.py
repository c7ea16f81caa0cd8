"""The file that a program's standard error leads to, found again after it was rotated.

Whoever starts a program has opened its log, and logrotate moves that file away: each event looks
whether the name still leads to what is open, and opens the new file when it does not.
"""

import logging
import os

STREAMS = (1, 2)  # both, where they lead to the same file


class RotatedLog(logging.StreamHandler):  # type: ignore[type-arg] # generic for mypy alone
    """Writes events to standard error, and has it lead to the file of its name."""

    def __init__(self) -> None:
        super().__init__()
        self._path = _path()

    def emit(self, record: logging.LogRecord) -> None:
        """Write an event; into the new file if the one of before was moved away."""
        if self._path:
            follow(self._path)
        super().emit(record)


def _path() -> str:
    """Return the name of the file that standard error is; empty where it is none."""
    try:
        path = os.readlink("/proc/self/fd/2")
        is_file = os.path.isfile(path) and os.path.samestat(os.stat(path), os.fstat(2))
    except OSError:
        return ""
    return path if is_file else ""


def follow(path: str) -> None:
    """Have the streams that lead to a file of before lead to the one of this name.

    Where that can't be opened the old one is kept: events are in no file otherwise.
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
