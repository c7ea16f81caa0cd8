"""Policy demand: a host name with a domain and the name without a domain mean the same host (bootstrap(5))."""

import pytest

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
