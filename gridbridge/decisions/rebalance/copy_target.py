"""Where a new copy goes: the lightest host in the farthest zone that takes it."""

from gridbridge.decisions.rebalance.move_budget import AdviceDraft
from gridbridge.decisions.rebalance.placement_constraints import copy_reason
from gridbridge.model.rebalance.moves import MoveKind
from gridbridge.model.rebalance.placement_snapshot import (
    HostState,
    PlacementHost,
    PlacementJob,
    PlacementTask,
)


def add_copy(
    draft: AdviceDraft,
    job: PlacementJob,
    task: PlacementTask,
    source: str,
    kind: MoveKind = MoveKind.REPLICA,
) -> bool:
    """Advise one more copy of a task, from the one at `source`; say whether one is.

    Without a source it comes from the original, if there is one.
    """
    board = draft.board
    if not source and not task.has_original:
        draft.refuse(task, "", "no copy of it can be read")
        return False
    for target in candidates(draft, job, task):
        reason = copy_reason(board, task, "", target)
        if not reason:
            draft.add(kind, task, source, target.name)
            return True
        draft.refuse(task, target.name, reason)
    return False


def candidates(draft: AdviceDraft, job: PlacementJob, task: PlacementTask) -> list[PlacementHost]:
    """Return the hosts of a task's kind that take copies, the best place of another one first.

    Each copy of the same job makes a host as much heavier as sibling_weight says. Where a copy is
    not whole it is mended first.
    """
    board, now = draft.board, draft.board.task(task)
    held = {board.hosts[host].zone for host in now.hosts if host in board.hosts}
    kinds = {board.hosts[host].kind for host in now.hosts if host in board.hosts}
    if not kinds and task.has_original:
        kinds = {host.kind for host in board.hosts.values()}

    def rank(host: PlacementHost) -> tuple[bool, bool, float, str]:
        siblings = board.count(job.name, host.name)
        load = board.score(host) + board.rules.sibling_weight * siblings
        return host.name not in now.spoilt, host.zone in held, load, host.name

    return sorted((host for kind in kinds for host in draft.takers(task, kind)), key=rank)


def is_readable(host: PlacementHost) -> bool:
    """Say whether what a host holds can be copied from it."""
    return host.is_up and host.state != HostState.DEAD
