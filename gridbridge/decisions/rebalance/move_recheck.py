"""Which moves still hold when they are to be done: each is looked at again."""

from collections import Counter
from collections.abc import Iterable

from gridbridge.decisions.rebalance.automatic_round import SERVED
from gridbridge.decisions.rebalance.placement_constraints import host_reason, task_reason
from gridbridge.decisions.rebalance.projected_load import ProjectedLoad
from gridbridge.model.rebalance.moves import MoveKind, PlacementMove, RecheckedMoves, RejectedMove
from gridbridge.model.rebalance.placement_snapshot import PlacementSnapshot, PlacementTask
from gridbridge.model.rebalance.rebalance_section import Rebalance


def still(
    moves: Iterable[PlacementMove], now: PlacementSnapshot, rules: Rebalance, *, is_asked: bool
) -> RecheckedMoves:
    """Return the moves of waiting tasks that hold, and why each other one does not any more.

    `is_asked`: somebody wants just that, so that the wishes of owners don't count; nor do they for
    what leaves a host that failed.
    """
    board = ProjectedLoad(now, rules)
    tasks = {task.key: task for task in now.tasks}
    served = {host.name for host in now.hosts if host.state in SERVED}
    came, held, dropped = Counter[str](), list[PlacementMove](), list[RejectedMove]()
    for move in moves:
        task, is_urgent = tasks.get((move.job, move.number)), is_asked or move.source in served
        if reason := _why_not(move, task, board, came[move.target], is_urgent=is_urgent):
            dropped.append(_dropped(move, reason))
            continue
        assert task  # else there is a reason
        came[move.target] += task.slots
        held.append(move)
    return RecheckedMoves(moves=tuple(held), dropped=tuple(dropped))


def _why_not(
    move: PlacementMove,
    task: PlacementTask | None,
    board: ProjectedLoad,
    came: int,
    *,
    is_urgent: bool,
) -> str:
    """Say why a move does not hold any more; empty if it does. `came`: slots taken there by now."""
    job, target = board.jobs.get(move.job), board.hosts.get(move.target)
    if move.kind is not MoveKind.LIVE:
        return "only waiting tasks are moved"
    if task is None or task.live != move.source or job is None:
        return f"it is at {move.source} no more"
    if why := task_reason(board, task, is_asked=is_urgent):
        return why
    if target is None or not target.is_live or move.target not in (job.hosts or ()):
        return f"{move.target} takes none of its tasks now"
    if why := host_reason(board, target):
        return why
    if target.room is not None and came + task.slots > target.room:
        return f"{move.target} has room for no more tasks"
    return ""


def none_of(moves: Iterable[PlacementMove], reason: str) -> RecheckedMoves:
    """Return that no move is done any more, and why."""
    return RecheckedMoves(dropped=tuple(_dropped(move, reason) for move in moves))


def _dropped(move: PlacementMove, reason: str) -> RejectedMove:
    return RejectedMove(job=move.job, number=move.number, target=move.target, reason=reason)
