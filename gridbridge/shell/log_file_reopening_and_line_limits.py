"""Writes log lines with the time, follows a rotated log file, and limits the lines about each person."""

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

STREAMS = OUTPUT, ERRORS = 1, 2
MOST_CHARACTERS = 16_384  # largest log event, which may contain users' text


def prefix_lines_with_time(text: str, stream: TextIO | None) -> str:
    """Prefix each line with the time if the stream appends to a file, as under cron."""
    if stream is None:  # the shell has closed the stream (>&-)
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
    def __init__(self, stream: int) -> None:
        self._stream = stream
        self._path = _log_file_path_of_stream(stream)

    def reopen_if_rotated(self) -> None:
        """Switch to the new log file after a rotation, if it can be opened; end an incomplete last line."""
        if self._path:
            _reopen_log_file_after_rotation(self._path, self._stream)
            _end_incomplete_last_log_line(self._path, self._stream)


class ReopeningLogHandler(logging.StreamHandler):  # type: ignore[type-arg] # generic for mypy alone
    """Logs to standard error; follows the file's rotation if standard error is a log file."""

    def __init__(self) -> None:
        super().__init__()
        self._file = StreamLogFile(ERRORS)

    def emit(self, record: logging.LogRecord) -> None:
        self._file.reopen_if_rotated()
        super().emit(record)

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of a log event, without the middle of a very long text."""
        text = super().format(record)
        if len(text) <= MOST_CHARACTERS:
            return text
        half = MOST_CHARACTERS // 2
        return f"{text[:half]}... ({len(text) - 2 * half} characters left out) ...{text[-half:]}"


def _log_file_path_of_stream(stream: int) -> str:
    try:
        path = os.readlink(f"/proc/self/fd/{stream}")
        is_file = os.path.isfile(path) and os.path.samestat(os.stat(path), os.fstat(stream))
    except OSError:
        return ""
    return path if is_file else ""


def _end_incomplete_last_log_line(path: str, stream: int) -> None:
    with suppress(OSError), open(path, "rb", opener=safe_files.open_regular_without_blocking) as file:
        if file.seek(0, os.SEEK_END) and os.pread(file.fileno(), 1, file.tell() - 1) != b"\n":
            os.write(stream, b"\n")


def _reopen_log_file_after_rotation(path: str, stream: int) -> None:
    before = os.fstat(stream)
    try:
        if os.path.samestat(os.stat(path), before):
            return
    except OSError:
        pass  # no new file exists yet
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
    def __init__(self, clock: Callable[[], float], most: int = LINES, interval_s: float = INTERVAL_S) -> None:
        self._most = most
        self._interval_s = interval_s
        self._clock = clock
        self._begun_s = clock()
        self._count: Counter[Hashable] = Counter()

    def may_write_log_line(self, person: Hashable) -> bool:
        """Count one more log line about a person; say whether the line may be written."""
        self._count[person] += 1
        return self._count[person] <= self._most

    def take_omitted_line_counts(self) -> dict[Hashable, int]:
        """Return each person's number of lines above the limit, once after each interval; else an empty dict."""
        if self._clock() - self._begun_s < self._interval_s:
            return {}
        left_out = {person: n - self._most for person, n in self._count.items() if n > self._most}
        self._count.clear()
        self._begun_s = self._clock()
        return left_out

    def log_omitted_line_counts(self, log: Logger) -> None:
        """Log each uid's number of lines above the limit, once after each interval."""
        for uid, count in self.take_omitted_line_counts().items():
            log.warning("event=left_out uid=%s lines=%d", uid, count)


class WithheldLogLines:
    """Holds back log lines until they are needed, up to a limit for each person."""

    def __init__(self, most: int = WITHHELD) -> None:
        self._most = most
        self._lines: dict[Hashable, dict[Hashable, list[str]]] = {}

    def withhold_log_line(self, person: Hashable, subject: Hashable, line: str) -> None:
        """Hold back a log line, or drop the line if the person has too many lines."""
        theirs = self._lines.setdefault(person, {})
        if sum(map(len, theirs.values())) < self._most:
            theirs.setdefault(subject, []).append(line)

    def take_withheld_lines(self, person: Hashable, subject: Hashable) -> list[str]:
        """Remove and return the log lines that are held back about a subject."""
        theirs = self._lines.get(person, {})
        lines = theirs.pop(subject, [])
        if not theirs:
            self._lines.pop(person, None)
        return lines
