"""Policy demand: a host's name with a domain and without one is the same host's (bootstrap(5))."""

import pytest

from tests.decisions.elastic.cells import instance, waiting
from tests.decisions.elastic.demand_cells import cell, plan


def fits(host: str, queues: tuple[str, ...] = (), **asks: str) -> bool:
    """Say whether a job fits on an idle host of this name."""
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
def test_a_domain_counts_only_where_the_host_has_one(host: str, asked: str, *, fit: bool) -> None:
    assert fits(host, hostname=asked) == fit
    if not set("!&|") & set(asked):
        assert fits(host, (f"all.q@{asked}",)) == fit
