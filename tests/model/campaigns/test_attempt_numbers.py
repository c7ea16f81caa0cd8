"""The attempts of an array are formatted as ranges, and parsed back."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.errors import ParseError
from gridbridge.model.campaigns.task_index_and_attempt_texts import (
    format_array_index_ranges,
    format_attempt_ranges,
    parse_array_index_ranges,
    parse_attempt_ranges,
)


def test_consecutive_tasks_with_equal_attempt_numbers_become_a_range() -> None:
    attempts = ((0, 1), (1, 1), (2, 1), (7, 2), (4, 1))

    assert format_attempt_ranges(attempts) == "0-2:1,7:2,4:1"


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 9)), min_size=1, unique=True))
def test_formatted_attempt_ranges_are_parsed_back(attempts: list[tuple[int, int]]) -> None:
    assert list(parse_attempt_ranges(format_attempt_ranges(tuple(attempts)))) == attempts


@pytest.mark.parametrize("text", ["", "1", "1:0", "2-1:1", "0-200000:1", "1:1,1:1", "a:1", "1:1;id", "1-:1:1"])
def test_an_invalid_attempt_range_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse_attempt_ranges(text)


def test_too_many_attempts_are_refused_before_memory_is_allocated() -> None:
    """A short argument may name a thousand million attempts."""
    text = ",".join(f"{first}00000-{first}99999:1" for first in range(1, 60))
    tracemalloc.start()
    with pytest.raises(ParseError, match="at most 100000 attempts"):
        parse_attempt_ranges(text)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak_bytes < 1 << 20


@given(st.lists(st.tuples(st.integers(1, 10**6), st.integers(1, 9)), min_size=1, max_size=9))
def test_formatted_array_index_ranges_are_parsed_back(firsts: list[tuple[int, int]]) -> None:
    places = tuple(range(first, first + length) for first, length in firsts)

    assert parse_array_index_ranges(format_array_index_ranges(places)) == places


@pytest.mark.parametrize("text", ["", "0", "1-", "0-3", "5-1", "1,", "1-2-3", "1;id", "1-100001", "-1"])
def test_an_invalid_array_index_range_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse_array_index_ranges(text)
