"""Rebalancing of one job: repair of copies, then an even spread by the fair shares and loads of hosts."""

from dataclasses import replace
from datetime import timedelta

import pytest

from gridbridge.decisions.rebalance.host_loads_after_planned_moves import ProjectedHostsAndCopies
from gridbridge.decisions.rebalance.job_copy_repair_and_spread import plan_job_repair_or_spread
from gridbridge.model.rebalance.rebalance_section import RebalanceSection
from gridbridge.model.rebalance.rebalance_snapshot_and_moves import (
    RebalanceHost,
    RebalanceSnapshot,
    RebalanceTask,
    RebalanceTaskState,
    RecentRebalanceMoveTimes,
)
from tests.decisions.rebalance.boards import DISK, GB, NOW, host, job, reasons, snapshot, steps, tasks

RULES = RebalanceSection()
ABC = [host("a"), host("b"), host("c")]
TASK = RebalanceTask(job="one", number=1, live="a", size_bytes=GB)


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
def test_a_round_that_repairs_a_job_does_not_spread_the_job(
    task: RebalanceTask, replicas: int, moves: list[tuple[str, int, str, str]]
) -> None:
    uneven = [replace(each, number=each.number + 1) for each in tasks({"a": 9})]
    whole = [replace(each, replicas=("b",)) for each in uneven]
    advice = plan_job_repair_or_spread(snapshot(ABC, [task, *whole], [job(replicas=replicas)]), "one", RULES)

    assert moves == steps(advice)
    assert advice.sentence.startswith("job one is repaired first: ")


LACKING: dict[str, tuple[RebalanceTask, str]] = {
    "no room for its replica": (replace(TASK, size_bytes=800 * GB), "800 GB are more than 75% of what is free at b"),
    "too many, and it runs": (
        replace(TASK, replicas=("b", "c"), state=RebalanceTaskState.RUNNING),
        "the task is running",
    ),
    "no copy that is known": (replace(TASK, live="nowhere"), "no copy of the task can be read"),
}


@pytest.mark.parametrize(("task", "why"), LACKING.values(), ids=LACKING.keys())
def test_a_job_that_can_not_be_repaired_is_not_spread_and_the_reason_is_reported(task: RebalanceTask, why: str) -> None:
    uneven = [replace(each, number=each.number + 1) for each in tasks({"a": 9})]
    whole = [replace(each, replicas=("b",)) for each in uneven]

    advice = plan_job_repair_or_spread(snapshot(ABC, [task, *whole], [job(replicas=1)]), "one", RULES)

    assert [] == steps(advice)
    assert advice.sentence.startswith("job one is not whole, and is not spread: 1 task still ")
    assert why in reasons(advice).values()


def test_a_repair_reports_the_tasks_that_still_lack_copies() -> None:
    more = replace(TASK, number=2, size_bytes=800 * GB)

    advice = plan_job_repair_or_spread(snapshot(ABC, [TASK, more], [job(replicas=1)]), "one", RULES)

    assert [("replica", 1, "a", "b")] == steps(advice)
    assert "1 task still lacks copies or has wrong copies" in advice.sentence


@pytest.mark.parametrize(("room", "goes_to"), [(None, "c"), (9, "b")])
def test_a_host_with_many_used_slots_gets_tasks_only_if_its_free_slots_are_known(
    room: int | None, goes_to: str
) -> None:
    places = [host("a", 0.4, 0.9), host("b", 0.4, 0.9, room=room), host("c", 0.4, 0.3)]

    found = steps(plan_job_repair_or_spread(snapshot(places, tasks({"a": 4, "c": 1})), "one", RULES))

    assert goes_to == found[0][3]


@pytest.mark.parametrize(
    ("places", "copies"),
    [
        ([host("a"), host("b", 0.2), host("c", 0.3)], [TASK, replace(TASK, number=2, live="b", replicas=("a",))]),
        ([host("a", zone="x"), host("b", 0.1, zone="x"), host("c", 0.8, zone="y")], [TASK]),
    ],
    ids=["fewest copies", "another zone"],
)
def test_a_new_replica_goes_to_another_zone_or_to_the_fewest_copies(
    places: list[RebalanceHost], copies: list[RebalanceTask]
) -> None:
    """Each copy of the job adds `sibling_weight` to the host's load."""
    advice = plan_job_repair_or_spread(snapshot(places, copies, [job(replicas=1)]), "one", RULES)

    assert [("replica", 1, "a", "c")] == steps(advice)


