"""Reads the values of qsub's options: ranges, times, paths and booleans (qsub(1), sge_types(5))."""

import re
from dataclasses import dataclass

from gridbridge.campaigns.submission.qsub_forms import is_yes
from gridbridge.errors import ParseError
from gridbridge.model import amounts

RANGE = re.compile(r"(\d{1,9})(?:[-:](\d{1,9})(?::(\d{1,9}))?)?", re.ASCII)
RANGE_RIGHT = "expected N, N-M or N-M:STEP, from 1 to 999999999"
SLOTS = re.compile(r"(?=.*\d)(\d{0,9})(?:([-:])(\d{0,9}))?", re.ASCII)
SLOTS_RIGHT = "expected N, N-M, N- or -M, from 1"
MOST = 9_999_999  # tasks at once, or slots of a task
TIME = "expected h_rt=H:M:S or seconds, from 1 second"
OCTAL = re.compile(r"0\d+$", re.ASCII)
IDLE_HERE = "changes nothing yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayRange:
    """The numbers of an array's tasks."""

    first: int
    last: int
    step: int = 1

    @property
    def numbers(self) -> range:
        """All numbers, in order."""
        return range(self.first, self.last + 1, self.step)


def read_range(text: str) -> ArrayRange:
    """Read the numbers of tasks; ParseError for other texts, and for an end before the start."""
    first, last, step = bounds(text)
    if last < first:
        raise ParseError(f"the last number is less than the first; {RANGE_RIGHT}")
    return ArrayRange(first=first, last=last, step=step)


def bounds(text: str) -> tuple[int, int, int]:
    """Read the first number, the last and the step."""
    match = RANGE.fullmatch(text)
    if not match:
        raise ParseError(f"it is not a range; {RANGE_RIGHT}")
    first = int(match[1])
    last, step = int(match[2] or first), int(match[3] or 1)
    if not first or not last or not step:
        raise ParseError(f"tasks and steps count from 1; {RANGE_RIGHT}")
    return first, last, step


def walltime(text: str) -> int:
    """Read whole seconds; a part of a second counts as a second."""
    try:
        seconds = amounts.read(text)
    except ParseError as error:
        raise ParseError(f"{error}; {TIME}") from error
    if text.count(":") == 1 or OCTAL.match(text):
        raise ParseError(f"qsub reads another time in it, or none; {TIME}")
    if not seconds:
        raise ParseError(f"a task needs a second at least; {TIME}")
    return max(1, round(seconds))


def read_number(text: str, least: int) -> int:
    """Read a number up to a limit."""
    if not (text.isascii() and text.isdigit() and least <= int(text) <= MOST):
        raise ParseError(f"it is no number from {least} to {MOST}")
    return int(text)


def least_slots(text: str) -> int:
    """Return the fewest slots of a list of numbers and ranges, also open or reversed ones."""
    least = MOST + 1
    for part in filter(None, text.split(",")):
        match = SLOTS.fullmatch(part)
        if not match:
            raise ParseError(f"it is not a range of slots; {SLOTS_RIGHT}")
        ends = (match[1] or "1", match[3] or str(MOST) if match[2] else match[1])
        least = min(least, *(read_number(end.lstrip("0") or "0", 1) for end in ends))
    return read_number(str(least), 1)


def path_of(text: str) -> tuple[str, list[str]]:
    """Return the path of a list that holds at any host, and notes on paths for single hosts."""
    entries = [entry for entry in text.split(",") if entry]
    at_one = [entry for entry in entries if entry.find(":") > 0]
    at_any = [entry.removeprefix(":") for entry in entries if entry not in at_one]
    if len(at_any) > 1:
        raise ParseError("several paths for the same hosts; expected one path")
    if not entries or "" in at_any:
        raise ParseError("no path; expected one")
    return "".join(at_any), [f"{entry}: {IDLE_HERE}" for entry in at_one]


def file_of(text: str) -> tuple[str, list[str]]:
    """Return the path as `path_of` does; ParseError where it holds at single hosts alone."""
    path, notes = path_of(text)
    if not path:
        raise ParseError("it is a file of one host; expected a path without HOST:")
    return path, notes


def truth(word: str) -> bool:
    """Read yes or no, in any case of letters."""
    answer = is_yes(word)
    if answer is None:
        raise ParseError("it says neither yes nor no; expected y or n")
    return answer
