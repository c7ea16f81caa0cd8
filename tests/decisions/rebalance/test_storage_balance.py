"""Rebalancing of dataset replicas between storage areas, and the choice of an area for the next replica."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from gridbridge.decisions.rebalance.automatic_round_and_evacuation import plan_host_evacuation
from gridbridge.decisions.rebalance.host_rebalancing import host_loads_before_after
from gridbridge.decisions.rebalance.storage_area_rebalancing import (
    choose_next_replica_area,
    dataset_changes_for_moves,
    datasets_as_rebalance_snapshot,
    plan_dataset_rebalance_round,
)
from gridbridge.model.rebalance.datasets import (
    Dataset,
    DatasetReplica,
    DatasetStorageSnapshot,
    DelegatedDataset,
    ServiceReplicaAct,
)
from gridbridge.model.rebalance.rebalance_section import MeasuredStorageArea, RebalanceSection
from gridbridge.model.rebalance.rebalance_snapshot_and_moves import RebalanceMovePlan
from tests.decisions.rebalance.boards import reasons

NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)
GB = 10**9
RULES = RebalanceSection(min_free_bytes=0, full_free_bytes=0)


def area(name: str, free: int = 500, **more: object) -> MeasuredStorageArea:
    known = {"clusters": (f"at-{name}",), "size_bytes": 1000 * GB, "free_bytes": free * GB}
    return MeasuredStorageArea(storage=name, **known | more)  # type: ignore[arg-type]


def dataset(name: str, *at: str, wished: int = 1, spoilt: str = "", size: int = 60) -> DelegatedDataset:
    replicas = tuple(
        DatasetReplica(storage=one, size_bytes=size * GB, is_whole=one not in spoilt, checked_at=NOON) for one in at
    )
    one = Dataset(
        name=name, path="/x", is_tree=True, files=1, size_bytes=size * GB, sha256="", wished=wished, replicas=replicas
    )
    return DelegatedDataset(uid=1000, owner="al", file=f"u.1000/data.{name}", dataset=one)


def stored(
    *kept: DelegatedDataset, areas: tuple[MeasuredStorageArea, ...] = (), **more: object
) -> DatasetStorageSnapshot:
    some = areas or (area("a"), area("b"), area("c"))
    return DatasetStorageSnapshot(now=NOON, kept=kept, areas=some, **more)  # type: ignore[arg-type]


def advice(seen: DatasetStorageSnapshot, rules: RebalanceSection = RULES) -> RebalanceMovePlan:
    return plan_dataset_rebalance_round(datasets_as_rebalance_snapshot(seen, rules), rules)


def acts(seen: DatasetStorageSnapshot, rules: RebalanceSection = RULES) -> list[tuple[str, str, str]]:
    snapshot = datasets_as_rebalance_snapshot(seen, rules)
    found = dataset_changes_for_moves(snapshot, plan_dataset_rebalance_round(snapshot, rules).moves)
    return [(one.dataset.removeprefix("al/"), one.target, one.source) for one in found]


def away(one: DelegatedDataset) -> DelegatedDataset:
    """Return a dataset whose replica in area b can't be read."""
    return replace(one, dataset=one.dataset.with_replica(replace(one.dataset.replicas[1], is_away=True)))


