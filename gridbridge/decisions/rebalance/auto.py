"""One round that nobody asked for: what failed first, then one host, then one job."""

from datetime import timedelta

from gridbridge.decisions.rebalance.board import Board
from gridbridge.decisions.rebalance.failing import plan_fail
from gridbridge.decisions.rebalance.hosts import plan_host
from gridbridge.decisions.rebalance.jobs import is_uneven, plan_job
from gridbridge.model.rebalance.moves import Advice
from gridbridge.model.rebalance.sections import Rebalance
from gridbridge.model.rebalance.snapshot import Host, HostState, Job, Snapshot, TaskState

SERVED = (HostState.DEAD, HostState.DISK_FULL, HostState.DRAIN)  # in this order


def plan(snapshot: Snapshot, rules: Rebalance) -> Advice:
    """Return the moves of one round.

    Nothing begins while tasks move. The lightest host is looked at before the heaviest one, and of
    the jobs the one with the largest tasks.
    """
    if failed := next(iter(_failed(snapshot)), None):
        return plan_fail(snapshot, failed.name, rules)
    if not rules.level:
        return Advice(sentence="level is 0: nothing is moved without being asked")
    if moving := sum(task.state == TaskState.MOVING for task in snapshot.tasks):
        return Advice(sentence=f"{moving} tasks are moved already: nothing else is begun")
    board = Board(snapshot, rules)
    hosts = sorted(_live(board), key=lambda host: (board.score(host), host.name))
    for host in dict.fromkeys((*hosts[:1], *hosts[-1:])):
        advice = plan_host(snapshot, host.name, rules)
        if advice.moves:
            return advice
    for job in _jobs(board, rules):
        advice = plan_job(snapshot, job.name, rules, is_asked=False)
        if advice.moves:
            return advice
    return Advice(sentence=f"{len(hosts)} hosts and {len(board.jobs)} jobs: nothing is to be moved")


def _failed(snapshot: Snapshot) -> list[Host]:
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
