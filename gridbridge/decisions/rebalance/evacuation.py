"""What leaves a host that is drained, dead or full: with few copies on their way at once.

By Hydra's HostFailWorker: what is lost is said beforehand, and owners' wishes don't count.
"""

from gridbridge.decisions.rebalance.move_plan_draft import (
    MovePlanDraft,
    advise_new_copy,
    advise_owners_in_turn,
    copy_kind,
    describe_moves,
    is_host_readable,
    rank_copy_targets,
)
from gridbridge.decisions.rebalance.placement_constraints import (
    format_gigabytes,
    why_copy_is_forbidden,
    why_task_does_not_wait,
    why_task_stays,
)
from gridbridge.decisions.rebalance.projected_load import ProjectedLoad
from gridbridge.model.rebalance.moves import MoveKind, MovePlan
from gridbridge.model.rebalance.placement_snapshot import (
    HostState,
    PlacementHost,
    PlacementJob,
    PlacementSnapshot,
    PlacementTask,
    TaskState,
    TaskStayReason,
)
from gridbridge.model.rebalance.rebalance_section import RebalanceSection
from gridbridge.model.status_report import with_noun


def plan_host_evacuation(
    snapshot: PlacementSnapshot, name: str, rules: RebalanceSection
) -> MovePlan:
    """Return the moves that take a host's copies elsewhere; the host has to be in the snapshot.

    A host that is dead, or down and not only full, is lost. Any other one is read from.
    """
    board = ProjectedLoad(snapshot, rules)
    draft = MovePlanDraft(board, 0, None)
    return draft.advice(advise_evacuation(draft, board.hosts[name]))


def advise_evacuation(draft: MovePlanDraft, host: PlacementHost) -> str:
    """Advise what takes a host's copies elsewhere, and say it.

    So many copies from failed hosts are on their way at once: those of the draft count.
    """
    board = draft.board
    is_full = host.state == HostState.DISK_FULL and host.is_up
    rules = board.rules
    under_way = board.moving
    draft.allow((rules.moves_from_full if is_full else rules.moves_from_failed) - under_way)
    is_lost = host.state == HostState.DEAD or not host.is_up
    if why := _why_not(board, host, is_lost=is_lost, is_full=is_full):
        return f"{host.name}: {why}"
    tasks = [task for task in board.at(host.name) if task.job in board.jobs]
    before, lost = len(draft.moves), 0
    if is_lost:
        lost = _replace(draft, host, tasks)
    else:
        _move_off(draft, host, tasks, is_full=is_full)
    moves = draft.moves[before:]
    staying = len(tasks) - len({(move.job, move.number) for move in moves}) - lost
    words = [describe_moves(moves, "nothing is moved"), _room(board, host)]
    words += (
        [f"{with_noun(under_way, 'is on its way', 'are on their way')} already"]
        if under_way
        else []
    )
    words += [f"{lost} can't be saved"] if lost else []
    words += filter(None, [describe_lost_datasets(board, host)])
    words += [f"{with_noun(staying, 'task stays', 'tasks stay')} there"] if staying > 0 else []
    return f"{host.name} {_standing(host, is_lost=is_lost, is_full=is_full)}: {'; '.join(words)}"


def describe_lost_datasets(board: ProjectedLoad, host: PlacementHost) -> str:
    """Say of how many datasets a lost host had the only whole copy; empty for none.

    Nobody but their owners can know whether the originals are as they were.
    """
    if not (many := board.lost.get(host.name)):
        return ""
    return f"{with_noun(many, 'dataset')} without any other whole replica, but for the original"


def _standing(host: PlacementHost, *, is_lost: bool, is_full: bool) -> str:
    """Say what is the matter with a host; one that nothing is wrong with is to be given up."""
    if is_full:
        return "is full"
    if is_lost:
        return "is lost"
    return "is drained" if host.state == HostState.DRAIN else "is given up"


def _why_not(board: ProjectedLoad, host: PlacementHost, *, is_lost: bool, is_full: bool) -> str:
    """Say why nothing is to be done about it; empty when something is.

    Of a disk that holds other files as well each copy is judged alone.
    """
    if is_full:
        return ""
    if not (host.is_shared or _is_room_elsewhere(board, host)):
        size = format_gigabytes(host.used_bytes)
        return f"the others have no room for its {size}: nothing is moved"
    if is_lost and (other_host := _down_with_copies(board, host)):
        return (
            f"{other_host} is down and has copies of the same tasks: bring it up first, or drop it"
        )
    return ""