B_DOWN = (area("a"), area("b", fault="no answer"), area("c"))
FULL_B = (area("a"), area("b", 10), area("c", 900))
TWO, SPOILT = dataset("x", "a", "b", wished=2), dataset("x", "a", "b", wished=2, spoilt="b")
LEAVING_B = (dataset("x", "b"), dataset("y", "a", "b", wished=2))
UNTOLD, FULL_OF_OTHERS = area("b", 0, size_bytes=0), (area("a", 100), area("b", 100))
THREE_OF_TWO = dataset("x", "a", "c", "b", wished=2)
GONE = frozenset({("al/x", "a")})
AHEAD = NOON + timedelta(days=365)
FAILED_AHEAD = ServiceReplicaAct(dataset="al/x", target="b", began_at=AHEAD, ended_at=AHEAD, why="full")
UNEVEN = (area("a", 50), area("b", 800), area("c", 800))
FIXED, FIXED_ALONE = (
    replace(one, dataset=replace(one.dataset, may_move=False))
    for one in (dataset("x", "a"), dataset("x", "a", wished=2))
)
AT_TWO = area("shared", 900, clusters=("alpha", "beta"))
SHARING, SHARED_X = (AT_TWO, area("b", 800, clusters=("beta",)), area("c", 100)), dataset("x", "shared")
STORED = area("s", clusters=(), is_store=True)
ROUNDS = {
    "disks are balanced": (stored(dataset("x", "a"), areas=UNEVEN), ["x +b -a"]),
    "missing, before disks are balanced": (
        stored(dataset("x", "a"), dataset("y", "b", wished=2), areas=UNEVEN),
        ["y +c"],
    ),
    "its owner excludes it from moves": (stored(FIXED, areas=UNEVEN), []),
    "its owner excludes it from moves, and one is missing": (stored(FIXED_ALONE, areas=UNEVEN), ["x +b"]),
    "missing, for a cluster without the shared area": (
        stored(dataset("x", "shared", wished=2), areas=SHARING),
        ["x +c"],
    ),
    "nothing between the clusters of a shared area": (stored(SHARED_X, areas=SHARING), []),
    **{
        f"a shared area, drained {' and '.join(drained)}": (
            stored(SHARED_X, areas=(replace(AT_TWO, free_bytes=500 * GB), area("c")), drained=frozenset(drained)),
            told,
        )
        for drained, told in ((("alpha",), []), (("alpha", "beta"), ["x +c -shared"]), (("shared",), ["x +c -shared"]))
    },
    "a replica in a store counts": (stored(dataset("x", "a", "s", wished=2), areas=(area("a", 10), STORED)), []),
    "no copy into a store": (stored(dataset("x", "a", wished=2), areas=(area("a"), STORED)), []),
    "a copy from a store": (stored(dataset("x", "s", wished=2), areas=(area("b"), STORED)), ["x +b"]),
    "first replica": (stored(dataset("x"), areas=(area("a", 100), area("b", 700))), ["x +b"]),
    "no size is told": (stored(dataset("x", "a", wished=3), areas=(area("a"), UNTOLD, area("c"))), ["x +c"]),
    "no size is told, and it stays": (stored(dataset("x", "b"), areas=(area("a"), UNTOLD)), []),
    "spoilt and spare": (stored(dataset("x", "a", "b", spoilt="b")), ["x -b"]),
    "more than wished for": (stored(dataset("x", "a", "b")), []),
    "down for a moment": (stored(TWO, areas=B_DOWN), []),
    "spoilt and down": (stored(SPOILT, areas=B_DOWN), ["x +c"]),
    "spoilt, unreadable and down": (stored(away(SPOILT), areas=B_DOWN), ["x +c"]),
    "spoilt and unreadable": (stored(away(SPOILT)), ["x +c"]),
    "spoilt, spare and down": (stored(dataset("x", "a", "b", spoilt="b"), areas=B_DOWN), []),
    "down and drained": (stored(TWO, areas=B_DOWN, drained=frozenset("b")), ["x +c"]),
    "files of others": (stored(dataset("x", "b"), areas=FULL_OF_OTHERS, drained=frozenset("b")), ["x +a -b"]),
    "forged size": (stored(dataset("f", "a", size=10**9), dataset("x", "a"), drained=frozenset("a")), ["x +b -a"]),
    "area removed": (stored(dataset("x", "a", "gone", wished=2)), ["x +b"]),
    "only area removed": (stored(dataset("x", "gone"), areas=(area("a"),)), ["x +a"]),
    "leaving, but too few": (stored(TWO, leaving=GONE), []),
    "leaving, and another is spoilt": (stored(dataset("x", "a", "b", spoilt="b"), leaving=GONE), ["x -b"]),
    "leaving, and another is down": (stored(dataset("x", "a", "b"), areas=B_DOWN, leaving=GONE), []),
    "failed while a clock was ahead": (stored(dataset("x"), areas=(area("b"),), carried=(FAILED_AHEAD,)), ["x +b"]),
    "unreadable": (stored(away(TWO), areas=FULL_B), []),
    "unreadable and drained": (stored(away(TWO), areas=FULL_B, drained=frozenset("b")), ["x +c"]),
    "unreadable, its cluster drained": (stored(away(TWO), areas=FULL_B, drained=frozenset({"at-b"})), ["x +c"]),
    "missing, for another cluster": (
        stored(dataset("x", "a", wished=2), areas=(area("a"), area("a2", 900, clusters=("at-a",)), area("b", 200))),
        ["x +b"],
    ),
    "spoilt, mended in its area": (
        stored(dataset("x", "a", "b", wished=2, spoilt="b"), areas=(area("a"), area("b", 200), area("c", 900))),
        ["x +b"],
    ),
    "drained": (stored(*LEAVING_B, drained=frozenset("b")), ["x +a -b", "y +c -b"]),
    "its cluster drained": (stored(*LEAVING_B, drained=frozenset({"at-b"})), ["x +a -b", "y +c -b"]),
    "lost with enough others": (stored(THREE_OF_TWO, areas=B_DOWN, drained=frozenset("b")), []),
    "lost alone": (stored(dataset("y", "b"), areas=B_DOWN, drained=frozenset("b")), ["y +a"]),
}


