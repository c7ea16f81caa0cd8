"""The cost of nodes by billing units, the pool of new nodes, and hints for administrators."""

from dataclasses import replace
from datetime import timedelta

import pytest

from gridbridge.decisions.elastic.node_costs_and_pool_choice import (
    choose_pool_for_new_nodes,
    node_costs_since_last_round,
)
from gridbridge.decisions.elastic.nodes_needing_administrator import (
    explain_how_to_wake_host,
    manual_machine_removal_command,
)
from gridbridge.model.elastic.balance_plan import BalancePlan, BalancePlanFigures, BalancePlanReason
from gridbridge.model.elastic.balancer_config_sections import MachineProviderSection, NodePoolSection, ProviderKind
from gridbridge.model.elastic.elastic_nodes import BalancerOwnedNode, ElasticNodeState, NodeStateCause
from tests.decisions.elastic.cells import NOON, ago

HOUR_S = 3600.0
POOLS = {"usual": NodePoolSection(price=2.0, prices="22-6=1")}


def owned(up_minutes: float, pool: str = "usual", machine: str = "m-1") -> BalancerOwnedNode:
    up, state = ago(up_minutes), ElasticNodeState.READY
    return BalancerOwnedNode(name="n1", pool=pool, state=state, since=up, up_since=up, machine=machine)


@pytest.mark.parametrize(
    ("up", "last", "unit_s", "spent"),
    [
        pytest.param(30, 1, HOUR_S, 0.0, id="within its hour"),
        pytest.param(60, 1, HOUR_S, 2.0, id="its second hour begins now"),
        pytest.param(61, 1, HOUR_S, 0.0, id="it began with the last round"),
        pytest.param(130, 90, HOUR_S, 4.0, id="two hours in a long pause"),
        pytest.param(60 * 24 * 20, 60 * 24 * 9, HOUR_S, 13 * 2.0, id="a pause of nine days: the hours of this month"),
        pytest.param(0.9, 1, HOUR_S, 0.0, id="made after the last round's list of machines"),
        pytest.param(190, 185, 4 * HOUR_S, 0.0, id="a longer unit"),
        pytest.param(239, 5, 60.0, 5 * 2.0 / 60, id="by the minute"),
    ],
)
def test_a_billing_unit_counts_in_the_round_of_its_begin(up: float, last: float, unit_s: float, spent: float) -> None:
    node = owned(up)

    found = node_costs_since_last_round(ago(last), NOON, [node], [node], POOLS, unit_s, NOON)

    assert found == pytest.approx(spent)


@pytest.mark.parametrize("up", [-0.1, 0, 1, 59])
def test_a_new_machine_counts_at_once(up: float) -> None:
    """The machine may have been created at the moment of the last round, or after this round began."""
    before = owned(up, machine="")

    found = node_costs_since_last_round(ago(1), NOON, [before], [owned(up)], POOLS, HOUR_S, NOON)

    assert found == 2.0


def test_a_machine_without_a_node_counts_only_for_this_month() -> None:
    """Noon is on the first day of a month, in which 13 hours have begun."""
    found = node_costs_since_last_round(ago(1), NOON, [], [owned(60 * 24 * 9)], POOLS, HOUR_S, NOON)

    assert found == 13 * 2.0


def test_the_price_is_that_of_the_hour_and_a_node_of_an_unknown_pool_costs_nothing() -> None:
    night = NOON + timedelta(hours=11)
    nodes = [owned(0), owned(0, pool="unknown", machine="m-2")]

    assert node_costs_since_last_round(ago(1), NOON, [], nodes, POOLS, HOUR_S, night) == 1.0


