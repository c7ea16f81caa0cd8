"""Which moves still hold when they are to be done: each is looked at again."""

from collections import Counter
from collections.abc import Iterable

from gridbridge.decisions.rebalance.refusing import waiting_reason
from gridbridge.model.rebalance.moves import Checked, Move, MoveKind, Rejected
from gridbridge.model.rebalance.snapshot import Snapshot, TaskState


def still(moves: Iterable[Move], now: Snapshot) -> Checked:
    """Return the moves of waiting tasks that hold, and why each other one does not any more."""
    hosts = {one.name: one for one in now.hosts}
    jobs = {one.name: one for one in now.jobs}
    tasks = {one.key: one for one in now.tasks}
    came, held, dropped = Counter[str](), list[Move](), list[Rejected]()
    for move in moves:
        task, target, job = tasks.get((move.job, move.number)), hosts.get(move.target), None
        job = jobs.get(move.job)
        if move.kind is not MoveKind.LIVE:
            reason = "only waiting tasks are moved"
        elif task is None or task.live != move.source or job is None:
            reason = f"it is at {move.source} no more"
        elif task.state is not TaskState.WAITING:
            reason = waiting_reason(task)
        elif target is None or not target.is_live or move.target not in (job.hosts or ()):
            reason = f"{move.target} takes none of its tasks now"
        elif target.room is not None and came[move.target] + task.slots > target.room:
            reason = f"{move.target} has room for no more tasks"
        else:
            came[move.target] += task.slots
            held.append(move)
            continue
        dropped.append(
            Rejected(job=move.job, number=move.number, target=move.target, reason=reason)
        )
    return Checked(moves=tuple(held), dropped=tuple(dropped))