@pytest.mark.parametrize(("seen", "expected"), ROUNDS.values(), ids=ROUNDS)
def test_the_copies_and_removals_of_a_round_about_one_dataset(
    seen: DatasetStorageSnapshot, expected: list[str]
) -> None:
    """`+AREA` is a copy into the area, and `-AREA` is a removal from the area."""
    told = [
        f"{name}{f' +{target}' if target else ''}{f' -{source}' if source else ''}"
        for name, target, source in acts(seen)
    ]

    assert told == expected


def test_a_replica_that_must_stay_in_a_drained_area_does_not_delay_other_datasets() -> None:
    seen = stored(dataset("x", "a", "b", "c", wished=3), dataset("y"), drained=frozenset("b"))
    planned = advice(seen)

    assert [one.job for one in planned.moves] == ["al/y"]


def test_balancing_disks_does_not_raise_the_highest_disk_usage() -> None:
    seen = stored(dataset("x", "a"), areas=(area("a", 50), area("b", 800), area("c", 800)))
    snapshot = datasets_as_rebalance_snapshot(seen, RULES)
    known = {
        one.host: one for one in host_loads_before_after(snapshot, RULES, plan_dataset_rebalance_round(snapshot, RULES))
    }

    assert known["a"].disk_after < known["a"].disk
    assert known["b"].disk_after > known["b"].disk
    assert max(one.disk_after for one in known.values()) <= max(one.disk for one in known.values())


def test_a_round_about_datasets_stays_within_tasks_per_round() -> None:
    many = [dataset(f"x{n}", size=60) for n in range(9)]

    assert len(acts(stored(*many), replace(RULES, tasks_per_round=3))) == 3
    going = [ServiceReplicaAct(dataset=f"al/x{n}", target="a", began_at=NOON) for n in range(2)]
    assert len(acts(stored(*many, carried=tuple(going)), replace(RULES, tasks_per_round=3))) == 1


def test_bytes_per_round_does_not_limit_the_repair_of_missing_replicas() -> None:
    rules = replace(RULES, bytes_per_round=10 * GB)

    assert len(acts(stored(dataset("x"), dataset("y", "a", wished=2)), rules)) == 2


