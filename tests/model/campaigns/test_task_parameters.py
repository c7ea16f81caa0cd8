"""Task parameters, host properties and ranges of attempts are parsed from texts."""

import shlex
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.batch.oar.oar_command_line_builders import oarsub_property_condition
from gridbridge.errors import ParseError
from gridbridge.model.campaigns.campaign_file_and_array_names import (
    first_task_parameter,
    has_closed_quotes,
    split_task_parameters,
)
from gridbridge.model.campaigns.host_property_request_parser import parse_required_host_properties
from gridbridge.model.campaigns.task_index_and_attempt_texts import (
    format_array_index_ranges,
    format_attempt_ranges,
    parse_array_index_ranges,
    parse_attempt_ranges,
)
from gridbridge.model.job_request import JobRequest

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


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("", ()),
        ("gpu=YES", (("gpu", "YES"),)),
        ("mem>=2000,zone<>b", (("mem>=", "2000"), ("zone<>", "b"))),
        ("a=b=c,d", (("a", "b=c"), ("d", ""))),
        ("mem=2G,arch=x,mem=2G", (("mem", "2G"), ("arch", "x"))),
    ],
)
def test_each_host_condition_is_parsed_into_name_with_relation_and_value(
    text: str, pairs: tuple[tuple[str, str], ...]
) -> None:
    assert parse_required_host_properties(text) == pairs


def test_host_properties_become_an_sql_condition_for_oar() -> None:
    request = JobRequest(hard=parse_required_host_properties("mem>=2000,cpu=Intel Xeon,gpu=YES"))

    assert oarsub_property_condition(request) == "mem >= '2000' AND cpu = 'Intel Xeon' AND gpu = 'YES'"


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
