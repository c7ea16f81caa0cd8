"""The time of a round grows only linearly with the number of nodes."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gridbridge.decisions.elastic import machine_list_reconciliation, node_acts_from_balance_plan
from gridbridge.decisions.elastic.demand.demand_policy import plan_balance_by_demand
from gridbridge.decisions.elastic.node_and_master_lifecycle import NodeLifecycleTimeouts
from gridbridge.decisions.elastic.site_host_power_lifecycle import standby_and_wake_steps_of_plan
from gridbridge.decisions.elastic.standby_host_policy import plan_hosts_to_sleep_or_wake, wakeable_standby_nodes
from gridbridge.decisions.elastic.starcluster_policy import plan_balance_by_starcluster as by_starcluster
from gridbridge.model.elastic.balance_plan import BalancePlan, BalancePlanReason, BalanceSituation
from gridbridge.model.elastic.balancer_config_sections import (
    BalanceSection,
    DemandPolicySection,
    NodePoolSection,
    SqueezeSection,
)
from gridbridge.model.elastic.elastic_nodes import (
    OWNER_TAG,
    POOL_TAG,
    BalancerNodeAct,
    BalancerNodesSnapshot,
    BalancerOwnedNode,
    BusyOrSilentHostState,
    ElasticNodeState,
    ProviderMachine,
    ProviderMachineState,
)
from gridbridge.model.elastic.standby_and_wake_plan import (
    HostTagsAndMovableTasks,
    StandbyOrWakePlan,
    StandbyOrWakePlanCause,
)
from tests.decisions.elastic.cells import NOON, ago, instance, situation
from tests.measured import FIGURES

MANY, MOST_S = 3000, 1.5  # of CPU: where each node looks at all others it is a minute
RULES, POOLS = BalanceSection(max_nodes=9999), {"usual": NodePoolSection(slots=4)}
NAMES = tuple(f"n{number}" for number in range(MANY))
RACK, ON, OFF = "rack", NAMES[::2], NAMES[1::2]


@pytest.fixture(scope="module")
def world() -> BalancerNodesSnapshot:
    tags = {OWNER_TAG: "alpha", POOL_TAG: "usual"}
    states = ElasticNodeState.READY, ProviderMachineState.RUNNING
    long: dict[str, Any] = {
        "pool": "usual",
        "state": states[0],
        **dict.fromkeys(("since", "up_since", "idle_since"), ago(50)),
    }
    return BalancerNodesSnapshot(
        now=NOON,
        cluster="alpha",
        kept=tuple(BalancerOwnedNode(name=one, machine=f"i-{one}", **long) for one in NAMES),
        machines={
            "usual": tuple(ProviderMachine(id=f"i-{one}", name=one, state=states[1], tags=tags) for one in NAMES)
        },
        hosts={one: BusyOrSilentHostState(is_busy=False, is_silent=False) for one in NAMES},
        pools=frozenset(POOLS),
    )


@pytest.fixture(scope="module")
def seen(world: BalancerNodesSnapshot) -> BalanceSituation:
    return situation(
        *map(instance, NAMES), nodes=node_acts_from_balance_plan.elastic_nodes_for_policies(world.kept, world)
    )


def test_deciding_about_3000_nodes_takes_under_2_s(world: BalancerNodesSnapshot, seen: BalanceSituation) -> None:
    plan = plan_balance_by_demand(seen, RULES, DemandPolicySection(), POOLS)
    patience = NodeLifecycleTimeouts(boot_s=300, join_s=300, silent_s=300)
    done: dict[str, Callable[[], int]] = {
        "starcluster": lambda: len(by_starcluster(seen, RULES).remove),
        "shown": lambda: len(node_acts_from_balance_plan.elastic_nodes_for_policies(world.kept, world)),
        "dues": lambda: sum(
            one.act is BalancerNodeAct.REMOVE
            for one in node_acts_from_balance_plan.plan_due_node_acts(world, plan, RULES, patience)
        ),
        "rest": lambda: len(plan_hosts_to_sleep_or_wake(seen, plan, RULES, SqueezeSection(target_reserve=0.0)).off),
        "unlisted": lambda: MANY - len(machine_list_reconciliation.machine_missing_since_by_node(world, {})),
    }

    for name, work in done.items():
        begun = time.process_time()
        found = work()
        took_s = time.process_time() - begun

        assert found >= MANY - 1, name
        assert took_s < MOST_S, name


def test_power_decisions_about_3000_hosts_take_under_2_s() -> None:
    own, tags = {OWNER_TAG: "alpha", POOL_TAG: RACK}, dict.fromkeys(OFF, ("htools:standby:auto",))
    states = {one: ElasticNodeState.STANDBY if one in tags else ElasticNodeState.READY for one in NAMES}
    power = {True: ProviderMachineState.STOPPED, False: ProviderMachineState.RUNNING}
    kept = tuple(
        BalancerOwnedNode(name=name, pool=RACK, state=state, since=ago(9), machine=name)
        for name, state in states.items()
    )
    world = BalancerNodesSnapshot(
        now=NOON,
        cluster="alpha",
        kept=kept,
        machines={RACK: tuple(ProviderMachine(id=one, name=one, state=power[one in tags], tags=own) for one in NAMES)},
        hosts={one: BusyOrSilentHostState(is_busy=False, is_silent=one in tags) for one in NAMES},
        switched=frozenset((RACK,)),
        tags=tags,
    )
    found = StandbyOrWakePlan(cause=StandbyOrWakePlanCause.PLENTY, off=ON, on=OFF)
    facts = HostTagsAndMovableTasks(tags=tags)
    patience = NodeLifecycleTimeouts(boot_s=300, join_s=300, silent_s=300)
    nothing = BalancePlan(verdict=BalancePlanReason.NO_NEED, figures=FIGURES)
    begun = time.process_time()
    due = node_acts_from_balance_plan.plan_due_node_acts(world, nothing, RULES, patience, standby_plan=found)
    told = standby_and_wake_steps_of_plan(found, facts)
    asleep = wakeable_standby_nodes((one.as_elastic_node for one in kept), facts)
    taken = machine_list_reconciliation.newly_adopted_site_hosts(replace(world, kept=()))

    assert time.process_time() - begun < MOST_S
    assert {BalancerNodeAct.REST: len(ON), BalancerNodeAct.WAKE: len(OFF)} == Counter(one.act for one in due)
    assert (3 * MANY, len(OFF), MANY) == (len(told), len(asleep), len(taken))
