"""Drafts plans of moves, and gives the reason for each rejected move."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta

from gridbridge.decisions.rebalance.host_loads_after_planned_moves import ProjectedHostsAndCopies
from gridbridge.model.published_status_and_reports import number_with_noun
from gridbridge.model.rebalance.rebalance_snapshot_and_moves import (
    RebalanceHost,
    RebalanceHostState,
    RebalanceJobOrDataset,
    RebalanceMove,
    RebalanceMoveKind,
    RebalanceMovePlan,
    RebalanceTask,
    RebalanceTaskState,
    RejectedMove,
    TaskNotMovedReason,
    happened_within,
)

MAX_LISTED_REFUSALS = 10_000  # maximal number of rejected moves in a plan; a round may look at a million tasks
UNLISTED = "the list of rejected moves is incomplete"


class MovePlanDraft:
    def __init__(self, board: ProjectedHostsAndCopies, most: int, most_bytes: int | None) -> None:
        self.board = board
        self.most = most  # maximal number of the plan's moves, including those already planned
        self._bytes_left = most_bytes  # None: no limit of bytes
        self.moves = list[RebalanceMove]()  # in the order of execution
        self._rejected = dict[tuple[str, int, str], RejectedMove]()
        self._is_cut = False
        self._fixed = dict[tuple[str, str], list[RebalanceTask]]()
        self._host_reasons = dict[str, str]()
        self._takers = dict[str, list[RebalanceHost]]()
        self._moves_from = Counter[tuple[str, str]]()
        self._given = Counter[tuple[str, str]]()
        self._keys = set[tuple[str, int]]()

    @property
    def has_reached_move_limit(self) -> bool:
        return len(self.moves) >= self.most

    def why_beyond_round_limits(self, task: RebalanceTask) -> str:
        is_too_large = self._bytes_left is not None and task.size_bytes > self._bytes_left
        return self.why_already_moved_this_round(task) or (
            "the move would exceed this round's limit of bytes" if is_too_large else ""
        )

    def why_already_moved_this_round(self, task: RebalanceTask) -> str:
        return "this round already moves the task" if task.job_and_task_number in self._keys else ""

    def why_source_gives_no_more(self, job: RebalanceJobOrDataset, source: str) -> str:
        """Return a reason if the plan already moves tasks_per_host copies of a job off a host, else an empty text."""
        most = self.board.rules.tasks_per_host
        is_enough = self._moves_from[job.name, source] >= most
        leave = number_with_noun(most, "of the job's copies leaves", "of the job's copies leave")
        return f"{leave} {source} already" if is_enough else ""

    def why_target_gets_no_more(self, job: RebalanceJobOrDataset, target: str) -> str:
        """Return a reason if the plan already moves tasks_per_host copies of a job to a host, else an empty text."""
        most = self.board.rules.tasks_per_host
        is_enough = self._given[job.name, target] >= most
        go = number_with_noun(most, "of the job's copies goes", "of the job's copies go")
        return f"{go} to {target} already" if is_enough else ""

    def reject_move(self, task: RebalanceTask, target: str, reason: str) -> None:
        """Record the first reason against a task's move to a target; ignore further reasons."""
        if self.may_record_rejections:
            rejected = RejectedMove(job=task.job, number=task.number, target=target, reason=reason)
            self._rejected.setdefault((*task.job_and_task_number, target), rejected)

    def add_or_reject_move(
        self, reason: str, task: RebalanceTask, source: str, target: str, kind: RebalanceMoveKind | None = None
    ) -> bool:
        """Plan a move, or record the `reason` against it; say whether the move was planned.

        Without a `kind`, the copy keeps its kind: main copy (LIVE) or replica.
        """
        if reason:
            self.reject_move(task, target, reason)
            return False
        is_live = self.board.task_after_planned_moves(task).live == source
        self.add_move(kind or (RebalanceMoveKind.LIVE if is_live else RebalanceMoveKind.REPLICA), task, source, target)
        return True

    @property
    def may_record_rejections(self) -> bool:
        self._is_cut = len(self._rejected) >= MAX_LISTED_REFUSALS
        return not self._is_cut

    def why_host_takes_nothing(self, host: RebalanceHost) -> str:
        if host.name not in self._host_reasons:
            self._host_reasons[host.name] = why_host_takes_no_copy(self.board, host)
        return self._host_reasons[host.name]

    def hosts_taking_copies(self, task: RebalanceTask, kind: str) -> list[RebalanceHost]:
        """Return the usable hosts of a kind that take tasks or replicas.

        The first call after a move records the other usable hosts as rejected targets of `task`.
        """
        if kind not in self._takers:
            self._takers[kind] = []
            for host in self.board.usable_hosts_of_kind(kind):
                if reason := self.why_host_takes_nothing(host):
                    self.reject_move(task, host.name, reason)
                else:
                    self._takers[kind].append(host)
        return self._takers[kind]

    def movable_tasks_at_host(
        self, job: RebalanceJobOrDataset, host: str, *, is_asked: bool
    ) -> Iterator[RebalanceTask]:
        """Yield a job's movable tasks at a host, sorted by number; record why the other tasks stay."""
        if (fixed := self._fixed.get((job.name, host))) is not None:
            yield from fixed
            return
        if not self.may_record_rejections and job.name not in self.board.waiting:
            return
        movable = []
        for task in self.board.tasks_of_job_at(job.name, host):
            if not self.may_record_rejections and task.state is not RebalanceTaskState.WAITING:
                continue
            reason = why_task_is_not_moved(self.board, task, is_asked=is_asked) or self.why_beyond_round_limits(task)
            if reason:
                self.reject_move(task, "", reason)
            else:
                movable.append(task)
                yield task
        self._fixed[job.name, host] = movable

    def add_move(self, kind: RebalanceMoveKind, task: RebalanceTask, source: str, target: str = "") -> None:
        """Add a move to the plan, and project the hosts' loads after the move."""
        move = RebalanceMove(kind=kind, job=task.job, number=task.number, source=source, target=target)
        self.board.apply_move(move, task)
        for cache in (self._host_reasons, self._takers, self._fixed):
            cache.clear()
        self.moves.append(move)
        self._keys.add(task.job_and_task_number)
        if kind == RebalanceMoveKind.DELETE:
            return
        self._moves_from[task.job, source] += 1
        self._given[task.job, target] += 1
        if self._bytes_left is not None:
            self._bytes_left -= task.size_bytes

    def finished_plan(self, sentence: str) -> RebalanceMovePlan:
        """Return the plan; a move that was rejected first and planned later is not listed as rejected."""
        moved = {(move.job, move.number, move.target) for move in self.moves}
        rejected = (rejected_move for key, rejected_move in self._rejected.items() if key not in moved)
        full_sentence = "; ".join(filter(None, (sentence, UNLISTED if self._is_cut else "")))
        return RebalanceMovePlan(moves=tuple(self.moves), rejected=tuple(rejected), sentence=full_sentence)


