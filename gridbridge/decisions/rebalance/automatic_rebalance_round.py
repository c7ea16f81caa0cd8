"""Automatic rebalancing round: failed hosts first, then one host or one job."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

from gridbridge.decisions.rebalance.host_evacuation import draft_host_evacuation
from gridbridge.decisions.rebalance.host_rebalancing import plan_projected_host_balance
from gridbridge.decisions.rebalance.job_rebalancing import draft_job_repair_or_spread, is_job_unevenly_spread
from gridbridge.decisions.rebalance.move_plan_draft import MovePlanDraft
from gridbridge.decisions.rebalance.projected_placement import ProjectedPlacement
from gridbridge.model.rebalance.placement_snapshot import (
    PlacementHost,
    PlacementHostState,
    PlacementJobOrDataset,
    PlacementSnapshot,
    PlacementTask,
    PlacementTaskState,
    happened_within,
)
from gridbridge.model.rebalance.planned_moves import RebalanceMovePlan, RejectedMove
from gridbridge.model.rebalance.rebalance_section import RebalanceSection
from gridbridge.model.status_report import number_with_noun

EVACUATED_STATES = (
    PlacementHostState.DEAD,
    PlacementHostState.DISK_FULL,
    PlacementHostState.DRAIN,
)  # states of failed hosts, in order of evacuation
BLOCKING_STATES = (
    PlacementHostState.DEAD,
    PlacementHostState.DRAIN,
)  # states of hosts whose evacuation has to end before hosts are evened out


def plan_automatic_round(snapshot: PlacementSnapshot, rules: RebalanceSection) -> RebalanceMovePlan:
    """Plan the moves of one automatic rebalancing round.

    The first failed host with movable copies is evacuated. No balancing begins while tasks are
    moving. Otherwise the lightest host, then the heaviest host, then the job with the largest
    tasks is tried. Each attempt without a move gives its reason.
    """
    board, tried = ProjectedPlacement(snapshot, rules), list[RebalanceMovePlan]()
    for host in failed_hosts_with_copies(board):
        if host.state is PlacementHostState.DISK_FULL and not board.is_full(host):
            continue  # the disk is no longer full
        tried.append(_evacuated(board, host))
        if tried[-1].moves:
            return last_plan_with_all_rejections(tried)
        board.renew()
    words = [advice.sentence for advice in tried]
    words.append(_why_none(snapshot, rules))
    if not words[-1]:
        even = plan_lightest_or_heaviest_host(board)
        if even.moves:
            return last_plan_with_all_rejections([*tried, even])
        tried += [even, _even_jobs(board)]
        if tried[-1].moves:
            return last_plan_with_all_rejections(tried)
        counted = f"{number_with_noun(len(_live(board)), 'host')} and {number_with_noun(len(board.jobs), 'job')}"
        words.append(f"{counted}: nothing is to be moved")
    return replace(last_plan_with_all_rejections(tried), sentence="; ".join(filter(None, words)))


def _evacuated(board: ProjectedPlacement, host: PlacementHost) -> RebalanceMovePlan:
    draft = MovePlanDraft(board, 0, None)
    return draft.advice(draft_host_evacuation(draft, host))


def _even_jobs(board: ProjectedPlacement) -> RebalanceMovePlan:
    """Plan the repair or even spread of the first job with a possible move."""
    draft, words = (MovePlanDraft(board, board.rules.tasks_per_round, board.rules.bytes_per_round), "")
    for job in _jobs(board, board.rules):
        words = draft_job_repair_or_spread(draft, job, is_asked=False)
        if draft.moves:
            break
    return draft.advice(words)


def plan_lightest_or_heaviest_host(board: ProjectedPlacement) -> RebalanceMovePlan:
    """Plan moves for the lightest host, or else for the heaviest host."""
    hosts = sorted(_live(board), key=lambda host: (board.score(host), host.name))
    tried = list[RebalanceMovePlan]()
    for host in dict.fromkeys((*hosts[:1], *hosts[-1:])):
        board.renew()
        tried.append(plan_projected_host_balance(board, host.name))
        if tried[-1].moves:
            break
    return last_plan_with_all_rejections(tried)


def last_plan_with_all_rejections(tried: Iterable[RebalanceMovePlan]) -> RebalanceMovePlan:
    """Return the last plan with the rejected moves of all plans."""
    plans = tuple(tried)
    moved = {(move.job, move.number, move.target) for advice in plans for move in advice.moves}
    rejected = dict[tuple[str, int, str], RejectedMove]()
    for rejected_move in (rejected_move for advice in plans for rejected_move in advice.rejected):
        rejected.setdefault((rejected_move.job, rejected_move.number, rejected_move.target), rejected_move)
    remaining = tuple(rejected_move for key, rejected_move in rejected.items() if key not in moved)
    return RebalanceMovePlan(
        moves=plans[-1].moves if plans else (), rejected=remaining, sentence=plans[-1].sentence if plans else ""
    )


def why_host_balancing_waits(snapshot: PlacementSnapshot) -> str:
    """Say why balancing waits: tasks are moving, or an evacuation is unfinished.

    A host with a full disk does not block balancing, because the disk may stay full for long.
    """
    moves = PlacementTaskState.MOVING  # a local name, for speed: tasks may be a million
    if moving := sum(task.state is moves for task in snapshot.tasks):
        return f"{number_with_noun(moving, 'task is', 'tasks are')} moved already: nothing else is begun"
    awaited = _awaited(snapshot)
    if not awaited:
        return ""
    first = min((host for host in snapshot.hosts if host.name in awaited), key=_turn)
    state = "dead" if first.state is PlacementHostState.DEAD else "drained"
    return f"{first.name} is {state}: `gridbridge rebalance fail {first.name}` comes first"


def _awaited(snapshot: PlacementSnapshot) -> set[str]:
    """Return dead or drained hosts with waiting tasks that can leave."""
    hosts = {host.name: host for host in snapshot.hosts if host.state in BLOCKING_STATES}
    lost = {host.name for host in hosts.values() if host.state is PlacementHostState.DEAD or not host.is_up}
    if not hosts:
        return set()
    waits = PlacementTaskState.WAITING
    return {
        name
        for task in snapshot.tasks
        if task.state is waits
        for name in task.hosts
        if name in hosts and not (name in lost and _lost(task))
    }


def _lost(task: PlacementTask) -> bool:
    return task.size_bytes > 0 and len(set(task.hosts)) == 1


def _why_none(snapshot: PlacementSnapshot, rules: RebalanceSection) -> str:
    if not rules.level:
        return "level is 0: nothing is moved without being asked"
    return why_host_balancing_waits(snapshot)


def failed_hosts_with_copies(board: ProjectedPlacement) -> list[PlacementHost]:
    """Return dead, full and drained hosts with copies, in order of evacuation."""
    served = (host for host in board.snapshot.hosts if host.state in EVACUATED_STATES)
    return sorted((host for host in served if board.has_held(host.name)), key=_turn)


def _turn(host: PlacementHost) -> tuple[int, str]:
    return EVACUATED_STATES.index(host.state), host.name


def _live(board: ProjectedPlacement) -> list[PlacementHost]:
    return [host for host in board.snapshot.hosts if host.is_live]


def _jobs(board: ProjectedPlacement, rules: RebalanceSection) -> list[PlacementJobOrDataset]:
    """Return the jobs that an automatic round may rebalance, largest tasks first."""
    now, pause = board.snapshot.now, timedelta(seconds=rules.job_rest_s)
    recent_jobs = board.snapshot.recent.jobs
    jobs = (
        job
        for job in board.snapshot.jobs
        if job.is_autobalanced
        and not (job.name in recent_jobs and happened_within(recent_jobs[job.name], now, pause))
        and (rules.level > 1 or (job.last_run and is_job_unevenly_spread(board, job)))
    )
    return sorted(jobs, key=lambda job: (-_mean_bytes(board, job), job.name))


def _mean_bytes(board: ProjectedPlacement, job: PlacementJobOrDataset) -> float:
    tasks = board.of_job[job.name]
    return sum(task.size_bytes for task in tasks) / len(tasks) if tasks else 0.0
