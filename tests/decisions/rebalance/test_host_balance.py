"""Balancing of one host, with a test for each rule of Hydra's document "Spawn Balancing"."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from gridbridge.decisions.rebalance.host_rebalancing import plan_host_balance
from gridbridge.model.rebalance.rebalance_section import RebalanceSection
from gridbridge.model.rebalance.rebalance_snapshot_and_moves import (
    RebalanceHost,
    RebalanceHostState,
    RebalanceTask,
    RebalanceTaskState,
    RecentRebalanceMoveTimes,
)
from tests.decisions.rebalance.boards import GB, NOW, host, job, reasons, snapshot, steps, tasks

RULES = RebalanceSection()
HEAVY = [host("full", 0.9), host("mid", 0.5), host("low", 0.2)]
LIGHT = [host("full", 0.8), host("mid", 0.6), host("low", 0.1)]


def one_to_low(task: RebalanceTask, *, hosts: list[RebalanceHost] = HEAVY, **more: object) -> str:
    """Return why the only task on host full is not moved to host low; empty if the task is moved."""
    jobs = more.pop("jobs", None)
    seen = snapshot(hosts, [task], jobs or [job(max_per_host=5)])  # type: ignore[arg-type]  # words
    advice = plan_host_balance(replace(seen, **more), "full", RULES)  # type: ignore[arg-type]  # words
    if advice.moves:
        assert ("full", "low") == (advice.moves[0].source, advice.moves[0].target)
        return ""
    told = reasons(advice)
    return told.get((task.number, "low")) or told[task.number, ""]


TASK = RebalanceTask(job="one", number=1, live="full", size_bytes=100 * GB)


def low(**change: object) -> dict[str, Any]:
    return {"hosts": [HEAVY[0], replace(HEAVY[2], **change)]}  # type: ignore[arg-type]  # words


def moved(**ago: timedelta) -> dict[str, Any]:
    return {"recent": RecentRebalanceMoveTimes(**{kind: {"low": NOW - time} for kind, time in ago.items()})}


AHEAD = timedelta(days=-365)  # a clock was ahead


@pytest.mark.parametrize(
    ("task", "others", "reason"),
    [
        ({}, {}, ""),
        ({"state": RebalanceTaskState.RUNNING}, {}, "the task is running"),
        ({"state": RebalanceTaskState.UNKNOWN}, {}, "the task is in an unknown state"),
        ({"replicas": ("low",)}, {}, "low has a copy of the task"),
        ({"size_bytes": GB // 20 - 1}, {}, "the copy is smaller than 0.05 GB"),
        ({"size_bytes": GB // 20}, {}, ""),
        ({"size_bytes": 300 * GB}, {}, ""),
        ({"size_bytes": 301 * GB}, {}, "the move would exceed this round's limit of bytes"),
        ({}, {"jobs": [job(is_autobalanced=False)]}, "the owner wants the job to stay"),
        ({}, {"jobs": [job(max_per_host=0)]}, "low already has its share of the job's copies, 0"),
        ({}, low(is_read_only=True), "low is read-only"),
        ({}, low(state=RebalanceHostState.DISK_FULL), "low has a full disk"),
        ({}, low(max_bytes=215 * GB, used_bytes=0), ""),
        ({}, low(max_bytes=400 * GB // 3 + 1, used_bytes=0), ""),
        ({}, low(max_bytes=120 * GB, used_bytes=0), "100 GB are more than 75% of what is free at low"),
        ({}, low(max_bytes=20 * GB, used_bytes=0), "low has no more than 20 GB free"),
        ({}, moved(hosts=timedelta(minutes=2)), "low got a task less than 180 s ago"),
        ({}, moved(hosts=AHEAD), ""),
        ({}, moved(replicated=AHEAD), ""),
    ],
)
def test_the_task_its_job_and_the_target_decide_whether_a_task_is_moved(
    task: dict[str, Any], others: dict[str, Any], reason: str
) -> None:
    assert reason == one_to_low(replace(TASK, **task), **others)


def test_a_round_stays_within_its_limits_of_moves_and_bytes() -> None:
    many = snapshot(HEAVY, tasks({"full": 100}, size=GB), [job(max_per_host=99)])
    large = snapshot(HEAVY, tasks({"full": 6}, size=120 * GB), [job(max_per_host=99)])

    assert 10 == len(plan_host_balance(many, "full", RULES).moves)
    assert 2 == len(plan_host_balance(large, "full", RULES).moves)


def test_a_task_larger_than_the_remaining_bytes_of_the_round_is_skipped() -> None:
    sizes = (200, 150, 90)
    copies = [replace(TASK, number=n, size_bytes=size * GB) for n, size in enumerate(sizes, 1)]
    seen = snapshot(HEAVY, copies, [job(replicas=2)])

    assert [1, 3] == [number for _, number, _, _ in steps(plan_host_balance(seen, "full", RULES))]


def test_a_move_must_not_fill_the_target_as_much_as_the_source() -> None:
    pair = [host("full", 0.6), host("low", 0.4)]
    seen = snapshot(pair, [replace(TASK, size_bytes=250 * GB)], [job(max_per_host=9)])

    told = reasons(plan_host_balance(seen, "full", RULES))

    assert "low would be as full as full" == told[1, "low"]


def test_a_lightly_used_host_takes_one_task_from_each_of_the_fullest_hosts() -> None:
    rules = replace(RULES, other_extreme=0.6)
    copies = [*tasks({"full": 3, "mid": 3}, size=60 * GB)]
    seen = snapshot(LIGHT, copies, [job(max_per_host=9)])

    assert [("live", 1, "full", "low"), ("live", 4, "mid", "low")] == steps(plan_host_balance(seen, "low", rules))


@pytest.mark.parametrize(
    ("counts", "host_", "moves"),
    [
        ({"a": 4, "b": 1, "c": 1}, "a", [("a", "b"), ("a", "c")]),
        ({"a": 0, "b": 3, "c": 3}, "a", [("c", "a")]),
        ({"a": 2, "b": 2, "c": 2}, "a", []),
        ({"a": 1, "b": 2, "c": 2}, "a", []),
    ],
)
def test_a_host_with_average_disk_usage_gets_its_fair_share_of_active_jobs(
    counts: dict[str, int], host_: str, moves: list[tuple[str, str]]
) -> None:
    """Of 6 tasks on 3 hosts, 1 or 2 tasks on a host are fair; 0 or 3 tasks are unfair."""
    places = [host(name) for name in "abc"]

    found = steps(plan_host_balance(snapshot(places, tasks(counts)), host_, RULES))

    assert moves == [(source, target) for _, _, source, target in found]


def test_the_tasks_of_an_inactive_job_are_not_moved() -> None:
    places = [host(name) for name in "abc"]
    old = job(last_run=NOW - timedelta(hours=25))

    assert [] == steps(plan_host_balance(snapshot(places, tasks({"a": 6}), [old]), "a", RULES))


def test_the_plan_describes_the_disk_usage_of_a_host_without_moves() -> None:
    light = plan_host_balance(snapshot(LIGHT, []), "low", RULES).sentence
    mid = plan_host_balance(snapshot(HEAVY, []), "mid", RULES).sentence

    assert light.startswith("low has a lightly used disk, and no copy can be moved there (10% of the disk")
    assert mid.startswith("mid has an average disk usage")


@pytest.mark.parametrize(("name", "moves"), [("a", [("live", 2, "b", "a")]), ("b", [("live", 2, "b", "a")]), ("c", [])])
def test_a_host_with_few_used_slots_gets_a_task_from_a_host_with_many(
    name: str, moves: list[tuple[str, int, str, str]]
) -> None:
    places = [host("a", active=0.1), host("b", active=0.9), host("c")]

    assert moves == steps(plan_host_balance(snapshot(places, tasks({"a": 1, "b": 2, "c": 2})), name, RULES))


def test_a_move_keeps_the_copies_of_a_task_in_different_zones() -> None:
    places = [host("a", 0.9, zone="x"), host("b", 0.2, zone="y"), host("c", 0.9, zone="z")]
    copy = replace(TASK, live="a", replicas=("c",))
    near = [places[0], replace(places[1], zone="z"), places[2]]

    assert 1 == len(plan_host_balance(snapshot(places, [copy], [job(replicas=1)]), "a", RULES).moves)
    told = reasons(plan_host_balance(snapshot(near, [copy], [job(replicas=1)]), "a", RULES))
    assert "with a copy at b, two copies of the task would be in one zone" == told[1, "b"]


def test_no_task_is_moved_from_a_host_that_is_down() -> None:
    seen = snapshot([host("a", 0.9, is_up=False), host("b", 0.1)], tasks({"a": 2}))

    assert "a is down: nothing is moved" == plan_host_balance(seen, "a", RULES).sentence


OLD = job(max_per_host=9, last_run=None)  # an inactive job, whose tasks are moved only to balance disks


@pytest.mark.parametrize(
    ("free", "replicated", "moves"),
    [(20 * GB - 1, {}, 1), (20 * GB, {}, 0), (35 * GB, {"full": NOW - timedelta(minutes=1)}, 0)],
    ids=["below the minimum", "the minimum", "a recent replica"],
)
def test_a_host_gives_tasks_away_if_its_free_disk_is_below_the_minimum_for_targets(
    free: int, replicated: dict[str, datetime], moves: int
) -> None:
    places = [host("full", used_bytes=1010 * GB - free), host("mid", 0.95), host("low", 0.94)]
    recent = RecentRebalanceMoveTimes(replicated=replicated)
    seen = snapshot(places, tasks({"full": 2}, size=3 * GB), [OLD], recent)

    assert moves == len(plan_host_balance(seen, "full", RULES).moves)


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (RebalanceTaskState.WAITING, "the snapshot lacks the task's job"),
        (RebalanceTaskState.RUNNING, "the task is running"),
        (RebalanceTaskState.MOVING, "the task is moving"),
        (RebalanceTaskState.UNKNOWN, "the task is in an unknown state"),
    ],
)
def test_a_task_whose_job_is_not_in_the_snapshot_is_not_moved(state: RebalanceTaskState, why: str) -> None:
    advice = plan_host_balance(snapshot(HEAVY, [replace(TASK, state=state)], []), "full", RULES)

    assert ([], why) == (steps(advice), reasons(advice)[1, ""])
