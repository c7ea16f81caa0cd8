"""Plans an automatic rebalancing round: evacuate a failed host, or balance one host or one job.

As in Hydra's HostFailWorker, an evacuation ignores owners' wishes.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from gridbridge.decisions.rebalance import move_plan_draft_and_refusals
from gridbridge.decisions.rebalance.host_loads_after_planned_moves import ProjectedHostsAndCopies
from gridbridge.decisions.rebalance.host_rebalancing import plan_projected_host_balance
from gridbridge.decisions.rebalance.job_copy_repair_and_spread import (
    draft_job_repair_or_spread,
    is_job_unevenly_spread_over_hosts,
)
from gridbridge.decisions.rebalance.move_plan_draft_and_refusals import MovePlanDraft, describe_moves
from gridbridge.model.published_status_and_reports import number_with_noun
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
    RejectedMove,
    TaskNotMovedReason,
    happened_within,
)

# states of failed hosts, in order of evacuation
EVACUATED_STATES = (RebalanceHostState.DEAD, RebalanceHostState.DISK_FULL, RebalanceHostState.DRAIN)
LEVEL_0 = "level of [rebalance] is 0: rounds move nothing"


def plan_automatic_round(snapshot: RebalanceSnapshot, rules: RebalanceSection) -> RebalanceMovePlan:
    """Plan one automatic round: evacuate a failed host, or else balance one host or one job.

    While tasks are moving, the round balances no host or job.
    """
    board, tried = ProjectedHostsAndCopies(snapshot, rules), list[RebalanceMovePlan]()
    for host in failed_hosts_with_copies(board):
        if host.state is RebalanceHostState.DISK_FULL and not board.is_disk_full(host):
            continue  # the host's state is out of date: its disk is no longer full
        draft = MovePlanDraft(board, 0, None)
        tried.append(draft.finished_plan(draft_host_evacuation(draft, host)))
        if tried[-1].moves:
            return add_rejections_to_last_plan(tried)
        board.undo_projected_moves()
    words = [advice.sentence for advice in tried]
    words.append(why_host_balancing_waits(snapshot) if rules.level else LEVEL_0)
    if not words[-1]:
        for plan_balance in (plan_lightest_or_heaviest_host_balance, _plan_first_uneven_job):
            tried.append(plan_balance(board))
            if tried[-1].moves:
                return add_rejections_to_last_plan(tried)
        live = sum(host.is_live for host in board.snapshot.hosts)
        counted = f"{number_with_noun(live, 'host')} and {number_with_noun(len(board.jobs), 'job')}"
        words.append(f"{counted}: nothing to move")
    return replace(add_rejections_to_last_plan(tried), sentence="; ".join(filter(None, words)))


def _plan_first_uneven_job(board: ProjectedHostsAndCopies) -> RebalanceMovePlan:
    draft, words = MovePlanDraft(board, board.rules.tasks_per_round, board.rules.bytes_per_round), ""
    for job in _autobalanced_jobs(board, board.rules):
        words = draft_job_repair_or_spread(draft, job, is_asked=False)
        if draft.moves:
            break
    return draft.finished_plan(words)


def plan_lightest_or_heaviest_host_balance(board: ProjectedHostsAndCopies) -> RebalanceMovePlan:
    """Plan moves for the lightest host; if there is no such move, plan moves for the heaviest host."""
    live = (host for host in board.snapshot.hosts if host.is_live)
    hosts = sorted(live, key=lambda host: (board.load_score_of(host), host.name))
    tried = list[RebalanceMovePlan]()
    for host in dict.fromkeys((*hosts[:1], *hosts[-1:])):
        board.undo_projected_moves()
        tried.append(plan_projected_host_balance(board, host.name))
        if tried[-1].moves:
            break
    return add_rejections_to_last_plan(tried)


def add_rejections_to_last_plan(plans: Sequence[RebalanceMovePlan]) -> RebalanceMovePlan:
    moved = {(move.job, move.number, move.target) for advice in plans for move in advice.moves}
    rejected = dict[tuple[str, int, str], RejectedMove]()
    for refusal in (refusal for advice in plans for refusal in advice.rejected):
        rejected.setdefault((refusal.job, refusal.number, refusal.target), refusal)
    remaining = tuple(refusal for key, refusal in rejected.items() if key not in moved)
    return replace(plans[-1] if plans else RebalanceMovePlan(sentence=""), rejected=remaining)


def why_host_balancing_waits(snapshot: RebalanceSnapshot) -> str:
    """Return why hosts can't be balanced now: unfinished moves or evacuation; empty if balancing is possible."""
    moves = RebalanceTaskState.MOVING  # a local name is read faster, and there may be a million tasks
    if moving := sum(task.state is moves for task in snapshot.tasks):
        return f"{number_with_noun(moving, 'task is', 'tasks are')} being moved: no other move begins"
    awaited = _failed_hosts_with_waiting_tasks(snapshot)
    first = min((host for host in snapshot.hosts if host.name in awaited), key=_evacuation_order_key, default=None)
    if not first:
        return ""
    state = "dead" if first.state is RebalanceHostState.DEAD else "drained"
    return f"{first.name} is {state}: run `gridbridge rebalance fail {first.name}` first"


