"""Policy demand: hosts are woken for waiting tasks, and stuck jobs stop counting as demand."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gridbridge.decisions.elastic.balancer_round_reports import explain_no_new_node_or_removal
from gridbridge.model.elastic.balance_plan import (
    BalancePlan,
    BalancePlanReason,
    BalanceSituation,
    NodeAddOrRemoveRefusalCause,
    WaitingJobsHistory,
)
from gridbridge.model.elastic.balancer_config_sections import BalanceSection
from gridbridge.model.elastic.elastic_nodes import ElasticNodeState
from gridbridge.model.elastic.grid_engine_cell import WaitingJobGroup
from tests.decisions.elastic.cells import MASTER, NOON, ago, cases, instance, node, waiting
from tests.decisions.elastic.demand_cells import after, cell, full, plan, with_standby

FREE, FULL = instance("n1"), instance("n1", (4,))
OWN = node("n1")
ALMOST = WaitingJobsHistory(at=ago(1), tasks=1, room_since=ago(15))
STUCK = WaitingJobsHistory(at=ago(1), tasks=1, room_since=ago(30), stuck_since=ago(15))


def told(
    seen: BalanceSituation, known: Mapping[int, WaitingJobsHistory], **demand: Any
) -> tuple[list[int], BalancePlan]:
    """Return the stuck jobs that a round reports, and its plan; `known` is the previous round's history."""
    found = plan(replace(seen, watched=known), **demand)
    return [one.job for one in found.refused if one.cause is NodeAddOrRemoveRefusalCause.STUCK], found


@cases(
    ("one", "is_stuck"),
    {
        "15 minutes": (ALMOST, True),
        "less": (replace(ALMOST, room_since=ago(14.9)), False),
        "no room": (replace(ALMOST, room_since=None), False),
        "a task started": (replace(ALMOST, tasks=2), False),
        "an hour between rounds": (replace(ALMOST, at=ago(60), room_since=ago(75)), True),
        "more than an hour": (replace(ALMOST, at=ago(61), room_since=ago(76)), False),
        "stuck": (STUCK, True),
        "almost ten times as long": (replace(STUCK, stuck_since=ago(149)), True),
        "ten times as long": (replace(STUCK, stuck_since=ago(150)), False),
        "stuck, and a task started": (replace(STUCK, tasks=2), False),
        "stuck, and nobody looked": (replace(STUCK, at=ago(61)), False),
    },
)
def test_a_job_is_stuck_after_15_minutes_of_rounds_that_saw_free_slots(one: WaitingJobsHistory, is_stuck: bool) -> None:
    jobs, found = told(cell(FREE, nodes=[OWN], wait=[waiting(99)]), {7: one})

    assert (jobs, found.remove) == (([7], ("n1",)) if is_stuck else ([], ()))
    assert found.figures.tasks == (0 if is_stuck else 1)


def test_no_node_is_added_for_a_stuck_job_even_without_free_slots() -> None:
    seen = cell(*full(MASTER), wait=[waiting(99)])

    assert (told(seen, {7: STUCK})[1].add, told(seen, {})[1].add) == (0, 1)


def test_further_tasks_end_the_stuck_state_of_a_job() -> None:
    seen = cell(FREE, wait=[waiting(99, tasks=2)])

    assert told(seen, {7: ALMOST})[0] == [7]
    assert told(seen, {7: STUCK})[0] == []


def test_no_job_is_stuck_if_stuck_after_s_is_0() -> None:
    jobs, found = told(cell(FREE, wait=[waiting(99)]), {7: STUCK, 8: ALMOST}, stuck_after_s=0)

    assert (jobs, dict(found.watched)) == ([], {})


@pytest.mark.parametrize(
    ("state", "since"), [("ready", NOON), ("draining", None), ("removing", None), ("joining", None)]
)
def test_only_hosts_that_accept_tasks_count_as_free_slots_for_stuck_jobs(state: str, since: Any) -> None:
    """Joining nodes count for packing, but not as slots that a job left unused."""
    seen = cell(FREE, *full(MASTER), nodes=[node("n1", state=state)], wait=[waiting(99)])

    assert plan(seen).watched == {7: WaitingJobsHistory(at=NOON, tasks=1, room_since=since)}


def test_the_history_of_a_job_records_since_when_slots_were_free() -> None:
    seen = cell(FREE, wait=[waiting(99)])
    before = WaitingJobsHistory(at=ago(1), tasks=1, room_since=ago(5))

    assert told(seen, {7: before})[1].watched == {7: replace(before, at=NOON)}
    none = told(replace(seen, cell=replace(seen.cell, instances=(FULL,))), {7: before})[1]
    assert none.watched == {7: WaitingJobsHistory(at=NOON, tasks=1)}


