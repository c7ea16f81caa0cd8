"""Properties of every round about datasets, for arbitrary areas and replicas."""

from collections.abc import Iterable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gridbridge.decisions.rebalance.storage_area_rebalancing import (
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
from tests.decisions.rebalance.boards import GB, NOW

RULES = RebalanceSection(tasks_per_round=3, bytes_per_round=200 * GB, min_free_bytes=5 * GB, full_free_bytes=2 * GB)
NAMES = ("a", "b", "c", "d")
SIZE = 1000 * GB
MOST_ROUNDS = 60

areas = st.builds(
    MeasuredStorageArea,
    storage=st.just(""),
    clusters=st.sampled_from((("x",), ("y",), ("z",), ("x", "y"))),
    size_bytes=st.just(SIZE),
    free_bytes=st.integers(0, 1000).map(lambda gb: gb * GB),
    is_read_only=st.sampled_from((False, False, False, True)),
    fault=st.sampled_from(("", "", "", "", "no answer")),
    is_store=st.sampled_from((False, False, False, True)),
)
replicas = st.dictionaries(st.sampled_from(NAMES), st.sampled_from((True, True, False)), max_size=3)
datasets = st.builds(
    lambda gb, wished, at, may_move, is_busy: (gb * GB, wished, at, may_move, is_busy),
    st.integers(0, 90),
    st.integers(1, 3),
    replicas,
    st.booleans(),
    st.sampled_from((False, False, False, False, True)),
)


def kept(number: int, said: tuple[int, int, dict[str, bool], bool, bool]) -> DelegatedDataset:
    size, wished, at, may_move, is_busy = said
    return DelegatedDataset(
        uid=1000,
        owner="al",
        file=f"u.1000/data.{number}",
        is_busy=is_busy,
        dataset=Dataset(
            name=f"d{number}",
            path="/x",
            is_tree=True,
            files=1,
            size_bytes=size,
            sha256="",
            wished=wished,
            replicas=tuple(
                DatasetReplica(storage=name, size_bytes=size, is_whole=whole, checked_at=NOW)
                for name, whole in at.items()
            ),
            may_move=may_move,
        ),
    )


worlds = st.builds(
    lambda found, said, drained: DatasetStorageSnapshot(
        now=NOW,
        areas=tuple(replace(one, storage=name) for name, one in zip(NAMES, found, strict=False)),
        kept=tuple(kept(number, one) for number, one in enumerate(said)),
        drained=frozenset(drained),
    ),
    st.lists(areas, min_size=2, max_size=4),
    st.lists(datasets, max_size=8),
    st.sets(st.sampled_from(NAMES), max_size=1),
)


def acts(seen: DatasetStorageSnapshot) -> tuple[ServiceReplicaAct, ...]:
    snapshot = datasets_as_rebalance_snapshot(seen, RULES)
    return dataset_changes_for_moves(snapshot, plan_dataset_rebalance_round(snapshot, RULES).moves)


def done(seen: DatasetStorageSnapshot, every: Iterable[ServiceReplicaAct]) -> DatasetStorageSnapshot:
    free = {one.storage: one.free_bytes for one in seen.areas}
    known = {one.name: one for one in seen.kept}
    for act in every:
        one = known[act.dataset].dataset
        if act.target:
            free[act.target] -= 0 if act.target in one.areas_with_replica else one.size_bytes
            new = DatasetReplica(storage=act.target, size_bytes=one.size_bytes, is_whole=True, checked_at=NOW)
            one = one.with_replica(new)
        if act.source:
            free[act.source] += one.size_bytes
            one = one.without_storage_area(act.source)
        known[act.dataset] = replace(known[act.dataset], dataset=one)
    return replace(
        seen,
        areas=tuple(replace(one, free_bytes=free[one.storage]) for one in seen.areas),
        kept=tuple(known[one.name] for one in seen.kept),
    )


def safe(one: DelegatedDataset, seen: DatasetStorageSnapshot) -> set[str]:
    up = {each.storage for each in seen.areas if not each.fault}
    return up.intersection(one.dataset.areas_with_whole_replica)


def emptied(seen: DatasetStorageSnapshot) -> tuple[set[str], set[str]]:
    drained = {one.storage for one in seen.areas if one.storage in seen.drained}
    full = {one.storage for one in seen.areas if not one.fault and one.free_bytes <= RULES.full_free_bytes}
    return drained, drained | full


def fullest(seen: DatasetStorageSnapshot) -> float:
    return max((1 - one.free_bytes / SIZE for one in seen.areas if not one.fault), default=0.0)


@given(worlds)
def test_a_replica_is_copied_only_into_a_usable_area_without_a_whole_replica(seen: DatasetStorageSnapshot) -> None:
    at = {one.storage: one for one in seen.areas}
    known = {one.name: one for one in seen.kept}

    for act in acts(seen):
        one = known[act.dataset]
        assert not one.is_busy
        if act.target:
            area = at[act.target]
            assert act.target not in one.dataset.areas_with_whole_replica
            assert not area.fault
            assert not area.is_read_only
            assert area.storage not in seen.drained
            assert area.free_bytes > RULES.min_free_bytes
        if act.source:
            assert act.source in one.dataset.areas_with_replica
            assert not at[act.source].fault


@given(worlds)
def test_a_round_touches_each_replica_once_and_stays_within_its_limits(seen: DatasetStorageSnapshot) -> None:
    found = acts(seen)
    touched = [(one.dataset, name) for one in found for name in (one.target, one.source) if name]
    whole = {one.name: one.dataset.areas_with_whole_replica for one in seen.kept}
    drained, failed = emptied(seen)
    leaving = [one for one in found if one.source in failed and one.source in whole[one.dataset]]
    most = RULES.moves_from_failed if drained else RULES.moves_from_full
    sizes = {one.name: one.dataset.size_bytes for one in seen.kept}
    even = [one for one in found if one.target and one.source and one.source not in failed]

    assert len(touched) == len(set(touched))
    assert len(leaving) <= most
    assert len(found) <= max(RULES.tasks_per_round, len(leaving))
    assert sum(sizes[one.dataset] for one in even) <= RULES.bytes_per_round
    assert len(even) in (0, len(found))


@given(worlds)
def test_no_removal_leaves_fewer_whole_replicas_than_the_owner_wants(seen: DatasetStorageSnapshot) -> None:
    after = done(seen, acts(seen))

    for before, later in zip(seen.kept, after.kept, strict=True):
        least = min(before.dataset.wished, len(safe(before, seen)))
        assert len(safe(later, after)) >= least, before


@given(worlds)
def test_repeated_rounds_end_without_moves_and_overfill_no_disk(seen: DatasetStorageSnapshot) -> None:
    """A copy needs more than `min_free_bytes` free, and takes at most `disk_share` of the free bytes."""
    least_free = RULES.min_free_bytes * (1 - RULES.disk_share)
    for _ in range(MOST_ROUNDS):
        found = acts(seen)
        if not found:
            return
        after = done(seen, found)
        assert fullest(after) <= max(fullest(seen), 1 - least_free / SIZE)
        seen = after
    raise AssertionError(f"still {found} after {MOST_ROUNDS} rounds")


@given(worlds, st.randoms(use_true_random=False))
def test_the_order_of_datasets_areas_and_replicas_does_not_change_the_round(
    seen: DatasetStorageSnapshot, random: object
) -> None:
    kept_, areas_ = [*seen.kept], [*seen.areas]
    random.shuffle(kept_)  # type: ignore[attr-defined]
    random.shuffle(areas_)  # type: ignore[attr-defined]
    for at, one in enumerate(kept_):
        there = [*one.dataset.replicas]
        random.shuffle(there)  # type: ignore[attr-defined]
        kept_[at] = replace(one, dataset=replace(one.dataset, replicas=tuple(there)))

    assert acts(seen) == acts(replace(seen, kept=tuple(kept_), areas=tuple(areas_)))
