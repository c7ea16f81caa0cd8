"""Which attempts of which tasks an array has, in words: 0-9:1,12:2 is ten first ones and a second.

Some of its places are 1-5,9.

Hot programs load this module.
"""

from gridbridge.errors import ParseError

TYPE_CHECKING = False  # typing's own costs as much as json
if TYPE_CHECKING:
    from collections.abc import Iterable

MOST = 100_000  # of one array

Attempts = tuple[tuple[int, int], ...]


def read_attempts(text: str) -> Attempts:
    """Read tasks with their attempts, in their order; ParseError for anything else."""
    parts = [_read(part) for part in text.split(",")]
    if sum(len(tasks) for tasks, _ in parts) > MOST:  # counted before they are made
        raise ParseError(f"{text[:40]!r}: at most {MOST} attempts")
    attempts = [(task, attempt) for tasks, attempt in parts for task in tasks]
    if len(set(attempts)) != len(attempts):
        raise ParseError(f"{text[:40]!r}: each attempt once")
    return tuple(attempts)


def write_attempts(attempts: Attempts) -> str:
    """Write them; consecutive tasks of the same attempt are one range."""
    parts: list[list[int]] = []
    for task, attempt in attempts:
        if parts and parts[-1][1:] == [task - 1, attempt]:
            parts[-1][1] = task
        else:
            parts.append([task, task, attempt])
    return ",".join(_write(*part) for part in parts)


def read_places(text: str) -> tuple[range, ...]:
    """Read places of an array, from 1; ParseError for anything else."""
    spans = tuple(_span(part) for part in text.split(","))
    if sum(map(len, spans)) > MOST:
        raise ParseError(f"{text[:40]!r}: at most {MOST} places")
    return spans


def write_places(spans: tuple[range, ...]) -> str:
    """Write them."""
    return ",".join(f"{span[0]}-{span[-1]}" if len(span) > 1 else f"{span[0]}" for span in spans)


def ranges_of(indices: "Iterable[int]") -> tuple[range, ...]:
    """Return places in their order, neighbours together."""
    spans: list[range] = []
    for index in sorted(set(indices)):
        if spans and spans[-1].stop == index:
            spans[-1] = range(spans[-1].start, index + 1)
        else:
            spans.append(range(index, index + 1))
    return tuple(spans)


def _span(part: str) -> range:
    first, dash, last = part.partition("-")
    numbers = (first, last if dash else first)
    if not all(number.isascii() and number.isdigit() and len(number) < 10 for number in numbers):
        raise ParseError(f"{part[:40]!r} is not PLACE or FIRST-LAST")
    span = range(int(first), int(numbers[1]) + 1)
    if not (span and span[0]):
        raise ParseError(f"{part[:40]!r}: places count from 1, the lower first")
    return span


def _write(first: int, last: int, attempt: int) -> str:
    return f"{first}:{attempt}" if first == last else f"{first}-{last}:{attempt}"


def _read(part: str) -> tuple[range, int]:
    tasks, _, attempt = part.partition(":")
    first, _, last = tasks.partition("-")
    numbers = (first, last or first, attempt)
    if not all(number.isascii() and number.isdigit() and len(number) < 10 for number in numbers):
        raise ParseError(f"{part[:40]!r} is not TASK:ATTEMPT or FIRST-LAST:ATTEMPT")
    count = int(numbers[1]) - int(first) + 1
    if not 0 < count <= MOST or not int(attempt):
        raise ParseError(f"{part[:40]!r}: at most {MOST} tasks, attempts from 1")
    return range(int(first), int(first) + count), int(attempt)
