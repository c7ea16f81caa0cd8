"""Prepares waiting tasks of campaigns and transfers for rebalancing, and checks planned moves again.

In this module, a host is a cluster. Unsent tasks reserve slots at every cluster that is open to their campaign, because
unsent tasks start before moved tasks.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TypeVar

from gridbridge.decisions.rebalance.automatic_round_and_evacuation import EVACUATED_STATES
from gridbridge.decisions.rebalance.host_loads_after_planned_moves import ProjectedHostsAndCopies
from gridbridge.decisions.rebalance.move_plan_draft_and_refusals import why_host_takes_no_copy, why_task_is_not_moved
from gridbridge.model.campaigns.campaign import Campaign
from gridbridge.model.campaigns.jdl import CampaignType
from gridbridge.model.cluster_snapshot import ClusterSnapshot
from gridbridge.model.rebalance.rebalance_section import RebalanceSection
from gridbridge.model.rebalance.rebalance_snapshot_and_moves import (
    CampaignTaskAtCluster,
    RebalanceHost,
    RebalanceHostState,
    RebalanceJobOrDataset,
    RebalanceMove,
    RebalanceMoveKind,
    RebalanceSnapshot,
    RebalanceTask,
    RebalanceTaskState,
    RejectedMove,
    TasksObservedAtClusters,
    TransferredTask,
    ValidAndDroppedMoves,
)

Observed = TypeVar("Observed", CampaignTaskAtCluster, TransferredTask)


def tasks_as_rebalance_snapshot(observed: TasksObservedAtClusters) -> RebalanceSnapshot:
    waiting = Counter[str]()
    all_tasks: tuple[CampaignTaskAtCluster | TransferredTask, ...] = (*observed.tasks, *observed.away)
    for task in all_tasks:
        waiting[task.cluster] += task.slots if task.is_waiting else 0
    for transferred in observed.away:
        # a task that moves to another cluster reserves slots at the target cluster
        if transferred.target not in ("", transferred.cluster):
            waiting[transferred.target] += transferred.slots
    unsent = _slots_of_unsent_tasks(observed)
    campaign_numbers = {task.campaign for task in observed.tasks}
    moved = [
        campaign
        for campaign in observed.campaigns
        if campaign.number in campaign_numbers and campaign.jdl.type is CampaignType.DEFAULT
    ]
    moved_numbers = {campaign.number for campaign in moved}
    return RebalanceSnapshot(
        now=observed.now,
        hosts=tuple(
            _cluster_as_host(name, answer, waiting[name] + unsent[name], observed)
            for name, answer in sorted(observed.answers.items())
        ),
        jobs=(*(_campaign_as_job(campaign, observed) for campaign in moved), *_transfers_as_rebalance_jobs(observed)),
        tasks=(
            *(
                _waiting_task_as_rebalance_task(task)
                for task in unique_tasks_by_key(observed.tasks).values()
                if task.campaign in moved_numbers
            ),
            *map(_waiting_task_as_rebalance_task, unique_tasks_by_key(observed.away).values()),
        ),
        recent=observed.recent,
    )


def _slots_of_unsent_tasks(observed: TasksObservedAtClusters) -> Counter[str]:
    unsent = Counter[str]()
    moved = Counter((task.campaign, task.cluster) for task in observed.tasks if task.is_moving)
    of = Counter(task.campaign for task in observed.tasks if task.is_moving)
    for campaign in observed.campaigns:
        for name, request in campaign.jdl.clusters.items():
            if (campaign.number, name) not in observed.closed:
                coming = of[campaign.number] - moved[campaign.number, name]
                unsent[name] += (observed.unsent.get(campaign.number, 0) + coming) * request.slots
    return unsent


def _cluster_as_host(
    name: str, answer: ClusterSnapshot | None, slots_taken: int, observed: TasksObservedAtClusters
) -> RebalanceHost:
    state = RebalanceHostState.DRAIN if name in observed.drained else RebalanceHostState.ALIVE
    state = RebalanceHostState.DEAD if name in observed.dead else state
    if answer is None:
        return RebalanceHost(name=name, is_up=False, state=state, room=0)
    slots = max(1, answer.batch_slots)
    return RebalanceHost(
        name=name,
        state=state,
        slots=slots,
        mean_active=min(1.0, max(0.0, 1 - answer.free_slots / slots)),
        room=max(0, _free_slots_of_cluster(answer) - slots_taken),
    )


def _campaign_as_job(campaign: Campaign, observed: TasksObservedAtClusters) -> RebalanceJobOrDataset:
    requests = campaign.jdl.clusters.items()
    open_requests = {name: request for name, request in requests if (campaign.number, name) not in observed.closed}
    open_to = set()
    for name, request in open_requests.items():
        answer = observed.answers.get(name)
        if answer and _free_slots_of_cluster(answer, is_besteffort=request.is_besteffort) >= request.slots:
            open_to.add(name)
    return RebalanceJobOrDataset(
        name=str(campaign.number),
        last_run=observed.now,
        hosts=frozenset(open_to),
        full=frozenset(open_requests.keys() - open_to),
        is_autobalanced=campaign.jdl.may_move,
        owner=str(campaign.uid),
    )


def _transfers_as_rebalance_jobs(observed: TasksObservedAtClusters) -> Iterator[RebalanceJobOrDataset]:
    for name, task in sorted({job: task for (job, _), task in unique_tasks_by_key(observed.away).items()}.items()):
        answers = ((cluster, observed.answers.get(cluster)) for cluster in observed.reached)
        open_to = {cluster for cluster, answer in answers if answer and answer.free_slots >= task.slots}
        yield RebalanceJobOrDataset(
            name=name,
            last_run=observed.now,
            hosts=frozenset(open_to),
            full=observed.reached - open_to,
            is_autobalanced=name not in observed.staying,
            owner=str(task.uid),
        )


def _free_slots_of_cluster(answer: ClusterSnapshot, *, is_besteffort: bool = True) -> int:
    besteffort = answer.besteffort_slots if is_besteffort else None
    return answer.free_slots if besteffort is None else besteffort


def _waiting_task_as_rebalance_task(task: CampaignTaskAtCluster | TransferredTask) -> RebalanceTask:
    job, number = task.job_and_task_number
    state = RebalanceTaskState.WAITING if task.is_waiting else RebalanceTaskState.STAYING
    state = RebalanceTaskState.RUNNING if task.is_running else state
    state = RebalanceTaskState.MOVING if task.is_moving else state
    return RebalanceTask(job=job, number=number, state=state, live=task.cluster, slots=task.slots, stays=task.stays)


def unique_tasks_by_key(tasks: Iterable[Observed]) -> dict[tuple[str, int], Observed]:
    """Map (job name, task number) to tasks; tasks that several clusters list, or several users claim, are left out."""
    keyed = [(task.job_and_task_number, task) for task in tasks]
    times = Counter(key for key, _ in keyed)
    return {key: task for key, task in keyed if times[key] == 1}


def recheck_waiting_task_moves(
    moves: Iterable[RebalanceMove], now: RebalanceSnapshot, rules: RebalanceSection, *, is_asked: bool
) -> ValidAndDroppedMoves:
    """Check again which moves are valid; owners can't forbid requested moves (`is_asked`) or evacuations."""
    board = ProjectedHostsAndCopies(now, rules)
    tasks = {task.job_and_task_number: task for task in now.tasks}
    served = {host.name for host in now.hosts if host.state in EVACUATED_STATES}
    came, held, dropped = Counter[str](), list[RebalanceMove](), list[RejectedMove]()
    for move in moves:
        task, is_urgent = tasks.get((move.job, move.number)), is_asked or move.source in served
        if reason := _why_move_not_valid(move, task, board, came[move.target], is_urgent=is_urgent):
            dropped.append(_dropped_move(move, reason))
            continue
        assert task
        came[move.target] += task.slots
        held.append(move)
    return ValidAndDroppedMoves(moves=tuple(held), dropped=tuple(dropped))


