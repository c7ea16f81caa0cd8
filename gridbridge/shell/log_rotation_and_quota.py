"""Reopen log files after a rotation, and prefix output lines with the time.

The parent process opened the log, and logrotate renames it. Before each line, the open file is compared with
the file of that name and reopened if they differ. A line that a full disk cut is completed with a newline.
"""

import fcntl
import logging
import os
import stat
import time
from collections import Counter
from collections.abc import Callable, Hashable
from contextlib import suppress
from logging import Logger
from typing import TextIO

from gridbridge.shell import safe_files

STREAMS = OUTPUT, ERRORS = 1, 2  # reopened together if both write to the same file
MOST_CHARACTERS = 16_384  # longest log event, which may quote users' text


def prefix_lines_with_time(text: str, stream: TextIO | None) -> str:
    """Prefix each line with the time if the stream appends to a file, as under cron."""
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


class StreamLogFile:
    """The file that a stream of this process writes to, if any."""

    def __init__(self, stream: int) -> None:
        self._stream = stream
        self._path = _path(stream)

    def follow(self) -> None:
        """Point the streams to the new file of that name after a rotation.

        If the new file cannot be opened, the streams keep the old file, so that no event is lost.
        """
        if self._path:
            _follow(self._path, self._stream)
            _end_line(self._path, self._stream)


class ReopeningLogHandler(logging.StreamHandler):  # type: ignore[type-arg] # generic for mypy alone
    """A logging handler for standard error that reopens its file after a rotation."""

    def __init__(self) -> None:
        super().__init__()
        self._file = StreamLogFile(ERRORS)

    def emit(self, record: logging.LogRecord) -> None:
        """Write an event, into the new file after a rotation."""
        self._file.follow()
        super().emit(record)

    def format(self, record: logging.LogRecord) -> str:
        """Return an event's text; the middle of a very long event is left out."""
        text = super().format(record)
        if len(text) <= MOST_CHARACTERS:
            return text
        half = MOST_CHARACTERS // 2
        return f"{text[:half]}... ({len(text) - 2 * half} characters left out) ...{text[-half:]}"


def _path(stream: int) -> str:
    """Return the path of the file on a stream; empty if the stream is not a file."""
    try:
        path = os.readlink(f"/proc/self/fd/{stream}")
        is_file = os.path.isfile(path) and os.path.samestat(os.stat(path), os.fstat(stream))
    except OSError:
        return ""
    return path if is_file else ""


def _end_line(path: str, stream: int) -> None:
    """Complete a cut last line with a newline, if possible."""
    with suppress(OSError), open(path, "rb", opener=safe_files.open_regular_without_blocking) as file:
        if file.seek(0, os.SEEK_END) and os.pread(file.fileno(), 1, file.tell() - 1) != b"\n":
            os.write(stream, b"\n")


def _follow(path: str, stream: int) -> None:
    before = os.fstat(stream)
    try:
        if os.path.samestat(os.stat(path), before):
            return
    except OSError:
        pass  # renamed by logrotate, and no new file exists yet
    try:
        end = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError:
        return
    for descriptor in STREAMS:
        if os.path.samestat(os.fstat(descriptor), before):
            os.dup2(end, descriptor)
    os.close(end)


LINES = 20
INTERVAL_S = 60.0
WITHHELD = 1000


class LogLineQuotaByPerson:
    """Counts log lines for each person and limits them in each interval."""

    def __init__(self, clock: Callable[[], float], most: int = LINES, interval_s: float = INTERVAL_S) -> None:
        self._most = most
        self._interval_s = interval_s
        self._clock = clock
        self._begun_s = clock()
        self._count: Counter[Hashable] = Counter()

    def allows(self, person: Hashable) -> bool:
        """Count one more line about a person; say whether it may be logged."""
        self._count[person] += 1
        return self._count[person] <= self._most

    def left_out(self) -> dict[Hashable, int]:
        """Return the number of suppressed lines by person, once after each interval."""
        if self._clock() - self._begun_s < self._interval_s:
            return {}
        left_out = {person: n - self._most for person, n in self._count.items() if n > self._most}
        self._count.clear()
        self._begun_s = self._clock()
        return left_out

    def tell_left_out(self, log: Logger) -> None:
        """Log the number of suppressed lines for each uid when the interval is over."""
        for uid, count in self.left_out().items():
            log.warning("event=left_out uid=%s lines=%d", uid, count)


class WithheldLogLines:
    """Log lines that are held back: a limited number for each person, by subject."""

    def __init__(self, most: int = WITHHELD) -> None:
        self._most = most
        self._lines: dict[Hashable, dict[Hashable, list[str]]] = {}

    def keep(self, person: Hashable, subject: Hashable, line: str) -> None:
        """Hold back a line about a person's subject unless the person's limit is reached."""
        theirs = self._lines.setdefault(person, {})
        if sum(map(len, theirs.values())) < self._most:
            theirs.setdefault(subject, []).append(line)

    def take(self, person: Hashable, subject: Hashable) -> list[str]:
        """Return and forget the lines that are held back about a subject."""
        theirs = self._lines.get(person, {})
        lines = theirs.pop(subject, [])
        if not theirs:
            self._lines.pop(person, None)
        return lines
