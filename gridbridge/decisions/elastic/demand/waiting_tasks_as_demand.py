"""Find the waiting tasks for which nodes may be added, and estimate when tasks would finish without new nodes."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from math import ceil

from gridbridge.decisions.elastic.balancer_node_and_job_counts import (
    do_requests_allow_queue,
    elapsed_s,
    requested_qname_expressions,
    when_first_job_was_startable,
    why_waiting_jobs_are_no_demand,
)
from gridbridge.decisions.elastic.demand.free_capacity import is_best_effort_or_transfer_queue
from gridbridge.decisions.elastic.demand.task_packing import (
    CellPlacementRules,
    FreeHostCapacity,
    HostBlocks,
    count_task_pieces_fitting_host,
    pack_tasks_with_alternative_needs,
)
from gridbridge.decisions.elastic.demand.task_requirements import (
    TaskRequirement,
    environment_and_why_it_refuses_job,
    environment_that_cannot_split_slots,
    parse_amount_or_zero,
    requirement_of_task_requests,
)
from gridbridge.model.elastic.balance_plan import (
    BalanceSituation,
    NodeAddOrRemoveRefusal,
    NodeAddOrRemoveRefusalCause,
    WaitingJobsHistory,
)
from gridbridge.model.elastic.grid_engine_cell import RunningTaskGroup, TaskResourceRequests, WaitingJobGroup
from gridbridge.model.grid_engine_amounts import MINUTE_S

GAP_S = 3600.0  # after a longer gap between rounds, the time with free slots is counted anew
AGAIN = 10  # a job that ignored free slots may add nodes again after this many times stuck_after_s


@dataclass(frozen=True, slots=True, kw_only=True)
class StartableDemandOfEqualRequests:
    """Waiting tasks with equal requests that the scheduler may start now."""

    need: TaskRequirement  # smallest requirement of a task
    jobs: tuple[int, ...]
    tasks: int
    waited_s: float  # seconds since the first task could start
    kinds: tuple[tuple[str, str, int], ...] = ()
    others: tuple[TaskRequirement, ...] = ()  # larger requirements with which a task may start instead

    @property
    def needs(self) -> tuple[TaskRequirement, ...]:
        """The requirements with which a task may start, the smallest first."""
        return (self.need, *self.others)

    @property
    def first(self) -> int:
        """The lowest number of the tasks' jobs."""
        return min(self.jobs)

    @property
    def slots(self) -> int:
        """The number of slots of all tasks together."""
        return self.tasks * self.need.all_slots