def _failed_hosts_with_waiting_tasks(snapshot: RebalanceSnapshot) -> set[str]:
    """Return the dead and drained hosts with waiting tasks; lost tasks don't count."""
    blocking = (RebalanceHostState.DEAD, RebalanceHostState.DRAIN)  # a full disk does not delay balancing
    hosts = {host.name: host for host in snapshot.hosts if host.state in blocking}
    if not hosts:
        return set()
    lost = {name for name, host in hosts.items() if host.state is RebalanceHostState.DEAD or not host.is_up}
    waits = RebalanceTaskState.WAITING
    return {
        name
        for task in snapshot.tasks
        if task.state is waits
        for name in task.hosts_with_copy
        if name in hosts and not (name in lost and task.size_bytes > 0 and len(set(task.hosts_with_copy)) == 1)
    }


def failed_hosts_with_copies(board: ProjectedHostsAndCopies) -> list[RebalanceHost]:
    """Return the dead, full and drained hosts that have tasks or replicas, in order of evacuation."""
    served = (host for host in board.snapshot.hosts if host.state in EVACUATED_STATES)
    return sorted((host for host in served if board.tasks_at_host_before_moves(host.name)), key=_evacuation_order_key)


def _evacuation_order_key(host: RebalanceHost) -> tuple[int, str]:
    return EVACUATED_STATES.index(host.state), host.name


def _autobalanced_jobs(board: ProjectedHostsAndCopies, rules: RebalanceSection) -> list[RebalanceJobOrDataset]:
    """Return the jobs that an automatic round may rebalance; jobs with large tasks come first."""
    now, pause = board.snapshot.now, timedelta(seconds=rules.job_rest_s)
    resting = {name for name, at in board.snapshot.recent.jobs.items() if happened_within(at, now, pause)}
    jobs = (
        job
        for job in board.snapshot.jobs
        if job.is_autobalanced
        and job.name not in resting
        and (rules.level > 1 or (job.last_run and is_job_unevenly_spread_over_hosts(board, job)))
    )

    def mean_task_bytes(job: RebalanceJobOrDataset) -> float:
        tasks = board.of_job[job.name]
        return sum(task.size_bytes for task in tasks) / len(tasks) if tasks else 0.0

    return sorted(jobs, key=lambda job: (-mean_task_bytes(job), job.name))


def plan_host_evacuation(snapshot: RebalanceSnapshot, name: str, rules: RebalanceSection) -> RebalanceMovePlan:
    """Plan the evacuation of a host; copies elsewhere replace the copies on a dead or down host."""
    board = ProjectedHostsAndCopies(snapshot, rules)
    draft = MovePlanDraft(board, 0, None)
    return draft.finished_plan(draft_host_evacuation(draft, board.hosts[name]))


