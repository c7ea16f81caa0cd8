"""Job rebalancing: a job is repaired first, and only a whole one is spread evenly."""

from dataclasses import replace

import pytest

from gridbridge.decisions.rebalance.job_copy_repair_and_spread import plan_job_repair_or_spread
from gridbridge.model.rebalance.placement_snapshot_and_moves import (
    PlacementHost,
    PlacementHostState,
    PlacementTask,
    PlacementTaskState,
)
from gridbridge.model.rebalance.rebalance_section import RebalanceSection
from tests.decisions.rebalance.boards import GB, host, job, reasons, snapshot, steps, tasks

RULES = RebalanceSection()
ABC = [host("a"), host("b"), host("c")]
TASK = PlacementTask(job="one", number=1, live="a", size_bytes=GB)


@pytest.mark.parametrize(
    ("task", "replicas", "moves"),
    [
        (TASK, 1, [("replica", 1, "a", "c")]),
        (replace(TASK, replicas=("b", "b")), 1, [("delete", 1, "b", "")]),
        (replace(TASK, replicas=("a", "b")), 1, [("delete", 1, "a", "")]),
        (replace(TASK, replicas=("nowhere", "b")), 1, [("delete", 1, "nowhere", "")]),
        (replace(TASK, replicas=("b", "c")), 1, [("delete", 1, "c", "")]),
        (replace(TASK, live="", replicas=("b", "c")), 1, [("live", 1, "", "b")]),
        (replace(TASK, live="nowhere", replicas=("b", "c")), 1, [("live", 1, "nowhere", "b")]),
    ],
    ids=["missing", "twice", "beside the live one", "unknown host", "too many", "no live one", "a live one nowhere"],
)
def test_what_a_task_lacks_is_repaired_and_nothing_else_is_done(
    task: PlacementTask, replicas: int, moves: list[tuple[str, int, str, str]]
) -> None:
    uneven = [replace(each, number=each.number + 1) for each in tasks({"a": 9})]
    whole = [replace(each, replicas=("b",)) for each in uneven]
    advice = plan_job_repair_or_spread(snapshot(ABC, [task, *whole], [job(replicas=replicas)]), "one", RULES)

    assert moves == steps(advice)
    assert advice.sentence.startswith("job one is repaired first: ")


LACKING: dict[str, tuple[PlacementTask, str]] = {
    "no room for its replica": (replace(TASK, size_bytes=800 * GB), "800 GB are more than 75% of what is free at b"),
    "too many, and it runs": (
        replace(TASK, replicas=("b", "c"), state=PlacementTaskState.RUNNING),
        "the task is running",
    ),
    "no copy that is known": (replace(TASK, live="nowhere"), "no copy of the task can be read"),
}


@pytest.mark.parametrize(("task", "why"), LACKING.values(), ids=LACKING.keys())
def test_a_job_that_is_not_whole_is_not_spread_and_told_as_such(task: PlacementTask, why: str) -> None:
    uneven = [replace(each, number=each.number + 1) for each in tasks({"a": 9})]
    whole = [replace(each, replicas=("b",)) for each in uneven]

    advice = plan_job_repair_or_spread(snapshot(ABC, [task, *whole], [job(replicas=1)]), "one", RULES)

    assert [] == steps(advice)
    assert advice.sentence.startswith("job one is not whole, and is not spread: 1 task still ")
    assert why in reasons(advice).values()


def test_what_still_lacks_after_a_repair_is_told() -> None:
    more = replace(TASK, number=2, size_bytes=800 * GB)

    advice = plan_job_repair_or_spread(snapshot(ABC, [TASK, more], [job(replicas=1)]), "one", RULES)

    assert [("replica", 1, "a", "b")] == steps(advice)
    assert "1 task still lacks copies or has wrong copies" in advice.sentence


@pytest.mark.parametrize(("room", "goes_to"), [(None, "c"), (9, "b")])
def test_a_busy_host_gets_nothing_unless_it_is_known_to_have_room(room: int | None, goes_to: str) -> None:
    places = [host("a", 0.4, 0.9), host("b", 0.4, 0.9, room=room), host("c", 0.4, 0.3)]

    found = steps(plan_job_repair_or_spread(snapshot(places, tasks({"a": 4, "c": 1})), "one", RULES))

    assert goes_to == found[0][3]


def test_a_new_replica_goes_where_fewest_of_the_job_are() -> None:
    """Each copy of the job makes a host heavier by the weight of siblings."""
    places = [host("a"), host("b", 0.2), host("c", 0.3)]
    copies = [TASK, replace(TASK, number=2, live="b", replicas=("a",))]

    advice = plan_job_repair_or_spread(snapshot(places, copies, [job(replicas=1)]), "one", RULES)

    assert [("replica", 1, "a", "c")] == steps(advice)


def test_a_new_replica_goes_to_another_zone() -> None:
    places = [host("a", zone="x"), host("b", 0.1, zone="x"), host("c", 0.8, zone="y")]

    advice = plan_job_repair_or_spread(snapshot(places, [TASK], [job(replicas=1)]), "one", RULES)

    assert [("replica", 1, "a", "c")] == steps(advice)