class CellWideFreeResources:
    """The free licences of the whole cell, and the free slots of parallel environments."""

    def __init__(self, situation: BalanceSituation) -> None:
        on_hosts = {name for host in situation.cell.hosts for name, _ in host.left}
        self._licences = {
            name: parse_amount_or_zero(text) for name, text in situation.cell.left if name not in on_hosts
        }
        used = dict(situation.cell.granted)
        self._slots = {
            name: max(0, environment.slots - used.get(name, 0))
            for name, environment in situation.layout.environments.items()
            if environment.slots
        }

    def take(self, need: TaskRequirement, tasks: int) -> tuple[int, NodeAddOrRemoveRefusal | None]:
        """Return how many tasks the licences and parallel environments allow, and the refusal of the other tasks.

        The licences and slots of allowed tasks are subtracted. A job without a licence request uses the
        licence's default amount.
        """
        demanded = dict(need.usual) | dict(need.amounts)
        licences = {
            name: amount_each * need.pieces
            for name, amount_each in demanded.items()
            if name in self._licences and amount_each > 0
        }
        fit, shortage = tasks, None
        for name, amount in licences.items():
            has = self._licences[name]
            if (affordable := int(has / amount + 1e-9)) < fit:
                fit, shortage = (
                    affordable,
                    _shortage(NodeAddOrRemoveRefusalCause.LICENCE, name, f"{amount:g}", f"{has:g}"),
                )
        fit, full = self._environment(need, fit)
        for name, amount in licences.items():
            self._licences[name] -= fit * amount
        return fit, full or shortage

    def _environment(self, need: TaskRequirement, tasks: int) -> tuple[int, NodeAddOrRemoveRefusal | None]:
        """Assign tasks to parallel environments, environments with the most free slots first."""
        if not need.environments or any(name not in self._slots for name in need.environments):
            return tasks, None
        task_slots, unplaced = need.slots * need.pieces, tasks
        environments = sorted(need.environments, key=lambda name: (-self._slots[name], name))
        full = _shortage(
            NodeAddOrRemoveRefusalCause.ENVIRONMENT_FULL,
            environments[0],
            str(task_slots),
            str(self._slots[environments[0]]),
        )
        for name in environments:
            fitting = min(unplaced, self._slots[name] // task_slots)
            self._slots[name] -= fitting * task_slots
            unplaced -= fitting
        return tasks - unplaced, full if unplaced else None


def _shortage(cause: NodeAddOrRemoveRefusalCause, name: str, required: str, has: str) -> NodeAddOrRemoveRefusal:
    return NodeAddOrRemoveRefusal(cause=cause, name=name, wanted=required, has=has)


def startable_demand_and_refusals(
    situation: BalanceSituation, widest: int, stuck: Collection[int] = ()
) -> tuple[tuple[StartableDemandOfEqualRequests, ...], tuple[NodeAddOrRemoveRefusal, ...]]:
    """Return the tasks for which nodes may be added, and a refusal for each other waiting job.

    Jobs in `stuck`, given by the lowest job numbers of their groups, appear in neither result.
    """
    pending, refused, limits = (
        list[StartableDemandOfEqualRequests](),
        list[NodeAddOrRemoveRefusal](),
        CellWideFreeResources(situation),
    )
    for row in situation.cell.waiting:
        cause = _refusal_cause(row, situation)
        if cause is not None:
            refused.extend(NodeAddOrRemoveRefusal(job=job, cause=cause) for job in row.jobs)
        elif row.state.is_waiting and row.first not in stuck:
            pending_shape, why = _pending_shape(row, situation, widest, limits)
            refused.extend(repeat_refusal_for_jobs(why, row.jobs))
            if pending_shape.tasks:
                pending.append(pending_shape)
    return tuple(pending), tuple(refused)


def repeat_refusal_for_jobs(
    refusal: NodeAddOrRemoveRefusal | None, jobs: Iterable[int]
) -> Iterator[NodeAddOrRemoveRefusal]:
    """Yield a copy of a refusal for each job; nothing without a refusal."""
    if refusal is not None:
        yield from (replace(refusal, job=job) for job in jobs)


def _pending_shape(
    row: WaitingJobGroup, situation: BalanceSituation, widest: int, limits: CellWideFreeResources
) -> tuple[StartableDemandOfEqualRequests, NodeAddOrRemoveRefusal | None]:
    need = requirement_of_task_requests(row.shape, situation.layout, widest)
    tasks, refusal = _startable(row, need, situation, limits)
    pending_shape = StartableDemandOfEqualRequests(
        need=need,
        jobs=row.jobs,
        tasks=tasks,
        waited_s=_waited_s(row, situation),
        kinds=row.kinds,
        others=tuple(requirement_of_task_requests(shape, situation.layout, widest) for shape in row.shape.others),
    )
    return pending_shape, refusal


def _startable(
    row: WaitingJobGroup, need: TaskRequirement, situation: BalanceSituation, limits: CellWideFreeResources
) -> tuple[int, NodeAddOrRemoveRefusal | None]:
    if rule := environment_that_cannot_split_slots(row.shape, situation.layout):
        slots, per_host = str(row.shape.slots), str(rule.per_host)
        return 0, _shortage(NodeAddOrRemoveRefusalCause.UNDIVIDED, rule.name, slots, per_host)
    name, barred_user = environment_and_why_it_refuses_job(row.shape, situation.layout)
    if name:
        return 0, NodeAddOrRemoveRefusal(cause=NodeAddOrRemoveRefusalCause.BARRED, name=name, wanted=barred_user)
    tasks, refusal = limits.take(need, row.tasks - row.capped)
    if refusal is None and row.capped and not tasks:
        return 0, NodeAddOrRemoveRefusal(cause=NodeAddOrRemoveRefusalCause.CAPPED)
    return tasks, refusal


def _refusal_cause(row: WaitingJobGroup, situation: BalanceSituation) -> NodeAddOrRemoveRefusalCause | None:
    if (cause := why_waiting_jobs_are_no_demand(row)) is not None:
        return cause
    asks_queues = row.shape.queues or requested_qname_expressions(row.shape)
    return NodeAddOrRemoveRefusalCause.BEST_EFFORT if asks_queues and _all_left_out(row.shape, situation) else None


def _all_left_out(shape: TaskResourceRequests, situation: BalanceSituation) -> bool:
    names = set(situation.layout.queues) | {instance.queue for instance in situation.cell.instances}
    fit = [queue for queue in names if do_requests_allow_queue(queue, shape)]
    return bool(fit) and all(is_best_effort_or_transfer_queue(queue, situation) for queue in fit)


def _waited_s(row: WaitingJobGroup, situation: BalanceSituation) -> float:
    since = when_first_job_was_startable(row, situation)
    return max(0.0, elapsed_s(since, situation.now)) if since else 0.0


def jobs_still_stuck(situation: BalanceSituation, stuck_after_s: float) -> Mapping[int, WaitingJobsHistory]:
    """Return the jobs that did not start despite free slots; no nodes are added for these jobs."""
    tasks = _waiting_tasks_by_row(situation)
    return {
        job: replace(history, at=situation.now)
        for job, history in situation.watched.items()
        if history.tasks == tasks[job] and _is_stuck(history, situation.now, stuck_after_s)
    }


def _is_stuck(history: WaitingJobsHistory, now: datetime, stuck_after_s: float) -> bool:
    if history.stuck_since is None or elapsed_s(history.at, now) > GAP_S:
        return False
    return elapsed_s(history.stuck_since, now) < AGAIN * stuck_after_s


def _waiting_tasks_by_row(situation: BalanceSituation) -> Counter[int]:
    """Return the number of waiting tasks by the lowest job number of each group.

    A requeued job may be in two groups.
    """
    waiting = Counter[int]()
    for row in _startable_rows(situation):
        waiting[row.first] += row.tasks
    return waiting


def _startable_rows(situation: BalanceSituation) -> Iterator[WaitingJobGroup]:
    return (
        row for row in situation.cell.waiting if why_waiting_jobs_are_no_demand(row) is None and row.state.is_waiting
    )


def mark_jobs_stuck_despite_room(
    pending_shapes: Iterable[StartableDemandOfEqualRequests],
    situation: BalanceSituation,
    blocks: HostBlocks,
    placement: CellPlacementRules,
    stuck_after_s: float,
) -> Mapping[int, WaitingJobsHistory]:
    """Return the history of waiting jobs, and mark each job that did not start despite free slots.

    A job is marked after `stuck_after_s` with free slots. Slots that new jobs are about to use are not free for
    older jobs. Each older job is checked alone.
    """
    if not stuck_after_s:
        return {}
    rows, tasks = (defaultdict[int, list[StartableDemandOfEqualRequests]](list), _waiting_tasks_by_row(situation))
    for pending_shape in pending_shapes:
        rows[pending_shape.first].append(pending_shape)
    histories = {
        job: history
        for job, history in situation.watched.items()
        if job in rows and _is_unchanged_since_last_round(history, tasks[job], situation)
    }
    remaining = blocks
    for pending_shape in (pending_shape for job, row in rows.items() if job not in histories for pending_shape in row):
        remaining = pack_tasks_with_alternative_needs(pending_shape.needs, pending_shape.tasks, remaining, placement)[1]
    return {
        job: _update_watched_jobs(
            WaitingJobsHistory(at=situation.now, tasks=tasks[job]),
            histories.get(job),
            stuck_after_s,
            has_room=_has_room(row, remaining if job in histories else blocks, placement),
        )
        for job, row in rows.items()
    }


def _has_room(row: Iterable[StartableDemandOfEqualRequests], rooms: HostBlocks, placement: CellPlacementRules) -> bool:
    return any(pack_tasks_with_alternative_needs(pending_shape.needs, 1, rooms, placement)[0] for pending_shape in row)


def _update_watched_jobs(
    now: WaitingJobsHistory, before: WaitingJobsHistory | None, stuck_after_s: float, *, has_room: bool
) -> WaitingJobsHistory:
    if not has_room:
        return now
    since = before.room_since if before and before.room_since else now.at
    is_stuck = elapsed_s(since, now.at) >= stuck_after_s
    return replace(now, room_since=since, stuck_since=now.at if is_stuck else None)


def _is_unchanged_since_last_round(history: WaitingJobsHistory, tasks: int, situation: BalanceSituation) -> bool:
    """Say whether jobs already waited in the last round and none of their tasks started since."""
    is_recent = elapsed_s(history.at, situation.now) <= GAP_S
    return is_recent and history.stuck_since is None and history.tasks <= tasks


def stuck_job_refusals(
    situation: BalanceSituation, rows: Mapping[int, WaitingJobsHistory]
) -> Iterator[NodeAddOrRemoveRefusal]:
    """Yield a refusal for each job that did not start despite free slots, with the minutes of free slots."""
    for row in _startable_rows(situation):
        history = rows.get(row.first)
        if history and history.stuck_since and history.room_since:
            has = f"{elapsed_s(history.room_since, history.stuck_since) / MINUTE_S:.0f}"
            yield from (
                NodeAddOrRemoveRefusal(job=job, cause=NodeAddOrRemoveRefusalCause.STUCK, has=has) for job in row.jobs
            )


def demand_without_stuck_jobs(
    pending_shapes: Iterable[StartableDemandOfEqualRequests], rows: Mapping[int, WaitingJobsHistory]
) -> tuple[StartableDemandOfEqualRequests, ...]:
    """Return the waiting tasks without tasks of jobs that did not start despite free slots."""
    return tuple(
        pending_shape
        for pending_shape in pending_shapes
        if (row := rows.get(pending_shape.first)) is None or not row.stuck_since
    )


SCHEDULER_S = 15.0  # default scheduling interval of Grid Engine (sched_conf(5))


Runtimes = Mapping[tuple[str, str], float]  # mean seconds, by owner and job name


def waiting_tasks_slot_seconds(
    pending_shapes: Iterable[StartableDemandOfEqualRequests], runtimes: Runtimes
) -> float | None:
    """Return the slot-seconds that waiting tasks need; None if a run time is unknown."""
    total = 0.0
    for pending_shape in pending_shapes:
        task_slots = pending_shape.need.all_slots
        for owner, name, tasks in pending_shape.kinds or (("", "", pending_shape.tasks),):
            if (owner, name) not in runtimes:
                return None
            total += tasks * task_slots * runtimes[owner, name]
    return total


def running_tasks_slot_seconds_left(
    begun: Iterable[RunningTaskGroup], runtimes: Runtimes, now: datetime
) -> float | None:
    """Return the slot-seconds that running tasks still need; None if a run time is unknown.

    A task that has exceeded its mean run time by some seconds is expected to run as many seconds more.
    """
    total = 0.0
    for tasks in begun:
        if (tasks.owner, tasks.name) not in runtimes:
            return None
        ran_s = elapsed_s(tasks.since, now) if tasks.since else 0.0
        total += tasks.slots * abs(runtimes[tasks.owner, tasks.name] - ran_s)
    return total


def first_tasks_for_slots(
    pending_shapes: Iterable[tuple[StartableDemandOfEqualRequests, int]], slots: float
) -> list[tuple[StartableDemandOfEqualRequests, int]]:
    """Return the first waiting tasks that together fill the given number of slots."""
    first = list[tuple[StartableDemandOfEqualRequests, int]]()
    for pending_shape, tasks in pending_shapes:
        fitting = min(tasks, ceil(slots / _slots_per_task(pending_shape)))
        if fitting > 0:
            first.append((pending_shape, fitting))
            slots -= fitting * _slots_per_task(pending_shape)
    return first


class TransferQueueSlotsAndDelays:
    """The free slots of transfer queues, and the time until each queue starts a task."""

    def __init__(
        self,
        waits_s: Mapping[str, float],
        free: Mapping[str, int],
        rooms: Mapping[str, tuple[FreeHostCapacity, ...]],
        placement: CellPlacementRules,
    ) -> None:
        self._waits_s = waits_s
        self._free = dict(free)  # by queue; a missing queue has no known number
        self._rooms = rooms  # full capacity of each queue
        self._ground = placement

    def sooner(
        self, pending_shape: StartableDemandOfEqualRequests, boot_s: float, late_s: float
    ) -> tuple[str, float] | None:
        """Return the transfer queue that starts a task first, if this is sooner than the boot of a new node.

        `late_s` is the time since a node could first have been added for the task. A queue that should have
        started the task in that time is not chosen.
        """
        task_slots = _slots_per_task(pending_shape)
        open_to = {
            name: wait_s
            for name, wait_s in self._waits_s.items()
            if late_s <= wait_s + 2 * SCHEDULER_S
            and self._free.get(name, task_slots) >= task_slots
            and self._takes(pending_shape, name)
        }
        if not open_to:
            return None
        name = min(open_to, key=lambda queue: (open_to[queue], queue))
        return (name, open_to[name]) if open_to[name] < boot_s else None

    def _takes(self, pending_shape: StartableDemandOfEqualRequests, queue: str) -> bool:
        """Say whether an empty transfer queue would have room for a task."""
        need, rooms = pending_shape.need, self._rooms.get(queue, ())
        return sum(count_task_pieces_fitting_host(need, room, self._ground) for room in rooms) >= need.pieces

    def take(self, queue: str, pending_shape: StartableDemandOfEqualRequests, tasks: int) -> int:
        """Reserve the slots of the tasks that a transfer queue can start; return the number of tasks."""
        if queue not in self._free:
            return tasks
        started = min(tasks, self._free[queue] // _slots_per_task(pending_shape))
        self._free[queue] -= started * _slots_per_task(pending_shape)
        return started


def _slots_per_task(pending_shape: StartableDemandOfEqualRequests) -> int:
    return max(1, pending_shape.need.all_slots)