def test_no_disk_is_balanced_while_a_replica_is_being_copied() -> None:
    going = ServiceReplicaAct(dataset="al/x", target="b", began_at=NOON)
    areas = (area("a", 50), area("b", 800))
    seen = stored(dataset("x", wished=2), dataset("y", "a"), areas=areas, carried=(going,))
    planned = advice(seen)

    assert planned.moves == ()
    assert "1 dataset is being moved: no other move begins" in planned.sentence


def test_a_dataset_in_use_by_a_command_is_skipped_and_delays_no_other_dataset() -> None:
    busy = [replace(dataset(f"b{n}", "a", wished=2), is_busy=True) for n in range(12)]
    seen = stored(*busy, dataset("x", "a"), dataset("y"), drained=frozenset("a"))

    assert [name for name, *_ in acts(seen)] == ["x", "y"]


def test_missing_replicas_are_made_while_a_drained_area_is_emptied() -> None:
    leaving = [dataset(f"l{n}", "a") for n in range(9)]
    lacking = [dataset(f"n{n}", "b", wished=2) for n in range(9)]
    found = acts(stored(*leaving, *lacking, drained=frozenset("a")))

    assert [bool(source) for _, _, source in found] == [True] * 6 + [False] * 4


def test_a_round_reports_the_datasets_that_are_lost_with_an_area() -> None:
    """A replica that was damaged, or that is also whole in another area, is no loss."""
    areas = (area("a"), area("b"), area("c", fault="no answer"))
    kept = (
        dataset("alone", "c"),
        dataset("spoilt elsewhere", "b", "c", spoilt="b"),
        dataset("whole elsewhere", "a", "c"),
        dataset("spoilt there", "c", spoilt="c"),
        dataset("never there"),
    )
    lost = stored(*kept, areas=areas, drained=frozenset("c"))
    told = "2 datasets have no other whole replica; originals may exist"
    by_hand = plan_host_evacuation(datasets_as_rebalance_snapshot(lost, RULES), "c", RULES).sentence

    assert f"c is lost: {told}" in advice(lost).sentence
    assert by_hand.startswith("c is lost: ")
    assert told in by_hand
    assert "lost" not in advice(replace(lost, drained=frozenset())).sentence
    assert "lost" not in advice(stored(*kept[2:], areas=areas, drained=frozenset("c"))).sentence


def test_a_surplus_replica_in_a_drained_area_is_removed_without_a_copy() -> None:
    extra = dataset("x", "a", "b", wished=1)
    areas = (area("a", 0), area("b"), area("c"))
    rules = replace(RULES, full_free_bytes=GB, min_free_bytes=GB)

    assert acts(stored(extra, drained=frozenset("a"))) == [("x", "", "a")]
    assert acts(stored(extra, areas=areas), rules) == []
    told = advice(stored(extra, areas=areas), rules).rejected
    assert "the task has spare copies, which stay at this host" in {one.reason for one in told}


@pytest.mark.parametrize("drained", ["", "a"], ids=["repaired", "emptied"])
def test_the_owners_of_datasets_take_turns(drained: str) -> None:
    many = [dataset(f"m{n:02}", "a", wished=1 if drained else 2) for n in range(30)]
    other = replace(many[0], owner="zoe", uid=1001)
    found = acts(stored(*many, other, drained=frozenset(drained)))

    assert len(found) == (6 if drained else 10)
    assert [name for name, *_ in found].count("zoe/m00") == 1


def test_the_pause_after_a_failed_copy_grows_with_the_number_of_failures() -> None:
    rest = timedelta(seconds=RULES.replicated_rest_s)
    times = [NOON - rest * n for n in (9, 6, 3)]
    failed = [ServiceReplicaAct(dataset="al/x", target="b", began_at=at, ended_at=at, why="full") for at in times]
    good = replace(failed[1], why="")
    seen = stored(dataset("x"), areas=(area("b", 900),), carried=tuple(failed))

    assert acts(seen) == []
    assert acts(replace(seen, now=NOON + rest * 1.1)) == [("x", "b", "")]
    assert acts(replace(seen, carried=(failed[0], good, failed[2]))) == [("x", "b", "")]


