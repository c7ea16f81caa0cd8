"""Properties of every rebalancing plan, for arbitrary snapshots."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from gridbridge.decisions.rebalance.automatic_round_and_evacuation import plan_automatic_round, plan_host_evacuation
from gridbridge.decisions.rebalance.host_loads_after_planned_moves import ProjectedHostsAndCopies, task_after_move
from gridbridge.decisions.rebalance.host_rebalancing import plan_host_balance
from gridbridge.decisions.rebalance.job_copy_repair_and_spread import draft_job_repair, plan_job_repair_or_spread
from gridbridge.decisions.rebalance.move_plan_draft_and_refusals import MovePlanDraft
from gridbridge.model.rebalance.rebalance_section import RebalanceSection
from gridbridge.model.rebalance.rebalance_snapshot_and_moves import (
    RebalanceHost,
    RebalanceHostState,
    RebalanceJobOrDataset,
    RebalanceMoveKind,
    RebalanceMovePlan,
    RebalanceSnapshot,
    RebalanceTask,
    RebalanceTaskState,
    RecentRebalanceMoveTimes,
)
from tests.decisions.rebalance.boards import DISK, GB, NOW

RULES = RebalanceSection(tasks_per_round=4, bytes_per_round=150 * GB)
NAMES = ("a", "b", "c", "d", "e")
JOBS = ("one", "two", "three")

hosts = st.builds(
    RebalanceHost,
    name=st.just(""),
    kind=st.sampled_from(("", "tape")),
    is_up=st.sampled_from((True, True, True, False)),
    is_read_only=st.sampled_from((False, False, True)),
    state=st.sampled_from((RebalanceHostState.ALIVE,) * 5 + tuple(RebalanceHostState)),
    used_bytes=st.integers(0, 1000).map(lambda gb: gb * GB),
    max_bytes=st.just(DISK),
    slots=st.integers(0, 16),
    mean_active=st.floats(0, 1),
    zone=st.sampled_from(("", "x", "y")),
)
jobs = st.builds(
    RebalanceJobOrDataset,
    name=st.just(""),
    is_autobalanced=st.booleans(),
    replicas=st.integers(0, 2),
    last_run=st.sampled_from((None, NOW - timedelta(hours=1), NOW - timedelta(days=3))),
    max_per_host=st.sampled_from((None, None, 3)),
)
copies = st.builds(
    RebalanceTask,
    job=st.sampled_from((*JOBS, "gone")),
    number=st.just(0),
    size_bytes=st.integers(0, 90).map(lambda gb: gb * GB),
    state=st.sampled_from((RebalanceTaskState.WAITING,) * 4 + (RebalanceTaskState.RUNNING,)),
    live=st.sampled_from(NAMES),
    replicas=st.lists(st.sampled_from(NAMES), max_size=2).map(tuple),
)
# Pauses: 3 minutes after a task for a host, 15 minutes after a replica for half of its disk, 12 hours for a job.
lately = st.sampled_from((1, 4, 20, 600, 2000)).map(lambda minutes: NOW - timedelta(minutes=minutes))
recents = st.builds(
    RecentRebalanceMoveTimes,
    hosts=st.dictionaries(st.sampled_from(NAMES), lately, max_size=2),
    replicated=st.dictionaries(st.sampled_from(NAMES), lately, max_size=2),
    jobs=st.dictionaries(st.sampled_from(JOBS), lately, max_size=2),
)
snapshots = st.builds(
    lambda hosts, jobs, tasks, recent: RebalanceSnapshot(
        now=NOW,
        hosts=tuple(replace(one, name=name) for name, one in zip(NAMES, hosts, strict=False)),
        jobs=tuple(replace(one, name=name) for name, one in zip(JOBS, jobs, strict=True)),
        tasks=tuple(replace(one, number=number) for number, one in enumerate(tasks)),
        recent=recent,
    ),
    st.lists(hosts, min_size=2, max_size=5),
    st.lists(jobs, min_size=3, max_size=3),
    st.lists(copies, max_size=25),
    st.one_of(st.just(RecentRebalanceMoveTimes()), recents),
)


def plans(seen: RebalanceSnapshot) -> list[RebalanceMovePlan]:
    of_hosts = [plan_host_balance(seen, host.name, RULES) for host in seen.hosts]
    return [
        *of_hosts,
        *(plan_job_repair_or_spread(seen, job.name, RULES) for job in seen.jobs),
        plan_automatic_round(seen, RULES),
    ]


def done(seen: RebalanceSnapshot, advice: RebalanceMovePlan) -> RebalanceSnapshot:
    tasks = {task.job_and_task_number: task for task in seen.tasks}
    used = Counter[str]()
    for move in advice.moves:
        before = tasks[move.job, move.number]
        after = tasks[before.job_and_task_number] = task_after_move(before, move)
        for host in set(before.hosts_with_copy) - set(after.hosts_with_copy):
            used[host] -= before.size_bytes
        for host in set(after.hosts_with_copy) - set(before.hosts_with_copy):
            used[host] += before.size_bytes
    places = (replace(one, used_bytes=max(0, one.used_bytes + used[one.name])) for one in seen.hosts)
    return replace(seen, hosts=tuple(places), tasks=tuple(tasks.values()))


@given(snapshots)
def test_no_copy_is_moved_to_a_host_with_a_copy_and_no_task_is_moved_twice(seen: RebalanceSnapshot) -> None:
    """A replica that becomes the main copy is not moved."""
    for advice in plans(seen):
        tasks = {task.job_and_task_number: task for task in seen.tasks}
        gone = Counter[tuple[str, int]]()
        for move in advice.moves:
            before = tasks[move.job, move.number]
            promoted = move.kind == RebalanceMoveKind.LIVE and move.target in before.replicas
            assert move.target not in before.hosts_with_copy or promoted
            gone[before.job_and_task_number] += move.kind != RebalanceMoveKind.DELETE and not promoted
            tasks[before.job_and_task_number] = task_after_move(before, move)
        assert max(gone.values(), default=0) <= 1


@given(snapshots)
def test_only_waiting_tasks_are_moved_and_only_to_usable_hosts(seen: RebalanceSnapshot) -> None:
    tasks = {task.job_and_task_number: task for task in seen.tasks}
    names = {host.name: host for host in seen.hosts}
    for advice in plans(seen):
        assert len(advice.moves) <= RULES.moves_from_failed
        for move in advice.moves:
            if move.kind == RebalanceMoveKind.DELETE or not move.source or "lost" in advice.sentence:
                continue
            before = tasks[move.job, move.number]
            if move.kind == RebalanceMoveKind.LIVE and move.target in before.replicas:
                continue  # a replica becomes the main copy, and no data move
            repaired = "repaired" in advice.sentence
            assert repaired or before.state == RebalanceTaskState.WAITING
            assert names[move.target].is_live
            assert not names[move.target].is_read_only


@given(snapshots)
def test_a_copy_is_moved_only_to_a_host_of_the_same_kind(seen: RebalanceSnapshot) -> None:
    kinds = {host.name: host.kind for host in seen.hosts}
    held = {
        task.job_and_task_number: {kinds[name] for name in task.hosts_with_copy if name in kinds} for task in seen.tasks
    }
    failing = [plan_host_evacuation(seen, host.name, RULES) for host in seen.hosts]
    for advice in (*plans(seen), *failing):
        for move in (one for one in advice.moves if one.kind != RebalanceMoveKind.DELETE):
            assert kinds[move.target] in held[move.job, move.number]


@given(snapshots)
def test_a_copy_is_moved_only_to_a_host_without_a_recent_task_and_within_disk_share(seen: RebalanceSnapshot) -> None:
    """Right after a new replica, only half of the host's free bytes count."""
    tasks = {task.job_and_task_number: task for task in seen.tasks}
    for advice in plans(seen):
        board = ProjectedHostsAndCopies(seen, RULES)
        for move in advice.moves:
            now = board.task_after_planned_moves(tasks[move.job, move.number])
            target = board.hosts.get(move.target)
            if target and move.target not in now.hosts_with_copy:
                assert not _rests(seen, move.target)
                if target.max_bytes > 0:
                    assert board.free_disk_bytes_at_host(target) > RULES.min_free_bytes
                    assert now.size_bytes <= RULES.disk_share * board.free_disk_bytes_at_host(target)
            board.apply_move(move, now)


