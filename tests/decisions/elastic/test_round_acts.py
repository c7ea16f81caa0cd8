"""How a round describes nodes to the policies, and which facts a round records about nodes."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from gridbridge.decisions.elastic import machine_list_reconciliation, node_acts_from_balance_plan
from gridbridge.decisions.elastic.node_costs_and_pool_choice import update_pool_failure_records
from gridbridge.decisions.elastic.nodes_needing_administrator import find_silent_hosts_without_machine
from gridbridge.model.elastic import elastic_nodes
from tests.decisions.elastic.cells import NOON
from tests.decisions.elastic.test_node_lifecycle import IDLE, POOL, RUNNING, S, node, world

LONG_AGO = NOON - timedelta(hours=2)
EARLIER = NOON - timedelta(minutes=9)


@pytest.mark.parametrize(
    ("state", "noted", "expected"),
    [
        pytest.param(S.READY, None, NOON, id="nobody has noted it yet: the round before saw tasks"),
        pytest.param(S.READY, EARLIER, EARLIER, id="an earlier round noted it"),
        pytest.param(S.BOOTING, None, None, id="it is on its way"),
    ],
)
def test_the_idle_time_of_a_ready_node_starts_at_the_first_round_that_sees_the_node_idle(
    state: elastic_nodes.ElasticNodeState, noted: datetime | None, expected: datetime | None
) -> None:
    kept = node(state, up_since=LONG_AGO, idle_since=noted)

    (shown,) = node_acts_from_balance_plan.elastic_nodes_for_policies([kept], world(kept, (RUNNING,), IDLE))

    assert expected == shown.idle_since


def test_a_joining_node_resets_the_failures_of_its_pool_but_not_a_lack_of_capacity() -> None:
    """The node was requested before the pool ran out of capacity."""
    known = {POOL: elastic_nodes.PoolFailureRecord(failures=2, failed_at=EARLIER, no_capacity_at=EARLIER)}

    found = update_pool_failure_records(known, [(node(S.JOINING), node(S.READY))], NOON)

    assert found == {POOL: elastic_nodes.PoolFailureRecord(no_capacity_at=EARLIER)}


@pytest.mark.parametrize(
    ("state", "machines", "expected"), [(S.READY, (), True), (S.READY, (RUNNING,), False), (S.BOOTING, (), False)]
)
def test_a_ready_node_that_no_provider_lists_is_unreachable(
    state: elastic_nodes.ElasticNodeState, machines: tuple[elastic_nodes.ProviderMachine, ...], expected: bool
) -> None:
    kept = node(state)
    (shown,) = node_acts_from_balance_plan.elastic_nodes_for_policies([kept], world(kept, machines, IDLE))

    assert expected == shown.is_unreachable


def test_a_new_node_gets_an_unused_name() -> None:
    """Machines of others with very high numbers are considered, too."""
    last = replace(RUNNING, id="m-8", name="alpha-n999999999", tags={})
    beyond = replace(last, id="m-9", name="alpha-n1000000000")
    known = world(node(S.READY), (RUNNING, last, beyond))

    assert node_acts_from_balance_plan.unused_names_for_new_nodes(known, "alpha-n", 2) == (
        "alpha-n1000000001",
        "alpha-n1000000002",
    )


def lost(since_min: float, own: frozenset[str]) -> tuple[str, ...]:
    """Return which of the silent hosts alpha-n8 and web1 is reported as a host without a machine."""
    hosts = {name: elastic_nodes.BusyOrSilentHostState(is_busy=False, is_silent=True) for name in ("alpha-n8", "web1")}
    since = NOON - timedelta(minutes=since_min)
    known = replace(world(None, (), None), hosts=hosts, silent={"alpha-n8 ": since, "web1 ": since})
    assert known.silent == machine_list_reconciliation.silent_since_by_host(known, known.silent)
    return find_silent_hosts_without_machine(known, "alpha-n", 900, own)


def test_a_silent_host_named_like_a_node_is_reported_after_15_minutes_unless_it_is_the_sites_own() -> None:
    own = frozenset({"alpha-n8"})

    told = [lost(1, frozenset()), lost(16, frozenset()), lost(16, own)]

    assert told == [(), ("alpha-n8",), ()]


def test_the_silence_of_a_host_ends_when_the_host_reports() -> None:
    hosts = {"web1": elastic_nodes.BusyOrSilentHostState(is_busy=False, is_silent=False)}
    known = replace(world(None, (), None), hosts=hosts)

    assert machine_list_reconciliation.silent_since_by_host(known, {"web1 ": EARLIER}) == {}
