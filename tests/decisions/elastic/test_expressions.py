"""Expressions of job requests are read as Grid Engine reads them (sge_types(1))."""

import pytest

from gridbridge.decisions.elastic.demand.task_requirements import request_expression_matches


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("n1", True),
        ("N1", True),
        ("n2", False),
        ("n2|n1", True),
        ("n*&!n2", True),
        ("!n1&!n2", False),
        ("(n1|n2)&!n2", True),
        ("(n1|n2)&n3", False),
        ("!(n1|n2)", False),
        ("!(n2|n3)", True),
        ("n1|n2&n3", True),
        ("!!n1", True),
        (" n1 | n2 ", True),
        ("n[1-3]", True),
    ],
)
def test_a_name_is_matched(expression: str, expected: bool) -> None:
    assert expected == request_expression_matches(expression, ("n1.example.org", "n1"))


@pytest.mark.parametrize("expression", ["", "(n1", "n1)", "n1&", "|n1", "!", "()", "(" * 100_000])
def test_what_grid_engine_can_not_read_matches_nothing(expression: str) -> None:
    assert not request_expression_matches(expression, ("n1",))


def test_a_host_without_a_name_is_matched_by_what_it_is_not() -> None:
    """Nobody knows the name of a new node."""
    assert request_expression_matches("!n1&!n2", ("",))
    assert not request_expression_matches("n1", ("",))
