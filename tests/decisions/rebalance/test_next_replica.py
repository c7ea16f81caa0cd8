"""Where the next replica goes, and why not elsewhere."""

# ruff: noqa: SIM300 - `expected == actual` (style.md 33)

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from gridbridge.decisions.rebalance.storage_area_rebalancing import choose_next_replica_area
from gridbridge.model.rebalance.datasets import Dataset, DatasetReplica
from gridbridge.model.rebalance.rebalance_section import MeasuredStorageArea, RebalanceSection

GB = 10**9
NOW = datetime(2026, 11, 26, tzinfo=UTC)
RULES = RebalanceSection()
DATASET = Dataset(name="d", path="/d", is_tree=True, files=1, size_bytes=30 * GB, sha256="", wished=2)
A = MeasuredStorageArea(storage="a", cluster="alpha", size_bytes=1000 * GB, free_bytes=100 * GB)
A2 = replace(A, storage="a2", free_bytes=400 * GB)
B = replace(A, storage="b", cluster="beta", free_bytes=200 * GB)


def replica(storage: str, *, is_whole: bool = True) -> DatasetReplica:
    return DatasetReplica(storage=storage, size_bytes=1, is_whole=is_whole, checked_at=NOW)


def target(dataset: Dataset, *areas: MeasuredStorageArea) -> str:
    return choose_next_replica_area(dataset, areas, RULES, {})[0]


def test_the_area_with_the_most_room_comes_first() -> None:
    assert "a2" == target(DATASET, A, B, A2)
    assert "a2" == target(DATASET, A2, B, A)


def test_a_cluster_without_a_replica_comes_before_more_room() -> None:
    assert "b" == target(DATASET.holding(replica("a")), A, B, A2)


def test_with_no_other_cluster_the_same_one_has_two() -> None:
    assert "a2" == target(DATASET.holding(replica("a")), A, A2)


def test_a_replica_that_is_not_whole_is_repaired_before_another_is_made() -> None:
    assert "a" == target(DATASET.holding(replica("a", is_whole=False)), A, B, A2)


def test_a_copy_that_was_begun_goes_on_before_another_is_begun() -> None:
    """Also before one that is not whole is repaired, and where less is free: it took that."""
    begun = DATASET.beginning("a").holding(replica("a2")).holding(replica("b", is_whole=False))

    assert "a" == target(begun, A, B, A2)


@pytest.mark.parametrize(
    ("free", "begun", "why"),
    [
        (60, 40, ""),
        (28, 40, ""),
        (24, 40, "20.0 GB are more than the 18.0 GB that one copy may take (disk_share)"),
        (19, 61, ""),  # there were 80 GB when it was begun
        (12, 8, "12.0 GB are free; expected more than 20.0 GB"),
        (5, 90, ""),
    ],
)
def test_only_the_rest_of_a_copy_that_was_begun_has_to_fit(free: int, begun: int, why: str) -> None:
    dataset = replace(DATASET, size_bytes=60 * GB).beginning("a")
    area = replace(A, free_bytes=free * GB, begun_bytes=begun * GB)

    found, refused = choose_next_replica_area(dataset, (area,), RULES, {})

    assert ("" if why else "a") == found
    assert ([why] if why else []) == [one.reason[: len(why)] for one in refused]


@pytest.mark.parametrize(
    ("area", "why"),
    [
        (replace(A, fault="no such folder"), "no such folder"),
        (replace(A, is_read_only=True), "the area is read-only"),
        (replace(A, free_bytes=20 * GB), "20.0 GB are free; expected more than 20.0 GB"),
        (replace(A, free_bytes=39 * GB), "30.0 GB are more than the 29.2 GB that one copy may"),
    ],
)
def test_an_area_that_can_not_take_it_is_refused(area: MeasuredStorageArea, why: str) -> None:
    found, (refused,) = choose_next_replica_area(DATASET, (area,), RULES, {})

    assert ("", "a") == (found, refused.what)
    assert why in refused.reason


def test_a_copy_takes_at_most_three_quarters_of_what_is_free() -> None:
    assert "a" == target(DATASET, replace(A, free_bytes=40 * GB))


def test_an_area_that_is_barred_is_refused_with_its_reason() -> None:
    found, (refused,) = choose_next_replica_area(DATASET, (A, B), RULES, {"b": "drained"})

    assert ("a", "b", "drained") == (found, refused.what, refused.reason)
