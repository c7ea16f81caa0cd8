"""Finds the lines of some tasks in the files of a campaign, which may have millions of lines.

The first line of each file is its header. A file with added tasks continues the numbers of the file before.
"""

from collections.abc import Iterable, Iterator

TYPE_CHECKING = False  # defined here, because importing the module typing would be slow
if TYPE_CHECKING:
    from typing import BinaryIO

CHUNK_BYTES = 65536  # bytes of a file whose lines are counted at once
FEW = 32  # at most this many lines are skipped one by one


def header_and_lines_of_tasks(
    files: "Iterable[BinaryIO]", tasks: Iterable[int] | None = None
) -> tuple[bytes, dict[int, str]]:
    """Return the header of the first file, and {task: line} of some tasks, by default of all tasks.

    Tasks without a line are left out. What follows the last of these lines is not read.
    """
    headers, lines, first = list[bytes](), dict[int, str](), 0
    remaining = None if tasks is None else sorted(tasks)
    for file in files:
        headers.append(file.readline())
        if remaining is None:
            lines |= enumerate(_decode_lossless(file.read()).split("\n")[:-1], first)
            first = len(lines)
            continue
        selected = [*read_lines_by_number(file, (task - first for task in remaining))]
        lines |= {first + number: _decode_lossless(line) for number, line in selected}
        remaining = remaining[len(selected) :]
        if not remaining:
            break
        first += _count_lines(file) - 1
    return headers[0], lines


def read_lines_by_number(file: "BinaryIO", numbers: Iterable[int]) -> Iterator[tuple[int, bytes]]:
    """Yield (number, line) of lines that end with a newline, up to the first number without such a line.

    `numbers` ascend, and the line at which the file stands has number 0.
    """
    at = 0
    for number in numbers:
        if not _skip_lines(file, number - at) or not (line := file.readline()).endswith(b"\n"):
            return
        yield number, line[:-1]
        at = number + 1


def _skip_lines(file: "BinaryIO", lines: int) -> bool:
    """Move forward by `lines` lines; return False if the file ends before that."""
    while lines > FEW and (chunk := file.read(min(lines, CHUNK_BYTES))):  # n bytes have at most n lines
        lines -= chunk.count(b"\n")
    return lines <= FEW and all(file.readline().endswith(b"\n") for _ in range(lines))


def _count_lines(file: "BinaryIO") -> int:
    file.seek(0)
    return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(CHUNK_BYTES), b""))


def _decode_lossless(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