def draft_host_evacuation(draft: MovePlanDraft, host: RebalanceHost) -> str:
    """Plan a host's evacuation; return its description. Unfinished moves count towards the limit of moves."""
    board, rules, under_way = draft.board, draft.board.rules, draft.board.moving
    is_full = host.state == RebalanceHostState.DISK_FULL and host.is_up
    draft.most = (rules.moves_from_full if is_full else rules.moves_from_failed) - under_way
    is_lost = host.name not in board.readable
    if why := "" if is_full else _why_host_not_evacuated(board, host, is_lost=is_lost):
        return f"{host.name}: {why}"
    tasks = [task for task in board.tasks_at_host_before_moves(host.name) if task.job in board.jobs]
    before, lost = len(draft.moves), 0
    if is_lost:
        lost = _draft_replacements_of_lost_copies(draft, host, tasks)
    else:
        _draft_moves_off_host(draft, host, tasks, is_full=is_full)
    moves = draft.moves[before:]
    staying = len(tasks) - len({(move.job, move.number) for move in moves}) - lost
    words = [
        describe_moves(moves),
        "" if moves and not board.usable_hosts_of_kind(host.kind) else _describe_disk_use_without_host(board, host),
        f"{number_with_noun(under_way, 'copy is', 'copies are')} under way already" if under_way else "",
        f"{number_with_noun(lost, 'task')} can't be saved" if lost else "",
        describe_lost_datasets(board, host),
        f"{number_with_noun(staying, 'task stays', 'tasks stay')} at {host.name}" if staying > 0 else "",
    ]
    left = "drained" if host.state == RebalanceHostState.DRAIN else "given up"
    standing = "full" if is_full else "lost" if is_lost else left
    return f"{host.name} is {standing}: {'; '.join(filter(None, words))}"


def describe_lost_datasets(board: ProjectedHostsAndCopies, host: RebalanceHost) -> str:
    """Describe how many datasets have no whole replica outside a lost host; empty if there are none."""
    if not (many := board.lost.get(host.name)):
        return ""
    return f"{number_with_noun(many, 'dataset has', 'datasets have')} no other whole replica; originals may exist"


def _why_host_not_evacuated(board: ProjectedHostsAndCopies, host: RebalanceHost, *, is_lost: bool) -> str:
    """Return why a host is not evacuated, or an empty text; bytes on a shared disk are not compared."""
    other_hosts, used, most = _other_hosts_and_disk_bytes(board, host)
    are_sizes_known = host.max_bytes and all(other_host.max_bytes for other_host in other_hosts)
    if not host.is_shared and are_sizes_known and used >= most:
        used_text = move_plan_draft_and_refusals.format_gigabytes(host.used_bytes)
        return f"the other hosts have no room for {used_text}: nothing is moved"
    for name in (
        name
        for task in board.tasks_at_host_before_moves(host.name)
        for name in task.hosts_with_copy
        if is_lost and name != host.name
    ):
        other_host = board.hosts.get(name)
        if other_host and not other_host.is_up and other_host.state != RebalanceHostState.DEAD:
            return f"{name} is down and has copies of the same tasks: start {name} first, or mark it as dead"
    return ""


def _other_hosts_and_disk_bytes(
    board: ProjectedHostsAndCopies, host: RebalanceHost
) -> tuple[list[RebalanceHost], int, int]:
    """Return the other usable hosts, the used bytes of all hosts, and the other hosts' capacity in bytes."""
    other_hosts = [other_host for other_host in board.usable_hosts_of_kind(host.kind) if other_host.name != host.name]
    used = host.used_bytes + sum(other_host.used_bytes for other_host in other_hosts)
    return other_hosts, used, sum(other_host.max_bytes for other_host in other_hosts)


