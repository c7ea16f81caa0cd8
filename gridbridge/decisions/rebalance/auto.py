"""One round that nobody asked for: what failed first, then one host, then one job."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

from gridbridge.decisions.rebalance.board import Board
from gridbridge.decisions.rebalance.failing import plan_fail
from gridbridge.decisions.rebalance.hosts import plan_host
from gridbridge.decisions.rebalance.jobs import is_uneven, plan_job
from gridbridge.model.rebalance.moves import Advice, Rejected
from gridbridge.model.rebalance.sections import Rebalance
from gridbridge.model.rebalance.snapshot import Host, HostState, Job, Snapshot, Task, TaskState
from gridbridge.model.report import count

SERVED = (HostState.DEAD, HostState.DISK_FULL, HostState.DRAIN)  # in this order
FIRST = (HostState.DEAD, HostState.DRAIN)  # until what can leave has left nothing is evened out


def plan(snapshot: Snapshot, rules: Rebalance) -> Advice:
    """Return the moves of one round.

    Of the hosts that failed the first one counts from which something can be moved. Nothing else
    begins while tasks move. The lightest host is looked at before the heaviest one, and of the jobs
    the one with the largest tasks. What moves nothing says why.
    """
    tried = list[Advice]()
    for host in failed(snapshot):
        tried.append(plan_fail(snapshot, host.name, rules))
        if tried[-1].moves:
            return gathered(tried)
    words = [one.sentence for one in tried]
    words.append(_why_none(snapshot, rules))
    if not words[-1]:
        board = Board(snapshot, rules)
        even = even_hosts(board)
        if even.moves:
            return gathered([*tried, even])
        tried.append(even)
        for job in _jobs(board, rules):
            tried.append(plan_job(snapshot, job.name, rules, is_asked=False))
            if tried[-1].moves:
                return gathered(tried)
        counted = f"{count(len(_live(board)), 'host')} and {count(len(board.jobs), 'job')}"
        words.append(f"{counted}: nothing is to be moved")
    return replace(gathered(tried), sentence="; ".join(filter(None, words)))


def even_hosts(board: Board) -> Advice:
    """Return what evens the lightest host out, else the heaviest one, or why nothing does."""
    hosts = sorted(_live(board), key=lambda host: (board.score(host), host.name))
    tried = list[Advice]()
    for host in dict.fromkeys((*hosts[:1], *hosts[-1:])):
        tried.append(plan_host(board.snapshot, host.name, board.rules))
        if tried[-1].moves:
            break
    return gathered(tried)


def gathered(tried: Iterable[Advice]) -> Advice:
    """Return the last advice with what the others before it refused; the first reason counts."""
    every = tuple(tried)
    moved = {(move.job, move.number, move.target) for one in every for move in one.moves}
    rejected = dict[tuple[str, int, str], Rejected]()
    for one in (each for advice in every for each in advice.rejected):
        rejected.setdefault((one.job, one.number, one.target), one)
    left = tuple(one for key, one in rejected.items() if key not in moved)
    return Advice(
        moves=every[-1].moves if every else (),
        rejected=left,
        sentence=every[-1].sentence if every else "",
    )


def why_later(snapshot: Snapshot) -> str:
    """Say why nothing is evened out just now: what is under way and what has failed come first.

    A host with a full disk holds nothing up: it may stay full for long.
    """
    if moving := sum(task.state is TaskState.MOVING for task in snapshot.tasks):
        return f"{count(moving, 'task is', 'tasks are')} moved already: nothing else is begun"
    first = next((host for host in failed(snapshot) if _is_awaited(snapshot, host)), None)
    if first is None:
        return ""
    what = "dead" if first.state is HostState.DEAD else "drained"
    return f"{first.name} is {what}: `gridbridge rebalance fail {first.name}` comes first"


def _is_awaited(snapshot: Snapshot, host: Host) -> bool:
    """Say whether something is to leave a host yet: what runs and what is lost is not."""
    if host.state not in FIRST:
        return False
    here = (task for task in snapshot.tasks if host.name in task.hosts)
    is_lost = host.state is HostState.DEAD or not host.is_up
    return any(task.state is TaskState.WAITING and not (is_lost and _lost(task)) for task in here)


def _lost(task: Task) -> bool:
    return task.size_bytes > 0 and len(set(task.hosts)) == 1


def _why_none(snapshot: Snapshot, rules: Rebalance) -> str:
    if not rules.level:
        return "level is 0: nothing is moved without being asked"
    return why_later(snapshot)


def failed(snapshot: Snapshot) -> list[Host]:
    """Return hosts that copies have to leave and that hold some, in the order of service."""
    held = {host for task in snapshot.tasks for host in task.hosts}
    found = (host for host in snapshot.hosts if host.state in SERVED and host.name in held)
    return sorted(found, key=lambda host: (SERVED.index(host.state), host.name))


def _live(board: Board) -> list[Host]:
    return [host for host in board.snapshot.hosts if host.is_live]


def _jobs(board: Board, rules: Rebalance) -> list[Job]:
    """Return the jobs that may be rebalanced unasked, those with the largest tasks first."""
    now, rest = board.snapshot.now, timedelta(seconds=rules.job_rest_s)
    done = board.snapshot.recent.jobs
    found = (
        job
        for job in board.snapshot.jobs
        if job.is_autobalanced
        and not (job.name in done and now - done[job.name] < rest)
        and (rules.level > 1 or (job.last_run and is_uneven(board, job)))
    )
    return sorted(found, key=lambda job: (-_mean_bytes(board, job), job.name))


def _mean_bytes(board: Board, job: Job) -> float:
    tasks = board.of_job[job.name]
    return sum(task.size_bytes for task in tasks) / len(tasks) if tasks else 0.0
