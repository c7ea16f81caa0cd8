"""Properties of the plans for jobs, automatic rounds and evacuations, for arbitrary snapshots."""

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gridbridge.decisions.rebalance.automatic_round_and_evacuation import plan_automatic_round, plan_host_evacuation
from gridbridge.decisions.rebalance.host_loads_after_planned_moves import ProjectedPlacement
from gridbridge.decisions.rebalance.host_rebalancing import plan_host_balance
from gridbridge.decisions.rebalance.job_copy_repair_and_spread import draft_job_repair, plan_job_repair_or_spread
from gridbridge.decisions.rebalance.move_plan_draft_and_refusals import MovePlanDraft
from gridbridge.model.rebalance.placement_snapshot_and_moves import (
    PlacementHost,
    PlacementHostState,
    PlacementJobOrDataset,
    PlacementMoveKind,
    PlacementSnapshot,
    RebalanceMovePlan,
)
from tests.decisions.rebalance.test_properties import JOBS, RULES, done, shuffled, snapshots

RULE = replace(RULES, tasks_per_host=2)
FAILED = (PlacementHostState.DEAD, PlacementHostState.DISK_FULL, PlacementHostState.DRAIN)
wide = st.builds(
    lambda seen, rooms, slots, places, spare: replace(
        seen,
        hosts=tuple(replace(one, room=room) for one, room in zip(seen.hosts, rooms, strict=False)),
        jobs=tuple(replace(one, hosts=at, spare=more) for one, at, more in zip(seen.jobs, places, spare, strict=True)),
        tasks=tuple(replace(one, slots=slots[at % len(slots)]) for at, one in enumerate(seen.tasks)),
    ),
    snapshots,
    st.lists(st.sampled_from((None, None, 0, 1, 4)), min_size=5, max_size=5),
    st.lists(st.integers(1, 3), min_size=1, max_size=5),
    st.lists(st.sampled_from((None, None, frozenset("ab"), frozenset("bcd"))), min_size=3, max_size=3),
    st.lists(st.sampled_from((0, 0, 1)), min_size=3, max_size=3),
)


def spreads(seen: PlacementSnapshot) -> list[tuple[PlacementJobOrDataset, RebalanceMovePlan]]:
    found = []
    for job in seen.jobs:
        board = ProjectedPlacement(seen, RULE)
        draft = MovePlanDraft(board, RULE.tasks_per_round, RULE.bytes_per_round)
        draft_job_repair(draft, job)
        if not draft.moves:
            found.append((job, plan_job_repair_or_spread(seen, job.name, RULE)))
    return found


def evened(seen: PlacementSnapshot) -> list[RebalanceMovePlan]:
    of_hosts = [plan_host_balance(seen, one.name, RULE) for one in seen.hosts]
    return [*of_hosts, *(advice for _, advice in spreads(seen))]


@given(wide)
def test_no_plan_exceeds_a_limit(seen: PlacementSnapshot) -> None:
    sizes = {one.job_and_task_number: one.size_bytes for one in seen.tasks}
    repairs = [plan_job_repair_or_spread(seen, one.name, RULE) for one in seen.jobs]
    for advice in (*evened(seen), *repairs):
        assert len(advice.moves) <= RULE.tasks_per_round
    for advice in evened(seen):
        carried = [one for one in advice.moves if one.kind is not PlacementMoveKind.DELETE]
        assert sum(sizes[one.job, one.number] for one in carried) <= RULE.bytes_per_round
    for _, advice in spreads(seen):
        assert max(Counter(one.source for one in advice.moves).values(), default=0) <= 2
        assert max(Counter(one.target for one in advice.moves).values(), default=0) <= 2
    for host in seen.hosts:
        most = len(plan_host_evacuation(seen, host.name, RULE).moves)
        is_full = host.state is PlacementHostState.DISK_FULL and host.is_up
        assert most <= (RULE.moves_from_full if is_full else RULE.moves_from_failed)


@given(wide)
def test_no_host_gets_more_tasks_than_free_slots_or_tasks_of_a_job_that_excludes_the_host(
    seen: PlacementSnapshot,
) -> None:
    slots = {one.job_and_task_number: one.slots for one in seen.tasks}
    at = {one.name: one for one in seen.hosts}
    may = {one.name: one.hosts for one in seen.jobs}
    for advice in (*evened(seen), plan_automatic_round(seen, RULE)):
        came = Counter[str]()
        for move in advice.moves:
            is_carried = move.source and move.kind is not PlacementMoveKind.DELETE
            if is_carried and at.get(move.source, PlacementHost(name="")).state is not PlacementHostState.DEAD:
                allowed = may[move.job]
                is_copied = move.target not in _held(seen, move.job, move.number)
                assert allowed is None or move.target in allowed or not is_copied
            if move.kind is PlacementMoveKind.LIVE and _is_moved(seen, move.job, move.number, move.source):
                came[move.target] += slots[move.job, move.number]
        for name, taken in came.items():
            room = at[name].room
            assert room is None or taken <= room or "lost" in advice.sentence


def _held(seen: PlacementSnapshot, job: str, number: int) -> tuple[str, ...]:
    return next(one.hosts_with_copy for one in seen.tasks if one.job_and_task_number == (job, number))


def _is_moved(seen: PlacementSnapshot, job: str, number: int, source: str) -> bool:
    at = {one.name for one in seen.hosts}
    return source in at and source in _held(seen, job, number)


