"""Plans moves that bring a host's disk usage and load closer to the mean.

Source: Hydra's document "Spawn Balancing", section "Host Rebalancing": disks first, then active jobs. Where Hydra's
code differs from the document, gridbridge follows the document (docs/decisions).
"""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from math import ceil

from gridbridge.decisions.rebalance.job_copy_repair_and_spread import JobCopyRedistribution
from gridbridge.decisions.rebalance.move_plan_draft import (
    MovePlanDraft,
    describe_moves,
    format_gigabytes,
    live_or_replica_move_kind,
    why_copy_is_forbidden,
    why_host_takes_no_copy,
    why_host_takes_no_more_of_job,
    why_task_is_not_moved,
    why_task_state_forbids_move,
)
from gridbridge.decisions.rebalance.projected_placement import ProjectedPlacement
from gridbridge.model.rebalance.placement_snapshot_and_moves import (
    HostLoadBeforeAfter,
    PlacementHost,
    PlacementHostState,
    PlacementJobOrDataset,
    PlacementSnapshot,
    PlacementTask,
    RebalanceMovePlan,
)
from gridbridge.model.rebalance.rebalance_section import RebalanceSection


def plan_host_balance(snapshot: PlacementSnapshot, name: str, rules: RebalanceSection) -> RebalanceMovePlan:
    """Plan the moves that bring a host of the snapshot closer to the mean disk usage and load."""
    return plan_projected_host_balance(ProjectedPlacement(snapshot, rules), name)


def plan_projected_host_balance(board: ProjectedPlacement, name: str) -> RebalanceMovePlan:
    """Plan the moves that bring a host closer to the mean; `board` must not contain projected moves."""
    host, rules = board.hosts[name], board.rules
    draft = MovePlanDraft(board, rules.tasks_per_round, rules.bytes_per_round)
    if why := _why_none(host):
        return draft.advice(f"{name} {why}: nothing is moved")
    disk = board.disk(host)
    _leave_unlisted(draft, host)
    if _is_heavy(board, host):
        _push_off(draft, host)
        return draft.advice(_sentence(draft, host, disk, "is full of copies"))
    if board.is_disk_light(host):
        _pull_onto(draft, host)
        if draft.moves:
            return draft.advice(_sentence(draft, host, disk, "has room"))
    is_light = board.is_disk_light(host)
    for job in _active(board):
        draft_host_fair_job_share(draft, host, job)
    return draft.advice(_sentence(draft, host, disk, _by_disk(is_light=is_light)))


def _by_disk(*, is_light: bool) -> str:
    if is_light:
        return "has a lightly used disk, and no copy can be moved there"
    return "has an average disk usage"


def draft_host_fair_job_share(draft: MovePlanDraft, host: PlacementHost, job: PlacementJobOrDataset) -> None:
    """Plan moves until a host has its fair share of a job's tasks and replicas.

    A busy host gets one task or replica less than its share.
    """
    board = draft.board
    share = board.share(job, host)
    while not draft.is_over and board.count(job.name, host.name) > share:
        if not _spread(draft, job, host).push(host):
            return
    while not draft.is_over and board.count(job.name, host.name) < share - 1:
        if not _spread(draft, job, host).pull(host):
            return
    count = board.count(job.name, host.name)
    if draft.is_over:
        return
    if board.is_busy(host) and count == share:
        _spread(draft, job, host).push(host, is_extra=True)
    elif board.is_quiet(host) and count == share - 1:
        _spread(draft, job, host).pull(host, is_extra=True)


def _spread(draft: MovePlanDraft, job: PlacementJobOrDataset, host: PlacementHost) -> JobCopyRedistribution:
    return JobCopyRedistribution(draft, job, host.kind, is_asked=False)


def _why_none(host: PlacementHost) -> str:
    if not host.is_up:
        return "is down"
    if host.state == PlacementHostState.DEAD:
        return "is dead"
    return ""


def _is_heavy(board: ProjectedPlacement, host: PlacementHost) -> bool:
    """Say whether tasks or replicas have to leave a host: a drained host, or a host with a full or heavy disk."""
    if host.state == PlacementHostState.DRAIN or board.is_full(host):
        return True
    if host.max_bytes <= 0:
        return False
    return board.is_disk_heavy(host) or board.free(host) < board.rules.min_free_bytes


def _leave_unlisted(draft: MovePlanDraft, host: PlacementHost) -> None:
    """Reject the move of each task without a job in the snapshot, as Hydra's document does."""
    for task in draft.board.at(host.name):
        if task.job not in draft.board.jobs:
            draft.refuse(task, "", why_task_state_forbids_move(task) or "the snapshot lacks the task's job")


def _other_hosts(board: ProjectedPlacement, host: PlacementHost) -> list[PlacementHost]:
    other_hosts = (other_host for other_host in board.live(host.kind) if other_host.name != host.name)
    return _emptiest(board, other_hosts)


def _emptiest(board: ProjectedPlacement, hosts: Iterable[PlacementHost]) -> list[PlacementHost]:
    return sorted(hosts, key=lambda host: (-board.offered(host), host.name))


def _extreme(board: ProjectedPlacement, other_hosts: list[PlacementHost]) -> list[PlacementHost]:
    return other_hosts[: ceil(board.rules.other_extreme * (len(other_hosts) + 1))]


