"""The replay of workloads: small cases computed by hand, and properties of all replays."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridbridge.elastic.simulation.replay_engine import ReplaySimulation, make_replay_policy
from gridbridge.elastic.simulation.replay_policy_comparison import find_cost_wait_frontier, vary_policy_settings
from gridbridge.elastic.simulation.synthetic_workload import SyntheticWorkloadSettings, generate_synthetic_workload
from gridbridge.model.elastic.balancer_config_sections import DemandPolicySection
from gridbridge.model.elastic.replay_tasks_and_results import ComparedReplayRules as Rules
from gridbridge.model.elastic.replay_tasks_and_results import PolicyReplayResult, RecordedReplayTask
from gridbridge.model.elastic.replay_tasks_and_results import ReplayNodePropertiesAndPrices as Terms
from tests.decisions.elastic.cells import cases

TERMS = Terms(max_nodes=2, min_nodes=1, slots=2, boot_s=120.0, price=2.0, watts=500.0)
ONE_NODE = Terms(max_nodes=1, min_nodes=1, slots=2)
FROM_NOTHING = replace(TERMS, min_nodes=0)
BY_HOUR = DemandPolicySection(billing_s=3600)


def task(submitted_s: float, run_s: float, slots: int = 1) -> RecordedReplayTask:
    return RecordedReplayTask(submitted_s=submitted_s, run_s=run_s, slots=slots)


def replay(
    tasks: tuple[RecordedReplayTask, ...], terms: Terms, rules: Rules, demand: DemandPolicySection | None = None
) -> PolicyReplayResult:
    return ReplaySimulation(
        tasks, terms, make_replay_policy(rules, terms, demand or DemandPolicySection())
    ).replay_workload()


FULL_NODE = (task(0, 600, 2), task(30, 60))
SMALL_REPLAYS = {
    "a third task waits for one of two slots": (
        *((task(0, 100), task(0, 100), task(0, 50)), ONE_NODE, Rules.ALWAYS_ON),
        *((0, 0, 100), 150),
    ),
    "a narrow task passes a wide one that does not fit": (
        *((task(0, 100), task(10, 100, 2), task(20, 30)), ONE_NODE, Rules.ALWAYS_ON),
        *((0, 100, 20), 200),
    ),
    "a task wider than a node runs on two": ((task(0, 100, 4),), TERMS, Rules.ALWAYS_ON, (0,), 200),
    # the first node all the time; the second from the round at 60 until it was idle for 300 s from 240, at 540
    "demand adds a node at the next minute and gives it back": (FULL_NODE, TERMS, Rules.DEMAND, (0, 180), 600 + 480),
    "azge does the same for so little": (FULL_NODE, TERMS, Rules.AZGE, (0, 180), 600 + 480),
    # the wait is longer than 900 s at 960, and its hour is paid for until the end
    "starcluster waits a quarter of an hour": (
        *((task(0, 1200, 2), task(30, 60)), TERMS, Rules.STARCLUSTER),
        *((0, 1080), 1200 + 240),
    ),
    "a cluster without nodes gets its first one at once": ((task(0, 60),), FROM_NOTHING, Rules.DEMAND, (120,), 180),
    # no slot is free at 300: the second node is switched on, and would rest at 720
    "squeeze keeps its reserve": ((task(0, 600), task(300, 60)), TERMS, Rules.SQUEEZE, (0, 300), 600 + 300),
    # from 360 on the second node is idle, and the first one alone has a single slot free
    "squeeze keeps an idle node on for its target reserve": (
        *((task(0, 1200), task(300, 60)), TERMS, Rules.SQUEEZE),
        *((0, 300), 1200 + 900),
    ),
}


@cases(("tasks", "terms", "rules", "starts", "node_s"), SMALL_REPLAYS)
def test_small_replays_give_the_results_computed_by_hand(
    tasks: tuple[RecordedReplayTask, ...], terms: Terms, rules: Rules, starts: tuple[float, ...], node_s: float
) -> None:
    found = replay(tasks, terms, rules)

    assert found.starts == starts
    assert found.node_hours * 3600 == pytest.approx(node_s)


def test_waiting_times_cost_and_energy_of_a_replay() -> None:
    found = replay((task(0, 600, 2), task(30, 60)), TERMS, Rules.DEMAND)

    assert (found.wait_mean_s, found.wait_p50_s, found.wait_p95_s) == (75.0, 0.0, 150.0)
    assert (found.beyond_mean_s, found.late) == (15.0, 1)
    assert found.cost == pytest.approx(1080 / 3600 * 2.0)
    assert found.energy_kwh == pytest.approx(1080 / 3600 * 0.5)
    assert (found.added, found.removed, found.most_nodes) == (1, 1, 2)


def test_begun_billing_units_are_paid_and_energy_follows_the_running_time() -> None:
    found = replay((task(0, 60),), TERMS, Rules.ALWAYS_ON, BY_HOUR)

    assert (found.paid_hours, found.node_hours) == (2.0, pytest.approx(2 * 60 / 3600))
    assert (found.cost, found.energy_kwh) == (pytest.approx(2 * 2.0), pytest.approx(2 * 60 / 3600 * 0.5))


@pytest.mark.parametrize("rules", list(Rules))
def test_equal_seeds_give_equal_replays(rules: Rules) -> None:
    asked = SyntheticWorkloadSettings(seed="ash", days=0.5, load=0.5, slots=32)
    terms = Terms(max_nodes=4)
    first, second = (replay(generate_synthetic_workload(asked).tasks, terms, rules) for _ in range(2))

    assert first == second
    assert generate_synthetic_workload(asked) != generate_synthetic_workload(replace(asked, seed="oak"))


def test_a_synthetic_workload_has_the_requested_load() -> None:
    made = generate_synthetic_workload(SyntheticWorkloadSettings(seed="ash", days=2, load=0.4, slots=100))
    used = sum(one.run_s * one.slots for one in made.tasks)

    assert used / (100 * 2 * 86400) == pytest.approx(0.4, rel=0.01)
    assert list(made.tasks) == sorted(made.tasks, key=lambda one: one.submitted_s)


TASKS = st.lists(
    st.builds(task, st.integers(0, 7200).map(float), st.integers(0, 4000).map(float), st.integers(1, 6)),
    min_size=1,
    max_size=25,
)


@settings(max_examples=60)
@given(TASKS, st.sampled_from(list(Rules)), st.booleans(), st.integers(0, 2))
def test_in_every_replay_each_task_runs_once_and_no_node_is_overfilled(
    made: list[RecordedReplayTask], rules: Rules, is_spread: bool, least: int
) -> None:
    terms = Terms(max_nodes=3, min_nodes=least, slots=2, boot_s=90, is_spread=is_spread)
    tasks = tuple(sorted(made, key=lambda one: one.submitted_s))
    found = replay(tasks, terms, rules)

    assert len(found.starts) == len(tasks)
    assert not any(map(math.isnan, found.starts))
    for one, start_s in zip(tasks, found.starts, strict=True):
        assert start_s >= one.submitted_s
        running = sum(
            other.slots
            for other, began_s in zip(tasks, found.starts, strict=True)
            if began_s <= start_s < began_s + other.run_s
        )
        on = [moment.nodes for moment in found.moments if moment.at_s <= start_s][-1]
        assert running <= on * terms.slots <= terms.max_nodes * terms.slots
    assert found.most_nodes <= terms.max_nodes
    assert all(moment.nodes >= least for moment in found.moments)
    assert found.used <= 1 + 1e-9


@settings(max_examples=25)
@given(TASKS, st.sampled_from(list(Rules)))
def test_a_replay_may_skip_rounds_in_which_nothing_changed(made: list[RecordedReplayTask], rules: Rules) -> None:
    terms = Terms(max_nodes=3, min_nodes=1, slots=2, boot_s=90)
    tasks = tuple(sorted(made, key=lambda one: one.submitted_s))
    way = make_replay_policy(rules, terms, DemandPolicySection(billing_s=600))
    sparse, dense = (
        ReplaySimulation(tasks, terms, way).replay_workload(),
        ReplaySimulation(tasks, terms, way, is_dense=True).replay_workload(),
    )

    assert sparse == replace(dense, rounds=sparse.rounds)
    assert sparse.rounds <= dense.rounds


def test_no_result_beats_a_result_on_the_frontier() -> None:
    terms = Terms(max_nodes=4)
    tasks = generate_synthetic_workload(SyntheticWorkloadSettings(seed="ash", days=0.5, load=0.5, slots=32)).tasks
    ways = list(vary_policy_settings(make_replay_policy(Rules.SQUEEZE, terms, DemandPolicySection())))
    found = [ReplaySimulation(tasks, terms, way).replay_workload() for way in ways]
    best = find_cost_wait_frontier(found)

    assert best
    for one in best:
        assert not any(o.cost < one.cost and o.wait_mean_s <= one.wait_mean_s for o in found)
    assert [one.cost for one in best] == sorted(one.cost for one in best)


def test_no_node_is_added_for_tasks_that_end_within_the_target_and_a_boot_time() -> None:
    """At second 180 the present slots need 120 s more. The limit is 60 s plus a boot time of 120 s."""
    terms, tasks = replace(TERMS, slots=1), (task(0, 100), task(100, 100), task(160, 100))
    found = [
        replay(tasks, one, Rules.DEMAND, DemandPolicySection(target_wait_s=60, stuck_after_s=0))
        for one in (terms, replace(terms, boot_s=30))
    ]

    assert [one.added for one in found] == [0, 1]
    assert found[0].starts == (0, 100, 200)


def test_a_removed_node_is_paid_in_whole_billing_units() -> None:
    tasks = (task(0, 1200, 2), task(30, 60))
    found = replay(tasks, TERMS, Rules.AZGE, BY_HOUR)

    assert found.removed == 1
    assert (found.paid_hours, found.node_hours) == (2.0, pytest.approx((1200 + 480) / 3600))


def test_the_used_share_is_that_of_the_slots_in_use() -> None:
    found = replay((task(0, 100, 2), task(0, 50, 1)), TERMS, Rules.ALWAYS_ON)

    assert found.used == pytest.approx((2 * 100 + 50) / (2 * 2 * 100))


@pytest.mark.parametrize(("waited_s", "late"), [(0, 0), (60, 0), (61, 1), (119, 1)])
def test_a_task_is_late_if_it_waited_longer_than_a_minute(waited_s: float, late: int) -> None:
    found = replay((task(0, waited_s, 2), task(0, 9)), ONE_NODE, Rules.ALWAYS_ON)

    assert found.starts == (0, waited_s)
    assert found.late == late


def test_unexplained_waiting_times_are_not_counted() -> None:
    held = replace(task(0, 50), is_explained=False)
    found = replay((task(0, 100, 2), held), ONE_NODE, Rules.ALWAYS_ON)

    assert (found.tasks, found.counted, found.late, found.wait_mean_s) == (2, 1, 0, 0.0)
    assert found.starts == (0, 100)


def test_the_recorded_moments_show_waiting_tasks_until_the_end() -> None:
    found = replay((task(0, 100, 2), task(10, 50)), ONE_NODE, Rules.ALWAYS_ON)
    told = [(one.at_s, one.nodes, one.waiting) for one in found.moments]

    assert told == [(0, 1, 0), (10, 1, 1), (100, 1, 0), (150, 1, 0)]


def test_of_equally_expensive_settings_the_shortest_wait_is_on_the_frontier() -> None:
    one = replay((task(0, 100),), ONE_NODE, Rules.ALWAYS_ON)
    long, short = replace(one, wait_mean_s=9.0), replace(one, wait_mean_s=3.0)

    assert find_cost_wait_frontier([long, short, replace(short, cost=one.cost + 1)]) == (short,)