def _describe_disk_use_without_host(board: ProjectedHostsAndCopies, host: RebalanceHost) -> str:
    other_hosts, used, most = _other_hosts_and_disk_bytes(board, host)
    if not other_hosts:
        return "no other host takes copies now"
    if not most or not host.max_bytes:
        return "the sizes of the disks are unknown"
    return f"disks {used / (most + host.max_bytes):.0%} full with {host.name}, {used / most:.0%} full without this host"


def _draft_replacements_of_lost_copies(draft: MovePlanDraft, host: RebalanceHost, tasks: list[RebalanceTask]) -> int:
    """Plan replacements of the copies on a lost host; return how many tasks can't be replaced."""
    lost = 0
    for task in sorted(tasks, key=lambda task: (task.size_bytes, task.job_and_task_number)):
        job = draft.board.jobs[task.job]
        other_copies = [name for name in task.hosts_with_copy if name in draft.board.readable]  # never contains `host`
        is_silent = task.state is RebalanceTaskState.STAYING and task.stays is TaskNotMovedReason.SILENT
        if is_silent or task.state in (RebalanceTaskState.MOVING, RebalanceTaskState.BUSY):
            draft.reject_move(task, "", move_plan_draft_and_refusals.why_task_state_forbids_move(task))
        elif other_copies:
            if not draft.has_reached_move_limit:
                _draft_replacement_from_copy(draft, job, task, host, other_copies[0])
        elif task.size_bytes == 0 and task.state == RebalanceTaskState.WAITING:
            _draft_move_off_host(draft, job, task, host)
        else:
            lost += 1
            draft.reject_move(task, "", "the task has no replica: its data are lost")
    return lost


def _draft_replacement_from_copy(
    draft: MovePlanDraft, job: RebalanceJobOrDataset, task: RebalanceTask, host: RebalanceHost, source: str
) -> None:
    """Replace a task's lost copy at `host` by the copy at `source`; plan a new replica if too few remain.

    If `host` had the main copy, the copy at `source` becomes the main copy.
    """
    if task.live == host.name:
        draft.add_move(RebalanceMoveKind.LIVE, task, host.name, source)
    if host.name in draft.board.task_after_planned_moves(task).replicas:
        draft.board.forget_replica_on_lost_host(task, host.name)
    if not draft.has_reached_move_limit and len(draft.board.task_after_planned_moves(task).replicas) < job.replicas:
        move_plan_draft_and_refusals.draft_new_task_copy(draft, job, task, source)


def _draft_moves_off_host(
    draft: MovePlanDraft, host: RebalanceHost, tasks: list[RebalanceTask], *, is_full: bool
) -> None:
    def draft_or_reject_move(task: RebalanceTask) -> None:
        job = draft.board.jobs[task.job]
        if is_full and not draft.board.is_disk_full(host):
            return
        reason = move_plan_draft_and_refusals.why_task_is_not_moved(
            draft.board, task, is_asked=True
        ) or draft.why_already_moved_this_round(task)
        if reason or (job.spare and is_full):
            draft.reject_move(task, "", reason or "the task has spare copies, which stay at this host")
        elif job.spare:
            draft.add_move(RebalanceMoveKind.DELETE, task, host.name)
        else:
            _draft_move_off_host(draft, job, task, host)

    move_plan_draft_and_refusals.draft_moves_owner_round_robin(draft, tasks, draft_or_reject_move)


def _draft_move_off_host(
    draft: MovePlanDraft, job: RebalanceJobOrDataset, task: RebalanceTask, host: RebalanceHost
) -> None:
    for target in (
        move_plan_draft_and_refusals.rank_copy_target_hosts(draft, job, task)
        if not draft.has_reached_move_limit
        else ()
    ):
        reason = move_plan_draft_and_refusals.why_copy_is_forbidden(draft.board, task, host.name, target)
        if target.name != host.name and draft.add_or_reject_move(reason, task, host.name, target.name):
            return
