"""Plans repair, or else even spread, of a job's copies (Hydra's "Spawn Balancing", "Job Rebalancing")."""

from collections.abc import Iterator

from gridbridge.decisions.rebalance.host_loads_after_planned_moves import ProjectedHostsAndCopies
from gridbridge.decisions.rebalance.move_plan_draft_and_refusals import (
    MovePlanDraft,
    describe_moves,
    draft_new_task_copy,
    why_copy_is_forbidden,
    why_host_takes_no_more_of_job,
    why_task_state_forbids_move,
)
from gridbridge.model.published_status_and_reports import number_with_noun
from gridbridge.model.rebalance.rebalance_section import RebalanceSection
from gridbridge.model.rebalance.rebalance_snapshot_and_moves import (
    RebalanceHost,
    RebalanceJobOrDataset,
    RebalanceMoveKind,
    RebalanceMovePlan,
    RebalanceSnapshot,
    RebalanceTask,
    RebalanceTaskState,
)


def plan_job_repair_or_spread(
    snapshot: RebalanceSnapshot, name: str, rules: RebalanceSection, *, is_asked: bool = True
) -> RebalanceMovePlan:
    """Plan the repair or even spread of a job; if a person asked for it (`is_asked`), the owner can't forbid moves."""
    board = ProjectedHostsAndCopies(snapshot, rules)
    draft = MovePlanDraft(board, rules.tasks_per_round, rules.bytes_per_round)
    return draft.finished_plan(draft_job_repair_or_spread(draft, board.jobs[name], is_asked=is_asked))


def draft_job_repair_or_spread(draft: MovePlanDraft, job: RebalanceJobOrDataset, *, is_asked: bool) -> str:
    """Plan a job's repair or, if no copy needs repair, an even spread; return a sentence about the plan."""
    wrong = draft_job_repair(draft, job)
    lack = number_with_noun(wrong, "task still lacks copies or has", "tasks still lack copies or have")
    still_wrong = f"{lack} wrong copies" if wrong else ""
    if draft.moves:
        words = (f"job {job.name} is repaired first: {describe_moves(draft.moves, '')}", still_wrong)
        return "; ".join(filter(None, words))
    if wrong:
        return f"job {job.name} is not whole, and is not spread: {still_wrong}"
    if job.name in draft.board.waiting or not is_job_unevenly_spread_over_hosts(draft.board, job):
        for kind in draft.board.kinds:
            while not draft.has_reached_move_limit and _draft_spreading_move(draft, job, kind, is_asked=is_asked):
                pass
    else:
        for task in draft.board.of_job[job.name]:
            if not draft.may_record_rejections:
                break
            draft.reject_move(task, "", why_task_state_forbids_move(task))
    is_uneven = is_job_unevenly_spread_over_hosts(draft.board, job)
    moved = describe_moves(draft.moves, "nothing can be moved" if is_uneven else "the copies are spread evenly")
    return f"job {job.name} has all its replicas: {moved}"


def draft_job_repair(draft: MovePlanDraft, job: RebalanceJobOrDataset) -> int:
    """Plan the repair of a job, with no limit of bytes; return how many tasks stay damaged."""
    board = draft.board
    tasks = _tasks_to_repair(board, job)
    repairable = [
        task for task in sorted(tasks, key=lambda task: task.number) if not draft.why_already_moved_this_round(task)
    ]
    for step in (
        (_draft_missing_main_copy, _draft_removal_of_wrong_replicas),
        (_draft_missing_replica, _draft_removal_of_damaged_replicas),
    ):
        for task in repairable:
            if draft.has_reached_move_limit:
                break
            for repair in step:
                repair(draft, job, task)
    return sum(not _has_task_all_copies(board, job, task) for task in tasks)


def _tasks_to_repair(board: ProjectedHostsAndCopies, job: RebalanceJobOrDataset) -> list[RebalanceTask]:
    """Return the tasks that had missing or wrong copies before the planned moves."""
    readable, wanted = board.readable, job.replicas
    return [
        task
        for task in board.of_job[job.name]
        if len(task.replicas) != wanted
        or task.spoilt
        or task.live not in readable
        or (wanted and not (readable.issuperset(task.replicas) and len({*task.hosts_with_copy}) == 1 + wanted))
    ]


def _has_task_all_copies(board: ProjectedHostsAndCopies, job: RebalanceJobOrDataset, task: RebalanceTask) -> bool:
    now = board.task_after_planned_moves(task)
    is_right = len(set(now.hosts_with_copy)) == len(now.hosts_with_copy) == 1 + job.replicas and not set(
        now.spoilt
    ).difference(now.hosts_with_copy)
    return is_right and board.readable.issuperset(now.hosts_with_copy)


