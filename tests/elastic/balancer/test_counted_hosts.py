"""Which of the site's own hosts a round counts, powers off and wakes."""

from dataclasses import replace

import pytest

from gridbridge.decisions.elastic.demand.demand_policy import plan_balance_by_demand
from gridbridge.decisions.elastic.standby_host_policy import plan_hosts_to_sleep_or_wake
from gridbridge.elastic.balancer.balancer_round_decision import restrict_squeeze_to_own_hosts
from gridbridge.model.elastic.balance_plan import BalanceSituation
from gridbridge.model.elastic.balancer_config_sections import (
    BalanceSection,
    DemandPolicySection,
    SqueezeSection,
    StandbyNodeSelection,
)
from gridbridge.model.elastic.elastic_nodes import ElasticNode
from gridbridge.model.elastic.standby_and_wake_plan import (
    STANDBY_AUTO,
    HostTagsAndMovableTasks,
    StandbyOrWakePlan,
    StandbyOrWakePlanCause,
)
from tests.decisions.elastic.cells import MASTER, ago, instance, node, situation

FAILED = replace(node("n5", state="standby"), failed_at=ago(2))
ALL = {f"n{at}" for at in range(7)}
FACTS = HostTagsAndMovableTasks(tags=dict.fromkeys(ALL, (STANDBY_AUTO,)))


def seen(*asleep: ElasticNode) -> BalanceSituation:
    """Return a master, four hosts that run a task each, and the given powered-off hosts."""
    on = [node(f"n{at}") for at in range(1, 5)]
    hosts = [instance(MASTER, slots=0), *(instance(one.name, (1,)) for one in on)]
    off = (instance(one.name, state="d") for one in asleep)
    return situation(*hosts, *off, nodes=(*on, *asleep))


def squeezed(
    cell: BalanceSituation, own: set[str], squeeze: SqueezeSection, least: int, most: int
) -> StandbyOrWakePlan:
    rules = BalanceSection(min_nodes=least, max_nodes=most)
    plan = plan_balance_by_demand(cell, rules, DemandPolicySection(), {})
    return plan_hosts_to_sleep_or_wake(restrict_squeeze_to_own_hosts(cell, own, 600), plan, rules, squeeze, FACTS)


@pytest.mark.parametrize(
    ("asleep", "own"),
    [(node("n5", state="standby"), ALL - {"n5"}), (FAILED, ALL), (node("n5", state="standby"), ALL)],
    ids=["goes down", "did not come up", "off"],
)
def test_powered_off_hosts_do_not_count_towards_min_nodes(asleep: ElasticNode, own: set[str]) -> None:
    freed = SqueezeSection(restriction=StandbyNodeSelection.ALL, target_reserve=0.5, minimal_reserve=0.25)

    assert squeezed(seen(asleep), own, freed, 5, 9).off == ()
    assert squeezed(seen(asleep), own, freed, 4, 9).off == ("n4",)


@pytest.mark.parametrize(
    ("asleep", "own"),
    [(node("n5", state="standby"), ALL - {"n5"}), (FAILED, ALL)],
    ids=["goes down", "did not come up"],
)
def test_a_powered_off_unwakeable_host_does_not_count_towards_max_nodes(asleep: ElasticNode, own: set[str]) -> None:
    wanted = SqueezeSection(minimal_reserve=9, target_reserve=9)
    cell = seen(asleep, node("n6", state="standby"))

    assert squeezed(cell, own, wanted, 0, 6).on == ("n6",)
    assert squeezed(seen(asleep), own, wanted, 0, 6).cause is StandbyOrWakePlanCause.NO_STANDBY
