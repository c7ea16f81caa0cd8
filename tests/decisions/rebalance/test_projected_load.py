"""Loads and fair shares of hosts by Hydra's formulas; only hosts of one kind are compared."""

from datetime import timedelta

import pytest

from gridbridge.decisions.rebalance.host_loads_after_planned_moves import ProjectedPlacement
from gridbridge.model.rebalance.placement_snapshot_and_moves import PlacementSnapshot, RecentPlacementMoveTimes
from gridbridge.model.rebalance.rebalance_section import RebalanceSection
from tests.decisions.rebalance.boards import DISK, GB, NOW, host, job, snapshot, tasks

RULES = RebalanceSection()


def board(seen: PlacementSnapshot) -> ProjectedPlacement:
    return ProjectedPlacement(seen, RULES)


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
    lately = board(snapshot([one], recent=RecentPlacementMoveTimes(replicated={"a": NOW - timedelta(minutes=5)})))
    long_ago = board(snapshot([one], recent=RecentPlacementMoveTimes(replicated={"a": NOW - timedelta(minutes=15)})))

    assert (510 * GB, 255 * GB) == (lately.free_disk_bytes_at_host(one), lately.bytes_offered_to_copies(one))
    assert (510 * GB, 510 * GB) == (long_ago.free_disk_bytes_at_host(one), long_ago.bytes_offered_to_copies(one))