def is_job_unevenly_spread_over_hosts(board: ProjectedHostsAndCopies, job: RebalanceJobOrDataset) -> bool:
    """Say whether a host has more than its fair share of a job's copies, or at least two copies less."""
    surpluses = (above for kind in board.kinds for _, above in board.surplus_of_job_by_host(job, kind))
    return any(above > 0 or above < -1 for above in surpluses)


def _draft_missing_main_copy(draft: MovePlanDraft, job: RebalanceJobOrDataset, task: RebalanceTask) -> None:
    """Replace a missing main copy by the first readable replica, or by a copy of the original."""
    first = next((name for name in task.replicas if name in draft.board.readable), "")
    if draft.has_reached_move_limit or task.live in draft.board.hosts:
        return
    if why := why_task_state_forbids_move(task):
        draft.reject_move(task, "", why)
    elif first:
        draft.add_move(RebalanceMoveKind.LIVE, task, task.live, first)
    elif not any(name in draft.board.hosts for name in task.hosts_with_copy):
        draft_new_task_copy(draft, job, task, "", RebalanceMoveKind.LIVE)


def _draft_removal_of_wrong_replicas(draft: MovePlanDraft, job: RebalanceJobOrDataset, task: RebalanceTask) -> None:
    """Plan to remove second copies on a host, copies on unknown hosts, and surplus replicas."""
    now = draft.board.task_after_planned_moves(task)
    hosts = {now.live}
    for host in now.replicas:
        if host in hosts or host not in draft.board.hosts:
            _draft_replica_removal(draft, task, host)
        hosts.add(host)
    extra = len(draft.board.task_after_planned_moves(task).replicas) - job.replicas
    for host in reversed(draft.board.task_after_planned_moves(task).replicas[-extra:] if extra > 0 else ()):
        _draft_replica_removal(draft, task, host)


def _draft_replica_removal(draft: MovePlanDraft, task: RebalanceTask, host: str) -> None:
    if draft.has_reached_move_limit:
        return
    if task.state == RebalanceTaskState.WAITING:
        draft.add_move(RebalanceMoveKind.DELETE, task, host)
    else:
        draft.reject_move(task, "", f"the task is {task.state.value}")


def _draft_missing_replica(draft: MovePlanDraft, job: RebalanceJobOrDataset, task: RebalanceTask) -> None:
    now = draft.board.task_after_planned_moves(task)
    if draft.has_reached_move_limit or len(now.replicas) >= job.replicas or draft.why_already_moved_this_round(task):
        return
    draft_new_task_copy(draft, job, task, now.live if now.live in draft.board.readable else "")


def _draft_removal_of_damaged_replicas(draft: MovePlanDraft, job: RebalanceJobOrDataset, task: RebalanceTask) -> None:
    now = draft.board.task_after_planned_moves(task)
    if not now.live or len(now.replicas) < job.replicas or draft.why_already_moved_this_round(task):
        return
    for host in now.spoilt:
        if host not in now.hosts_with_copy:
            _draft_replica_removal(draft, task, host)


def _draft_spreading_move(draft: MovePlanDraft, job: RebalanceJobOrDataset, kind: str, *, is_asked: bool) -> bool:
    board, spread = draft.board, JobCopyRedistribution(draft, job, kind, is_asked=is_asked)
    above, most_first = spread.above, spread.order[::-1]
    fair = [host for host in most_first if above[host.name] == 0]
    return (
        any(spread.move_copy_off_host(host) for host in most_first if above[host.name] > 0)
        or any(spread.move_copy_onto_host(host) for host in spread.order if above[host.name] < -1)
        or any(
            spread.move_copy_off_host(host, is_extra=True)
            for host in fair
            if board.is_disk_heavy(host) or board.is_slot_usage_high(host)
        )
    )


