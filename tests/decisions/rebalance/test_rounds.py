"""Automatic rounds and evacuations: the chosen host, what delays moves, and what a round costs."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gridbridge.decisions.rebalance.automatic_round_and_evacuation import (
    plan_automatic_round,
    plan_host_evacuation,
    why_host_balancing_waits,
)
from gridbridge.decisions.rebalance.job_copy_repair_and_spread import plan_job_repair_or_spread
from gridbridge.decisions.rebalance.move_plan_draft_and_refusals import MAX_LISTED_REFUSALS, UNLISTED
from gridbridge.model.rebalance.rebalance_section import RebalanceSection
from gridbridge.model.rebalance.rebalance_snapshot_and_moves import (
    RebalanceHost,
    RebalanceHostState,
    RebalanceSnapshot,
    RebalanceTask,
    RebalanceTaskState,
    RecentRebalanceMoveTimes,
)
from tests.decisions.rebalance.boards import DISK, GB, LATELY, NOW, host, job, reasons, snapshot, steps, tasks

RULES = RebalanceSection()
DRAINED, OTHER = host("b", state=RebalanceHostState.DRAIN), host("c", 0.2)
WAITS = RebalanceTask(job="one", number=1, live="b", size_bytes=GB)
AT_A = RebalanceTask(job="one", number=2, live="a", size_bytes=GB)
HELD_UP: dict[str, tuple[RebalanceHostState, RebalanceTask]] = {
    "its task runs": (RebalanceHostState.DRAIN, replace(AT_A, state=RebalanceTaskState.RUNNING)),
    "its task is held": (RebalanceHostState.DRAIN, replace(AT_A, state=RebalanceTaskState.STAYING)),
    "its task is lost": (RebalanceHostState.DEAD, AT_A),
    "its disk is full, and its task too large": (RebalanceHostState.DISK_FULL, replace(AT_A, size_bytes=10_000 * GB)),
}


@pytest.mark.parametrize(("state", "task"), HELD_UP.values(), ids=HELD_UP.keys())
def test_a_failed_host_without_movable_tasks_delays_neither_the_next_host_nor_balancing(
    state: RebalanceHostState, task: RebalanceTask
) -> None:
    first = host("a", state=state, used_bytes=1005 * GB)
    even = [first, host("c", 0.5), host("d", 0.5)]

    advice = plan_automatic_round(snapshot([first, DRAINED, OTHER], [task, WAITS]), RULES)
    balanced = plan_automatic_round(snapshot(even, [task, *tasks({"c": 9}, name="two")]), RULES)

    assert [("live", 1, "b", "c")] == steps(advice)
    assert {("c", "d")} == {(source, target) for _, _, source, target in steps(balanced)}


def test_balancing_waits_for_a_drained_host_whose_tasks_find_no_room() -> None:
    large = replace(WAITS, size_bytes=900 * GB)
    low = [host("c", 0.5), host("d", 0.5)]

    advice = plan_automatic_round(snapshot([DRAINED, *low], [large, *tasks({"c": 9}, name="two")]), RULES)

    assert () == advice.moves
    assert advice.sentence.endswith("b is drained: run `gridbridge rebalance fail b` first")
    assert "900 GB are more than 75% of what is free at c" == reasons(advice)[1, "c"]


def test_a_round_without_moves_reports_the_reason_for_each_task() -> None:
    stay = [job(is_autobalanced=False)]
    seen = snapshot([host("c", 0.5), host("d", 0.5)], tasks({"c": 6}), stay)

    advice = plan_automatic_round(seen, RULES)

    assert ("2 hosts and 1 job: nothing to move", ()) == (advice.sentence, advice.moves)
    assert {"the owner wants the job to stay"} == set(reasons(advice).values())


def test_the_lightest_host_is_balanced_before_the_heaviest_host() -> None:
    places = [host("a", 0.9), host("b", 0.2), host("c", 0.5)]

    advice = plan_automatic_round(snapshot(places, tasks({"a": 5}, size=50 * GB)), RULES)

    assert [("live", 1, "a", "b")] == steps(advice)


UNEVEN, EVEN = {"c": 9}, {"c": 5, "d": 4}
LONG_AGO = NOW - timedelta(hours=30)  # the jobs are inactive, so no host is balanced for them


@pytest.mark.parametrize(
    ("level", "wide", "counts", "rested", "expected"),
    [
        pytest.param(1, {}, UNEVEN, None, "wide", id="largest tasks first"),
        pytest.param(1, {"is_autobalanced": False}, UNEVEN, None, "small", id="it is to stay"),
        pytest.param(1, {}, UNEVEN, 11.9, "small", id="rebalanced of late"),
        pytest.param(1, {}, UNEVEN, 12, "wide", id="rebalanced long ago"),
        pytest.param(1, {"last_run": None}, UNEVEN, None, "small", id="it never ran"),
        pytest.param(2, {"last_run": None}, UNEVEN, None, "wide", id="level 2: all the same"),
        pytest.param(1, {}, EVEN, None, "small", id="within the fair portion"),
        pytest.param(2, {}, EVEN, None, "wide", id="level 2: its busy host gives one"),
        pytest.param(2, {}, UNEVEN, 11.9, "small", id="level 2: rebalanced of late"),
    ],
)
def test_an_automatic_round_spreads_the_tasks_of_one_job(
    level: int, wide: dict[str, Any], counts: dict[str, int], rested: float | None, expected: str
) -> None:
    every = [job("wide", last_run=LONG_AGO), job("small", last_run=LONG_AGO)]
    of = [*tasks(counts, "wide", 2 * GB), *tasks(UNEVEN, "small")]
    done = {} if rested is None else {"wide": NOW - timedelta(hours=rested)}
    seen = snapshot(
        [host("c", active=0.9), host("d", active=0.1)],
        of,
        [replace(every[0], **wide), every[1]],
        RecentRebalanceMoveTimes(jobs=done),
    )

    advice = plan_automatic_round(seen, replace(RULES, level=level))

    assert {expected} == {move.job for move in advice.moves}


def _seen(state: RebalanceHostState, task: RebalanceTask) -> RebalanceSnapshot:
    return snapshot([host("b", state=state), OTHER], [task])


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (_seen(RebalanceHostState.ALIVE, WAITS), ""),
        (_seen(RebalanceHostState.DRAIN, WAITS), "b is drained: "),
        (_seen(RebalanceHostState.DRAIN, replace(WAITS, live="c", replicas=("b",))), "b is drained: "),
        (_seen(RebalanceHostState.DRAIN, replace(WAITS, state=RebalanceTaskState.RUNNING)), ""),
        (_seen(RebalanceHostState.DEAD, replace(WAITS, size_bytes=0)), "b is dead: "),
        (_seen(RebalanceHostState.DEAD, WAITS), ""),
        (_seen(RebalanceHostState.DISK_FULL, WAITS), ""),
        (_seen(RebalanceHostState.ALIVE, replace(WAITS, state=RebalanceTaskState.MOVING)), "1 task is being moved"),
    ],
    ids=["none", "drained", "replica", "runs", "dead", "lost", "full", "moving"],
)
def test_balancing_waits_for_running_moves_and_for_failed_hosts_with_waiting_tasks(
    seen: RebalanceSnapshot, why: str
) -> None:
    assert why_host_balancing_waits(seen).startswith(why)
    assert bool(why) == bool(why_host_balancing_waits(seen))


def test_a_host_counts_as_full_by_its_measured_free_bytes_not_by_its_state() -> None:
    """A host is full with at most 10 GB of free disk."""
    full, roomy = host("a", 1.0), host("a", 0.5, state=RebalanceHostState.DISK_FULL)
    others = [host("b", 0.2), host("c", 0.2)]
    few = tasks({"a": 3}, size=GB // 2)

    advice = plan_automatic_round(snapshot([full, *others], few), RULES)
    later = plan_automatic_round(snapshot([roomy, *others], few), RULES)

    assert advice.sentence.startswith("a is full: 1 copy to ")
    assert "is full" not in later.sentence


RUNNING = RebalanceTaskState.RUNNING


class Passed(tuple[RebalanceTask, ...]):
    """A tuple of tasks that counts the iterations over all tasks."""

    passes = 0

    def __iter__(self) -> Iterator[RebalanceTask]:
        type(self).passes += 1
        return super().__iter__()


def passes(seen: RebalanceSnapshot) -> int:
    Passed.passes = 0
    advice = plan_automatic_round(replace(seen, tasks=Passed(seen.tasks)), RULES)
    assert not advice.moves
    return Passed.passes


def running_jobs(count: int) -> RebalanceSnapshot:
    names = [f"job{number}" for number in range(count)]
    places = [host("a"), host("b")]
    return snapshot(places, [one for name in names for one in tasks({"a": 4}, name, state=RUNNING)])


def drained(count: int) -> RebalanceSnapshot:
    places = [host(f"h{number}", state=RebalanceHostState.DRAIN) for number in range(count)]
    counts = {one.name: 1 for one in places}
    return snapshot([*places, host("z")], tasks(counts, state=RUNNING))


def test_the_number_of_passes_over_all_tasks_does_not_grow_with_the_uneven_jobs() -> None:
    assert passes(running_jobs(1)) == passes(running_jobs(30))


def test_the_number_of_passes_over_all_tasks_does_not_grow_with_the_failed_hosts() -> None:
    assert passes(drained(1)) == passes(drained(30))


def test_a_target_host_that_accepts_no_task_is_reported_once_per_job() -> None:
    """The target has just received a task, so the target would refuse every task of the job."""
    places = [host("a"), host("b")]
    resting = RecentRebalanceMoveTimes(hosts={"b": NOW})

    advice = plan_job_repair_or_spread(snapshot(places, tasks({"a": 40}), recent=resting), "one", RULES)

    assert reasons(advice) == {(1, "b"): "b got a task less than 180 s ago"}


def test_the_plan_lists_at_most_a_fixed_number_of_refusals() -> None:
    many = tasks({"a": MAX_LISTED_REFUSALS + 5}, state=RUNNING)

    advice = plan_job_repair_or_spread(snapshot([host("a"), host("b")], many), "one", RULES)

    assert len(advice.rejected) == MAX_LISTED_REFUSALS
    assert f"job one has all its replicas: nothing can be moved; {UNLISTED}" == advice.sentence


def test_a_hosts_fair_share_counts_only_the_hosts_allowed_for_the_job() -> None:
    places = [RebalanceHost(name=name, slots=slots) for name, slots in (("a", 8), ("b", 8), ("c", 4))]
    one = job(hosts=frozenset("ac"), last_run=LATELY)

    advice = plan_job_repair_or_spread(snapshot(places, tasks({"a": 6}, size=0), [one]), "one", RULES)

    assert {"c"} == {move.target for move in advice.moves}


DEAD = host("a", state=RebalanceHostState.DEAD)
OTHERS = [host("b", 0.4), host("c", 0.2)]
TASK = RebalanceTask(job="one", number=1, live="a", size_bytes=GB)


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
        [DEAD, host("b", state=RebalanceHostState.DEAD), host("c", 0.2), host("d", 0.3)],
        replace(TASK, live="b", replicas=("a", "c")),
        ("replica", 1, "c", "d"),
    ),
    "to disks of unknown sizes": (
        [host("a", state=RebalanceHostState.DRAIN, used_bytes=0), *(replace(one, max_bytes=0) for one in OTHERS)],
        replace(TASK, size_bytes=0),
        ("live", 1, "a", "b"),
    ),
}


@pytest.mark.parametrize(("places", "task", "step"), EVACUATED.values(), ids=EVACUATED)
def test_the_copies_of_a_failed_host_are_made_again_on_other_hosts(
    places: list[RebalanceHost], task: RebalanceTask, step: tuple[str, int, str, str]
) -> None:
    seen = snapshot(places, [task], [job(replicas=len(task.replicas))])

    assert [step] == steps(plan_host_evacuation(seen, "a", RULES))


@pytest.mark.parametrize("lost", [TASK, replace(TASK, live="nowhere", replicas=("a",))], ids=["main copy", "replica"])
def test_a_task_whose_only_copy_is_on_a_dead_host_is_reported_as_lost(lost: RebalanceTask) -> None:
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
    moving = RebalanceTask(job="one", number=99, live="b", state=RebalanceTaskState.MOVING)
    seen = snapshot([DEAD, *OTHERS], [*copies, moving], [job(replicas=1)])

    found = steps(plan_host_evacuation(seen, "a", RULES))

    assert [11, 11, 10, 10, 9] == [number for _, number, _, _ in found]


def test_a_moving_task_of_a_dead_host_is_not_moved_again() -> None:
    moving = replace(TASK, state=RebalanceTaskState.MOVING, replicas=("b",))

    advice = plan_host_evacuation(snapshot([DEAD, *OTHERS], [moving], [job(replicas=1)]), "a", RULES)

    assert () == advice.moves
    assert {(1, ""): "the task is moving"} == reasons(advice)


def test_a_drained_host_is_evacuated_against_the_wish_of_the_jobs_owner() -> None:
    places = [host("a", state=RebalanceHostState.DRAIN), *OTHERS]
    seen = snapshot(places, tasks({"a": 8}), [job(is_autobalanced=False)])

    advice = plan_host_evacuation(seen, "a", RULES)

    assert 6 == len(advice.moves)
    assert "2 tasks stay at a" in advice.sentence


def test_a_full_host_gives_away_at_most_two_tasks_at_once_until_enough_disk_is_free() -> None:
    full = host("a", used_bytes=DISK - 5 * GB, state=RebalanceHostState.DISK_FULL)

    def given(size: int) -> int:
        seen = snapshot([full, *OTHERS], tasks({"a": 9}, size=size * GB))
        return len(plan_host_evacuation(seen, "a", RULES).moves)

    assert [2, 2, 1, 1] == [given(1), given(5), given(6), given(50)]
    unknown = replace(full, max_bytes=0)
    assert 2 == len(plan_host_evacuation(snapshot([unknown, *OTHERS], tasks({"a": 9})), "a", RULES).moves)
    freed = replace(full, used_bytes=DISK - 11 * GB)
    assert () == plan_host_evacuation(snapshot([freed, *OTHERS], tasks({"a": 9})), "a", RULES).moves


def test_a_host_keeps_its_data_if_the_other_hosts_lack_room() -> None:
    places = [host("a", 0.9, state=RebalanceHostState.DRAIN), host("b", 0.8)]

    advice = plan_host_evacuation(snapshot(places, tasks({"a": 3})), "a", RULES)

    assert "a: the other hosts have no room for 900 GB: nothing is moved" == advice.sentence


def test_an_evacuation_reports_that_no_other_host_accepts_copies() -> None:
    places = [host(name, state=RebalanceHostState.DRAIN, is_shared=True) for name in "ab"]
    found = plan_host_evacuation(snapshot(places, [TASK]), "a", RULES)

    assert [] == steps(found)
    told = "a is drained: nothing is moved; no other host takes copies now; 1 task stays at a"
    assert told == found.sentence


def test_a_round_evacuates_dead_hosts_before_full_hosts_before_drained_hosts() -> None:
    dead, full, drained = (
        host("d", state=RebalanceHostState.DEAD),
        host("f", used_bytes=DISK - 5 * GB, state=RebalanceHostState.DISK_FULL),
        host("n", state=RebalanceHostState.DRAIN),
    )
    copies = tasks({"d": 1, "f": 1, "n": 1}, size=0)

    def served(*places: str) -> str:
        chosen = [one for one in (drained, full, dead) if one.name in places]
        return plan_automatic_round(snapshot([*chosen, *OTHERS], copies), RULES).sentence.split()[0]

    assert ["d", "f", "n"] == [served("d", "f", "n"), served("f", "n"), served("n")]


def test_a_round_begins_no_move_at_level_0_or_while_tasks_are_moving() -> None:
    moving = [*tasks({"a": 9}), RebalanceTask(job="one", number=99, state=RebalanceTaskState.MOVING)]
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
    full = host("a", state=RebalanceHostState.DISK_FULL, used_bytes=1010 * GB - 9 * GB)
    lately = RecentRebalanceMoveTimes(replicated={"a": NOW - timedelta(minutes=1)})
    seen = snapshot([full, *OTHERS], tasks({"a": 9}, size=2 * GB), recent=lately)

    assert 1 == len(plan_host_evacuation(seen, "a", RULES).moves)
