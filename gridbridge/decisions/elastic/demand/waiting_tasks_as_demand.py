"""Find the waiting tasks for which nodes may be added, and estimate when tasks would finish without new nodes."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil

from gridbridge.decisions.elastic.balancer_node_and_job_counts import (
    do_requests_allow_queue,
    requested_qname_expressions,
    seconds_between,
    when_first_job_was_startable,
    why_no_node_is_added_for_jobs,
)
from gridbridge.decisions.elastic.demand import free_capacity, task_packing
from gridbridge.decisions.elastic.demand.demand_policy_round_facts import DemandPolicySituation
from gridbridge.decisions.elastic.demand.task_requirements import (
    DemandTaskRequirement,
    parallel_environment_refusing_job,
    parallel_environment_unable_to_split,
    parse_amount_or_default,
    requirement_of_task_requests,
)
from gridbridge.model.elastic.balance_plan import (
    BalanceSituation,
    NodeAddOrRemoveRefusal,
    NodeAddOrRemoveRefusalCause,
    WaitingJobsHistory,
)
from gridbridge.model.elastic.grid_engine_cell import WaitingJobGroup
from gridbridge.model.grid_engine_amounts import MINUTE_S

GAP_S = 3600.0  # after a longer gap between rounds the count of the time with free slots restarts
AGAIN = 10  # a job that ignored free slots may get new nodes again after stuck_after_s times this number


@dataclass(frozen=True, slots=True, kw_only=True)
class StartableTasksOfEqualRequests:
    need: DemandTaskRequirement  # smallest requirement of a task
    jobs: tuple[int, ...]
    tasks: int
    waited_s: float  # seconds since the first task could start
    kinds: tuple[tuple[str, str, int], ...] = ()
    others: tuple[DemandTaskRequirement, ...] = ()  # larger requirements with which a task may start instead

    @property
    def possible_needs(self) -> tuple[DemandTaskRequirement, ...]:
        """The requirements with which a task may start, the smallest first."""
        return (self.need, *self.others)

    @property
    def lowest_job_number(self) -> int:
        return min(self.jobs)

    @property
    def slots_of_all_tasks(self) -> int:
        return self.tasks * self.need.slots_of_all_parts


class CellWideFreeResources:
    def __init__(self, situation: BalanceSituation) -> None:
        on_hosts = {name for host in situation.cell.hosts for name, _ in host.left}
        licences = ((name, text) for name, text in situation.cell.left if name not in on_hosts)
        self._licences = {name: parse_amount_or_default(text) for name, text in licences}
        used = dict(situation.cell.granted)
        self._slots = {
            name: max(0, environment.slots - used.get(name, 0))
            for name, environment in situation.layout.environments.items()
            if environment.slots
        }

    def take_licences_and_slots(
        self, need: DemandTaskRequirement, tasks: int
    ) -> tuple[int, NodeAddOrRemoveRefusal | None]:
        """Take licences and environments' slots for tasks; return how many get both, and a refusal of the rest."""
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
                fit = affordable
                cause = NodeAddOrRemoveRefusalCause.LICENCE
                shortage = NodeAddOrRemoveRefusal(cause=cause, name=name, wanted=f"{amount:g}", has=f"{has:g}")
        fit, full = self._take_parallel_environment_slots(need, fit)
        for name, amount in licences.items():
            self._licences[name] -= fit * amount
        return fit, full or shortage

    def _take_parallel_environment_slots(
        self, need: DemandTaskRequirement, tasks: int
    ) -> tuple[int, NodeAddOrRemoveRefusal | None]:
        """Take slots of parallel environments for tasks, beginning with the most free slots."""
        if not need.environments or any(name not in self._slots for name in need.environments):
            return tasks, None
        task_slots, unplaced = need.slots * need.pieces, tasks
        first, *others = sorted(need.environments, key=lambda name: (-self._slots[name], name))
        cause, free = NodeAddOrRemoveRefusalCause.ENVIRONMENT_FULL, str(self._slots[first])
        full = NodeAddOrRemoveRefusal(cause=cause, name=first, wanted=str(task_slots), has=free)
        for name in (first, *others):
            fitting = min(unplaced, self._slots[name] // task_slots)
            self._slots[name] -= fitting * task_slots
            unplaced -= fitting
        return tasks - unplaced, full if unplaced else None


def startable_demand_and_refusals(
    situation: BalanceSituation, widest: int, stuck: Collection[int] = ()
) -> tuple[tuple[StartableTasksOfEqualRequests, ...], tuple[NodeAddOrRemoveRefusal, ...]]:
    """Return tasks that may get nodes, and why other tasks get none; skip groups whose first job is in `stuck`."""
    pending, refused = list[StartableTasksOfEqualRequests](), list[NodeAddOrRemoveRefusal]()
    limits = CellWideFreeResources(situation)
    for row in situation.cell.waiting:
        cause = _why_no_node_helps_jobs(row, situation)
        if cause is not None:
            refused.extend(NodeAddOrRemoveRefusal(job=job, cause=cause) for job in row.jobs)
        elif row.state.is_waiting and row.lowest_job_number not in stuck:
            pending_shape, why = _startable_tasks_and_refusal(row, situation, widest, limits)
            refused.extend(repeat_refusal_for_jobs(why, row.jobs))
            if pending_shape.tasks:
                pending.append(pending_shape)
    return tuple(pending), tuple(refused)


def repeat_refusal_for_jobs(
    refusal: NodeAddOrRemoveRefusal | None, jobs: Iterable[int]
) -> Iterator[NodeAddOrRemoveRefusal]:
    if refusal is not None:
        yield from (replace(refusal, job=job) for job in jobs)


def _startable_tasks_and_refusal(
    row: WaitingJobGroup, situation: BalanceSituation, widest: int, limits: CellWideFreeResources
) -> tuple[StartableTasksOfEqualRequests, NodeAddOrRemoveRefusal | None]:
    shapes = (row.shape, *row.shape.others)
    need, *others = (requirement_of_task_requests(shape, situation.layout, widest) for shape in shapes)
    tasks, refusal = _count_startable_tasks(row, need, situation, limits)
    since = when_first_job_was_startable(row, situation)
    pending_shape = StartableTasksOfEqualRequests(
        need=need,
        jobs=row.jobs,
        tasks=tasks,
        waited_s=max(0.0, seconds_between(since, situation.now)) if since else 0.0,
        kinds=row.kinds,
        others=tuple(others),
    )
    return pending_shape, refusal


def _count_startable_tasks(
    row: WaitingJobGroup, need: DemandTaskRequirement, situation: BalanceSituation, limits: CellWideFreeResources
) -> tuple[int, NodeAddOrRemoveRefusal | None]:
    if rule := parallel_environment_unable_to_split(row.shape, situation.layout):
        wanted, has = str(row.shape.slots), str(rule.per_host)
        cause = NodeAddOrRemoveRefusalCause.UNDIVIDED
        return 0, NodeAddOrRemoveRefusal(cause=cause, name=rule.name, wanted=wanted, has=has)
    name, barred_user = parallel_environment_refusing_job(row.shape, situation.layout)
    if name:
        return 0, NodeAddOrRemoveRefusal(cause=NodeAddOrRemoveRefusalCause.BARRED, name=name, wanted=barred_user)
    tasks, refusal = limits.take_licences_and_slots(need, row.tasks - row.capped)
    if refusal is None and row.capped and not tasks:
        return 0, NodeAddOrRemoveRefusal(cause=NodeAddOrRemoveRefusalCause.CAPPED)
    return tasks, refusal


def _why_no_node_helps_jobs(row: WaitingJobGroup, situation: BalanceSituation) -> NodeAddOrRemoveRefusalCause | None:
    if (cause := why_no_node_is_added_for_jobs(row)) is not None:
        return cause
    if not (row.shape.queues or requested_qname_expressions(row.shape)):
        return None
    names = set(situation.layout.queues) | {instance.queue for instance in situation.cell.instances}
    fit = [queue for queue in names if do_requests_allow_queue(queue, row.shape)]
    is_ordinary = any(not free_capacity.is_best_effort_or_transfer_queue(queue, situation) for queue in fit)
    return NodeAddOrRemoveRefusalCause.BEST_EFFORT if fit and not is_ordinary else None


def find_startable_demand(
    facts: DemandPolicySituation,
) -> tuple[
    tuple[StartableTasksOfEqualRequests, ...], tuple[NodeAddOrRemoveRefusal, ...], Mapping[int, WaitingJobsHistory]
]:
    """Return the tasks for which nodes may be added, the refusals, and the new history of waiting jobs."""
    situation, after_s = facts.situation, facts.demand.stuck_after_s
    tasks = _count_waiting_tasks_by_first_job(situation)
    still = {
        job: replace(history, at=situation.now)
        for job, history in situation.watched.items()
        if history.tasks == tasks[job]
        and history.stuck_since is not None
        and seconds_between(history.at, situation.now) <= GAP_S
        and seconds_between(history.stuck_since, situation.now) < AGAIN * after_s
    }
    widest = max((facts.cell.widest, *(offer.room.free_slots_in_largest_queue for offer in facts.offers)))
    demand, refused = startable_demand_and_refusals(situation, widest, still.keys())
    histories = {**still, **(_update_waiting_job_histories(demand, tasks, facts) if after_s else {})}
    stuck = {job for job, history in histories.items() if history.stuck_since}
    startable = tuple(pending_shape for pending_shape in demand if pending_shape.lowest_job_number not in stuck)
    return startable, (*refused, *_stuck_job_refusals(situation, histories)), histories


def _count_waiting_tasks_by_first_job(situation: BalanceSituation) -> Counter[int]:
    """Count waiting tasks by the lowest job number of their group; groups may share this number."""
    waiting = Counter[int]()
    for row in _job_groups_that_may_start(situation):
        waiting[row.lowest_job_number] += row.tasks
    return waiting


def _job_groups_that_may_start(situation: BalanceSituation) -> Iterator[WaitingJobGroup]:
    return (
        row for row in situation.cell.waiting if why_no_node_is_added_for_jobs(row) is None and row.state.is_waiting
    )


def _update_waiting_job_histories(
    pending_shapes: Iterable[StartableTasksOfEqualRequests], tasks: Mapping[int, int], facts: DemandPolicySituation
) -> Mapping[int, WaitingJobsHistory]:
    """Return the history of waiting jobs, and mark each job that did not start despite free slots.

    A job is marked after `stuck_after_s` with free slots; slots for new jobs do not count as free.
    """
    situation, rows = facts.situation, defaultdict[int, list[StartableTasksOfEqualRequests]](list)
    for pending_shape in pending_shapes:
        rows[pending_shape.lowest_job_number].append(pending_shape)
    before = {  # jobs that waited in the last round already, and of which no task started since
        job: history
        for job, history in situation.watched.items()
        if job in rows
        and seconds_between(history.at, situation.now) <= GAP_S
        and history.stuck_since is None
        and history.tasks <= tasks[job]
    }
    remaining = facts.present
    for shape in (shape for job, row in rows.items() if job not in before for shape in row):
        remaining = task_packing.pack_tasks_with_alternative_needs(shape.possible_needs, shape.tasks, remaining)[1]
    histories = dict[int, WaitingJobsHistory]()
    for job, row in rows.items():
        histories[job] = now = WaitingJobsHistory(at=situation.now, tasks=tasks[job])
        rooms = remaining if job in before else facts.present
        if any(task_packing.pack_tasks_with_alternative_needs(shape.possible_needs, 1, rooms)[0] for shape in row):
            since = (before[job].room_since if job in before else None) or now.at
            is_stuck = seconds_between(since, now.at) >= facts.demand.stuck_after_s
            histories[job] = replace(now, room_since=since, stuck_since=now.at if is_stuck else None)
    return histories


def _stuck_job_refusals(
    situation: BalanceSituation, rows: Mapping[int, WaitingJobsHistory]
) -> Iterator[NodeAddOrRemoveRefusal]:
    """Yield a refusal for each job that did not start despite free slots, with the minutes of free slots."""
    for row in _job_groups_that_may_start(situation):
        history = rows.get(row.lowest_job_number)
        if history and history.stuck_since and history.room_since:
            has = f"{seconds_between(history.room_since, history.stuck_since) / MINUTE_S:.0f}"
            yield from (
                NodeAddOrRemoveRefusal(job=job, cause=NodeAddOrRemoveRefusalCause.STUCK, has=has) for job in row.jobs
            )


SCHEDULER_S = 15.0  # default scheduling interval of Grid Engine (sched_conf(5))


def slot_seconds_of_all_tasks(
    facts: DemandPolicySituation, pending_shapes: Iterable[StartableTasksOfEqualRequests]
) -> float | None:
    """Return the slot-seconds that running and waiting tasks need; None if a run time is unknown.

    If a task has exceeded its mean run time by s seconds, it is expected to run for s further seconds.
    """
    instances = (instance for instances in facts.cell.queues_by_host.values() for instance in instances)
    usable, runtimes, now = (
        [instance for instance in instances if instance.is_usable],
        facts.situation.runtimes,
        facts.situation.now,
    )
    if any(instance.used > sum(tasks.slots for tasks in instance.begun) for instance in usable):
        return None  # the owners of some running tasks are unknown
    running = [(tasks.owner, tasks.name, tasks) for instance in usable for tasks in instance.begun]
    waiting = [
        (owner, name, tasks * shape.need.slots_of_all_parts)
        for shape in pending_shapes
        for owner, name, tasks in shape.kinds or (("", "", shape.tasks),)
    ]
    if any((owner, name) not in runtimes for owner, name, _ in (*running, *waiting)):
        return None
    running_s = sum(
        tasks.slots * abs(runtimes[owner, name] - (seconds_between(tasks.since, now) if tasks.since else 0.0))
        for owner, name, tasks in running
    )
    return running_s + sum(slots * runtimes[owner, name] for owner, name, slots in waiting)


def first_tasks_that_fill_slots(
    pending_shapes: Iterable[tuple[StartableTasksOfEqualRequests, int]], slots: float
) -> list[tuple[StartableTasksOfEqualRequests, int]]:
    first = list[tuple[StartableTasksOfEqualRequests, int]]()
    for pending_shape, tasks in pending_shapes:
        fitting = min(tasks, ceil(slots / _slots_of_one_task(pending_shape)))
        if fitting > 0:
            first.append((pending_shape, fitting))
            slots -= fitting * _slots_of_one_task(pending_shape)
    return first


def tasks_no_transfer_queue_starts_sooner(
    pending_shapes: Iterable[tuple[StartableTasksOfEqualRequests, int]], facts: DemandPolicySituation, boot_s: float
) -> tuple[list[tuple[StartableTasksOfEqualRequests, int]], tuple[str, float]]:
    """Return the tasks that no transfer queue starts before a new node would boot.

    Also return the queue that starts the last of the other tasks, and the queue's delay in seconds. If a task could
    have had a node for longer than a queue's delay, the queue is ignored for the task.
    """
    unserved, last = list[tuple[StartableTasksOfEqualRequests, int]](), ("", 0.0)
    free, rooms = dict(facts.situation.elsewhere_free), free_capacity.full_capacity_by_transfer_queue(facts.cell)
    for shape, tasks in pending_shapes:
        late_s, slots = shape.waited_s - facts.demand.wait_s - facts.rules.interval_s, _slots_of_one_task(shape)
        queues = [
            (wait_s, queue)
            for queue, wait_s in facts.situation.elsewhere.items()
            if late_s <= wait_s + 2 * SCHEDULER_S and wait_s < boot_s
            if free.get(queue, slots) >= slots and _could_run_in_empty_queue(shape.need, rooms.get(queue, ()))
        ]
        if not queues:
            unserved.append((shape, tasks))
            continue
        wait_s, queue = min(queues)
        last, started = (queue, wait_s), tasks
        if queue in free:
            started = min(tasks, free[queue] // slots)
            free[queue] -= started * slots
        if started < tasks:
            unserved.append((shape, tasks - started))
    return unserved, last


def _could_run_in_empty_queue(need: DemandTaskRequirement, rooms: Iterable[task_packing.FreeHostCapacity]) -> bool:
    return sum(task_packing.count_task_pieces_fitting_host(need, room) for room in rooms) >= need.pieces


def _slots_of_one_task(pending_shape: StartableTasksOfEqualRequests) -> int:
    return max(1, pending_shape.need.slots_of_all_parts)
