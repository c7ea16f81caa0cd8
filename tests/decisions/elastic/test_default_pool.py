"""Choice of the pool for a plan that names no pool."""

import pytest

from gridbridge.decisions.elastic.node_costs_and_pool_choice import choose_pool_for_new_nodes
from gridbridge.model.elastic.balance_plan import BalancePlan, BalancePlanFigures, BalancePlanReason
from gridbridge.model.elastic.balancer_config_sections import NodePoolSection
from gridbridge.model.elastic.elastic_nodes import BalancerOwnedNode, ElasticNodeState
from tests.decisions.elastic.cells import NOON

FIGURES = BalancePlanFigures(
    nodes=1, running=1, jobs=1, wanted=1, free=0, slots=1, slots_per_node=1, waited_s=0, unchanged_s=None
)
POOLS = {
    "dear": NodePoolSection(slots=2, price=4.0),
    "cheap": NodePoolSection(slots=2, price=1.0, limit=2),
    "first": NodePoolSection(slots=2, price=9.0, priority=1, quota=2),
}
OWN = BalancerOwnedNode(name="alpha-n7", pool="first", state=ElasticNodeState.READY, since=NOON)
FAILED = BalancerOwnedNode(name="alpha-n8", pool="first", state=ElasticNodeState.FAILED, since=NOON)


@pytest.mark.parametrize(
    ("usable", "kept", "pool", "expected"),
    [
        pytest.param({*POOLS}, (), "", ("first", 1), id="by priority, within its quota"),
        pytest.param({*POOLS}, (OWN,), "", ("cheap", 2), id="then by price, within its limit"),
        pytest.param({*POOLS}, (FAILED,), "", ("first", 1), id="nodes that failed take no room"),
        pytest.param({"dear"}, (), "", ("dear", 3), id="only one that can give any"),
        pytest.param(set(), (), "", ("", 0), id="none"),
        pytest.param({"dear"}, (), "dear", ("dear", 3), id="the plan's own"),
        pytest.param({"cheap"}, (), "dear", ("dear", 0), id="the plan's own is silent"),
    ],
)
def test_nodes_come_from_the_first_usable_pool_by_priority_and_price(
    usable: set[str], kept: tuple[BalancerOwnedNode, ...], pool: str, expected: tuple[str, int]
) -> None:
    plan = BalancePlan(verdict=BalancePlanReason.WAITS_TOO_LONG, figures=FIGURES, add=3, pool=pool)
    told = choose_pool_for_new_nodes(plan, POOLS, usable, kept, NOON)

    assert expected == (told.pool, told.add)