def test_jobs_that_are_held_or_lack_a_licence_have_no_history() -> None:
    wait = [waiting(99, state="hqw"), waiting(99, jobs=(8,), licence="1")]

    assert told(cell(FREE, wait=wait, licences={"licence": "0"}), {7: STUCK})[1].watched == {}


def test_a_stuck_job_uses_up_no_licence() -> None:
    wait = [waiting(99, licence="1"), waiting(9, jobs=(8,), licence="1", mfree="1G")]
    jobs, found = told(cell(FULL, wait=wait, licences={"licence": "1"}), {7: STUCK})

    assert (jobs, found.figures.jobs, found.add) == ([7], 1, 1)


def test_two_jobs_that_could_use_the_same_free_slots_are_both_stuck() -> None:
    """Each older job is checked alone, because neither job starts."""
    wait = [waiting(99, tasks=99), waiting(99, tasks=99, jobs=(8,), queues=("all.q",))]
    known = {job: replace(ALMOST, tasks=99) for job in (7, 8)}

    assert told(cell(FREE, wait=wait), known)[0] == [7, 8]


@pytest.mark.parametrize("before", [None, 100], ids=["it is new", "a task started"])
def test_slots_that_newer_jobs_are_about_to_use_do_not_count_as_free_for_an_older_job(before: int | None) -> None:
    """Short tasks leave a free slot in every round, which the next short task takes."""
    wait = [waiting(99), waiting(9, tasks=99, jobs=(8,), queues=("all.q",))]
    moving = {8: replace(ALMOST, tasks=before)} if before else {}
    jobs, found = told(cell(FREE, wait=wait), {7: ALMOST, **moving})

    assert (jobs, found.watched[7].room_since, found.watched[8].room_since) == ([], None, NOON)


def test_a_job_in_two_groups_is_checked_once_for_all_its_tasks() -> None:
    """A job is in two groups if some of its tasks were rescheduled."""
    wait = [waiting(99, tasks=2), waiting(99, tasks=3, state="Rq")]

    assert told(cell(FREE, wait=wait), {7: replace(ALMOST, tasks=5)})[0] == [7, 7]
    assert told(cell(FREE, wait=wait), {7: replace(STUCK, tasks=5)})[0] == [7, 7]


def test_the_refusal_of_a_stuck_job_says_for_how_long_slots_were_free() -> None:
    found = told(cell(FREE, wait=[waiting(99, jobs=(7, 9))]), {7: ALMOST})[1]

    assert {(one.job, explain_no_new_node_or_removal(one, BalanceSection())) for one in found.refused} == {
        (job, "free slots existed for 15 min, and the job did not start: a quota or an access list may be the cause")
        for job in (7, 9)
    }


def ready(seen: BalanceSituation, done: BalancePlan) -> BalanceSituation:
    """Return the situation a minute later: the planned nodes are ready, and no task has started."""
    now, there = seen.now + timedelta(minutes=1), after(seen, done)
    new = [one for one in there.nodes if one.state is ElasticNodeState.REQUESTED]
    nodes = [
        replace(one, state=ElasticNodeState.READY, since=now, up_since=now, idle_since=now) if one in new else one
        for one in there.nodes
    ]
    instances = (*there.cell.instances, *(instance(one.name) for one in new))
    made = cell(*instances, wait=seen.cell.waiting, nodes=nodes)
    return replace(made, now=now, watched=done.watched)


ROWS = some.lists(
    some.tuples(some.integers(1, 40), some.sampled_from([("", 1), ("smp", 3), ("fill", 10)])), min_size=1, max_size=3
)


@given(ROWS, some.integers(0, 2), some.integers(1, 6))
def test_a_cluster_whose_jobs_never_start_shrinks_to_the_minimum(
    rows: list[tuple[int, tuple[str, int]]], least: int, most: int
) -> None:
    """The cluster stays at the minimum until ten times stuck_after_s have passed."""
    wait: list[WaitingJobGroup] = [
        waiting(1, tasks=tasks, pe=pe, slots=slots, jobs=(job,)) for job, (tasks, (pe, slots)) in enumerate(rows, 1)
    ]
    seen = cell(*full(MASTER), wait=wait)
    limits: dict[str, Any] = {"schedule": f"0-24 {min(1 + least, most)}-{most}"}
    limits |= {"stuck_after_s": 300, "idle_timeout_s": 120, "shrink_pause_s": 0}
    for _ in range(25):
        seen = ready(seen, plan(seen, most=most, **limits))

    assert 1 + len(seen.nodes) == min(1 + least, most)
    for _ in range(20):
        done = plan(seen, most=most, **limits)
        assert not done.add
        seen = ready(seen, done)


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
