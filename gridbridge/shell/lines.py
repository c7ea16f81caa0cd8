"""Files of lines that a person names: they may be long, and their lines may not."""

from collections.abc import Iterator
from typing import BinaryIO

from gridbridge.errors import ParseError

LONGEST = 1 << 20  # bytes of a line; no file that is read so has one
MARK = b"\xef\xbb\xbf"  # what editors of another system put before UTF-8


def lines(file: BinaryIO, path: str) -> Iterator[bytes]:
    """Give each line, with its end; ParseError for one that is too long, as /dev/zero has it."""
    number = 1
    while line := file.readline(LONGEST + 1):
        if len(line) > LONGEST:
            raise ParseError(
                f"{path}:{number}: more than {LONGEST} bytes; right is a file of lines"
            )
        yield line.removeprefix(MARK) if number == 1 else line
        number += 1