def _is_room_elsewhere(board: ProjectedLoad, host: PlacementHost) -> bool:
    """Say whether the others could hold what a host holds; an unknown disk may be large."""
    other_hosts, used, most = _disks(board, host)
    if not host.max_bytes or any(not other_host.max_bytes for other_host in other_hosts):
        return True
    return used < most


def _disks(board: ProjectedLoad, host: PlacementHost) -> tuple[list[PlacementHost], int, int]:
    """Return the other live hosts of its kind, what all of them use with it, and their size."""
    other_hosts = [
        other_host for other_host in board.live(host.kind) if other_host.name != host.name
    ]
    used = host.used_bytes + sum(other_host.used_bytes for other_host in other_hosts)
    return other_hosts, used, sum(other_host.max_bytes for other_host in other_hosts)


def _down_with_copies(board: ProjectedLoad, host: PlacementHost) -> str:
    """Return another host that is down, and that may come back with a copy of what is lost."""
    for task in board.at(host.name):
        for name in task.hosts:
            other_host = board.hosts.get(name)
            if (
                other_host
                and name != host.name
                and not other_host.is_up
                and other_host.state != HostState.DEAD
            ):
                return name
    return ""


def _room(board: ProjectedLoad, host: PlacementHost) -> str:
    """Say how full the hosts are with it and without it."""
    other_hosts, used, most = _disks(board, host)
    if not other_hosts:
        return "no other host takes anything now"
    if not most or not host.max_bytes:
        return "no disk is known"
    return f"disks {used / (most + host.max_bytes):.0%} full with it, {used / most:.0%} without"


def _replace(draft: MovePlanDraft, host: PlacementHost, tasks: list[PlacementTask]) -> int:
    """Make up for what a dead host held, the smallest first; return how many tasks are lost."""
    lost = 0
    for task in sorted(tasks, key=lambda task: (task.size_bytes, task.key)):
        job = draft.board.jobs[task.job]
        other_copies = [name for name in task.hosts if _is_left(draft.board, name, host)]
        is_silent = task.state is TaskState.STAYING and task.stays is TaskStayReason.SILENT
        if is_silent or task.state in (TaskState.MOVING, TaskState.BUSY):
            draft.refuse(task, "", why_task_does_not_wait(task))
        elif other_copies:
            if not draft.is_over:
                if task.live == host.name:
                    draft.add(MoveKind.LIVE, task, host.name, other_copies[0])
                _anew(draft, job, task, host, other_copies[0])
        elif task.size_bytes == 0 and task.state == TaskState.WAITING:
            _off(draft, job, task, host)
        else:
            lost += 1
            draft.refuse(task, "", "it has no replica: what it was is lost")
    return lost


def _is_left(board: ProjectedLoad, name: str, lost: PlacementHost) -> bool:
    """Say whether a host is another one, is known, and can be read."""
    other_host = board.hosts.get(name)
    return other_host is not None and name != lost.name and is_host_readable(other_host)


def _anew(
    draft: MovePlanDraft, job: PlacementJob, task: PlacementTask, host: PlacementHost, source: str
) -> None:
    """Have a replica made in the place of the one that was lost, from a copy that is whole."""
    if host.name in draft.board.task(task).replicas:
        draft.board.forget(task, host.name)
    if not draft.is_over and len(draft.board.task(task).replicas) < job.replicas:
        advise_new_copy(draft, job, task, source)


def _move_off(
    draft: MovePlanDraft, host: PlacementHost, tasks: list[PlacementTask], *, is_full: bool
) -> None:
    def advise(task: PlacementTask) -> None:
        job = draft.board.jobs[task.job]
        if is_full and not draft.board.is_full(host):
            return
        reason = why_task_stays(draft.board, task, is_asked=True) or draft.again_reason(task)
        if reason or (job.spare and is_full):
            draft.refuse(task, "", reason or "its owner has more copies than wished for: they stay")
        elif job.spare:
            draft.add(MoveKind.DELETE, task, host.name)
        else:
            _off(draft, job, task, host)

    advise_owners_in_turn(draft, tasks, advise)


def _off(draft: MovePlanDraft, job: PlacementJob, task: PlacementTask, host: PlacementHost) -> None:
    """Advise that a copy goes to the best place for it; a replica elsewhere may become live."""
    if draft.is_over:
        return
    for target in rank_copy_targets(draft, job, task):
        if target.name == host.name:
            continue
        reason = why_copy_is_forbidden(draft.board, task, host.name, target)
        if not reason:
            draft.add(copy_kind(draft.board.task(task), host.name), task, host.name, target.name)
            return
        draft.refuse(task, target.name, reason)
