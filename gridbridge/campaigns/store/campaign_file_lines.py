"""Finds the lines of some tasks in the files of a campaign, which may have millions of lines.

The first line of each file is its header. A file with added tasks continues the numbers of the file before.
"""

from collections.abc import Iterable, Iterator

CHUNK_BYTES = 65536  # bytes of a file whose lines are counted at once


def lines_of_tasks(files: Iterable[bytes], tasks: Iterable[int] | None = None) -> dict[int, str]:
    """Return {task: line} of some tasks, by default of all tasks; tasks without a line are left out."""
    lines: dict[int, str] = {}
    first, numbers = 0, None if tasks is None else sorted(tasks)
    for data in files:
        if numbers is None:
            lines |= enumerate(_decode(data).split("\n")[1:-1], first)
        else:
            header = 1 - first  # a task's number plus `header` is the number of its line in this file
            of_file = select_lines(data, (task + header for task in numbers if task >= first))
            lines |= {line_number - header: _decode(line) for line_number, line in of_file}
        first += data.count(b"\n") - 1
    return lines


def select_lines(data: bytes, numbers: Iterable[int]) -> Iterator[tuple[int, bytes]]:
    """Yield (number, line) of lines that end with a newline; `numbers` ascend, and the first line has number 0."""
    begin = line = 0
    for number in numbers:
        while line < number:
            last = data.rfind(b"\n", begin, begin + CHUNK_BYTES)
            count = data.count(b"\n", begin, last + 1) if last >= 0 else 0
            if not 0 < count <= number - line:
                count, last = 1, data.find(b"\n", begin)
            if last < 0:
                return
            begin, line = last + 1, line + count
        if (end := data.find(b"\n", begin)) < 0:
            return
        yield number, data[begin:end]


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
