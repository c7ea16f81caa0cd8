"""Placeholders of file patterns stand for a task's parameters, which can't lead out of the task's folder."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.model.campaigns.task_file_patterns import fill_placeholders, is_output_pattern, output_names_of_task

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*(/[A-Za-z0-9_][A-Za-z0-9_.+-]*)*", re.ASCII)
TEXTS = st.text(alphabet="aZ0_.+-/{}12 \\'\"$é\n", max_size=12)


@pytest.mark.parametrize(
    ("pattern", "filled"),
    [
        ("a", "a"),
        ("{}", "1 'b c'"),
        ("{1}/{2}.x", "1/b c.x"),
        ("{0}", "1 'b c'"),
        ("{x}{1}{", "{x}1{"),
        ("{12345}", "{12345}"),
    ],
)
def test_placeholders_are_replaced_by_a_tasks_words(pattern: str, filled: str) -> None:
    assert filled == fill_placeholders(pattern, "1 'b c'")


@pytest.mark.parametrize(
    ("pattern", "why"), [("{3}", "the task has no word 3, so {3} has no value"), ("{2}", "b c: expected a relative")]
)
def test_a_task_without_a_name_for_its_output_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        output_names_of_task((pattern,), "1 'b c'")


@given(TEXTS, st.text(alphabet="a/. $", max_size=6))
def test_an_output_is_a_plain_relative_path_whatever_the_parameters_are(pattern: str, line: str) -> None:
    try:
        names = output_names_of_task((pattern,), line)
    except ValueError:
        return

    assert is_output_pattern(pattern)
    assert all(map(NAME.fullmatch, names))