def test_a_copy_that_can_not_be_read_is_told() -> None:
    places = [host("a", state=PlacementHostState.DEAD), *ABC[1:]]

    advice = plan_job_repair_or_spread(snapshot(places, [TASK], [job(replicas=1)]), "one", RULES)

    assert {(1, ""): "no copy of the task can be read"} == reasons(advice)


@pytest.mark.parametrize(
    ("counts", "moves"),
    [
        ({"a": 6}, [("a", "b"), ("a", "c"), ("a", "b"), ("a", "c")]),
        ({"a": 3, "b": 2, "c": 1}, [("a", "c")]),
        ({"a": 2, "b": 2, "c": 2}, []),
    ],
)
def test_a_whole_job_is_spread_from_hosts_that_have_too_many(
    counts: dict[str, int], moves: list[tuple[str, str]]
) -> None:
    advice = plan_job_repair_or_spread(snapshot(ABC, tasks(counts)), "one", RULES)

    assert moves == [(source, target) for _, _, source, target in steps(advice)]


def test_hosts_that_have_too_few_get_some_from_those_with_most() -> None:
    """Seven hosts with 6 and two with 4, as a newer version of Hydra leaves alone."""
    counts = {f"h{n}": 6 for n in range(7)} | {"h7": 4, "h8": 4}
    seen = snapshot([host(name) for name in counts], tasks(counts))

    found = steps(plan_job_repair_or_spread(seen, "one", RULES))

    assert ["h7", "h8"] == sorted(target for _, _, _, target in found)


@pytest.mark.parametrize(
    "places",
    [
        [host("a", 0.9), host("b", 0.5), host("c", 0.5)],
        [host("a", active=0.9), host("b", active=0.3), host("c", active=0.3)],
    ],
    ids=["disk", "slots"],
)
def test_a_host_at_the_maximum_that_is_heavily_loaded_gives_one(places: list[PlacementHost]) -> None:
    found = steps(plan_job_repair_or_spread(snapshot(places, tasks({"a": 2, "b": 1, "c": 2})), "one", RULES))

    assert [("live", 1, "a", "b")] == found


def test_where_all_disks_are_alike_a_spread_makes_its_target_the_fullest() -> None:
    """By no more than `extreme_ratio`: with a mean of 50 % up to 55 % are used."""
    places = [host("a", 0.5), host("b", 0.5)]

    advice = plan_job_repair_or_spread(snapshot(places, tasks({"a": 8}, size=20 * GB)), "one", RULES)

    assert [(2, "b"), (1, "b")] == [(number, target) for _, number, _, target in steps(advice)][::-1]
    assert reasons(advice)[3, "b"] == "the disk of b would be far fuller than the mean"


def test_nothing_goes_to_a_host_that_is_heavily_loaded() -> None:
    places = [host("a", 0.4), host("b", 0.9), host("c", 0.4)]

    advice = plan_job_repair_or_spread(snapshot(places, tasks({"a": 4, "c": 2})), "one", RULES)

    assert [] == steps(advice)
    assert "the disk of b is far fuller than the mean" == reasons(advice)[1, "b"]


@pytest.mark.parametrize(
    "counts",
    [
        pytest.param({"a": 24, "b": 0, "c": 0, "d": 0}, id="of one that could give ten"),
        pytest.param({"a": 12, "b": 12, "c": 0}, id="to one that could take eight"),
    ],
)
def test_a_host_takes_and_gives_four_copies_of_a_job_in_a_round(counts: dict[str, int]) -> None:
    seen = snapshot([host(name) for name in counts], tasks(counts))

    assert 4 == len(plan_job_repair_or_spread(seen, "one", RULES).moves)


def test_no_task_goes_twice_though_each_of_its_copies_is_where_too_many_are() -> None:
    doubled = tasks({"a": 8}, replicas=("b",))
    seen = snapshot([host(name) for name in "abcd"], doubled, [job(replicas=1)])

    moves = plan_job_repair_or_spread(seen, "one", RULES).moves

    assert {"a", "b"} == {move.source for move in moves}
    assert len(moves) == len({move.number for move in moves})


def test_who_asks_for_a_job_moves_it_though_its_owner_lets_no_round_do_so() -> None:
    seen = snapshot(ABC, tasks({"a": 6}), [job(is_autobalanced=False)])

    assert plan_job_repair_or_spread(seen, "one", RULES).moves
    assert not plan_job_repair_or_spread(seen, "one", RULES, is_asked=False).moves


def test_a_task_that_runs_is_not_moved() -> None:
    running = tasks({"a": 6}, state=PlacementTaskState.RUNNING)

    advice = plan_job_repair_or_spread(snapshot(ABC, running), "one", RULES)

    assert [] == steps(advice)
    assert {"the task is running"} == set(reasons(advice).values())
    assert "nothing can be moved" in advice.sentence


@pytest.mark.parametrize("state", [PlacementTaskState.RUNNING, PlacementTaskState.MOVING, PlacementTaskState.UNKNOWN])
def test_no_replica_becomes_live_while_something_is_done_to_its_task(state: PlacementTaskState) -> None:
    task = replace(TASK, live="nowhere", replicas=("b", "c"), state=state)

    assert [] == steps(plan_job_repair_or_spread(snapshot(ABC, [task], [job(replicas=2)]), "one", RULES))