def _rests(seen: RebalanceSnapshot, host: str) -> bool:
    at = seen.recent.hosts.get(host)
    return at is not None and seen.now - at < timedelta(seconds=RULES.host_rest_s)


@given(snapshots)
def test_balancing_a_host_loses_no_task_and_does_not_raise_the_highest_disk_usage(seen: RebalanceSnapshot) -> None:
    for host in seen.hosts:
        advice = plan_host_balance(seen, host.name, RULES)
        after = done(seen, advice)
        known = [task for task in after.tasks if task.job != "gone"]
        assert all(task.hosts_with_copy for task in known)
        before = ProjectedHostsAndCopies(seen, RULES)
        if host.state == RebalanceHostState.ALIVE and before.is_disk_heavy(host):
            assert _fullest(after, host) <= max(_fullest(seen, host), before.disk_usage_of(host))


def _fullest(seen: RebalanceSnapshot, like: RebalanceHost) -> float:
    board = ProjectedHostsAndCopies(seen, RULES)
    return max((board.disk_usage_of(host) for host in seen.hosts if host.kind == like.kind), default=0.0)


def shuffled(seen: RebalanceSnapshot, random: object) -> RebalanceSnapshot:
    shuffle = random.shuffle  # type: ignore[attr-defined]  # a Random
    lists = [list(seen.hosts), list(seen.jobs), list(seen.tasks)]
    for one in lists:
        shuffle(one)
    tasks = []
    for task in lists[2]:
        shuffle(replicas := list(task.replicas))
        tasks.append(replace(task, replicas=tuple(replicas)))
    return replace(seen, hosts=tuple(lists[0]), jobs=tuple(lists[1]), tasks=tuple(tasks))


