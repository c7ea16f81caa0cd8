"""Evacuation of failed hosts: few moves at once, and losses are reported beforehand."""

from dataclasses import replace
from datetime import timedelta

import pytest

from gridbridge.decisions.rebalance.automatic_round_and_evacuation import plan_automatic_round, plan_host_evacuation
from gridbridge.model.rebalance.placement_snapshot_and_moves import (
    PlacementHost,
    PlacementHostState,
    PlacementTask,
    PlacementTaskState,
    RecentPlacementMoveTimes,
)
from gridbridge.model.rebalance.rebalance_section import RebalanceSection
from tests.decisions.rebalance.boards import DISK, GB, NOW, host, job, reasons, snapshot, steps, tasks

RULES = RebalanceSection()
DEAD = host("a", state=PlacementHostState.DEAD)
OTHERS = [host("b", 0.4), host("c", 0.2)]
TASK = PlacementTask(job="one", number=1, live="a", size_bytes=GB)


def test_a_replica_becomes_the_main_copy_of_a_task_whose_host_is_dead() -> None:
    seen = snapshot([DEAD, *OTHERS], [replace(TASK, replicas=("b",))], [job(replicas=1)])

    assert [("live", 1, "a", "b"), ("replica", 1, "b", "c")] == steps(plan_host_evacuation(seen, "a", RULES))


EVACUATED = {
    "a replica, from the live copy": (
        [DEAD, *OTHERS],
        replace(TASK, live="b", replicas=("a",)),
        ("replica", 1, "b", "c"),
    ),
    "a replica, from a copy that can be read": (
        [DEAD, host("b", state=PlacementHostState.DEAD), host("c", 0.2), host("d", 0.3)],
        replace(TASK, live="b", replicas=("a", "c")),
        ("replica", 1, "c", "d"),
    ),
    "to disks of unknown sizes": (
        [host("a", state=PlacementHostState.DRAIN, used_bytes=0), *(replace(one, max_bytes=0) for one in OTHERS)],
        replace(TASK, size_bytes=0),
        ("live", 1, "a", "b"),
    ),
}


@pytest.mark.parametrize(("places", "task", "step"), EVACUATED.values(), ids=EVACUATED)
def test_the_copies_of_a_failed_host_are_made_again_on_other_hosts(
    places: list[PlacementHost], task: PlacementTask, step: tuple[str, int, str, str]
) -> None:
    seen = snapshot(places, [task], [job(replicas=len(task.replicas))])

    assert [step] == steps(plan_host_evacuation(seen, "a", RULES))


@pytest.mark.parametrize("lost", [TASK, replace(TASK, live="nowhere", replicas=("a",))], ids=["main copy", "replica"])
def test_a_task_whose_only_copy_is_on_a_dead_host_is_reported_as_lost(lost: PlacementTask) -> None:
    """A task without data starts on another host."""
    copies = [lost, replace(TASK, number=2, size_bytes=0)]

    advice = plan_host_evacuation(snapshot([DEAD, *OTHERS], copies), "a", RULES)

    assert [("live", 2, "a", "c")] == steps(advice)
    assert {(1, ""): "the task has no replica: its data are lost"} == reasons(advice)
    assert "1 task can't be saved" in advice.sentence


@pytest.mark.parametrize("sizes", [{}, {"max_bytes": 0}], ids=["disks are known", "no disk is known"])
def test_an_evacuation_waits_while_a_down_host_may_hold_copies_of_the_same_tasks(sizes: dict[str, int]) -> None:
    places = [replace(one, **sizes) for one in (DEAD, *OTHERS, host("d", is_up=False))]
    seen = snapshot(places, [replace(TASK, replicas=("d",))], [job(replicas=1)])

    advice = plan_host_evacuation(seen, "a", RULES)

    assert () == advice.moves
    assert "a: d is down and has copies of the same tasks" in advice.sentence


def test_an_evacuation_moves_the_smallest_tasks_first_and_at_most_six_at_once() -> None:
    copies = [replace(TASK, number=n, size_bytes=(20 - n) * GB) for n in range(1, 12)]
    copies = [replace(one, replicas=("b",)) for one in copies]
    moving = PlacementTask(job="one", number=99, live="b", state=PlacementTaskState.MOVING)
    seen = snapshot([DEAD, *OTHERS], [*copies, moving], [job(replicas=1)])

    found = steps(plan_host_evacuation(seen, "a", RULES))

    assert [11, 11, 10, 10, 9] == [number for _, number, _, _ in found]


