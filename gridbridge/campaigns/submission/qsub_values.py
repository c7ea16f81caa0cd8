"""Parses qsub's `#$` lines: their words, and option values such as ranges, times and paths.

The forms are those of qsub(1) and sge_types(5). qsub of Grid Engine 8.1.9 refuses a value that does
not match its form.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from gridbridge.errors import ParseError
from gridbridge.model import amounts

WORD = re.compile(r"""(?:[^ \t"']|"[^"]*"?|'[^']*'?)+""")
YES, NO = ("y", "yes"), ("n", "no")
YES_OR_NO = r"(?i:y|yes|n|no)"
ANY, SOME = r"(?s:.*)", r"(?s:.+)"
DATE = (
    r"(?:\d\d)?(?:\d\d)?(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:[01]\d|2[0-3])[0-5]\d"
    r"(?:\.[0-5]\d)?"
)
VARIABLES = r"[^=,]+(?:=[^,]*)?(?:,[^=,]+(?:=[^,]*)?)*"
PLACES = ("env", "pe", "set")  # optional first word of -binding
# Options without effect in a campaign, with the form of their value; None: no value.
IDLE: Mapping[str, str | None] = {
    **dict.fromkeys(("-V", "-h", "-notify", "-terse", "-verify", "-clear")),
    **dict.fromkeys(("-A", "-C", "-P", "-ckpt", "-jsv", "-u"), ANY),
    **dict.fromkeys(("-M", "-masterq", "-q"), SOME),
    **dict.fromkeys(("-now", "-pty", "-R", "-r", "-shell", "-sync"), YES_OR_NO),
    **dict.fromkeys(("-a", "-dl"), DATE),
    **dict.fromkeys(("-ac", "-sc"), VARIABLES),
    "-binding": r"(?:linear|striding:\d+:\d+|explicit:\d+,\d+)(?:[:,]\w+)*",
    "-c": r"[nsmxr]+|[\d:]+",
    "-dc": SOME,
    "-js": r"\d+(?:\.\d*)?",
    "-m": "[abens]+",
    "-p": r"[+-]?0*(?:\d{1,3}|10[01]\d|102[0-3])|\+?0*1024",
    "-w": "[enpvw]",
}
LATER = ("-hold_jid", "-hold_jid_ad", "-ar", "-@")  # each with a value; refused
NAME = re.compile(r"(?!\d)(?i:(?!(?:all|none|template)$))[!-~]{1,512}")
NOT_IN_NAMES = frozenset("/:@*?\\")
NAMED = "1 to 512 ASCII characters without blanks and /:@*?\\, the first not a digit"
RANGE = re.compile(r"(\d{1,9})(?:[-:](\d{1,9})(?::(\d{1,9}))?)?", re.ASCII)
RANGE_RIGHT = "expected N, N-M or N-M:STEP, from 1 to 999999999"
SLOTS = re.compile(r"(?=.*\d)(\d{0,9})(?:([-:])(\d{0,9}))?", re.ASCII)
SLOTS_RIGHT = "expected N, N-M, N- or -M, from 1"
MOST = 9_999_999  # tasks at once, or slots of a task
TIME = "expected h_rt=H:M:S or seconds, from 1 second"
OCTAL = re.compile(r"0\d+$", re.ASCII)
IDLE_HERE = "changes nothing yet"


def split_directive_words(line: str) -> list[str]:
    """Split the text after `#$` into words, at blanks outside quotation marks, up to the next `#`.

    Quotation marks are removed, also nested ones; the last may stay open. A backslash is an
    ordinary character.
    """
    text = line.partition("#")[0].strip()
    return [word.replace('"', "").replace("'", "") for word in WORD.findall(text)]


def parse_yes_no(word: str) -> bool | None:
    """Parse `y`, `yes`, `n` or `no` in any case of letters; None for other words."""
    low = word.lower()
    return low in YES if low in (*YES, *NO) else None


def is_qsub_job_name(text: str) -> bool:
    """Say whether qsub accepts a text as a job's name."""
    return bool(NAME.fullmatch(text)) and not NOT_IN_NAMES.intersection(text)


def is_ignored_option_valid(option: str, value: str) -> bool:
    """Say whether qsub accepts this value of an option that has no effect in a campaign."""
    return bool(re.fullmatch(IDLE[option] or "", value, re.ASCII))


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayRange:
    """The task numbers of an array job: first, last and step."""

    first: int
    last: int
    step: int = 1

    @property
    def numbers(self) -> range:
        """All task numbers, in order."""
        return range(self.first, self.last + 1, self.step)


def parse_task_range(text: str) -> ArrayRange:
    """Parse N, N-M or N-M:STEP; ParseError for other texts, and if M is less than N."""
    first, last, step = parse_range_bounds(text)
    if last < first:
        raise ParseError(f"the last number is less than the first; {RANGE_RIGHT}")
    return ArrayRange(first=first, last=last, step=step)


def parse_range_bounds(text: str) -> tuple[int, int, int]:
    """Parse N, N-M or N-M:STEP into first number, last number and step."""
    match = RANGE.fullmatch(text)
    if not match:
        raise ParseError(f"it is not a range; {RANGE_RIGHT}")
    first = int(match[1])
    last, step = int(match[2] or first), int(match[3] or 1)
    if not first or not last or not step:
        raise ParseError(f"tasks and steps count from 1; {RANGE_RIGHT}")
    return first, last, step


def parse_qsub_walltime_s(text: str) -> int:
    """Parse a time limit into whole seconds; a fraction below one second counts as one."""
    try:
        seconds = amounts.parse_amount(text)
    except ParseError as error:
        raise ParseError(f"{error}; {TIME}") from error
    if text.count(":") == 1 or OCTAL.match(text):
        raise ParseError(f"qsub reads another time in it, or none; {TIME}")
    if not seconds:
        raise ParseError(f"a task needs a second at least; {TIME}")
    return max(1, round(seconds))


def parse_limited_number(text: str, least: int) -> int:
    """Parse a number between `least` and the general maximum."""
    if not (text.isascii() and text.isdigit() and least <= int(text) <= MOST):
        raise ParseError(f"it is no number from {least} to {MOST}")
    return int(text)


def fewest_slots_of_ranges(text: str) -> int:
    """Return the smallest slot count in a list of numbers and ranges, also open ones."""
    least = MOST + 1
    for part in filter(None, text.split(",")):
        match = SLOTS.fullmatch(part)
        if not match:
            raise ParseError(f"it is not a range of slots; {SLOTS_RIGHT}")
        ends = (match[1] or "1", match[3] or str(MOST) if match[2] else match[1])
        least = min(least, *(parse_limited_number(end.lstrip("0") or "0", 1) for end in ends))
    return parse_limited_number(str(least), 1)


def path_on_any_host(text: str) -> tuple[str, list[str]]:
    """Return the path in a `-o` list that holds on all hosts, and notes on ignored paths."""
    entries = [entry for entry in text.split(",") if entry]
    at_one = [entry for entry in entries if entry.find(":") > 0]
    at_any = [entry.removeprefix(":") for entry in entries if entry not in at_one]
    if len(at_any) > 1:
        raise ParseError("several paths for the same hosts; expected one path")
    if not entries or "" in at_any:
        raise ParseError("no path; expected one")
    return "".join(at_any), [f"{entry}: {IDLE_HERE}" for entry in at_one]


def require_path_on_any_host(text: str) -> tuple[str, list[str]]:
    """Return the path like `path_on_any_host`; ParseError if all paths are for single hosts."""
    path, notes = path_on_any_host(text)
    if not path:
        raise ParseError("it is a file of one host; expected a path without HOST:")
    return path, notes


def parse_qsub_boolean(word: str) -> bool:
    """Parse yes or no in any case of letters; ParseError for other words."""
    answer = parse_yes_no(word)
    if answer is None:
        raise ParseError("it says neither yes nor no; expected y or n")
    return answer
