"""Policy demand: expressions for host names, with or without a domain (sge_types(1), bootstrap(5))."""

import pytest

from gridbridge.decisions.elastic.demand.task_requirements import request_expression_matches
from tests.decisions.elastic.cells import instance, waiting
from tests.decisions.elastic.demand_cells import cell, plan


def fits(host: str, queues: tuple[str, ...] = (), **asks: str) -> bool:
    job = waiting(5, queues=queues, **asks)
    return bool(plan(cell(instance(host), wait=[job]), most=1).figures.fit)


@pytest.mark.parametrize(
    ("host", "asked", "fit"),
    [
        ("n1", "n1.example.org", True),
        ("n1", "N1.Example.org", True),
        ("n1", "n2.example.org", False),
        ("n1", "n2.example.org|n1.example.org", True),
        ("n1", "!n1.example.org", False),
        ("n1", "!n2.example.org&n*", True),
        ("n1", "n10.example.org", False),
        ("n1.example.org", "n1", True),
        ("n1.example.org", "n1.example.org", True),
        ("n1.example.org", "n1.example.com", False),
        ("n1.example.org", "*.example.org", True),
    ],
)
def test_a_host_without_a_domain_matches_names_with_any_domain(host: str, asked: str, *, fit: bool) -> None:
    assert fits(host, hostname=asked) == fit
    if not set("!&|") & set(asked):
        assert fits(host, (f"all.q@{asked}",)) == fit


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