@pytest.mark.parametrize(
    ("counts", "moves"),
    [
        ({"a": 6}, [("a", "b"), ("a", "c"), ("a", "b"), ("a", "c")]),
        ({"a": 3, "b": 2, "c": 1}, [("a", "c")]),
        ({"a": 2, "b": 2, "c": 2}, []),
    ],
)
def test_a_job_with_all_copies_is_spread_from_hosts_above_their_fair_share(
    counts: dict[str, int], moves: list[tuple[str, str]]
) -> None:
    advice = plan_job_repair_or_spread(snapshot(ABC, tasks(counts)), "one", RULES)

    assert moves == [(source, target) for _, _, source, target in steps(advice)]


def test_hosts_below_their_fair_share_get_tasks_from_the_hosts_with_the_most_tasks() -> None:
    """Seven hosts have 6 tasks and two hosts have 4 tasks; newer versions of Hydra would not move any task."""
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
def test_a_heavily_loaded_host_with_exactly_its_fair_share_gives_one_task_away(places: list[RebalanceHost]) -> None:
    found = steps(plan_job_repair_or_spread(snapshot(places, tasks({"a": 2, "b": 1, "c": 2})), "one", RULES))

    assert [("live", 1, "a", "b")] == found


def test_spreading_a_job_may_fill_a_disk_up_to_extreme_ratio_times_the_mean() -> None:
    """With a mean of 50 %, up to 55 % of the target's disk may be used."""
    places = [host("a", 0.5), host("b", 0.5)]

    advice = plan_job_repair_or_spread(snapshot(places, tasks({"a": 8}, size=20 * GB)), "one", RULES)

    assert [(2, "b"), (1, "b")] == [(number, target) for _, number, _, target in steps(advice)][::-1]
    assert reasons(advice)[3, "b"] == "the disk of b would be far fuller than the mean"


def test_no_task_is_moved_to_a_host_whose_disk_is_far_fuller_than_the_mean() -> None:
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
def test_a_host_gives_or_takes_at_most_four_tasks_of_a_job_in_a_round(counts: dict[str, int]) -> None:
    seen = snapshot([host(name) for name in counts], tasks(counts))

    assert 4 == len(plan_job_repair_or_spread(seen, "one", RULES).moves)


def test_a_round_moves_only_one_copy_of_each_task() -> None:
    doubled = tasks({"a": 8}, replicas=("b",))
    seen = snapshot([host(name) for name in "abcd"], doubled, [job(replicas=1)])

    moves = plan_job_repair_or_spread(seen, "one", RULES).moves

    assert {"a", "b"} == {move.source for move in moves}
    assert len(moves) == len({move.number for move in moves})


def test_an_administrators_request_moves_a_job_that_its_owner_excludes_from_automatic_rounds() -> None:
    seen = snapshot(ABC, tasks({"a": 6}), [job(is_autobalanced=False)])

    assert plan_job_repair_or_spread(seen, "one", RULES).moves
    assert not plan_job_repair_or_spread(seen, "one", RULES, is_asked=False).moves


def test_a_running_task_is_not_moved() -> None:
    running = tasks({"a": 6}, state=RebalanceTaskState.RUNNING)

    advice = plan_job_repair_or_spread(snapshot(ABC, running), "one", RULES)

    assert [] == steps(advice)
    assert {"the task is running"} == set(reasons(advice).values())
    assert "nothing can be moved" in advice.sentence


@pytest.mark.parametrize("state", [RebalanceTaskState.RUNNING, RebalanceTaskState.MOVING, RebalanceTaskState.UNKNOWN])
def test_no_replica_becomes_the_main_copy_of_a_task_that_runs_or_moves(state: RebalanceTaskState) -> None:
    task = replace(TASK, live="nowhere", replicas=("b", "c"), state=state)

    assert [] == steps(plan_job_repair_or_spread(snapshot(ABC, [task], [job(replicas=2)]), "one", RULES))