def test_the_reason_why_an_area_gets_no_copy_is_reported() -> None:
    failed = ServiceReplicaAct(dataset="al/x", target="b", began_at=NOON, ended_at=NOON, why="full")
    resting = stored(dataset("x"), areas=(area("b"),), carried=(failed,))
    here, there = dataset("x", "a", "b", wished=3).dataset.replicas
    away = dataset("x", wished=3)
    replicas = (here, replace(there, is_whole=False, is_away=True))
    away = replace(away, dataset=replace(away.dataset, replicas=replicas))
    unread = stored(away, areas=(area("a"), area("b"), area("c", 0)))

    assert reasons(advice(resting))[1, "b"] == "a recent copy or removal at b failed"
    assert reasons(advice(unread))[1, "b"] == "the copies at b can't be read now"


def test_an_area_gets_no_copy_for_a_pause_that_begins_at_the_end_of_a_failed_copy() -> None:
    rest = timedelta(seconds=RULES.replicated_rest_s)
    failed = ServiceReplicaAct(dataset="al/x", target="b", began_at=NOON - 20 * rest, ended_at=NOON, why="cut")
    seen = stored(dataset("x"), areas=(area("a", 100), area("b", 900)), carried=(failed,))

    assert acts(replace(seen, now=NOON + 0.9 * rest)) == [("x", "a", "")]
    assert acts(replace(seen, now=NOON + rest)) == [("x", "b", "")]


def test_a_replaced_replica_is_removed_after_a_failed_removal() -> None:
    leaving = frozenset({("al/x", "a")})
    failed = ServiceReplicaAct(dataset="al/x", target="b", source="a", began_at=NOON, ended_at=NOON, why="no answer")
    seen = stored(dataset("x", "a", "b", wished=1), leaving=leaving)
    resting = replace(seen, carried=(failed,))
    later = replace(resting, now=NOON + timedelta(seconds=RULES.replicated_rest_s))

    assert acts(seen) == acts(later) == [("x", "", "a")]
    assert acts(resting) == []


def test_an_area_gets_no_replica_within_the_pause_after_its_last_replica() -> None:
    came = ServiceReplicaAct(dataset="al/y", target="b", began_at=NOON, ended_at=NOON)
    seen = stored(dataset("x", "a", wished=2), areas=(area("a"), area("b")), carried=(came,))

    assert acts(seen) == []
    assert acts(replace(seen, now=NOON + timedelta(seconds=RULES.host_rest_s))) == [("x", "b", "")]


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"is_read_only": True}, "b is read-only"),
        ({"fault": "no such folder"}, ""),  # an area with a fault is not even considered
        ({"free_bytes": 70 * GB}, "60 GB are more than 75% of what is free at b"),
    ],
)
def test_an_unusable_area_gets_no_replica_and_the_reason_is_reported(wrong: dict[str, object], reason: str) -> None:
    areas = (area("a"), area("b", **wrong))
    planned = advice(stored(dataset("x", "a", wished=2), areas=areas))

    assert planned.moves == ()
    told = {one.reason for one in planned.rejected}
    assert (reason in told) == bool(reason)


NOW = datetime(2026, 11, 26, tzinfo=UTC)
USUAL = RebalanceSection()
DATASET = Dataset(name="d", path="/d", is_tree=True, files=1, size_bytes=30 * GB, sha256="", wished=2)
A = MeasuredStorageArea(storage="a", clusters=("alpha",), size_bytes=1000 * GB, free_bytes=100 * GB)
A2 = replace(A, storage="a2", free_bytes=400 * GB)
SHARED = replace(A, storage="shared", clusters=("alpha", "beta"))
STORE = MeasuredStorageArea(storage="s", clusters=(), size_bytes=10**18, free_bytes=10**18, is_store=True)
C = replace(A, storage="c", clusters=("gamma",), free_bytes=50 * GB)
B = replace(A, storage="b", clusters=("beta",), free_bytes=200 * GB)


