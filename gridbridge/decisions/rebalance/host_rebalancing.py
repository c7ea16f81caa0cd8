"""Plans moves that bring a host's disk usage and load closer to the mean.

Source: Hydra's document "Spawn Balancing", section "Host Rebalancing"; Hydra's code differs (docs/decisions).
"""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from functools import partial
from math import ceil

from gridbridge.decisions.rebalance import move_plan_draft_and_refusals
from gridbridge.decisions.rebalance.host_loads_after_planned_moves import ProjectedHostsAndCopies
from gridbridge.decisions.rebalance.job_copy_repair_and_spread import JobCopyRedistribution
from gridbridge.decisions.rebalance.move_plan_draft_and_refusals import MovePlanDraft, describe_moves
from gridbridge.model.rebalance.rebalance_section import RebalanceSection
from gridbridge.model.rebalance.rebalance_snapshot_and_moves import (
    HostLoadBeforeAfter,
    RebalanceHost,
    RebalanceHostState,
    RebalanceJobOrDataset,
    RebalanceMovePlan,
    RebalanceSnapshot,
    RebalanceTask,
)


def plan_host_balance(snapshot: RebalanceSnapshot, name: str, rules: RebalanceSection) -> RebalanceMovePlan:
    """Plan the moves that bring a host of the snapshot closer to the mean disk usage and load."""
    return plan_projected_host_balance(ProjectedHostsAndCopies(snapshot, rules), name)


def plan_projected_host_balance(board: ProjectedHostsAndCopies, name: str) -> RebalanceMovePlan:
    """Plan moves that bring a host closer to the mean; `board` must have no moves yet."""
    host, rules, snapshot = board.hosts[name], board.rules, board.snapshot
    draft = MovePlanDraft(board, rules.tasks_per_round, rules.bytes_per_round)
    if name not in board.readable:
        return draft.finished_plan(f"{name} is {'dead' if host.is_up else 'down'}: nothing is moved")
    disk = board.disk_usage_of(host)
    for task in board.tasks_at_host_before_moves(name):
        if task.job not in board.jobs:  # a task of an unknown job is not moved, as in Hydra's document
            draft.reject_move(
                task,
                "",
                move_plan_draft_and_refusals.why_task_state_forbids_move(task) or "the snapshot lacks the task's job",
            )
    if _must_copies_leave_host(board, host):
        _draft_moves_to_emptier_disks(draft, host)
        return draft.finished_plan(_describe_host_balance(draft, host, disk, "is full of copies"))
    if board.is_disk_light(host):
        _draft_moves_from_fuller_disks(draft, host)
        if draft.moves:
            return draft.finished_plan(_describe_host_balance(draft, host, disk, "has room"))
    is_light, lately = board.is_disk_light(host), timedelta(seconds=rules.active_s)
    active = (job for job in snapshot.jobs if job.last_run and snapshot.now - job.last_run < lately)
    for job in sorted(active, key=lambda job: job.name):
        draft_host_fair_job_share(draft, host, job)
    light = "has a lightly used disk, and no copy can be moved there"
    return draft.finished_plan(
        _describe_host_balance(draft, host, disk, light if is_light else "has an average disk usage")
    )


def draft_host_fair_job_share(draft: MovePlanDraft, host: RebalanceHost, job: RebalanceJobOrDataset) -> None:
    """Plan moves until a host has its fair share of a job's copies, or one copy less.

    A host far busier than the mean keeps one copy less than its share; a far less busy host gets its whole share.
    """
    board, spread = draft.board, partial(JobCopyRedistribution, draft, job, host.kind, is_asked=False)
    share = board.fair_share_of_job(job, host)
    while not draft.has_reached_move_limit and board.copies_of_job_at(job.name, host.name) > share:
        if not spread().move_copy_off_host(host):
            return
    while not draft.has_reached_move_limit and board.copies_of_job_at(job.name, host.name) < share - 1:
        if not spread().move_copy_onto_host(host):
            return
    count = board.copies_of_job_at(job.name, host.name)
    if draft.has_reached_move_limit:
        return
    if board.is_slot_usage_high(host) and count == share:
        spread().move_copy_off_host(host, is_extra=True)
    elif board.is_slot_usage_low(host) and count == share - 1:
        spread().move_copy_onto_host(host, is_extra=True)


def _must_copies_leave_host(board: ProjectedHostsAndCopies, host: RebalanceHost) -> bool:
    """Say whether a host is drained, or its disk is full or far fuller than the mean."""
    if host.state == RebalanceHostState.DRAIN or board.is_disk_full(host):
        return True
    is_short = board.is_disk_heavy(host) or board.free_disk_bytes_at_host(host) < board.rules.min_free_bytes
    return host.max_bytes > 0 and is_short


def _hosts_by_offered_bytes(board: ProjectedHostsAndCopies, hosts: Iterable[RebalanceHost]) -> list[RebalanceHost]:
    return sorted(hosts, key=lambda host: (-board.bytes_offered_to_copies(host), host.name))


