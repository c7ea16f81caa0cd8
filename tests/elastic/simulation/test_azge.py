"""The policy of CycleCloud's autoscaler."""

from collections.abc import Iterable

import pytest

from gridbridge.decisions.elastic.cyclecloud_policy_and_replay_timeouts import plan_balance_like_cyclecloud
from gridbridge.elastic.simulation.replay_engine import make_replay_policy
from gridbridge.model.elastic.balance_plan import BalancePlan, BalanceSituation
from gridbridge.model.elastic.balancer_config_sections import DemandPolicySection
from gridbridge.model.elastic.grid_engine_cell import WaitingJobGroup
from gridbridge.model.elastic.replay_tasks_and_results import ComparedReplayRules, ReplayNodePropertiesAndPrices
from tests.decisions.elastic.cells import instance, node, situation, waiting

LONG = 5.0  # minutes after which an idle node goes


def seen(idle: dict[str, float], wait: Iterable[WaitingJobGroup] = (), booting: Iterable[str] = ()) -> BalanceSituation:
    """Return idle nodes of four slots, and booting nodes; `idle` has the idle minutes by node."""
    nodes = [node(name, idle=minutes) for name, minutes in idle.items()]
    nodes += [node(name, state="booting") for name in booting]
    return situation(*(instance(name) for name in idle), wait=wait, nodes=nodes)


def decided(looked: BalanceSituation, *, least: int = 0, most: int = 9) -> BalancePlan:
    terms = ReplayNodePropertiesAndPrices(min_nodes=least, max_nodes=most, slots=4)
    return plan_balance_like_cyclecloud(
        looked, make_replay_policy(ComparedReplayRules.AZGE, terms, DemandPolicySection()), terms.slots
    )


def test_the_last_idle_node_is_removed_first_and_the_minimum_stays() -> None:
    assert decided(seen({"n1": LONG, "n2": LONG, "n3": 4}), least=2).remove == ("n2",)


def test_a_node_that_waiting_tasks_need_stays() -> None:
    idle = {"n1": LONG, "n2": LONG}

    assert decided(seen(idle, [waiting(1, tasks=4)])).remove == ("n2",)
    wide = decided(seen(idle, [waiting(1, slots=3, pe="mpi", tasks=3)]))
    assert (wide.add, wide.remove) == (1, ())


def test_no_round_both_adds_and_removes_nodes() -> None:
    """The cluster is below the minimum."""
    plan = decided(seen({"n1": LONG}), least=2)

    assert (plan.add, plan.remove) == (1, ())


@pytest.mark.parametrize(
    ("wait", "booting", "add"),
    [
        ([waiting(1, tasks=9)], (), 3),
        ([waiting(1, tasks=9)], ("n1",), 2),
        ([waiting(1, slots=3, pe="mpi", tasks=2), waiting(1, tasks=2)], (), 2),
        ([waiting(1, slots=3, pe="mpi", tasks=2), waiting(1, tasks=3)], (), 3),
        ([waiting(1, slots=2, pe="mpi", tasks=3), waiting(1, tasks=2)], (), 2),
        ([waiting(1, slots=6, pe="mpi", tasks=2)], (), 3),
        ([waiting(1, slots=6, pe="mpi"), waiting(1, tasks=2)], (), 2),
        ([waiting(1, slots=6, pe="mpi")], ("n1",), 1),
        ([waiting(1, tasks=99)], (), 9),
    ],
    ids=[
        *("whole nodes", "one on its way", "left over beside wide ones", "one more than that"),
        *("left over on the last", "wider than a node", "its last node's rest", "partly there"),
        "the maximum",
    ],
)
def test_waiting_tasks_are_packed_into_nodes(wait: list[WaitingJobGroup], booting: tuple[str, ...], add: int) -> None:
    assert decided(seen({}, wait, booting)).add == add
