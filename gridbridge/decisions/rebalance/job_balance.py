"""Job rebalancing: first what a job lacks, and only then an even spread.

By Hydra's document "Spawn Balancing", "Job Rebalancing".
"""

from gridbridge.decisions.rebalance.copy_spread import CopySpread
from gridbridge.decisions.rebalance.move_plan_draft import (
    MovePlanDraft,
    advise_new_copy,
    describe_moves,
    is_host_readable,
)
from gridbridge.decisions.rebalance.placement_constraints import why_task_does_not_wait
from gridbridge.decisions.rebalance.projected_load import ProjectedLoad
from gridbridge.model.rebalance.moves import MoveKind, MovePlan
from gridbridge.model.rebalance.placement_snapshot import (
    PlacementHost,
    PlacementJob,
    PlacementSnapshot,
    PlacementTask,
    TaskState,
)
from gridbridge.model.rebalance.rebalance_section import RebalanceSection
from gridbridge.model.status_report import with_noun


def plan_job_balance(
    snapshot: PlacementSnapshot, name: str, rules: RebalanceSection, *, is_asked: bool = True
) -> MovePlan:
    """Return the moves that repair a job, or those that even it out; it has to be there.

    Who names a job asks for it: its owner's wish that it stay counts in other rounds alone.
    """
    board = ProjectedLoad(snapshot, rules)
    draft = MovePlanDraft(board, rules.tasks_per_round, rules.bytes_per_round)
    return draft.advice(repair_or_balance_job(draft, board.jobs[name], is_asked=is_asked))


def repair_or_balance_job(draft: MovePlanDraft, job: PlacementJob, *, is_asked: bool) -> str:
    """Advise what repairs a job, or else evens it out, and say it."""
    wrong = advise_job_repair(draft, job)
    lack = with_noun(
        wrong, "of its tasks lacks copies, or has", "of its tasks lack copies, or have"
    )
    still_wrong = f"{lack} wrong ones, still" if wrong else ""
    if draft.moves:
        words = (
            f"job {job.name} is repaired first: {describe_moves(draft.moves, '')}",
            still_wrong,
        )
        return "; ".join(filter(None, words))
    if wrong:
        return f"job {job.name} is not whole, and is not spread: {still_wrong}"
    if is_job_uneven(draft.board, job) and not _waits(draft, job):
        return f"job {job.name} has all its replicas: nothing can be moved"
    for kind in draft.board.kinds:
        while not draft.is_over and _spread_one(draft, job, kind, is_asked=is_asked):
            pass
    moved = describe_moves(draft.moves, _even(draft.board, job))
    return f"job {job.name} has all its replicas: {moved}"


def _waits(draft: MovePlanDraft, job: PlacementJob) -> bool:
    """Say whether a task of a job waits; note what they do where none does."""
    if job.name in draft.board.waiting:
        return True
    for task in draft.board.of_job[job.name]:
        if not draft.is_listing:
            break
        draft.refuse(task, "", why_task_does_not_wait(task))
    return False


def advise_job_repair(draft: MovePlanDraft, job: PlacementJob) -> int:
    """Advise what a job lacks: live copies, missing replicas, and that wrong ones are removed.

    How large they are does not matter: what is missing is missing. Return how many tasks are not
    whole even so.
    """
    board = draft.board
    tasks = _lacking(board, job)
    repairable = sorted(tasks, key=lambda task: task.number)
    repairable = [task for task in repairable if not draft.again_reason(task)]
    for task in repairable:
        if draft.is_over:
            break
        _make_live(draft, job, task)
        _drop_wrong(draft, job, task)
    for task in repairable:
        if draft.is_over:
            break
        _add_missing(draft, job, task)
        _drop_spoilt(draft, job, task)
    return sum(not _is_whole(board, job, task) for task in tasks)


def _lacking(board: ProjectedLoad, job: PlacementJob) -> list[PlacementTask]:
    """Return the tasks that may not have all that they are to have; of most jobs it is none."""
    tasks, readable = board.of_job[job.name], board.readable
    if not job.replicas:
        return [task for task in tasks if task.replicas or task.spoilt or task.live not in readable]
    return [task for task in tasks if not _needs_nothing(board, job, task)]


def _needs_nothing(board: ProjectedLoad, job: PlacementJob, task: PlacementTask) -> bool:
    """Say whether a task had all that it is to have at the beginning, as most have."""
    replicas, readable = task.replicas, board.readable
    if len(replicas) != job.replicas or task.spoilt or task.live not in readable:
        return False
    return not replicas or (
        readable.issuperset(replicas) and len({task.live, *replicas}) == 1 + len(replicas)
    )