def draft_moves_owner_round_robin(
    draft: MovePlanDraft, tasks: Iterable[RebalanceTask], advise: Callable[[RebalanceTask], object]
) -> None:
    """Plan moves up to the plan's limit; the tasks' owners take turns, one move each."""
    waiting: dict[str, deque[RebalanceTask]] = {}
    for task in tasks:
        waiting.setdefault(draft.board.jobs[task.job].owner, deque()).append(task)
    while waiting and not draft.has_reached_move_limit:
        for owner, theirs in [*waiting.items()]:
            before = len(draft.moves)
            while theirs and len(draft.moves) == before and not draft.has_reached_move_limit:
                advise(theirs.popleft())
            if not theirs:
                del waiting[owner]


def describe_moves(moves: Sequence[RebalanceMove], nothing: str = "nothing is moved") -> str:
    if not moves:
        return nothing
    targets = [move.target for move in moves if move.kind != RebalanceMoveKind.DELETE]
    deleted = len(moves) - len(targets)
    copied = f"{number_with_noun(len(targets), 'copy', 'copies')} to {', '.join(sorted({*targets}))}" if targets else ""
    return " and ".join(
        filter(None, (copied, f"{number_with_noun(deleted, 'copy', 'copies')} removed" if deleted else ""))
    )


