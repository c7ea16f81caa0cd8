"""Choice of the storage area for a dataset's next replica, and reasons against the other areas."""

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


HURT_B = replica("b", is_whole=False)
NEXT = {
    "most room": (DATASET, (A, B, A2), "a2"),
    "most room, in another order": (DATASET, (A2, B, A), "a2"),
    "a cluster without a replica": (DATASET.with_replica(replica("a")), (A, B, A2), "b"),
    "the only cluster": (DATASET.with_replica(replica("a")), (A, A2), "a2"),
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
    assert first == choose_next_replica_area(dataset, areas, RULES, {})[0]


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

    found, refused = choose_next_replica_area(dataset, (area,), RULES, {})

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
    found, (refused,) = choose_next_replica_area(DATASET, (area,), RULES, {"b": "drained"})

    assert ("", area.storage) == (found, refused.what)
    assert why in refused.reason