def _push_off(draft: MovePlanDraft, host: PlacementHost) -> None:
    board = draft.board
    targets = _usable(draft, host, _extreme(board, _other_hosts(board, host)))
    for task in _movable(draft, host.name):
        if draft.is_over or not _has_to_give(board, host):
            return
        _to_first(draft, task, host, _emptiest(board, targets))


def _has_to_give(board: ProjectedPlacement, host: PlacementHost) -> bool:
    is_short = board.is_full(host) or board.free(host) < board.rules.min_free_bytes
    is_above = board.disk(host) > board.mean_disk(host.kind)
    return host.state == PlacementHostState.DRAIN or is_short or is_above


def _usable(draft: MovePlanDraft, host: PlacementHost, targets: list[PlacementHost]) -> list[PlacementHost]:
    board, first = draft.board, next(iter(draft.board.at(host.name)), None)
    usable = []
    for target in targets:
        reason = why_host_takes_no_copy(board, target)
        if not reason:
            usable.append(target)
        elif first:
            draft.refuse(first, target.name, reason)
    return usable


def _pull_onto(draft: MovePlanDraft, host: PlacementHost) -> None:
    board = draft.board
    sources = _extreme(board, _other_hosts(board, host)[::-1])
    if reason := why_host_takes_no_copy(board, host):
        if first := next((task for source in sources for task in board.at(source.name)), None):
            draft.refuse(first, host.name, reason)
        return
    for source in sources:
        if draft.is_over or board.disk(host) >= board.mean_disk(host.kind):
            return
        any(_goes(draft, task, source, host) for task in _movable(draft, source.name))


def _to_first(
    draft: MovePlanDraft, task: PlacementTask, source: PlacementHost, targets: Iterable[PlacementHost]
) -> None:
    any(_goes(draft, task, source, target) for target in targets)


def _goes(draft: MovePlanDraft, task: PlacementTask, source: PlacementHost, target: PlacementHost) -> bool:
    reason = _disk_reason(draft, task, source, target)
    if reason:
        draft.refuse(task, target.name, reason)
        return False
    draft.add(live_or_replica_move_kind(draft.board.task(task), source.name), task, source.name, target.name)
    return True


def _disk_reason(draft: MovePlanDraft, task: PlacementTask, source: PlacementHost, target: PlacementHost) -> str:
    """Return why a task or replica may not move to another host's disk; empty if the move is possible.

    After the move the target must be emptier than the source, unless the source is drained.
    """
    board = draft.board
    reason = (
        draft.limit_reason(task)
        or why_copy_is_forbidden(board, task, source.name, target)
        or why_host_takes_no_more_of_job(board, board.jobs[task.job], target)
    )
    is_worse = board.disk(target, task.size_bytes) >= board.disk(source)
    if not reason and is_worse and source.state != PlacementHostState.DRAIN:
        return f"{target.name} would be as full as {source.name}"
    return reason


def _movable(draft: MovePlanDraft, host: str) -> Iterator[PlacementTask]:
    board = draft.board
    smallest = board.rules.min_task_bytes
    for task in board.at(host):
        if task.job not in board.jobs:
            continue
        reason = why_task_is_not_moved(board, task, is_asked=False)
        if not reason and task.size_bytes < smallest:
            reason = f"the copy has less than {format_gigabytes(smallest)}"
        if reason:
            draft.refuse(task, "", reason)
        else:
            yield task


def _active(board: ProjectedPlacement) -> list[PlacementJobOrDataset]:
    now, lately = board.snapshot.now, timedelta(seconds=board.rules.active_s)
    return sorted(
        (job for job in board.snapshot.jobs if job.last_run and now - job.last_run < lately), key=lambda job: job.name
    )


def _sentence(draft: MovePlanDraft, host: PlacementHost, disk: float, standing: str) -> str:
    mean = draft.board.mean_disk(host.kind)
    if host.max_bytes <= 0:
        return f"{host.name}: {describe_moves(draft.moves, 'nothing is moved')}"
    used = f"{disk:.0%} of the disk used, {mean:.0%} in the mean"
    return f"{host.name} {standing} ({used}): {describe_moves(draft.moves, 'nothing is moved')}"


def host_loads_before_after(
    snapshot: PlacementSnapshot, rules: RebalanceSection, advice: RebalanceMovePlan
) -> tuple[HostLoadBeforeAfter, ...]:
    """Return each host's load before and after a plan's moves, sorted by the host's kind and name."""
    board = ProjectedPlacement(snapshot, rules)
    hosts = sorted(snapshot.hosts, key=lambda host: (host.kind, host.name))
    before = [(board.disk(host), board.score(host)) for host in hosts]
    moved = {(move.job, move.number) for move in advice.moves}
    tasks = {task.key: task for task in snapshot.tasks if task.key in moved}
    for move in advice.moves:
        board.take(move, tasks[move.job, move.number])
    return tuple(
        HostLoadBeforeAfter(
            host=host.name, disk=disk, score=score, disk_after=board.disk(host), score_after=board.score(host)
        )
        for host, (disk, score) in zip(hosts, before, strict=True)
    )
