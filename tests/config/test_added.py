"""What is added to a campaign: a file with a line a task, or a JSON list."""

from pathlib import Path

import pytest

from gridbridge.config.submission import added
from gridbridge.errors import ConfigError

BEFORE = ("a 1", "b 2", "b#2 3")


def test_the_lines_of_a_file_that_are_not_blank_are_added(tmp_path: Path) -> None:
    """A name that the campaign has gets a number that no other has."""
    (tmp_path / "more").write_text("  c 4 \n\na 5\nb 6\nb 7\n")

    assert added.of_file(f"{tmp_path}/more", BEFORE) == ("c 4", "a#2 5", "b#3 6", "b#4 7")


def test_a_json_list_is_added() -> None:
    """As a JDL's params."""
    assert added.of_text("-J", '["c 4", "a"]', BEFORE) == ("c 4", "a#2")


@pytest.mark.parametrize("text", ["", "[", "{}", "[]", "[1]", '["a\\nb"]', '["\\u0000"]'])
def test_what_is_no_list_of_parameters_is_told(text: str) -> None:
    """In one line, with what would be right."""
    with pytest.raises(ConfigError) as told:
        added.of_text("-J", text, ())

    assert '["FIRST TASK", "SECOND TASK"]' in str(told.value)
    assert len(str(told.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"\n", "it has no line that is not blank; one line for each task is right"),
        (b"a\n\xff\n", ":2: invalid start byte; text in UTF-8 is right"),
        (b"a\0b\n", ":1: it has a NUL byte; text in UTF-8 is right"),
        (b"a" * 70_000, ":1: it has 70000 bytes; at most 65536 are right"),
        (None, "No such file or directory"),
    ],
)
def test_every_wrong_line_is_told(tmp_path: Path, data: bytes | None, problem: str) -> None:
    """As those of a param_file."""
    if data is not None:
        (tmp_path / "more").write_bytes(data)

    with pytest.raises(ConfigError) as told:
        added.of_file(f"{tmp_path}/more", ())

    assert problem in str(told.value)
