"""Which moves still hold when they are to be done: each is looked at again."""

from collections import Counter
from collections.abc import Iterable

from gridbridge.decisions.rebalance.auto import SERVED
from gridbridge.decisions.rebalance.board import Board
from gridbridge.decisions.rebalance.refusing import host_reason, task_reason
from gridbridge.model.rebalance.moves import Checked, Move, MoveKind, Rejected
from gridbridge.model.rebalance.sections import Rebalance
from gridbridge.model.rebalance.snapshot import Snapshot


def still(moves: Iterable[Move], now: Snapshot, rules: Rebalance, *, is_asked: bool) -> Checked:
    """Return the moves of waiting tasks that hold, and why each other one does not any more.

    `is_asked`: somebody wants just that, so that the wishes of owners don't count; nor do they for
    what leaves a host that failed.
    """
    board = Board(now, rules)
    tasks = {one.key: one for one in now.tasks}
    served = {one.name for one in now.hosts if one.state in SERVED}
    came, held, dropped = Counter[str](), list[Move](), list[Rejected]()
    for move in moves:
        task, target = tasks.get((move.job, move.number)), board.hosts.get(move.target)
        job, is_urgent = board.jobs.get(move.job), is_asked or move.source in served
        if move.kind is not MoveKind.LIVE:
            reason = "only waiting tasks are moved"
        elif task is None or task.live != move.source or job is None:
            reason = f"it is at {move.source} no more"
        elif why := task_reason(board, task, is_asked=is_urgent):
            reason = why
        elif target is None or not target.is_live or move.target not in (job.hosts or ()):
            reason = f"{move.target} takes none of its tasks now"
        elif why := host_reason(board, target):
            reason = why
        elif target.room is not None and came[move.target] + task.slots > target.room:
            reason = f"{move.target} has room for no more tasks"
        else:
            came[move.target] += task.slots
            held.append(move)
            continue
        dropped.append(_dropped(move, reason))
    return Checked(moves=tuple(held), dropped=tuple(dropped))


def none_of(moves: Iterable[Move], reason: str) -> Checked:
    """Return that no move is done any more, and why."""
    return Checked(dropped=tuple(_dropped(move, reason) for move in moves))


def _dropped(move: Move, reason: str) -> Rejected:
    return Rejected(job=move.job, number=move.number, target=move.target, reason=reason)