class JobCopyRedistribution:
    """Plans one move that spreads a job's copies more evenly; each further move needs a new object."""

    def __init__(self, draft: MovePlanDraft, job: RebalanceJobOrDataset, kind: str, *, is_asked: bool) -> None:
        board, above = draft.board, dict(draft.board.surplus_of_job_by_host(job, kind))
        self.above = above
        # hosts furthest below their share of the job come first; equal hosts are sorted by load
        self.order = sorted(board.hosts_sorted_by_load(kind), key=lambda host: above[host.name])
        self._draft, self._job, self._is_asked = draft, job, is_asked
        self._givers = [host for host in reversed(self.order) if above[host.name] >= 0]
        self._takers: list[RebalanceHost] | None = None
        # {host: why the host takes no task of the job, or '' if the host takes tasks}
        self._reasons: dict[str, str] = {}
        self._is_told = False

    def move_copy_off_host(self, source: RebalanceHost, *, is_extra: bool = False) -> bool:
        """Plan the move of one task or replica off a host, to the host with the fewest tasks of the job.

        With `is_extra`, even a task of the host's fair share is moved, but never to a busy host, which would give the
        task back.
        """
        targets: list[RebalanceHost] | None = None
        reason = self._draft.why_source_gives_no_more(self._job, source.name)
        for task in self._movable_tasks_of_job_at(source):
            if reason:
                self._draft.reject_move(task, "", reason)
                return False
            if targets is None:
                busy = self._draft.board.is_slot_usage_high if is_extra else lambda _: False
                targets = [host for host in self._hosts_taking_job() if host.name != source.name and not busy(host)]
            for target in targets:
                if _draft_move_unless_disks_uneven(self._draft, task, source, target):
                    self._record_rejecting_hosts(task, target.name)
                    return True
            self._record_rejecting_hosts(task)
            if not targets:
                return False
        return False

    def move_copy_onto_host(self, target: RebalanceHost, *, is_extra: bool = False) -> bool:
        """Plan the move of one task or replica to a host, from the host with the most tasks of the job.

        No copy leaves a host below its share or, with `is_extra`, a host with few used slots.
        """
        draft, job, empty = self._draft, self._job, set[str]()
        reason = _why_host_takes_none_of_job(draft, job, target)
        for source in self._givers:
            if source.name == target.name or (is_extra and draft.board.is_slot_usage_low(source)):
                continue
            task = None
            taken_reason = draft.why_source_gives_no_more(job, source.name)
            for task in self._movable_tasks_of_job_at(source):
                if reason:
                    draft.reject_move(task, target.name, reason)
                    return False
                if taken_reason:
                    draft.reject_move(task, "", taken_reason)
                    break
                if _draft_move_unless_disks_uneven(draft, task, source, target):
                    return True
            if task is None:
                empty.add(source.name)
        self._givers = [host for host in self._givers if host.name not in empty]
        return False

    def _movable_tasks_of_job_at(self, host: RebalanceHost) -> Iterator[RebalanceTask]:
        return self._draft.movable_tasks_at_host(self._job, host.name, is_asked=self._is_asked)

    def _hosts_taking_job(self) -> list[RebalanceHost]:
        if self._takers is None:
            self._reasons = {
                host.name: _why_host_takes_none_of_job(self._draft, self._job, host) for host in self.order
            }
            self._takers = [host for host in self.order if not self._reasons[host.name]]
        return self._takers

    def _record_rejecting_hosts(self, task: RebalanceTask, until: str = "") -> None:
        """Record why the hosts before `until` in the list reject the task; only the first call records this."""
        for name, reason in self._reasons.items() if not self._is_told else ():
            if name == until:
                break
            if reason and name not in task.hosts_with_copy:
                self._draft.reject_move(task, name, reason)
        self._is_told = True


def _draft_move_unless_disks_uneven(
    draft: MovePlanDraft, task: RebalanceTask, source: RebalanceHost, target: RebalanceHost
) -> bool:
    """Plan a move unless a disk would end far from the mean, because the next round would undo the move."""
    board, size_bytes = draft.board, task.size_bytes
    reason = why_copy_is_forbidden(board, task, source.name, target)
    if not reason and size_bytes and board.is_disk_heavy(target, size_bytes):
        reason = f"the disk of {target.name} would be far fuller than the mean"
    elif not reason and board.is_disk_light(source, -size_bytes) and not board.is_disk_light(source):
        reason = f"the disk of {source.name} would be far emptier than the mean"
    return draft.add_or_reject_move(reason, task, source.name, target.name)


def _why_host_takes_none_of_job(draft: MovePlanDraft, job: RebalanceJobOrDataset, target: RebalanceHost) -> str:
    """Return why a host takes no task or replica of a job; empty if the host takes some.

    If a host's free slots are unknown and it is far busier than the mean, it takes none (Hydra, "Job Rebalancing").
    """
    board = draft.board
    reason = draft.why_host_takes_nothing(target) or draft.why_target_gets_no_more(job, target.name)
    if reason := reason or why_host_takes_no_more_of_job(board, job, target):
        return reason
    if target.room is None and board.is_slot_usage_high(target):
        return f"{target.name} is far busier than the mean"
    return f"the disk of {target.name} is far fuller than the mean" if board.is_disk_heavy(target) else ""
