"""Policy demand: powered-off hosts are woken for tasks that fit on these hosts, and cost nothing."""

from dataclasses import replace

import pytest

from gridbridge.model.elastic.balance_plan import BalancePlan, BalancePlanReason
from tests.decisions.elastic.cells import MASTER, instance, node, waiting
from tests.decisions.elastic.demand_cells import full, plan, with_standby

SIZES = {"s4": 4, "t4": 4, "s16": 16}


def planned(*names: str, slots: int = 1, tasks: int = 1, is_told: bool = True) -> BalancePlan:
    sizes = {name: SIZES[name] for name in names}
    wait = [waiting(5, slots=slots, tasks=tasks, pe="smp" if slots > 1 else "")]
    return plan(with_standby(sizes, *full(MASTER), wait=wait, **({} if is_told else {"standby": ()})))


@pytest.mark.parametrize(
    ("names", "slots", "tasks", "wake", "add"),
    [
        pytest.param(("s16",), 16, 1, ("s16",), 0, id="it alone could run it"),
        pytest.param(("s4", "s16"), 16, 1, ("s16",), 0, id="a small one sleeps on"),
        pytest.param(("s4", "t4"), 1, 4, ("s4",), 0, id="as few as do"),
        pytest.param(("t4", "s4"), 1, 4, ("t4",), 0, id="in the order of waking"),
        pytest.param(("s4", "t4"), 1, 99, ("s4", "t4"), 0, id="waking comes before buying"),
        pytest.param((), 1, 4, (), 1, id="none rests"),
    ],
)
def test_the_fewest_powered_off_hosts_on_which_the_tasks_fit_are_woken(
    names: tuple[str, ...], slots: int, tasks: int, wake: tuple[str, ...], add: int
) -> None:
    found = planned(*names, slots=slots, tasks=tasks)

    assert (found.wake, found.add) == (wake, add)
    assert found.verdict is BalancePlanReason.MORE_WANTED


def test_a_powered_off_host_that_must_not_be_woken_is_ignored() -> None:
    found = planned("s16", slots=16, is_told=False)

    assert (found.wake, found.add, found.verdict) == ((), 0, BalancePlanReason.NO_NODE)
    assert [one.job for one in found.refused if one.job] == [7]


def test_no_host_is_woken_for_a_queue_that_is_disabled_on_all_hosts() -> None:
    closed = [instance(name, state="d") for name in (MASTER, "n1")]
    seen = with_standby({}, *closed, instance("s4", state="dau"), wait=[waiting(5)], standby=("s4",))
    seen = replace(seen, nodes=(node("s4", state="standby", pool="rack"),))
    found = plan(seen, {})

    assert (found.wake, found.add) == ((), 0)