@given(snapshots)
def test_repeated_automatic_rounds_end_with_a_round_without_moves(seen: RebalanceSnapshot) -> None:
    for _ in range(60):
        advice = plan_automatic_round(seen, RULES)
        if not advice.moves:
            return
        seen = done(seen, advice)
    assert not advice.moves, advice


RULE = replace(RULES, tasks_per_host=2)
FAILED = (RebalanceHostState.DEAD, RebalanceHostState.DISK_FULL, RebalanceHostState.DRAIN)
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


def spreads(seen: RebalanceSnapshot) -> list[tuple[RebalanceJobOrDataset, RebalanceMovePlan]]:
    found = []
    for job in seen.jobs:
        board = ProjectedHostsAndCopies(seen, RULE)
        draft = MovePlanDraft(board, RULE.tasks_per_round, RULE.bytes_per_round)
        draft_job_repair(draft, job)
        if not draft.moves:
            found.append((job, plan_job_repair_or_spread(seen, job.name, RULE)))
    return found


def evened(seen: RebalanceSnapshot) -> list[RebalanceMovePlan]:
    of_hosts = [plan_host_balance(seen, one.name, RULE) for one in seen.hosts]
    return [*of_hosts, *(advice for _, advice in spreads(seen))]


@given(wide)
def test_no_plan_exceeds_a_limit(seen: RebalanceSnapshot) -> None:
    sizes = {one.job_and_task_number: one.size_bytes for one in seen.tasks}
    repairs = [plan_job_repair_or_spread(seen, one.name, RULE) for one in seen.jobs]
    for advice in (*evened(seen), *repairs):
        assert len(advice.moves) <= RULE.tasks_per_round
    for advice in evened(seen):
        carried = [one for one in advice.moves if one.kind is not RebalanceMoveKind.DELETE]
        assert sum(sizes[one.job, one.number] for one in carried) <= RULE.bytes_per_round
    for _, advice in spreads(seen):
        assert max(Counter(one.source for one in advice.moves).values(), default=0) <= 2
        assert max(Counter(one.target for one in advice.moves).values(), default=0) <= 2
    for host in seen.hosts:
        most = len(plan_host_evacuation(seen, host.name, RULE).moves)
        is_full = host.state is RebalanceHostState.DISK_FULL and host.is_up
        assert most <= (RULE.moves_from_full if is_full else RULE.moves_from_failed)


@given(wide)
def test_no_host_gets_more_tasks_than_free_slots_or_tasks_of_a_job_that_excludes_the_host(
    seen: RebalanceSnapshot,
) -> None:
    slots = {one.job_and_task_number: one.slots for one in seen.tasks}
    at = {one.name: one for one in seen.hosts}
    may = {one.name: one.hosts for one in seen.jobs}
    for advice in (*evened(seen), plan_automatic_round(seen, RULE)):
        came = Counter[str]()
        for move in advice.moves:
            is_carried = move.source and move.kind is not RebalanceMoveKind.DELETE
            if is_carried and at.get(move.source, RebalanceHost(name="")).state is not RebalanceHostState.DEAD:
                allowed = may[move.job]
                is_copied = move.target not in _held(seen, move.job, move.number)
                assert allowed is None or move.target in allowed or not is_copied
            if move.kind is RebalanceMoveKind.LIVE and _is_moved(seen, move.job, move.number, move.source):
                came[move.target] += slots[move.job, move.number]
        for name, taken in came.items():
            room = at[name].room
            assert room is None or taken <= room or "lost" in advice.sentence


def _held(seen: RebalanceSnapshot, job: str, number: int) -> tuple[str, ...]:
    return next(one.hosts_with_copy for one in seen.tasks if one.job_and_task_number == (job, number))


def _is_moved(seen: RebalanceSnapshot, job: str, number: int, source: str) -> bool:
    at = {one.name for one in seen.hosts}
    return source in at and source in _held(seen, job, number)


@given(wide)
def test_spreading_a_job_keeps_each_tasks_number_of_copies(seen: RebalanceSnapshot) -> None:
    for _, advice in spreads(seen):
        after = done(seen, advice)
        assert [len(one.hosts_with_copy) for one in seen.tasks] == [len(one.hosts_with_copy) for one in after.tasks]


