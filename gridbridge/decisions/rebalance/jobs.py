"""Job rebalancing: first what a job lacks, and only then an even spread.

By Hydra's document "Spawn Balancing", "Job Rebalancing".
"""

from gridbridge.decisions.rebalance.board import Board
from gridbridge.decisions.rebalance.draft import Draft, told
from gridbridge.decisions.rebalance.placing import is_readable, place
from gridbridge.decisions.rebalance.spreading import pull_one, push_one, ranked
from gridbridge.model.rebalance.moves import Advice, MoveKind
from gridbridge.model.rebalance.sections import Rebalance
from gridbridge.model.rebalance.snapshot import Host, Job, Snapshot, Task, TaskState


def plan_job(snapshot: Snapshot, name: str, rules: Rebalance, *, is_asked: bool = True) -> Advice:
    """Return the moves that repair a job, or those that even it out; it has to be there.

    Who names a job asks for it: its owner's wish that it stay counts in other rounds alone.
    """
    board = Board(snapshot, rules)
    job = board.jobs[name]
    draft = Draft(board, rules.tasks_per_round, rules.bytes_per_round)
    tasks = sorted(board.of_job[name], key=lambda task: task.number)
    for task in tasks:
        _make_live(draft, task)
        _drop_wrong(draft, job, task)
    for task in tasks:
        _add_missing(draft, job, task)
    if draft.moves:
        return draft.advice(f"job {name} is repaired first: {told(draft.moves, '')}")
    for kind in sorted({host.kind for host in snapshot.hosts}):
        while not draft.is_over and _spread_one(draft, job, kind, is_asked=is_asked):
            pass
    return draft.advice(f"job {name} has all its replicas: {told(draft.moves, _even(board, job))}")


def is_uneven(board: Board, job: Job) -> bool:
    """Say whether a host is outside of the fair portion, by which a job is rebalanced unasked."""
    for kind in {host.kind for host in board.snapshot.hosts}:
        for host in board.live(kind):
            above = board.count(job.name, host.name) - board.share(job, host)
            if above > 0 or above < -1:
                return True
    return False


def _even(board: Board, job: Job) -> str:
    return "nothing can be moved" if is_uneven(board, job) else "its copies are spread evenly"


def _make_live(draft: Draft, task: Task) -> None:
    """Have the first replica that can be read be the live copy of a task that has none."""
    hosts = (draft.board.hosts.get(name) for name in task.replicas)
    first = next((host for host in hosts if host and is_readable(host)), None)
    if first and not task.live and not draft.is_over:
        draft.add(MoveKind.LIVE, task, "", first.name)


def _drop_wrong(draft: Draft, job: Job, task: Task) -> None:
    """Remove replicas that are twice at a host, where the live copy is, or on an unknown host.

    So are those beyond what is wished for, the last ones first.
    """
    now = draft.board.task(task)
    seen = {now.live}
    for host in now.replicas:
        if host in seen or host not in draft.board.hosts:
            _delete(draft, task, host)
        seen.add(host)
    extra = len(draft.board.task(task).replicas) - job.replicas
    for host in reversed(draft.board.task(task).replicas[-extra:] if extra > 0 else ()):
        _delete(draft, task, host)


def _delete(draft: Draft, task: Task, host: str) -> None:
    if draft.is_over:
        return
    if task.state == TaskState.WAITING:
        draft.add(MoveKind.DELETE, task, host)
    else:
        draft.refuse(task, "", f"it is {task.state.value}")


def _add_missing(draft: Draft, job: Job, task: Task) -> None:
    """Have one missing replica of a task made from its live copy, in each round."""
    now = draft.board.task(task)
    if draft.is_over or len(now.replicas) >= job.replicas or draft.limit_reason(task):
        return
    host = draft.board.hosts.get(now.live)
    place(draft, job, task, host.name if host and is_readable(host) else "")


def _spread_one(draft: Draft, job: Job, kind: str, *, is_asked: bool) -> bool:
    """Advise one move that makes a job's spread fairer: the first step that finds one."""
    board = draft.board
    order = ranked(board, job, kind)
    above = {host.name: board.count(job.name, host.name) - board.share(job, host) for host in order}
    many = [host for host in reversed(order) if above[host.name] > 0]
    few = [host for host in order if above[host.name] < -1]
    loaded = [host for host in reversed(order) if above[host.name] == 0 and _is_loaded(board, host)]
    return (
        any(push_one(draft, job, host, is_asked=is_asked) for host in many)
        or any(pull_one(draft, job, host, is_asked=is_asked) for host in few)
        or any(push_one(draft, job, host, is_extra=True, is_asked=is_asked) for host in loaded)
    )


def _is_loaded(board: Board, host: Host) -> bool:
    return board.is_disk_heavy(host) or board.is_busy(host)