@given(wide)
def test_spreading_a_job_keeps_each_tasks_number_of_copies(seen: PlacementSnapshot) -> None:
    for _, advice in spreads(seen):
        after = done(seen, advice)
        assert [len(one.hosts_with_copy) for one in seen.tasks] == [len(one.hosts_with_copy) for one in after.tasks]


@given(wide)
def test_balancing_a_host_keeps_each_tasks_number_of_copies(seen: PlacementSnapshot) -> None:
    for host in seen.hosts:
        after = done(seen, plan_host_balance(seen, host.name, RULE))
        pairs = [*zip(seen.tasks, after.tasks, strict=True)]
        for before, now in pairs:
            assert len(now.hosts_with_copy) == len(before.hosts_with_copy)
            assert set(now.hosts_with_copy) - set(before.hosts_with_copy) <= {one.name for one in seen.hosts}


@given(wide)
def test_a_repair_never_moves_a_tasks_number_of_copies_away_from_the_wanted_number(seen: PlacementSnapshot) -> None:
    """Two copies on one host count as one copy. A round may end before every task is repaired."""
    for job in seen.jobs:
        after = done(seen, plan_job_repair_or_spread(seen, job.name, RULE))
        for before, now in zip(seen.tasks, after.tasks, strict=True):
            if before.job != job.name:
                assert before == now
                continue
            wished, had, has = 1 + job.replicas, len(before.hosts_with_copy), len(now.hosts_with_copy)
            low, high = sorted((had, wished))
            is_wrong = len(set(before.hosts_with_copy)) < had or not set(before.hosts_with_copy) <= _names(seen)
            assert low <= has <= high or is_wrong
            assert has >= 1


def _names(seen: PlacementSnapshot) -> set[str]:
    return {one.name for one in seen.hosts}


@given(wide)
def test_spreading_a_job_raises_neither_the_highest_excess_over_a_fair_share_nor_an_extreme_disk(
    seen: PlacementSnapshot,
) -> None:
    """A disk may become fuller than the fullest disk, but not far fuller than the mean.

    Hydra's SpawnBalancer has this rule. Without it, no job with data could be spread over equally filled
    disks.
    """
    for job, advice in spreads(seen):
        before, after = ProjectedPlacement(seen, RULE), ProjectedPlacement(done(seen, advice), RULE)
        for kind in {one.kind for one in seen.hosts}:
            live = before.usable_hosts_of_kind(kind)
            assert _most(after, job, live) <= max(0, _most(before, job, live))
            fullest = max((before.disk_usage_of(one) for one in live), default=0.0)
            highest = max(fullest, before.mean_disk_usage(kind) * RULE.extreme_ratio)
            assert all(after.disk_usage_of(after.hosts[one.name]) <= highest + 1e-9 for one in live)


def _most(board: ProjectedPlacement, job: PlacementJobOrDataset, live: tuple[PlacementHost, ...]) -> int:
    above = (board.copies_of_job_at(job.name, one.name) - board.fair_share_of_job(job, one) for one in live)
    return max(above, default=0)


def holding(seen: PlacementSnapshot) -> PlacementSnapshot:
    """Return the snapshot with each disk's used bytes raised to the size of the host's copies."""
    held = Counter[str]()
    for task in seen.tasks:
        for host in set(task.hosts_with_copy):
            held[host] += task.size_bytes
    full = ((one, min(one.max_bytes, max(one.used_bytes, held[one.name]))) for one in seen.hosts)
    return replace(seen, hosts=tuple(replace(one, used_bytes=used) for one, used in full))


@given(wide)
def test_a_round_fills_no_disk_above_the_fullest_disk_and_far_above_the_mean(seen: PlacementSnapshot) -> None:
    """Evacuations and repairs have only their own limits."""
    seen = holding(seen)
    advice = plan_automatic_round(seen, RULE)
    failed = (one.name for one in seen.hosts if one.state in FAILED)
    is_repair = "repaired first" in advice.sentence
    if is_repair or any(plan_host_evacuation(seen, name, RULE).moves for name in failed):
        return
    before, later = ProjectedPlacement(seen, RULE), ProjectedPlacement(done(seen, advice), RULE)
    for kind in {one.kind for one in seen.hosts}:
        live = before.usable_hosts_of_kind(kind)
        fullest = max((before.disk_usage_of(one) for one in live), default=0.0)
        highest = max(fullest, before.mean_disk_usage(kind) * RULE.extreme_ratio)
        assert all(later.disk_usage_of(later.hosts[one.name]) <= highest + 1e-9 for one in live)


@given(wide, st.randoms(use_true_random=False))
def test_the_order_of_hosts_jobs_and_tasks_does_not_change_the_plan(seen: PlacementSnapshot, random: object) -> None:
    other = shuffled(seen, random)

    for name in JOBS:
        assert plan_job_repair_or_spread(seen, name, RULE) == plan_job_repair_or_spread(other, name, RULE)
    for host in seen.hosts:
        assert plan_host_evacuation(seen, host.name, RULE) == plan_host_evacuation(other, host.name, RULE)
        assert plan_host_balance(seen, host.name, RULE) == plan_host_balance(other, host.name, RULE)
    assert plan_automatic_round(seen, RULE) == plan_automatic_round(other, RULE)


@given(wide)
def test_an_evacuation_moves_only_tasks_of_the_failed_host(seen: PlacementSnapshot) -> None:
    for host in seen.hosts:
        held = {one.job_and_task_number for one in seen.tasks if host.name in one.hosts_with_copy}
        for move in plan_host_evacuation(seen, host.name, RULE).moves:
            assert (move.job, move.number) in held
            assert move.target != host.name