def draft_new_task_copy(
    draft: MovePlanDraft,
    job: RebalanceJobOrDataset,
    task: RebalanceTask,
    source: str,
    kind: RebalanceMoveKind = RebalanceMoveKind.REPLICA,
) -> bool:
    """Plan a new copy of a task, read from host `source` or, if empty, from the original; return if a host takes it."""
    if not source and not task.has_original:
        draft.reject_move(task, "", "no copy of the task can be read")
        return False
    return any(
        draft.add_or_reject_move(why_copy_is_forbidden(draft.board, task, "", target), task, source, target.name, kind)
        for target in rank_copy_target_hosts(draft, job, task)
    )


def rank_copy_target_hosts(
    draft: MovePlanDraft, job: RebalanceJobOrDataset, task: RebalanceTask
) -> list[RebalanceHost]:
    """Return the hosts that take another replica of a task, the best host first.

    Hosts with a damaged replica of the task come first, then hosts in a new zone, then hosts of low load. Each of
    the job's copies adds sibling_weight to a host's load.
    """
    board, now = draft.board, draft.board.task_after_planned_moves(task)
    held = frozenset[str]().union(*(board.hosts[host].zones for host in now.hosts_with_copy if host in board.hosts))
    kinds = {board.hosts[host].kind for host in now.hosts_with_copy if host in board.hosts}
    if task.has_original:  # a dataset may go to areas of any kind
        kinds = {host.kind for host in board.hosts.values()}

    def target_sort_key(host: RebalanceHost) -> tuple[bool, bool, float, str]:
        siblings = board.copies_of_job_at(job.name, host.name)
        load = board.load_score_of(host) + board.rules.sibling_weight * siblings
        return host.name not in now.spoilt, not host.zones.isdisjoint(held), load, host.name

    return sorted((host for kind in kinds for host in draft.hosts_taking_copies(task, kind)), key=target_sort_key)


STATES = {
    RebalanceHostState.DISABLED: "gets nothing new",
    RebalanceHostState.DRAIN: "is drained",
    RebalanceHostState.DISK_FULL: "has a full disk",
    RebalanceHostState.DEAD: "is dead",
    RebalanceHostState.UNKNOWN: "is in an unknown state",
}
STAYING = {
    TaskNotMovedReason.HELD: "the task is held, or has not waited long enough",
    TaskNotMovedReason.DROPPED: "a recent move of the task failed",
    TaskNotMovedReason.RECALLED: "the task was recalled as often as its queue allows",
    TaskNotMovedReason.STUCK: "moves of the task have failed for a long time: the service's log says why",
    TaskNotMovedReason.SILENT: "the cluster does not answer and may start the task: a moved task would run twice",
}


def why_host_takes_no_copy(board: ProjectedHostsAndCopies, host: RebalanceHost) -> str:
    rules, name = board.rules, host.name
    if not host.is_up:
        return f"{name} is down"
    if host.state != RebalanceHostState.ALIVE:
        return f"{name} {STATES[host.state]}"
    if host.is_read_only:
        return f"{name} is read-only"
    if host.max_bytes > 0 and board.bytes_offered_to_copies(host) <= rules.min_free_bytes:
        return f"{name} has no more than {format_gigabytes(rules.min_free_bytes)} free"
    at, pause = board.snapshot.recent.hosts.get(name), timedelta(seconds=rules.host_rest_s)
    if at and happened_within(at, board.snapshot.now, pause):
        return f"{name} got a task less than {rules.host_rest_s:g} s ago"
    return ""