def _why_move_not_valid(
    move: RebalanceMove, task: RebalanceTask | None, board: ProjectedHostsAndCopies, came: int, *, is_urgent: bool
) -> str:
    """Return why a move is no longer valid, or ''; earlier moves took `came` slots of the target."""
    job, target = board.jobs.get(move.job), board.hosts.get(move.target)
    if move.kind is not RebalanceMoveKind.LIVE:
        return "only waiting tasks are moved"
    if task is None or task.live != move.source or job is None:
        return f"the task is no longer at {move.source}"
    if why := why_task_is_not_moved(board, task, is_asked=is_urgent):
        return why
    if target is None or not target.is_live or move.target not in (job.hosts or ()):
        return f"{move.target} takes no tasks of this job now"
    if why := why_host_takes_no_copy(board, target):
        return why
    if target.room is not None and came + task.slots > target.room:
        return f"{move.target} has room for no more tasks"
    return ""


def drop_all_planned_moves(moves: Iterable[RebalanceMove], reason: str) -> ValidAndDroppedMoves:
    return ValidAndDroppedMoves(dropped=tuple(_dropped_move(move, reason) for move in moves))


def _dropped_move(move: RebalanceMove, reason: str) -> RejectedMove:
    return RejectedMove(job=move.job, number=move.number, target=move.target, reason=reason)