def test_a_moving_task_of_a_dead_host_is_not_moved_again() -> None:
    moving = replace(TASK, state=PlacementTaskState.MOVING, replicas=("b",))

    advice = plan_host_evacuation(snapshot([DEAD, *OTHERS], [moving], [job(replicas=1)]), "a", RULES)

    assert () == advice.moves
    assert {(1, ""): "the task is moving"} == reasons(advice)


def test_a_drained_host_is_evacuated_against_the_wish_of_the_jobs_owner() -> None:
    places = [host("a", state=PlacementHostState.DRAIN), *OTHERS]
    seen = snapshot(places, tasks({"a": 8}), [job(is_autobalanced=False)])

    advice = plan_host_evacuation(seen, "a", RULES)

    assert 6 == len(advice.moves)
    assert "2 tasks stay at a" in advice.sentence


def test_a_full_host_gives_away_at_most_two_tasks_at_once_until_enough_disk_is_free() -> None:
    full = host("a", used_bytes=DISK - 5 * GB, state=PlacementHostState.DISK_FULL)

    def given(size: int) -> int:
        seen = snapshot([full, *OTHERS], tasks({"a": 9}, size=size * GB))
        return len(plan_host_evacuation(seen, "a", RULES).moves)

    assert [2, 2, 1, 1] == [given(1), given(5), given(6), given(50)]
    unknown = replace(full, max_bytes=0)
    assert 2 == len(plan_host_evacuation(snapshot([unknown, *OTHERS], tasks({"a": 9})), "a", RULES).moves)
    freed = replace(full, used_bytes=DISK - 11 * GB)
    assert () == plan_host_evacuation(snapshot([freed, *OTHERS], tasks({"a": 9})), "a", RULES).moves


def test_a_host_keeps_its_data_if_the_other_hosts_lack_room() -> None:
    places = [host("a", 0.9, state=PlacementHostState.DRAIN), host("b", 0.8)]

    advice = plan_host_evacuation(snapshot(places, tasks({"a": 3})), "a", RULES)

    assert "a: the other hosts have no room for 900 GB: nothing is moved" == advice.sentence


def test_an_evacuation_reports_that_no_other_host_accepts_copies() -> None:
    places = [host(name, state=PlacementHostState.DRAIN, is_shared=True) for name in "ab"]
    found = plan_host_evacuation(snapshot(places, [TASK]), "a", RULES)

    assert [] == steps(found)
    told = "a is drained: nothing is moved; no other host takes copies now; 1 task stays at a"
    assert told == found.sentence


def test_a_round_evacuates_dead_hosts_before_full_hosts_before_drained_hosts() -> None:
    dead, full, drained = (
        host("d", state=PlacementHostState.DEAD),
        host("f", used_bytes=DISK - 5 * GB, state=PlacementHostState.DISK_FULL),
        host("n", state=PlacementHostState.DRAIN),
    )
    copies = tasks({"d": 1, "f": 1, "n": 1}, size=0)

    def served(*places: str) -> str:
        chosen = [one for one in (drained, full, dead) if one.name in places]
        return plan_automatic_round(snapshot([*chosen, *OTHERS], copies), RULES).sentence.split()[0]

    assert ["d", "f", "n"] == [served("d", "f", "n"), served("f", "n"), served("n")]


def test_a_round_begins_no_move_at_level_0_or_while_tasks_are_moving() -> None:
    moving = [*tasks({"a": 9}), PlacementTask(job="one", number=99, state=PlacementTaskState.MOVING)]
    places = [host(name) for name in "abc"]

    assert (
        "1 task is being moved: no other move begins" == plan_automatic_round(snapshot(places, moving), RULES).sentence
    )
    off = replace(RULES, level=0)
    assert (
        "level of [rebalance] is 0: rounds move nothing"
        == plan_automatic_round(snapshot(places, tasks({"a": 9})), off).sentence
    )


def test_a_full_host_gives_away_no_more_tasks_because_of_a_recent_replica() -> None:
    full = host("a", state=PlacementHostState.DISK_FULL, used_bytes=1010 * GB - 9 * GB)
    lately = RecentPlacementMoveTimes(replicated={"a": NOW - timedelta(minutes=1)})
    seen = snapshot([full, *OTHERS], tasks({"a": 9}, size=2 * GB), recent=lately)

    assert 1 == len(plan_host_evacuation(seen, "a", RULES).moves)
