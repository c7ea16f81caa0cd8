"""Read the tasks to replay from a file in the Standard Workload Format.

Each line has 18 numbers, with -1 for an unknown value; comments begin with a semicolon. An
interrupted job has a line for the whole job, and further lines (status 2 to 4) for its parts.
"""

import re
from collections.abc import Iterable, Iterator

from gridbridge.model.accounting import LATEST_S
from gridbridge.model.elastic.replay_outcome import ReplayExclusion, ReplayTask, WorkloadLineFault

FIELDS = 18
NUMBER = re.compile(rb"[+-]?\d+(?:\.\d*)?")
SUBMITTED, WAITED, RAN, ALLOCATED, ASKED, STATUS, USER, PROGRAM = 1, 2, 3, 4, 7, 10, 11, 13
PARTS = (2, 3, 4)
CANCELLED = 5


def is_standard_workload_line(line: bytes) -> bool:
    """Say whether a file's first non-empty line is in the Standard Workload Format."""
    words = line.split()
    return line.lstrip().startswith(b";") or (
        len(words) == FIELDS and all(map(NUMBER.fullmatch, words))
    )


def read_standard_workload_tasks(
    lines: Iterable[bytes],
) -> Iterator[tuple[int, ReplayTask | ReplayExclusion | WorkloadLineFault]]:
    """Yield each line's number with its task, or with the reason for skipping the line."""
    begin_s = 0.0
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text.startswith(b";"):
            begin_s = _begin_s(text, begin_s)
        elif text:
            yield number, _read(text, begin_s)


def _begin_s(text: bytes, before_s: float) -> float:
    """Return the workload's start time if a comment gives it; else the value so far."""
    key, _, value = text.lstrip(b"; ").partition(b":")
    is_told = key.strip() == b"UnixStartTime" and value.strip().isdigit()
    return float(value) if is_told and float(value) < LATEST_S else before_s


def _read(text: bytes, begin_s: float) -> ReplayTask | ReplayExclusion | WorkloadLineFault:
    try:
        numbers = [float(word) for word in text.split()]
    except ValueError:
        return WorkloadLineFault.FORM
    if len(numbers) != FIELDS:
        return WorkloadLineFault.FIELDS
    if not all(abs(number) < LATEST_S for number in numbers):
        return WorkloadLineFault.TIMES
    slots = int(next((count for count in (numbers[ALLOCATED], numbers[ASKED]) if count > 0), 1))
    if numbers[STATUS] in PARTS:
        return ReplayExclusion.PART
    if numbers[RAN] < 0 or (numbers[RAN] == 0 and numbers[STATUS] == CANCELLED):
        return (
            ReplayExclusion.CANCELLED
            if numbers[STATUS] == CANCELLED
            else ReplayExclusion.NEVER_STARTED
        )
    if numbers[SUBMITTED] < 0 or begin_s + numbers[SUBMITTED] >= LATEST_S:
        return WorkloadLineFault.TIMES
    return ReplayTask(
        submitted_s=begin_s + numbers[SUBMITTED],
        run_s=numbers[RAN],
        slots=slots,
        waited_s=max(0.0, numbers[WAITED]),
        owner=f"{numbers[USER]:.0f}",
        name=f"{numbers[PROGRAM]:.0f}",
    )
