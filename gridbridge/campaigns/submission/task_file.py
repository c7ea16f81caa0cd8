"""Reads a file with a line for each task: a JDL's `param_file`, `gridsub -F` or `--each-line`.

All that is wrong with its lines is noted, each by its number; a device may have no end.
"""

import os
import stat
from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count as counting
from typing import BinaryIO

from gridbridge.campaigns.submission.jdl_values import NUL, UTF_8
from gridbridge.errors import ConfigError, UsageMistake
from gridbridge.model.status_report import count

LINE_BYTES = 65_536  # of one task's parameters
FILE_BYTES = 256 << 20  # of all tasks' parameters
MOST_TOLD = 1000  # wrong lines of one file; of more it is told how many there are
STDIN = "/dev/stdin"
NO_LINE = ("all of its lines are blank", "expected one line for each task")
NOT_PLAIN = ("it is no plain file", "expected a file with one line for each task")
READABLE = "expected a readable file"


def lines_of(path: str) -> tuple[tuple[int, str], ...]:
    """Return the lines of a file that was typed, with their numbers.

    Raises Mistyped where it can't be read, and ConfigError for all that is wrong in it.
    """
    file = TaskFile(path)
    lines = tuple(file.numbered())
    if file.unread:
        raise UsageMistake((f"{path}: {'; '.join(file.unread)}",))
    if not (lines or file.problems):
        file.problems.append(f"{path}: {'; '.join(NO_LINE)}")
    if file.problems:
        raise ConfigError(tuple(file.problems))
    return lines


@dataclass(slots=True)
class TaskFile:
    """One file, and what is found to be wrong with it."""

    path: str
    folder: str = "."
    problems: list[str] = field(default_factory=list)
    unread: tuple[str, str] | None = None  # why it can't be read, and what would be right
    untold: int = 0  # wrong lines

    def numbered(self) -> Iterator[tuple[int, str]]:
        """Give its lines that are not blank, with their numbers.

        A byte-order mark before the first is no part of it. A line that is no UTF-8 or too long is
        wrong: nothing of these is kept, for all of a large file may be so.
        """
        try:
            with self._opened() as file:
                for number, line in self._bounded(file):
                    stripped = (line.removeprefix(BOM_UTF8) if number == 1 else line).strip()
                    if stripped and (text := self._text_of(number, stripped)):
                        yield number, text
        except OSError as error:
            self.unread = (str(error.strerror), READABLE)
        if self.untold:
            more = count(self.untold, "more wrong line")
            self.problems.append(f"{self.path}: {more} after these")

    def _opened(self) -> BinaryIO:
        """Open it; standard input may be another account's, as after sudo, and can be read so."""
        if self.path == STDIN:
            return os.fdopen(os.dup(0), "rb")
        return open(self.path if self.path[:1] == "/" else f"{self.folder}/{self.path}", "rb")

    def _bounded(self, file: BinaryIO) -> Iterator[tuple[int, bytes]]:
        """Give the lines with their numbers; a device may have no line's end either."""
        mode = os.fstat(file.fileno()).st_mode
        if self.path != STDIN and not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
            self.unread = NOT_PLAIN
            return
        remaining_bytes = FILE_BYTES
        for number in counting(1):
            line = file.readline(remaining_bytes + 1)
            remaining_bytes -= len(line)
            if remaining_bytes < 0:
                wrong = f"the file is too large; expected at most {FILE_BYTES} bytes"
                self.problems.append(f"{self.path}:{number}: {wrong}")
            if not line or remaining_bytes < 0:
                return
            if len(line) > LINE_BYTES:
                wrong = f"it has {len(line)} bytes; expected at most {LINE_BYTES}"
                self._wrong_line(number, wrong)
                continue
            yield number, line

    def _text_of(self, number: int, line: bytes) -> str:
        try:
            if b"\0" in line:
                raise ValueError(NUL)
            return line.decode()
        except ValueError as error:
            self._wrong_line(number, f"{getattr(error, 'reason', error)}; {UTF_8}")
            return ""

    def _wrong_line(self, number: int, problem: str) -> None:
        """Note a wrong line; a file may have a hundred million of them."""
        if len(self.problems) < MOST_TOLD:
            self.problems.append(f"{self.path}:{number}: {problem}")
        else:
            self.untold += 1