def replica(storage: str, *, is_whole: bool = True) -> DatasetReplica:
    return DatasetReplica(storage=storage, size_bytes=1, is_whole=is_whole, checked_at=NOW)


HURT_B = replica("b", is_whole=False)
NEXT = {
    "most room": (DATASET, (A, B, A2), "a2"),
    "most room, in another order": (DATASET, (A2, B, A), "a2"),
    "a cluster without a replica": (DATASET.with_replica(replica("a")), (A, B, A2), "b"),
    "the only cluster": (DATASET.with_replica(replica("a")), (A, A2), "a2"),
    "no cluster of a shared area with a replica": (DATASET.with_replica(replica("shared")), (SHARED, B, C), "c"),
    "an area that tasks read": (DATASET.with_replica(replica("a")), (A2, STORE), "a2"),
    "a store as the last choice": (DATASET.with_replica(replica("a")), (A, STORE), "s"),
    "a damaged replica": (DATASET.with_replica(replica("a", is_whole=False)), (A, B, A2), "a"),
    "a copy that was begun": (
        DATASET.with_unfinished_copy("a").with_replica(replica("a2")).with_replica(HURT_B),
        (A, B, A2),
        "a",
    ),
    "three quarters of what is free": (DATASET, (replace(A, free_bytes=40 * GB),), "a"),
}


@pytest.mark.parametrize(("dataset", "areas", "first"), NEXT.values(), ids=NEXT)
def test_the_area_for_the_next_replica_is_chosen_by_damage_begun_copies_clusters_and_free_bytes(
    dataset: Dataset, areas: tuple[MeasuredStorageArea, ...], first: str
) -> None:
    assert first == choose_next_replica_area(dataset, areas, USUAL, {})[0]


@pytest.mark.parametrize(
    ("free", "begun", "why"),
    [
        (60, 40, ""),
        (28, 40, ""),
        (24, 40, "20.0 GB are more than the 18.0 GB that one copy may take (disk_share)"),
        (19, 61, ""),  # 80 GB were free when the copy began
        (12, 8, "12.0 GB are free; expected more than 20.0 GB"),
        (5, 90, ""),
    ],
)
def test_a_begun_copy_needs_room_only_for_its_missing_bytes(free: int, begun: int, why: str) -> None:
    dataset = replace(DATASET, size_bytes=60 * GB).with_unfinished_copy("a")
    area = replace(A, free_bytes=free * GB, begun_bytes=begun * GB)

    found, refused = choose_next_replica_area(dataset, (area,), USUAL, {})

    assert ("" if why else "a") == found
    assert ([why] if why else []) == [one.reason[: len(why)] for one in refused]


@pytest.mark.parametrize(
    ("area", "why"),
    [
        (replace(A, fault="no such folder"), "no such folder"),
        (B, "drained"),
        (replace(A, is_read_only=True), "the area is read-only"),
        (replace(A, free_bytes=20 * GB), "20.0 GB are free; expected more than 20.0 GB"),
        (replace(A, free_bytes=39 * GB), "30.0 GB are more than the 29.2 GB that one copy may"),
    ],
)
def test_an_area_that_is_barred_or_can_not_hold_the_dataset_is_refused(area: MeasuredStorageArea, why: str) -> None:
    found, (refused,) = choose_next_replica_area(DATASET, (area,), USUAL, {"b": "drained"})

    assert ("", area.storage) == (found, refused.what)
    assert why in refused.reason


def test_the_replicas_of_a_drained_store_move_to_areas_of_clusters() -> None:
    areas = (area("a"), area("s", clusters=(), is_store=True))

    drained = stored(dataset("x", "s"), areas=areas, drained=frozenset({"s"}))

    assert [("x", "a", "s")] == acts(drained)
    assert "s is drained: 1 copy to a" == advice(drained).sentence