def why_task_is_not_moved(board: ProjectedHostsAndCopies, task: RebalanceTask, *, is_asked: bool) -> str:
    """Return why a task may not be moved; empty if it may. `is_asked`: the owner can't forbid the move."""
    job = board.jobs.get(task.job)
    if job is None:
        return "the task's job does not exist"
    if task.state != RebalanceTaskState.WAITING:
        return why_task_state_forbids_move(task)
    if job.spare and not is_asked:
        return "the task has more replicas than its owner requests"
    if not job.is_autobalanced and not is_asked:
        return "the owner wants the job to stay"
    return ""


def why_task_state_forbids_move(task: RebalanceTask) -> str:
    """Return why a task's state forbids a move; empty for a waiting task."""
    if task.state is RebalanceTaskState.STAYING:
        return STAYING[task.stays]
    if task.state is RebalanceTaskState.UNKNOWN:
        return "the task is in an unknown state"
    return "" if task.state is RebalanceTaskState.WAITING else f"the task is {task.state.value}"


def why_copy_is_forbidden(
    board: ProjectedHostsAndCopies, task: RebalanceTask, source: str, target: RebalanceHost
) -> str:
    """Return why a copy may not go to `target`; empty if it may. `source` is empty for a new replica."""
    now, name = board.task_after_planned_moves(task), target.name
    if name == source:
        return f"the task is at {name} already"
    if name in now.hosts_with_copy:
        return f"{name} has a copy of the task"
    job = board.jobs.get(task.job)
    if job and job.hosts is not None and name not in job.hosts:
        return _why_host_barred_for_job(job, name)
    if now.live == source and source and not board.has_free_slots_for(target, now.slots):
        return f"{name} has room for no more tasks"
    if task.size_bytes > (share := board.rules.disk_share) * board.bytes_offered_to_copies(target):
        return f"{format_gigabytes(task.size_bytes)} are more than {share:.0%} of what is free at {name}"
    if not _are_copies_in_different_zones(board, now, source, target):
        return f"with a copy at {name}, two copies of the task would be in one zone"
    return ""


def why_host_takes_no_more_of_job(
    board: ProjectedHostsAndCopies, job: RebalanceJobOrDataset, target: RebalanceHost
) -> str:
    if job.hosts is not None and target.name not in job.hosts:
        return _why_host_barred_for_job(job, target.name)
    most = board.fair_share_of_job(job, target)
    is_enough = board.copies_of_job_at(job.name, target.name) >= most
    return f"{target.name} already has its share of the job's copies, {most}" if is_enough else ""


def format_gigabytes(size_bytes: float) -> str:
    """Return a size in gigabytes with three significant digits."""
    return f"{size_bytes / 1e9:.3g} GB"


def _why_host_barred_for_job(job: RebalanceJobOrDataset, name: str) -> str:
    if name in job.resting:
        return f"a recent copy or removal at {name} failed"
    if name in job.away:
        return f"the copies at {name} can't be read now"
    if name in job.full:
        return f"{name} has no free slot for the task"
    return f"the task's job is not allowed at {name}"


def _are_copies_in_different_zones(
    board: ProjectedHostsAndCopies, task: RebalanceTask, source: str, target: RebalanceHost
) -> bool:
    """Say whether a move to `target` leaves a task's copies in different zones, or in every zone."""
    zones = board.zones.get(target.kind, frozenset())
    if len(zones) < 2:
        return True
    others = (board.hosts[name].zones for name in task.hosts_with_copy if name != source and name in board.hosts)
    held = [*others, target.zones]
    distinct = frozenset[str]().union(*held)
    return len(distinct) == sum(map(len, held)) or zones <= distinct
