"""Convert task attempts and array indices to short texts and back.

`0-9:1,12:2` means the first attempts of tasks 0 to 9 and the second attempt of task 12. Keep imports few:
programs that start often load this module.
"""

from gridbridge.errors import ParseError

TYPE_CHECKING = False  # saves the import of typing, which is slow
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import TypeVar

    T = TypeVar("T")

MAX_ARRAY_TASKS = 100_000

Attempts = tuple[tuple[int, int], ...]


def parse_attempt_ranges(text: str) -> Attempts:
    """Parse a text of task attempts such as `0-9:1,12:2`; raises ParseError for any other text."""
    parts = [_parse_attempt_range(part) for part in text.split(",")]
    # checked before the tuples are built, which could fill the memory
    if sum(len(tasks) for tasks, _ in parts) > MAX_ARRAY_TASKS:
        raise ParseError(f"{text[:40]!r}: too many attempts; expected at most {MAX_ARRAY_TASKS} attempts")
    attempts = [(task, attempt) for tasks, attempt in parts for task in tasks]
    if len(set(attempts)) != len(attempts):
        raise ParseError(f"{text[:40]!r}: an attempt is repeated; expected each attempt once")
    return tuple(attempts)


def format_attempt_ranges(attempts: Attempts) -> str:
    """Format task attempts as a text such as `0-9:1,12:2`."""
    parts: list[list[int]] = []
    for task, attempt in attempts:
        if parts and parts[-1][1:] == [task - 1, attempt]:
            parts[-1][1] = task
        else:
            parts.append([task, task, attempt])
    return ",".join(f"{first}:{n}" if first == last else f"{first}-{last}:{n}" for first, last, n in parts)


def split_into_groups(tasks: "Sequence[T]", group_tasks: int) -> "list[Sequence[T]]":
    """Split an array's tasks into the groups that its jobs run, in the order of the array indices."""
    return [tasks[first : first + group_tasks] for first in range(0, len(tasks), group_tasks)]


def parse_array_index_ranges(text: str) -> tuple[range, ...]:
    """Parse a text of array indices such as `1-5,9`; raises ParseError for any other text."""
    spans = tuple(_parse_array_index_range(part) for part in text.split(","))
    if sum(map(len, spans)) > MAX_ARRAY_TASKS:
        raise ParseError(f"{text[:40]!r}: too many array indices; expected at most {MAX_ARRAY_TASKS}")
    return spans


def format_array_index_ranges(spans: tuple[range, ...]) -> str:
    """Format array indices as a text such as `1-5,9`."""
    return ",".join(f"{span[0]}-{span[-1]}" if len(span) > 1 else f"{span[0]}" for span in spans)


def group_into_ranges(indices: "Iterable[int]") -> tuple[range, ...]:
    """Sort array indices and group neighbours into ranges."""
    spans: list[range] = []
    for index in sorted(set(indices)):
        if spans and spans[-1].stop == index:
            spans[-1] = range(spans[-1].start, index + 1)
        else:
            spans.append(range(index, index + 1))
    return tuple(spans)


def _parse_array_index_range(part: str) -> range:
    first, dash, last = part.partition("-")
    numbers = (first, last if dash else first)
    if not all(number.isascii() and number.isdigit() and len(number) < 10 for number in numbers):
        raise ParseError(f"{part[:40]!r} is not INDEX or FIRST-LAST")
    span = range(int(first), int(numbers[1]) + 1)
    if not (span and span[0]):
        raise ParseError(f"{part[:40]!r}: an invalid range; expected indices from 1, the smaller index first")
    return span


def _parse_attempt_range(part: str) -> tuple[range, int]:
    tasks, _, attempt = part.partition(":")
    first, _, last = tasks.partition("-")
    numbers = (first, last or first, attempt)
    if not all(number.isascii() and number.isdigit() and len(number) < 10 for number in numbers):
        raise ParseError(f"{part[:40]!r} is not TASK:ATTEMPT or FIRST-LAST:ATTEMPT")
    count = int(numbers[1]) - int(first) + 1
    if not 0 < count <= MAX_ARRAY_TASKS or not int(attempt):
        raise ParseError(
            f"{part[:40]!r}: an invalid range; expected at most {MAX_ARRAY_TASKS} tasks, and attempts from 1"
        )
    return range(int(first), int(first) + count), int(attempt)


PROLOGUE, EPILOGUE = STEPS = ("prologue", "epilogue")
FIRST_PROLOGUE_TASK = 990_000_000  # greater than the number of any task


def is_prologue_or_epilogue_task(task: int) -> bool:
    return task >= FIRST_PROLOGUE_TASK


def prologue_or_epilogue_task_number(step: str, cluster: str, clusters: "Iterable[str]") -> int:
    return FIRST_PROLOGUE_TASK + 2 * sorted(clusters).index(cluster) + STEPS.index(step)


def step_and_cluster_of_task_number(task: int, clusters: "Iterable[str]") -> tuple[str, str]:
    """Return the step and cluster of a prologue's or epilogue's number; raise ParseError for another task."""
    names, (at, step) = sorted(clusters), divmod(task - FIRST_PROLOGUE_TASK, 2)
    if not 0 <= at < len(names):
        raise ParseError(f"task {task} is no prologue or epilogue of a campaign at {len(names)} clusters")
    return STEPS[step], names[at]
