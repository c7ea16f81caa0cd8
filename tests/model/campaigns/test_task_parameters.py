"""Task parameters are split into words as by shlex.split, which is too slow for a million lines."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.model.campaigns.campaign_file_and_array_names import (
    first_task_parameter,
    has_closed_quotes,
    split_task_parameters,
)

LINES = st.text(st.sampled_from("ab \t'\"\\#$\u00e9\u00a0"), max_size=24)


def words_of_shlex(line: str) -> tuple[str, ...] | None:
    try:
        return tuple(shlex.split(line))
    except ValueError:
        return None


@given(LINES)
def test_a_line_is_split_as_by_shlex(line: str) -> None:
    expected = words_of_shlex(line)

    assert has_closed_quotes(line) == (expected is not None)
    assert split_task_parameters(line) == (tuple(line.split()) if expected is None else expected)


@given(LINES.filter(lambda line: line != "" and line == line.lstrip()))
def test_the_first_word_ends_where_the_rest_of_the_line_begins(line: str) -> None:
    first, end = first_task_parameter(line)
    words = words_of_shlex(line)

    if words is None:
        assert (first, line[:end]) == (line.split()[0], line.split()[0])
    else:
        assert (first, words_of_shlex(line[:end]), words_of_shlex(line[end:])) == (words[0], words[:1], words[1:])


@pytest.mark.parametrize(
    ("line", "expected"), [("a\\ ", ("a ", 3)), ("'a b' c", ("a b", 5)), ("a'b c", ("a'b", 3)), ("''", ("", 2))]
)
def test_an_escaped_or_quoted_blank_belongs_to_the_first_word(line: str, expected: tuple[str, int]) -> None:
    assert first_task_parameter(line) == expected