@given(wide)
def test_balancing_a_host_keeps_each_tasks_number_of_copies(seen: RebalanceSnapshot) -> None:
    for host in seen.hosts:
        after = done(seen, plan_host_balance(seen, host.name, RULE))
        pairs = [*zip(seen.tasks, after.tasks, strict=True)]
        for before, now in pairs:
            assert len(now.hosts_with_copy) == len(before.hosts_with_copy)
            assert set(now.hosts_with_copy) - set(before.hosts_with_copy) <= {one.name for one in seen.hosts}


@given(wide)
def test_a_repair_never_moves_a_tasks_number_of_copies_away_from_the_wanted_number(seen: RebalanceSnapshot) -> None:
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


def _names(seen: RebalanceSnapshot) -> set[str]:
    return {one.name for one in seen.hosts}


@given(wide)
def test_spreading_a_job_raises_neither_the_highest_excess_over_a_fair_share_nor_an_extreme_disk(
    seen: RebalanceSnapshot,
) -> None:
    """A disk may become fuller than the fullest disk, but not far fuller than the mean.

    Hydra's SpawnBalancer has this rule. Without it, no job with data could be spread over equally filled
    disks.
    """
    for job, advice in spreads(seen):
        before, after = ProjectedHostsAndCopies(seen, RULE), ProjectedHostsAndCopies(done(seen, advice), RULE)
        for kind in {one.kind for one in seen.hosts}:
            live = before.usable_hosts_of_kind(kind)
            assert _most(after, job, live) <= max(0, _most(before, job, live))
            fullest = max((before.disk_usage_of(one) for one in live), default=0.0)
            highest = max(fullest, before.mean_disk_usage(kind) * RULE.extreme_ratio)
            assert all(after.disk_usage_of(after.hosts[one.name]) <= highest + 1e-9 for one in live)


def _most(board: ProjectedHostsAndCopies, job: RebalanceJobOrDataset, live: tuple[RebalanceHost, ...]) -> int:
    above = (board.copies_of_job_at(job.name, one.name) - board.fair_share_of_job(job, one) for one in live)
    return max(above, default=0)


def holding(seen: RebalanceSnapshot) -> RebalanceSnapshot:
    """Return the snapshot with each disk's used bytes raised to the size of the host's copies."""
    held = Counter[str]()
    for task in seen.tasks:
        for host in set(task.hosts_with_copy):
            held[host] += task.size_bytes
    full = ((one, min(one.max_bytes, max(one.used_bytes, held[one.name]))) for one in seen.hosts)
    return replace(seen, hosts=tuple(replace(one, used_bytes=used) for one, used in full))


@given(wide)
def test_a_round_fills_no_disk_above_the_fullest_disk_and_far_above_the_mean(seen: RebalanceSnapshot) -> None:
    """Evacuations and repairs have only their own limits."""
    seen = holding(seen)
    advice = plan_automatic_round(seen, RULE)
    failed = (one.name for one in seen.hosts if one.state in FAILED)
    is_repair = "repaired first" in advice.sentence
    if is_repair or any(plan_host_evacuation(seen, name, RULE).moves for name in failed):
        return
    before, later = ProjectedHostsAndCopies(seen, RULE), ProjectedHostsAndCopies(done(seen, advice), RULE)
    for kind in {one.kind for one in seen.hosts}:
        live = before.usable_hosts_of_kind(kind)
        fullest = max((before.disk_usage_of(one) for one in live), default=0.0)
        highest = max(fullest, before.mean_disk_usage(kind) * RULE.extreme_ratio)
        assert all(later.disk_usage_of(later.hosts[one.name]) <= highest + 1e-9 for one in live)


@given(wide, st.randoms(use_true_random=False))
def test_the_order_of_hosts_jobs_and_tasks_does_not_change_the_plan(seen: RebalanceSnapshot, random: object) -> None:
    other = shuffled(seen, random)

    for name in JOBS:
        assert plan_job_repair_or_spread(seen, name, RULE) == plan_job_repair_or_spread(other, name, RULE)
    for host in seen.hosts:
        assert plan_host_evacuation(seen, host.name, RULE) == plan_host_evacuation(other, host.name, RULE)
        assert plan_host_balance(seen, host.name, RULE) == plan_host_balance(other, host.name, RULE)
    assert plan_automatic_round(seen, RULE) == plan_automatic_round(other, RULE)


@given(wide)
def test_an_evacuation_moves_only_tasks_of_the_failed_host(seen: RebalanceSnapshot) -> None:
    for host in seen.hosts:
        held = {one.job_and_task_number for one in seen.tasks if host.name in one.hosts_with_copy}
        for move in plan_host_evacuation(seen, host.name, RULE).moves:
            assert (move.job, move.number) in held
            assert move.target != host.name
