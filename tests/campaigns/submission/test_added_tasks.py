"""Added tasks are a file with one task on each line, or a JSON list."""

from pathlib import Path

import pytest

from gridbridge.campaigns.submission.jdl_writer_and_task_files import (
    make_task_names_unique,
    parse_added_tasks_json,
    read_added_task_file,
    task_line_warnings,
)
from gridbridge.errors import ConfigError
from gridbridge.model.campaigns.campaign_file_and_array_names import split_task_parameters

BEFORE = ("a 1", "b 2", "b#2 3")


def test_the_non_blank_lines_of_a_task_file_are_added(tmp_path: Path) -> None:
    """A task name that is already used in the campaign gets a unique number."""
    (tmp_path / "more").write_text("  c 4 \n\na 5\nb 6\nb 7\n")

    lines = read_added_task_file(f"{tmp_path}/more")

    assert lines == ("c 4", "a 5", "b 6", "b 7")
    assert make_task_names_unique(lines, BEFORE) == ("c 4", "a#2 5", "b#3 6", "b#4 7")


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('["c 4", "d"]\n', ("c 4", "d")),
        ('[\n  "c 4",\n\n  "d"\n]\n', ("c 4", "d")),
        ("[c] 4\n[d]\n", ("[c] 4", "[d]")),
        ('["c", 4\n', ('["c", 4',)),
    ],
    ids=["list in one line", "list in many lines", "words in brackets", "invalid JSON"],
)
def test_a_task_file_may_be_a_json_list(tmp_path: Path, text: str, lines: tuple[str, ...]) -> None:
    """CiGri's -F accepts JSON lists; lines that only begin like JSON are tasks."""
    (tmp_path / "more").write_text(text)

    assert read_added_task_file(f"{tmp_path}/more") == lines


def test_a_json_list_of_tasks_is_added() -> None:
    assert parse_added_tasks_json("-J", '["c 4", "a"]') == ("c 4", "a")


@pytest.mark.parametrize("text", ["", "[", "{}", "[]", "[1]", '["a\\nb"]', '["\\u0000"]'])
def test_an_invalid_json_list_of_tasks_is_reported_in_one_line(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_added_tasks_json("-J", text)

    assert '["FIRST TASK", "SECOND TASK"]' in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"\n", "all lines are blank; expected one line for each task"),
        (b"a\n\xff\n", ":2: invalid start byte; expected text in UTF-8"),
        (b"a\0b\n", ":1: NUL byte found; expected text in UTF-8"),
        (b"a" * 70_000, ":1: the line has 70000 bytes; expected at most 65536"),
        (b"[1, 2]", "not a list of texts"),
        (None, "No such file or directory"),
    ],
)
def test_each_invalid_line_of_a_task_file_is_reported(tmp_path: Path, data: bytes | None, problem: str) -> None:
    if data is not None:
        (tmp_path / "more").write_bytes(data)

    with pytest.raises(ConfigError) as refused:
        read_added_task_file(f"{tmp_path}/more")

    assert problem in str(refused.value)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("'my file 1.dat' 3", "'my file 2.dat' 4"), ("'my file 1.dat' 3", "'my file 2.dat' 4")),
        (("'my file' 3", "'my file' 4"), ("'my file' 3", "'my file'#2 4")),
        (('"a b"', "a\\ b c", "'a b'"), ('"a b"', "a\\ b#2 c", "'a b'#3")),
        (("a", '"a"'), ("a", '"a"#2')),
        (("a\t1", "a 2"), ("a\t1", "a#2 2")),
        (("''", "'' x"), ("''", "''#2 x")),
        (("it's 1", "it's 2"), ("it's 1", "it's#2 2")),
        (("'a b' 'c", "'a b"), ("'a b' 'c", "'a#2 b")),
        (("-n 5", "-n 6"), ("-n 5", "-n#2 6")),
    ],
    ids=[
        *("different names", "equal names", "all quotation marks", "none", "tab"),
        *("empty", "unclosed", "late mark", "option"),
    ],
)
def test_the_first_word_of_each_line_is_made_unique(lines: tuple[str, ...], expected: tuple[str, ...]) -> None:
    named = make_task_names_unique(lines)

    assert named == expected
    assert [split_task_parameters(new)[1:] for new in named] == [split_task_parameters(line)[1:] for line in lines]
    assert len({split_task_parameters(new)[0] for new in named}) == len(lines)


def test_a_warning_lists_the_renamed_tasks() -> None:
    lines = ("-n 5", "-n 6", "-n 7", "x")

    (told_of,) = task_line_warnings(lines, make_task_names_unique(lines))

    assert told_of == "2 tasks got a number, because the first word was not unique: -n#2 6"
    assert not [*task_line_warnings(("a", "b"), ("a", "b"))]