FIGURES = BalancePlanFigures(
    nodes=1, running=1, jobs=1, wanted=1, free=0, slots=1, slots_per_node=1, waited_s=0, unchanged_s=None
)
PRICED = {
    "dear": NodePoolSection(slots=2, price=4.0),
    "cheap": NodePoolSection(slots=2, price=1.0, limit=2),
    "first": NodePoolSection(slots=2, price=9.0, priority=1, quota=2),
}
OWN = BalancerOwnedNode(name="alpha-n7", pool="first", state=ElasticNodeState.READY, since=NOON)
FAILED = BalancerOwnedNode(name="alpha-n8", pool="first", state=ElasticNodeState.FAILED, since=NOON)


@pytest.mark.parametrize(
    ("usable", "kept", "pool", "expected"),
    [
        pytest.param({*PRICED}, (), "", ("first", 1), id="by priority, within its quota"),
        pytest.param({*PRICED}, (OWN,), "", ("cheap", 2), id="then by price, within its limit"),
        pytest.param({*PRICED}, (FAILED,), "", ("first", 1), id="nodes that failed take no room"),
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
    told = choose_pool_for_new_nodes(plan, PRICED, usable, kept, NOON)

    assert expected == (told.pool, told.add)


COMMAND = MachineProviderSection(program="/opt/site/rent node")
EC2 = MachineProviderSection(kind=ProviderKind.EC2, region="eu-west-1")
OTHER = MachineProviderSection(kind=ProviderKind.EC2, region="here", endpoint="https://cloud:1/")
LIBCLOUD = MachineProviderSection(kind=ProviderKind.LIBCLOUD, driver="openstack")


@pytest.mark.parametrize(
    ("machine", "section", "expected"),
    [
        ("r-17", COMMAND, """`echo '{"id": "r-17"}' | '/opt/site/rent node' destroy`"""),
        ("a'b", COMMAND, """`echo '{"id": "a'"'"'b"}' | '/opt/site/rent node' destroy`"""),
        ("i-1", EC2, "`aws ec2 terminate-instances --region eu-west-1 --instance-ids i-1`"),
        (
            "i-1",
            OTHER,
            "`aws ec2 terminate-instances --region here --endpoint-url https://cloud:1/ --instance-ids i-1`",
        ),
        ("n-1", LIBCLOUD, "end machine n-1 of provider cloud (openstack) with the cloud's own tools"),
        ("n-1", None, "end machine n-1 of provider cloud with the cloud's own tools"),
    ],
)
def test_the_machine_removal_command(machine: str, section: MachineProviderSection | None, expected: str) -> None:
    assert expected == manual_machine_removal_command(machine, "cloud", section)


OFF = BalancerOwnedNode(name="n3", pool="rack", machine="n3", state=ElasticNodeState.STANDBY, since=NOON)
TAG = "`gridbridge balance tag n3 SUFFIX`"
FREE = "`gridbridge balance keep --free n3`"
NEVER = "the host is off and is not woken"
DRAINED = ", because an administrator drained the host"


@pytest.mark.parametrize(
    ("cause", "tags", "expected"),
    [
        (NodeStateCause.RESTS, ("htools:standby:auto",), "the host is off, and is woken when needed"),
        (NodeStateCause.NONE, (), f"{NEVER}, because the host has no tag; {TAG} adds a tag"),
        (NodeStateCause.NONE, ("htools:other",), f"{NEVER}, because the host has no tag; {TAG} adds a tag"),
        (NodeStateCause.DRAINED, ("htools:standby:1",), f"{NEVER}{DRAINED}; {FREE} allows a wake"),
        (NodeStateCause.DRAINED, (), f"{NEVER}{DRAINED}; {FREE}, then {TAG} allows a wake"),
        (NodeStateCause.UNDER_TASKS, ("htools:standby:1",), f"the host is off: {NodeStateCause.UNDER_TASKS}"),
    ],
)
def test_the_hint_how_to_wake_a_powered_off_host(cause: NodeStateCause, tags: tuple[str, ...], expected: str) -> None:
    assert expected == explain_how_to_wake_host(replace(OFF, cause=cause), {"n3": tags})
