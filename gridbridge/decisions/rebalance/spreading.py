"""One copy of a job from a host that has many to one that has few."""

from collections.abc import Iterator

from gridbridge.decisions.rebalance.board import Board
from gridbridge.decisions.rebalance.draft import Draft, kind_of
from gridbridge.decisions.rebalance.refusing import (
    copy_reason,
    host_reason,
    share_reason,
    task_reason,
)
from gridbridge.model.rebalance.snapshot import Host, Job, Task


def push_one(
    draft: Draft, job: Job, source: Host, *, is_extra: bool = False, is_asked: bool = False
) -> bool:
    """Advise a move of one copy off a host, onto the one that has the fewest and takes it.

    What a host gives only because it is busy, no busy host gets: it would give it back.
    """
    board = draft.board
    targets = [host for host in ranked(board, job, source.kind) if host.name != source.name]
    targets = [host for host in targets if not (is_extra and board.is_busy(host))]
    for task in _movable(draft, job, source, is_asked=is_asked):
        if any(_goes(draft, task, source, target) for target in targets):
            return True
    return False


def pull_one(
    draft: Draft, job: Job, target: Host, *, is_extra: bool = False, is_asked: bool = False
) -> bool:
    """Advise a move of one copy onto a host, from the one that has the most.

    No host gives one that has less than its share, and none that is quiet gives to a host that
    gets one only because it is quiet, too.
    """
    board = draft.board
    for source in reversed(ranked(board, job, target.kind)):
        if board.count(job.name, source.name) < board.share(job, source):
            return False
        if source.name == target.name or (is_extra and board.is_quiet(source)):
            continue
        movable = _movable(draft, job, source, is_asked=is_asked)
        if any(_goes(draft, task, source, target) for task in movable):
            return True
    return False


def ranked(board: Board, job: Job, kind: str) -> list[Host]:
    """Return the live hosts of a kind, those that lack most of a job first, then by their load."""

    def rank(host: Host) -> tuple[int, float, str]:
        above = board.count(job.name, host.name) - board.share(job, host)
        return above, board.score(host), host.name

    return sorted(board.live(kind), key=rank)


def _movable(draft: Draft, job: Job, source: Host, *, is_asked: bool) -> Iterator[Task]:
    """Give the job's copies at a host, by number; note why others don't move."""
    for task in draft.board.of_job_at(job.name, source.name):
        if reason := task_reason(draft.board, task, is_asked=is_asked):
            draft.refuse(task, "", reason)
        else:
            yield task


def _goes(draft: Draft, task: Task, source: Host, target: Host) -> bool:
    if reason := _reason(draft, task, source, target):
        draft.refuse(task, target.name, reason)
        return False
    draft.add(kind_of(draft.board.task(task), source.name), task, source.name, target.name)
    return True


def _reason(draft: Draft, task: Task, source: Host, target: Host) -> str:
    board = draft.board
    return (
        draft.limit_reason(task)
        or draft.crowd_reason(task, source.name, target.name)
        or host_reason(board, target)
        or copy_reason(board, task, source.name, target)
        or share_reason(board, task, target)
        or _busy_reason(board, target)
        or _extreme_reason(board, task, source, target)
    )


def _busy_reason(board: Board, target: Host) -> str:
    """Say whether a host has generally high load, and gets nothing ("Job Rebalancing").

    Where it is known how many more tasks could start there, that decides (docs/decisions 0416).
    """
    if target.room is None and board.is_busy(target):
        return f"{target.name} is far busier than the mean"
    return ""


def _extreme_reason(board: Board, task: Task, source: Host, target: Host) -> str:
    """Say whether a move would make disks uneven, which the next round had to undo."""
    if board.is_disk_heavy(target, task.size_bytes) and task.size_bytes:
        return f"the disk of {target.name} would be far fuller than the mean"
    if board.is_disk_heavy(target):
        return f"the disk of {target.name} is far fuller than the mean"
    is_light = board.is_disk_light(source, -task.size_bytes) and task.size_bytes
    if is_light and not board.is_disk_light(source):
        return f"the disk of {source.name} would be far emptier than the mean"
    return ""
