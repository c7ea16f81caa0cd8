"""Constraints of rebalancing: reasons why a copy may not go to a host."""

from collections.abc import Iterator
from datetime import timedelta

from gridbridge.decisions.rebalance.projected_placement import ProjectedPlacement
from gridbridge.model.rebalance.placement_snapshot import (
    PlacementHost,
    PlacementHostState,
    PlacementJobOrDataset,
    PlacementTask,
    PlacementTaskState,
    TaskNotMovedReason,
    happened_within,
)

STATES = {
    PlacementHostState.DISABLED: "gets nothing new",
    PlacementHostState.DRAIN: "is drained",
    PlacementHostState.DISK_FULL: "has a full disk",
    PlacementHostState.DEAD: "is dead",
    PlacementHostState.UNKNOWN: "is in an unknown state",
}
WORDS = {PlacementTaskState.UNKNOWN: "the task is in an unknown state"}
STAYING = {
    TaskNotMovedReason.HELD: "the task is held, or has not waited long enough",
    TaskNotMovedReason.DROPPED: "a recent move of the task failed",
    TaskNotMovedReason.RECALLED: "the task was recalled as often as its queue allows",
    TaskNotMovedReason.STUCK: "moves of the task have failed for a long time: the service's log says why",
    TaskNotMovedReason.SILENT: ("the cluster is silent: it may start the task, which would run twice"),
}
GB = 1e9


def why_host_takes_no_copy(board: ProjectedPlacement, host: PlacementHost) -> str:
    """Say why a host takes no copy of any task; empty if the host takes copies."""
    return next(_of_host(board, host), "")


def why_task_is_not_moved(board: ProjectedPlacement, task: PlacementTask, *, is_asked: bool) -> str:
    """Say why a task moves to no host; `is_asked` overrides the owner's wish."""
    job = board.jobs.get(task.job)
    if job is None:
        return "its job does not exist"
    if task.state != PlacementTaskState.WAITING:
        return why_task_state_forbids_move(task)
    if job.spare and not is_asked:
        return "the task has more replicas than its owner requests"
    if not job.is_autobalanced and not is_asked:
        return "the owner wants the job to stay"
    return ""


def why_task_state_forbids_move(task: PlacementTask) -> str:
    """Say why a task's state keeps the task from moving; empty for a waiting task."""
    if task.state is PlacementTaskState.STAYING:
        return STAYING[task.stays]
    is_waiting = task.state is PlacementTaskState.WAITING
    return "" if is_waiting else WORDS.get(task.state, f"the task is {task.state.value}")


def why_copy_is_forbidden(board: ProjectedPlacement, task: PlacementTask, source: str, target: PlacementHost) -> str:
    """Say why a copy may not move from `source` (empty: a new copy) to `target`."""
    return next(_of_copy(board, task, source, target), "")


def why_host_takes_no_more_of_job(board: ProjectedPlacement, job: PlacementJobOrDataset, target: PlacementHost) -> str:
    """Say why a host takes no more of a job: share used, or host barred."""
    if job.hosts is not None and target.name not in job.hosts:
        return _barred(job, target.name)
    most = board.share(job, target)
    if board.count(job.name, target.name) < most:
        return ""
    return f"{target.name} has its share of the job, {most}"


def format_gigabytes(size_bytes: float) -> str:
    """Return a size in gigabytes with three significant digits."""
    return f"{size_bytes / GB:.3g} GB"


def _of_host(board: ProjectedPlacement, host: PlacementHost) -> Iterator[str]:
    rules, name = board.rules, host.name
    if not host.is_up:
        yield f"{name} is down"
    if host.state != PlacementHostState.ALIVE:
        yield f"{name} {STATES[host.state]}"
    if host.is_read_only:
        yield f"{name} is read-only"
    if host.max_bytes > 0 and board.offered(host) <= rules.min_free_bytes:
        yield f"{name} has no more than {format_gigabytes(rules.min_free_bytes)} free"
    at, pause = board.snapshot.recent.hosts.get(name), timedelta(seconds=rules.host_rest_s)
    if at and happened_within(at, board.snapshot.now, pause):
        yield f"{name} got a task less than {rules.host_rest_s:g} s ago"


def _of_copy(board: ProjectedPlacement, task: PlacementTask, source: str, target: PlacementHost) -> Iterator[str]:
    now, name = board.task(task), target.name
    if name == source:
        yield f"the task is at {name} already"
    if name in now.hosts:
        yield f"{name} has a copy of the task"
    job = board.jobs.get(task.job)
    if job and job.hosts is not None and name not in job.hosts:
        yield _barred(job, name)
    if now.live == source and source and not board.has_room(target, now.slots):
        yield f"{name} has room for no more tasks"
    if task.size_bytes > board.rules.disk_share * board.offered(target):
        part = f"{board.rules.disk_share:.0%} of what is free"
        yield f"{format_gigabytes(task.size_bytes)} are more than {part} at {name}"
    if not _is_spread(board, now, source, target):
        yield f"the task's copies would not be in different zones with a copy at {name}"


def _barred(job: PlacementJobOrDataset, name: str) -> str:
    if name in job.resting:
        return f"a recent copy or removal at {name} failed"
    if name in job.away:
        return f"the copies at {name} can't be read now"
    if name in job.full:
        return f"{name} has no free slot for it"
    return f"its job does not go to {name}"


def _is_spread(board: ProjectedPlacement, task: PlacementTask, source: str, target: PlacementHost) -> bool:
    """Say whether a task's copies stay in different zones, or cover all zones."""
    zones = board.zones(target.kind)
    if len(zones) < 2:
        return True
    other_zones = [board.hosts[name].zone for name in task.hosts if name != source and name in board.hosts]
    held = [*other_zones, target.zone]
    return len(set(held)) == len(held) or zones <= set(held)
