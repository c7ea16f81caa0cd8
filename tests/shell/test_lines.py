"""Files of lines that a person names: what is none has an end all the same."""

from pathlib import Path

import pytest

from gridbridge.errors import ParseError
from gridbridge.shell.lines import LONGEST, lines


def test_lines_come_with_their_ends_and_without_the_mark_of_an_editor(tmp_path: Path) -> None:
    path = tmp_path / "some"
    path.write_bytes(b"\xef\xbb\xbfone\r\n\n\xef\xbb\xbftwo")
    with path.open("rb") as file:
        found = list(lines(file, str(path)))

    assert found == [b"one\r\n", b"\n", b"\xef\xbb\xbftwo"]


def test_a_line_without_end_is_refused_with_its_number(tmp_path: Path) -> None:
    path = tmp_path / "some"
    path.write_bytes(b"one\n" + bytes(LONGEST + 1))

    with (
        path.open("rb") as file,
        pytest.raises(ParseError, match=f"{path}:2: more than 1048576 bytes; right is a file"),
    ):
        list(lines(file, str(path)))