def _is_whole(board: ProjectedLoad, job: PlacementJob, task: PlacementTask) -> bool:
    """Say whether a task has by now what it is to have, each copy on a host that can be read."""
    now = board.task(task)
    known_hosts = {name for name in now.hosts if name in board.hosts}
    is_right = len(known_hosts) == len(now.hosts) == 1 + job.replicas
    is_clean = not set(now.spoilt) - known_hosts
    return (
        is_right and is_clean and all(is_host_readable(board.hosts[name]) for name in known_hosts)
    )


def is_job_uneven(board: ProjectedLoad, job: PlacementJob) -> bool:
    """Say whether a host is outside of the fair portion, by which a job is rebalanced unasked."""
    for kind in board.kinds:
        if any(above > 0 or above < -1 for _, above in board.above(job, kind)):
            return True
    return False


def _even(board: ProjectedLoad, job: PlacementJob) -> str:
    return "nothing can be moved" if is_job_uneven(board, job) else "its copies are spread evenly"


def _make_live(draft: MovePlanDraft, job: PlacementJob, task: PlacementTask) -> None:
    """Have the first replica that can be read be the live copy of a task that has none.

    A copy on a host that nobody knows is none. Without any the first is made from its original.
    """
    hosts = (draft.board.hosts.get(name) for name in task.replicas)
    first = next((host for host in hosts if host and is_host_readable(host)), None)
    if draft.is_over or task.live in draft.board.hosts:
        return
    if why := why_task_does_not_wait(task):
        draft.refuse(task, "", why)
    elif first:
        draft.add(MoveKind.LIVE, task, task.live, first.name)
    elif not any(name in draft.board.hosts for name in task.hosts):
        advise_new_copy(draft, job, task, "", MoveKind.LIVE)


def _drop_wrong(draft: MovePlanDraft, job: PlacementJob, task: PlacementTask) -> None:
    """Remove replicas that are twice at a host, where the live copy is, or on an unknown host.

    So are those beyond what is wished for, the last ones first.
    """
    now = draft.board.task(task)
    hosts = {now.live}
    for host in now.replicas:
        if host in hosts or host not in draft.board.hosts:
            _delete(draft, task, host)
        hosts.add(host)
    extra = len(draft.board.task(task).replicas) - job.replicas
    for host in reversed(draft.board.task(task).replicas[-extra:] if extra > 0 else ()):
        _delete(draft, task, host)


def _delete(draft: MovePlanDraft, task: PlacementTask, host: str) -> None:
    if draft.is_over:
        return
    if task.state == TaskState.WAITING:
        draft.add(MoveKind.DELETE, task, host)
    else:
        draft.refuse(task, "", f"it is {task.state.value}")


def _add_missing(draft: MovePlanDraft, job: PlacementJob, task: PlacementTask) -> None:
    """Have one missing replica of a task made from its live copy, in each round."""
    now = draft.board.task(task)
    if draft.is_over or len(now.replicas) >= job.replicas or draft.again_reason(task):
        return
    host = draft.board.hosts.get(now.live)
    advise_new_copy(draft, job, task, host.name if host and is_host_readable(host) else "")


def _drop_spoilt(draft: MovePlanDraft, job: PlacementJob, task: PlacementTask) -> None:
    """Have copies that are not whole removed, once there are enough that are."""
    now = draft.board.task(task)
    if not now.live or len(now.replicas) < job.replicas or draft.again_reason(task):
        return
    for host in now.spoilt:
        if host not in now.hosts:
            _delete(draft, task, host)


def _spread_one(draft: MovePlanDraft, job: PlacementJob, kind: str, *, is_asked: bool) -> bool:
    """Advise one move that makes a job's spread fairer: the first step that finds one."""
    spread = CopySpread(draft, job, kind, is_asked=is_asked)
    above = spread.above
    most_first = [*reversed(spread.order)]
    many = [host for host in most_first if above[host.name] > 0]
    few = [host for host in spread.order if above[host.name] < -1]
    fair = (host for host in most_first if above[host.name] == 0)
    loaded = [host for host in fair if _is_loaded(draft.board, host)]
    return (
        any(map(spread.push, many))
        or any(map(spread.pull, few))
        or any(spread.push(host, is_extra=True) for host in loaded)
    )


def _is_loaded(board: ProjectedLoad, host: PlacementHost) -> bool:
    return board.is_disk_heavy(host) or board.is_busy(host)
