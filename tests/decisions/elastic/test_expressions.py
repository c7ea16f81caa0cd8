"""Expressions of job requests are parsed as Grid Engine parses them (sge_types(1))."""

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
def test_an_expression_matches_host_names(expression: str, expected: bool) -> None:
    assert expected == request_expression_matches(expression, ("n1.example.org", "n1"))


@pytest.mark.parametrize("expression", ["", "(n1", "n1)", "n1&", "|n1", "!", "()", "(" * 100_000])
def test_an_expression_that_grid_engine_cannot_parse_matches_nothing(expression: str) -> None:
    assert not request_expression_matches(expression, ("n1",))


def test_a_negated_expression_matches_a_host_whose_name_is_unknown() -> None:
    """The name of a new node is not known yet."""
    assert request_expression_matches("!n1&!n2", ("",))
    assert not request_expression_matches("n1", ("",))
