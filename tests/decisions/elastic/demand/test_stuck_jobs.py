"""Policy demand: jobs that don't start though there is room are no demand after a while."""

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
    BalanceSituation,
    NodeAddOrRemoveRefusalCause,
    WaitingJobsHistory,
)
from gridbridge.model.elastic.balancer_config_sections import BalanceSection
from gridbridge.model.elastic.elastic_nodes import ElasticNodeState
from gridbridge.model.elastic.grid_engine_cell import WaitingJobGroup
from tests.decisions.elastic.cells import MASTER, NOON, ago, cases, instance, node, waiting
from tests.decisions.elastic.demand_cells import after, cell, full, plan

FREE, FULL = instance("n1"), instance("n1", (4,))
OWN = node("n1")
ALMOST = WaitingJobsHistory(at=ago(1), tasks=1, room_since=ago(15))
STUCK = WaitingJobsHistory(at=ago(1), tasks=1, room_since=ago(30), stuck_since=ago(15))


def told(
    seen: BalanceSituation, known: Mapping[int, WaitingJobsHistory], **demand: Any
) -> tuple[list[int], BalancePlan]:
    """Return the jobs that are told as stuck by a round that knows this of the one before."""
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
def test_a_job_is_stuck_when_every_round_for_a_while_saw_room(one: WaitingJobsHistory, is_stuck: bool) -> None:
    jobs, found = told(cell(FREE, nodes=[OWN], wait=[waiting(99)]), {7: one})

    assert (jobs, found.remove) == (([7], ("n1",)) if is_stuck else ([], ()))
    assert found.figures.tasks == (0 if is_stuck else 1)


def test_a_job_that_is_stuck_adds_no_node_though_its_room_is_gone() -> None:
    seen = cell(*full(MASTER), wait=[waiting(99)])

    assert (told(seen, {7: STUCK})[1].add, told(seen, {})[1].add) == (0, 1)


def test_more_tasks_begin_no_time_anew_but_end_what_is_stuck() -> None:
    seen = cell(FREE, wait=[waiting(99, tasks=2)])

    assert told(seen, {7: ALMOST})[0] == [7]
    assert told(seen, {7: STUCK})[0] == []


def test_without_a_time_nothing_is_ever_stuck() -> None:
    jobs, found = told(cell(FREE, wait=[waiting(99)]), {7: STUCK, 8: ALMOST}, stuck_after_s=0)

    assert (jobs, dict(found.watched)) == ([], {})


@pytest.mark.parametrize(
    ("state", "since"), [("ready", NOON), ("draining", None), ("removing", None), ("joining", None)]
)
def test_only_hosts_that_take_work_are_room(state: str, since: Any) -> None:
    """A node on its way counts for the packing, and not as room that a job left unused."""
    seen = cell(FREE, *full(MASTER), nodes=[node("n1", state=state)], wait=[waiting(99)])

    assert plan(seen).watched == {7: WaitingJobsHistory(at=NOON, tasks=1, room_since=since)}


def test_the_next_round_knows_since_when_there_was_room() -> None:
    seen = cell(FREE, wait=[waiting(99)])
    before = WaitingJobsHistory(at=ago(1), tasks=1, room_since=ago(5))

    assert told(seen, {7: before})[1].watched == {7: replace(before, at=NOON)}
    none = told(replace(seen, cell=replace(seen.cell, instances=(FULL,))), {7: before})[1]
    assert none.watched == {7: WaitingJobsHistory(at=NOON, tasks=1)}


def test_a_job_that_waits_for_something_else_is_not_watched() -> None:
    wait = [waiting(99, state="hqw"), waiting(99, jobs=(8,), licence="1")]

    assert told(cell(FREE, wait=wait, licences={"licence": "0"}), {7: STUCK})[1].watched == {}


def test_what_is_stuck_takes_no_licence_from_others() -> None:
    wait = [waiting(99, licence="1"), waiting(9, jobs=(8,), licence="1", mfree="1G")]
    jobs, found = told(cell(FULL, wait=wait, licences={"licence": "1"}), {7: STUCK})

    assert (jobs, found.figures.jobs, found.add) == ([7], 1, 1)


def test_of_two_rows_that_want_the_same_room_both_are_stuck() -> None:
    """Neither moves, so each is looked at alone, though the first one would fill all the room."""
    wait = [waiting(99, tasks=99), waiting(99, tasks=99, jobs=(8,), queues=("all.q",))]
    known = {job: replace(ALMOST, tasks=99) for job in (7, 8)}

    assert told(cell(FREE, wait=wait), known)[0] == [7, 8]


@pytest.mark.parametrize("before", [None, 100], ids=["it is new", "a task started"])
def test_room_that_others_are_about_to_fill_is_none(before: int | None) -> None:
    """Short tasks leave a free slot in every round, and the next of them take it."""
    wait = [waiting(99), waiting(9, tasks=99, jobs=(8,), queues=("all.q",))]
    moving = {8: replace(ALMOST, tasks=before)} if before else {}
    jobs, found = told(cell(FREE, wait=wait), {7: ALMOST, **moving})

    assert (jobs, found.watched[7].room_since, found.watched[8].room_since) == ([], None, NOON)


def test_a_job_that_is_in_two_rows_is_looked_at_once() -> None:
    """Some of its tasks were put back to run again."""
    wait = [waiting(99, tasks=2), waiting(99, tasks=3, state="Rq")]

    assert told(cell(FREE, wait=wait), {7: replace(ALMOST, tasks=5)})[0] == [7, 7]
    assert told(cell(FREE, wait=wait), {7: replace(STUCK, tasks=5)})[0] == [7, 7]


def test_it_is_said_for_how_long_there_was_room() -> None:
    found = told(cell(FREE, wait=[waiting(99, jobs=(7, 9))]), {7: ALMOST})[1]

    assert {(one.job, explain_no_new_node_or_removal(one, BalanceSection())) for one in found.refused} == {
        (job, "free slots existed for 15 min, and the job did not start: a quota or an access list may be the cause")
        for job in (7, 9)
    }


def ready(seen: BalanceSituation, done: BalancePlan) -> BalanceSituation:
    """Return the next minute, in which the nodes of a plan are ready, and no task starts."""
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
def test_a_cluster_whose_jobs_never_start_comes_back_to_its_least(
    rows: list[tuple[int, tuple[str, int]]], least: int, most: int
) -> None:
    """After a boot, stuck_after_s and idle_timeout_s; it stays so until ten times the former."""
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