def _extreme_other_hosts(
    board: ProjectedHostsAndCopies, host: RebalanceHost, *, is_fullest: bool
) -> list[RebalanceHost]:
    """Return the fullest or emptiest other usable hosts; `other_extreme` is their share of all hosts."""
    others = _hosts_by_offered_bytes(
        board, (other for other in board.usable_hosts_of_kind(host.kind) if other.name != host.name)
    )
    return others[:: -1 if is_fullest else 1][: ceil(board.rules.other_extreme * (len(others) + 1))]


def _draft_moves_to_emptier_disks(draft: MovePlanDraft, host: RebalanceHost) -> None:
    board, first = draft.board, next(iter(draft.board.tasks_at_host_before_moves(host.name)), None)
    targets = []
    for target in _extreme_other_hosts(board, host, is_fullest=False):
        if not (reason := move_plan_draft_and_refusals.why_host_takes_no_copy(board, target)):
            targets.append(target)
        elif first:
            draft.reject_move(first, target.name, reason)
    for task in _tasks_movable_between_disks(draft, host.name):
        is_short = board.is_disk_full(host) or board.free_disk_bytes_at_host(host) < board.rules.min_free_bytes
        is_above = board.disk_usage_of(host) > board.mean_disk_usage(host.kind)
        if draft.has_reached_move_limit or not (host.state == RebalanceHostState.DRAIN or is_short or is_above):
            return
        any(
            _draft_move_to_emptier_disk(draft, task, host, target) for target in _hosts_by_offered_bytes(board, targets)
        )


def _draft_moves_from_fuller_disks(draft: MovePlanDraft, host: RebalanceHost) -> None:
    board = draft.board
    sources = _extreme_other_hosts(board, host, is_fullest=True)
    if reason := move_plan_draft_and_refusals.why_host_takes_no_copy(board, host):
        if first := next((task for source in sources for task in board.tasks_at_host_before_moves(source.name)), None):
            draft.reject_move(first, host.name, reason)
        return
    for source in sources:
        if draft.has_reached_move_limit or board.disk_usage_of(host) >= board.mean_disk_usage(host.kind):
            return
        any(
            _draft_move_to_emptier_disk(draft, task, source, host)
            for task in _tasks_movable_between_disks(draft, source.name)
        )


def _draft_move_to_emptier_disk(
    draft: MovePlanDraft, task: RebalanceTask, source: RebalanceHost, target: RebalanceHost
) -> bool:
    """Plan a move if the target's disk stays emptier than the source's, or if the source is drained."""
    board = draft.board
    reason = (
        draft.why_beyond_round_limits(task)
        or move_plan_draft_and_refusals.why_copy_is_forbidden(board, task, source.name, target)
        or move_plan_draft_and_refusals.why_host_takes_no_more_of_job(board, board.jobs[task.job], target)
    )
    is_worse = board.disk_usage_of(target, task.size_bytes) >= board.disk_usage_of(source)
    if not reason and is_worse and source.state != RebalanceHostState.DRAIN:
        reason = f"{target.name} would be as full as {source.name}"
    return draft.add_or_reject_move(reason, task, source.name, target.name)


def _tasks_movable_between_disks(draft: MovePlanDraft, host: str) -> Iterator[RebalanceTask]:
    board = draft.board
    smallest = board.rules.min_task_bytes
    for task in board.tasks_at_host_before_moves(host):
        if task.job not in board.jobs:
            continue
        reason = move_plan_draft_and_refusals.why_task_is_not_moved(board, task, is_asked=False)
        if not reason and task.size_bytes < smallest:
            reason = f"the copy is smaller than {move_plan_draft_and_refusals.format_gigabytes(smallest)}"
        if reason:
            draft.reject_move(task, "", reason)
        else:
            yield task


def _describe_host_balance(draft: MovePlanDraft, host: RebalanceHost, disk: float, standing: str) -> str:
    used = f" {standing} ({disk:.0%} of the disk used, {draft.board.mean_disk_usage(host.kind):.0%} in the mean)"
    return f"{host.name}{used if host.max_bytes > 0 else ''}: {describe_moves(draft.moves)}"


def host_loads_before_after(
    snapshot: RebalanceSnapshot, rules: RebalanceSection, advice: RebalanceMovePlan
) -> tuple[HostLoadBeforeAfter, ...]:
    """Return the load of each host before and after a plan's moves, sorted by the host's kind and name.

    A host of which neither disk nor load is known is left out: its load would be shown as 0.
    """
    board = ProjectedHostsAndCopies(snapshot, rules)
    known = (host for host in snapshot.hosts if host.max_bytes > 0 or host.mean_active > 0)
    hosts = sorted(known, key=lambda host: (host.kind, host.name))
    before = [(board.disk_usage_of(host), board.load_score_of(host)) for host in hosts]
    moved = {(move.job, move.number) for move in advice.moves}
    tasks = {task.job_and_task_number: task for task in snapshot.tasks if task.job_and_task_number in moved}
    for move in advice.moves:
        board.apply_move(move, tasks[move.job, move.number])
    return tuple(
        HostLoadBeforeAfter(
            host=host.name,
            disk=disk,
            score=score,
            disk_after=board.disk_usage_of(host),
            score_after=board.load_score_of(host),
        )
        for host, (disk, score) in zip(hosts, before, strict=True)
    )
