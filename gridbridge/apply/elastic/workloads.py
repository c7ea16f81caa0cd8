"""Reads what a cluster ran, from a file of either format."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from gridbridge.batch.workloads import accounting, standard
from gridbridge.errors import ParseError, StateError
from gridbridge.model.elastic.replayed import LeftOut, Ran, Workload
from gridbridge.shell.files import lines

MOST_BAD = 100_000
Told = Ran | LeftOut | None
Reads = Callable[[Iterable[bytes]], Iterator[tuple[int, Told]]]


def read(path: str) -> Workload:
    """Read a file; StateError when it can't be read, ParseError when no line of it can be."""
    try:
        with open(path, "rb") as file:
            first = next((line for line in lines(file, path) if line.strip()), b"")
            file.seek(0)
            read_lines = standard.read if standard.is_of(first) else accounting.read
            found = _workload(lines(file, path), read_lines)
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}") from error
    if not found.tasks:
        raise ParseError(
            f"{path}: no task can be read: lines are to be of accounting(5), or of the Standard"
            " Workload Format"
        )
    return found


def _workload(some: Iterable[bytes], read_lines: Reads) -> Workload:
    """Read them; none of a file of which so many lines are bad before any task came."""
    tasks, left_out, bad = list[Ran](), Counter[LeftOut](), list[int]()
    for number, told in read_lines(some):
        if told is None:
            bad.append(number)
            if len(bad) >= MOST_BAD and not tasks:
                break
        elif isinstance(told, LeftOut):
            left_out[told] += 1
        else:
            tasks.append(told)
    tasks.sort(key=lambda one: one.submitted_s)
    return Workload(tasks=tuple(tasks), left_out=dict(left_out), bad_lines=tuple(bad))
