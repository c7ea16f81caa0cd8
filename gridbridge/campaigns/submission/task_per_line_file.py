"""Reads files with one task a line: a JDL's `param_file`, `gridsub -F` or `--each-line`.

Every wrong line is reported with its number. The input may be a device without an end, so its size
is limited. CiGri's -F also accepts a JSON list of tasks. Each task of a campaign gets a first word
that is unique in the campaign: its name.
"""

import json
import os
import stat
from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count as counting
from typing import BinaryIO

from gridbridge.campaigns.submission.jdl_value_parsers import NUL, PARAMETERS, UTF_8
from gridbridge.errors import CommandLineMistake, ConfigError
from gridbridge.model.campaigns.campaign_names import first_task_parameter, has_closed_quotes
from gridbridge.model.status_report import number_with_noun

LINE_BYTES = 65_536  # most bytes of one task's parameters
FILE_BYTES = 256 << 20  # most bytes of all tasks' parameters
MOST_TOLD = 1000  # most wrong lines reported of one file; further ones are counted
STDIN = "/dev/stdin"
NO_LINE = ("all of its lines are blank", "expected one line for each task")
NOT_PLAIN = ("it is no plain file", "expected a file with one line for each task")
READABLE = "expected a readable file"


def read_task_lines(path: str) -> tuple[tuple[int, str], ...]:
    """Return the non-blank lines of a task file, with their numbers.

    Raises CommandLineMistake if the file can't be read; ConfigError lists all wrong lines.
    """
    file = TaskFileReader(path)
    lines = tuple(file.numbered())
    if file.unread:
        raise CommandLineMistake((f"{path}: {'; '.join(file.unread)}",))
    if not (lines or file.problems):
        file.problems.append(f"{path}: {'; '.join(NO_LINE)}")
    if file.problems:
        raise ConfigError(tuple(file.problems))
    return lines


@dataclass(slots=True)
class TaskFileReader:
    """Reads one task file and collects its wrong lines."""

    path: str
    folder: str = "."
    problems: list[str] = field(default_factory=list)
    unread: tuple[str, str] | None = None  # error, and the expected kind of file
    untold: int = 0  # number of wrong lines that are not reported

    def numbered(self) -> Iterator[tuple[int, str]]:
        """Yield the non-blank lines with their numbers.

        A byte-order mark at the beginning is ignored. Lines that are not UTF-8 or too long are
        reported and dropped at once, because all of a large file may be wrong.
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
            more = number_with_noun(self.untold, "more wrong line")
            self.problems.append(f"{self.path}: {more} after these")

    def _opened(self) -> BinaryIO:
        """Open the file; standard input is duplicated: after sudo its path can't be opened."""
        if self.path == STDIN:
            return os.fdopen(os.dup(0), "rb")
        return open(self.path if self.path[:1] == "/" else f"{self.folder}/{self.path}", "rb")

    def _bounded(self, file: BinaryIO) -> Iterator[tuple[int, bytes]]:
        """Yield lines with numbers, and stop at the size limit: a device may be endless."""
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
        """Record a wrong line; a file may have a hundred million, so their number is limited."""
        if len(self.problems) < MOST_TOLD:
            self.problems.append(f"{self.path}:{number}: {problem}")
        else:
            self.untold += 1


def make_task_names_unique(lines: tuple[str, ...], before: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Make the first word of each line unique in the campaign: the second `a` becomes `a#2`."""
    names = {first_task_parameter(line)[0] for line in before}
    counts: dict[str, int] = {}
    return tuple(_renamed(line, names, counts) for line in lines)


def renamed_tasks_warning(lines: tuple[str, ...], named: tuple[str, ...]) -> str:
    """Return a warning about tasks that were renamed to be unique; empty if none was."""
    renamed = [new for line, new in zip(lines, named, strict=True) if new != line]
    if not renamed:
        return ""
    tasks = number_with_noun(len(renamed), "task")
    return f"{tasks} with a first word that comes again, so it got a number: {renamed[0]:.80}"


def unclosed_quote_warning(lines: tuple[str, ...]) -> str:
    """Return a warning about lines with an unclosed quotation mark; empty without such lines."""
    open_lines = [line for line in lines if not has_closed_quotes(line) and len(line.split()) > 1]
    if not open_lines:
        return ""
    tasks = number_with_noun(len(open_lines), "task")
    wrong = "an unclosed quotation mark: each blank there ends a word"
    return f"{tasks} with {wrong}, and all marks belong to the words: {open_lines[0]:.80}"


def _renamed(line: str, names: set[str], counts: dict[str, int]) -> str:
    first, end = first_task_parameter(line)
    name = first
    while name in names:
        counts[first] = counts.get(first, 1) + 1
        name = f"{first}#{counts[first]}"
    names.add(name)
    return line[:end] + name.removeprefix(first) + line[end:]


READ, RIGHT = PARAMETERS["params"]


def read_added_task_file(path: str) -> tuple[str, ...]:
    """Return the parameters in a file of added tasks; raises like `read_task_lines`."""
    lines = tuple(line for _, line in read_task_lines(path))
    text = "\n".join(lines)
    return parse_added_tasks_json(path, text) if _is_list(text) else lines


def parse_added_tasks_json(source: str, text: str) -> tuple[str, ...]:
    """Return the parameters in a JSON list of tasks; ConfigError if it is no such list."""
    try:
        parameters: tuple[str, ...] = READ(json.loads(text))
    except (ValueError, TypeError, RecursionError) as error:
        raise ConfigError((f"{source} = {text:.40}: {error}; {RIGHT}",)) from error
    return parameters


def _is_list(text: str) -> bool:
    if not (text.startswith("[") and text.endswith("]")):
        return False
    try:
        return isinstance(json.loads(text), list)
    except (ValueError, RecursionError):
        return False  # a task's parameters may begin like JSON