def board(seen: RebalanceSnapshot) -> ProjectedHostsAndCopies:
    return ProjectedHostsAndCopies(seen, RULES)


@pytest.mark.parametrize(
    ("active", "used", "score"),
    [
        (0.0, 0.0, 0.0),
        (0.0, 0.5, 17.6777),
        (0.5, 0.5, 17.6777),
        (1.0, 0.5, 42.3744),
        (0.5, 0.9, 76.8433),
        (1.0, 1.0, 100.0),
        (0.0, 1.0, 100.0),
        (1.0, 0.0, 30.0),
        (0.25, 0.75, 48.7139),
    ],
)
def test_a_hosts_load_score_combines_used_slots_and_disk_and_is_at_least_the_disks_part(
    active: float, used: float, score: float
) -> None:
    one = host("a", used, active)

    assert board(snapshot([one])).load_score_of(one) == pytest.approx(score, abs=1e-4)


@pytest.mark.parametrize(
    ("count", "replicas", "hosts", "share"),
    [(50, 0, 9, 6), (6, 0, 3, 2), (20, 0, 10, 2), (3, 0, 2, 2), (10, 1, 3, 7), (7, 2, 7, 3)],
)
def test_a_fair_share_of_a_job_is_rounded_up(count: int, replicas: int, hosts: int, share: int) -> None:
    places = [host(f"h{n}") for n in range(hosts)]
    one = job(replicas=replicas)
    seen = snapshot(places, tasks({"h0": count}), [one])

    assert {share} == {board(seen).fair_share_of_job(one, place) for place in places}


def test_a_fair_share_is_proportional_to_the_hosts_slots_and_limited_by_max_per_host() -> None:
    large, small = host("large", slots=30), host("small", slots=10)
    capped = job(max_per_host=5)
    seen = snapshot([large, small], tasks({"large": 8}), [job()])

    assert (6, 2) == (board(seen).fair_share_of_job(job(), large), board(seen).fair_share_of_job(job(), small))
    assert 5 == board(seen).fair_share_of_job(capped, large)


def test_hosts_that_are_down_do_not_count_in_a_fair_share() -> None:
    places = [host("a"), host("b"), host("down", is_up=False)]
    seen = snapshot(places, tasks({"a": 6}))

    assert 3 == board(seen).fair_share_of_job(job(), places[0])


def test_only_hosts_of_one_kind_are_compared() -> None:
    big, lone = host("a", 0.9), host("b", 0.1, kind="tape")
    found = board(snapshot([big, lone]))

    assert not found.is_disk_heavy(big)
    assert not found.is_disk_light(lone)


def test_a_disk_is_heavy_or_light_beyond_a_tenth_from_the_mean() -> None:
    places = [host("a", 0.55), host("b", 0.45), host("c", 0.56), host("d", 0.44)]
    found = board(snapshot(places))

    assert [False, False, True, False] == list(map(found.is_disk_heavy, places))
    assert [False, True, False, True] == list(map(found.is_disk_light, places))


def test_a_disk_whose_free_bytes_are_at_most_the_limit_is_full() -> None:
    full = host("a", used_bytes=DISK - GB)
    none = host("b", max_bytes=0, used_bytes=0)
    found = board(snapshot([full, none]))

    assert (1.0, 0.0) == (found.disk_usage_of(full), found.disk_usage_of(none))
    assert (True, False) == (found.is_disk_full(full), found.is_disk_full(none))


def test_a_host_offers_only_half_of_its_free_bytes_right_after_a_replica() -> None:
    one = host("a", 0.5)
    lately = board(snapshot([one], recent=RecentRebalanceMoveTimes(replicated={"a": NOW - timedelta(minutes=5)})))
    long_ago = board(snapshot([one], recent=RecentRebalanceMoveTimes(replicated={"a": NOW - timedelta(minutes=15)})))

    assert (510 * GB, 255 * GB) == (lately.free_disk_bytes_at_host(one), lately.bytes_offered_to_copies(one))
    assert (510 * GB, 510 * GB) == (long_ago.free_disk_bytes_at_host(one), long_ago.bytes_offered_to_copies(one))
