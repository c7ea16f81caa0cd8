"""Rules of replays: CycleCloud's node policy, how long a policy may take, and why jobs waited."""

import itertools
import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from gridbridge.decisions.elastic.balancer_node_and_job_counts import startable_waiting_jobs
from gridbridge.model.elastic.balance_plan import BalancePlan, BalancePlanFigures, BalancePlanReason, BalanceSituation
from gridbridge.model.elastic.elastic_nodes import ElasticNodeState
from gridbridge.model.elastic.replay_tasks_and_results import (
    ComparedReplayRules,
    RecordedReplayTask,
    RecordedWorkload,
    ReplayExclusionReason,
    ReplayPolicy,
)
from gridbridge.model.grid_engine_amounts import HOUR_S, MINUTE_S

IDLE_TIMEOUT_S = 300.0


def plan_balance_like_cyclecloud(situation: BalanceSituation, way: ReplayPolicy, slots: int) -> BalancePlan:
    """Return a round's plan by the rules of CycleCloud's autoscaler (cyclecloud-gridengine 2.0).

    Nodes unused for 300 s are removed. The plan stays within min_nodes and max_nodes.
    """
    rules, nodes = way.balance, len(situation.nodes)
    bins = _pack_tasks_into_simulated_nodes(situation, slots)
    short = max(bins.new, rules.min_nodes - nodes)
    add = max(0, min(short, rules.max_nodes - nodes))
    in_use = bins.matched.union(instance.host for instance in situation.cell.instances if instance.running)
    timed_out = [
        node.name
        for node in reversed(situation.nodes)
        if node.state is ElasticNodeState.READY
        and node.name not in in_use
        and node.idle_since is not None
        and (situation.now - node.idle_since).total_seconds() >= IDLE_TIMEOUT_S
    ]
    remove = tuple(timed_out[: max(0, nodes - rules.min_nodes)])
    verdict = BalancePlanReason.MORE_WANTED if add else BalancePlanReason.IDLE if remove else BalancePlanReason.NO_NEED
    figures = _count_simulated_nodes_and_jobs(situation)
    return BalancePlan(verdict=verdict, figures=figures, add=add, remove=() if add else remove)


@dataclass(slots=True, kw_only=True)
class SimulatedFreeSlots:
    """The free slots of present and new nodes; each task goes to the first node with enough free slots."""

    names: list[str]
    free: list[int]
    new_slots: int
    matched: set[str] = field(default_factory=set)  # names of the nodes on which tasks were placed
    new: int = 0

    def place_tasks_on_nodes(self, slots: int, tasks: int) -> None:
        """Place tasks that need `slots` slots each; add new nodes if too few slots are free."""
        if slots > self.new_slots:
            self._spread_task_over_nodes(slots * tasks)
            return
        for index, name in enumerate(self.names):
            fit = min(tasks, self.free[index] // slots)
            if fit:
                self.free[index] -= fit * slots
                self.matched.add(name)
                tasks -= fit
            if not tasks:
                return
        per_node = self.new_slots // slots
        self._add_new_nodes(-(-tasks // per_node), self.new_slots - per_node * slots)
        self.free[-1] += (-tasks % per_node) * slots

    def _spread_task_over_nodes(self, slots: int) -> None:
        """Place tasks, each too large for one node, on several nodes; `slots` is the tasks' total."""
        for index, name in enumerate(self.names):
            used = min(slots, self.free[index])
            if used:
                self.free[index] -= used
                self.matched.add(name)
                slots -= used
        if slots:
            nodes = -(-slots // self.new_slots)
            self._add_new_nodes(nodes, 0)
            self.free[-1] += nodes * self.new_slots - slots

    def _add_new_nodes(self, nodes: int, free: int) -> None:
        for _ in range(nodes):
            self.new += 1
            self.names.append(f"+{self.new}")
            self.free.append(free)


def _pack_tasks_into_simulated_nodes(situation: BalanceSituation, new_slots: int) -> SimulatedFreeSlots:
    coming = [node.name for node in situation.nodes if node.state.is_coming]
    ready = [instance for instance in situation.cell.instances if instance.is_usable]
    bins = SimulatedFreeSlots(
        names=[*(instance.host for instance in ready), *coming],
        free=[*(instance.free_slots for instance in ready), *(new_slots for _ in coming)],
        new_slots=new_slots,
    )
    for row in startable_waiting_jobs(situation.cell.waiting):
        bins.place_tasks_on_nodes(row.shape.slots, row.tasks)
    return bins


def _count_simulated_nodes_and_jobs(situation: BalanceSituation) -> BalancePlanFigures:
    waiting = startable_waiting_jobs(situation.cell.waiting)
    return BalancePlanFigures(
        nodes=len(situation.nodes),
        running=sum(not node.state.is_coming for node in situation.nodes),
        jobs=sum(len(row.jobs) for row in waiting),
        wanted=sum(row.total_requested_slots for row in waiting),
        free=sum(instance.free_slots for instance in situation.cell.instances),
        slots=sum(instance.total for instance in situation.cell.instances),
        slots_per_node=None,
        waited_s=0.0,
        unchanged_s=None,
    )


def seconds_to_next_rule_timeout(situation: BalanceSituation, way: ReplayPolicy) -> float:
    """Return the seconds until a timeout may change a policy's decision; infinity if no timeout runs."""
    return min((seconds for seconds in _policy_timeouts_s(situation, way) if seconds > 0), default=math.inf)


def _policy_timeouts_s(situation: BalanceSituation, way: ReplayPolicy) -> Iterator[float]:
    rules, demand, is_starcluster = way.balance, way.demand, way.rules is ComparedReplayRules.STARCLUSTER
    if situation.last_change is not None:
        changed_s = (situation.now - situation.last_change).total_seconds()
        if is_starcluster:
            yield rules.stabilization_s - changed_s
        else:
            yield demand.grow_pause_s - changed_s
            yield demand.shrink_pause_s - changed_s
    if way.rules is ComparedReplayRules.DEMAND and demand.target_wait_s and situation.cell.waiting:
        yield MINUTE_S  # the backlog shrinks each minute, because running tasks come nearer to their end
    for since in (row.oldest_since for row in situation.cell.waiting if row.oldest_since):
        # StarCluster adds nodes a second after this time
        wait_s = rules.job_wait_time_s + 1 if is_starcluster else demand.wait_s
        yield wait_s - (situation.now - since).total_seconds()
    for node in situation.nodes:
        if node.state is ElasticNodeState.READY and node.idle_since is not None:
            yield from _seconds_to_removal_of_idle_node(situation, way, node.idle_since, node.up_since)
    if demand.schedule:
        yield HOUR_S - situation.now.timestamp() % HOUR_S


def _seconds_to_removal_of_idle_node(
    situation: BalanceSituation, way: ReplayPolicy, idle: datetime, up: datetime | None
) -> Iterator[float]:
    """Yield the seconds until an idle node may be removed: after a timeout, or late in a billing unit."""
    idle_s = (situation.now - idle).total_seconds()
    up_s = (situation.now - up).total_seconds() if up else 0.0
    if way.rules is ComparedReplayRules.AZGE:
        yield IDLE_TIMEOUT_S - idle_s
    elif way.rules is ComparedReplayRules.STARCLUSTER:
        yield _seconds_to_point_in_billing_unit(way.balance.kill_after_min * MINUTE_S, up_s, HOUR_S)
    elif way.rules in (ComparedReplayRules.DEMAND, ComparedReplayRules.SQUEEZE):
        yield way.demand.idle_timeout_s - idle_s
        unit_s = way.demand.billing_s
        if unit_s > MINUTE_S:
            yield _seconds_to_point_in_billing_unit(unit_s * (1 - way.demand.billing_window), up_s, unit_s)


def _seconds_to_point_in_billing_unit(mark_s: float, up_s: float, unit_s: float) -> float:
    """Return the seconds until a node's uptime reaches second `mark_s` of a billing unit."""
    return (mark_s - up_s) % unit_s or unit_s


class MinutesWithConstantSlotUse(NamedTuple):
    first: int
    last: int
    used: int


def drop_waits_unexplained_by_slots(workload: RecordedWorkload) -> RecordedWorkload:
    """Return the workload without the waiting times that a lack of slots can't explain.

    Accounting records show no holds. A task that waited for a minute although enough slots were free is replayed as if
    submitted when it started. The capacity is the largest number of slots ever in use.
    """
    tasks, by_width = list(workload.tasks), defaultdict[int, list[int]](list)
    for index, task in enumerate(tasks):
        by_width[task.slots].append(index)
    stretches = tuple(_periods_with_constant_slot_use(tasks))
    peak = max((period.used for period in stretches), default=0)
    for slots, indices in by_width.items():
        free = [period for period in stretches if period.used <= peak - slots]
        lasts = [period.last for period in free]
        for index in indices:
            tasks[index] = _remove_needless_wait(tasks[index], free, lasts)
    count = sum(not task.is_explained for task in tasks)
    tasks.sort(key=lambda task: task.submitted_s)
    left_out = {**workload.left_out, **({ReplayExclusionReason.UNEXPLAINED: count} if count else {})}
    return replace(workload, tasks=tuple(tasks), left_out=left_out)


def _periods_with_constant_slot_use(tasks: Iterable[RecordedReplayTask]) -> Iterator[MinutesWithConstantSlotUse]:
    """Yield the largest slot use: once for each minute in which it changes, once for each period without a change."""
    changes = dict[float, int]()
    for task in tasks:
        start_s = task.submitted_s + task.waited_s
        changes[start_s] = changes.get(start_s, 0) + task.slots
        changes[start_s + task.run_s] = changes.get(start_s + task.run_s, 0) - task.slots
    moments = sorted(changes)
    level = most = 0  # slots in use now, and largest number of slots in use in this minute
    for moment, following in itertools.zip_longest(moments, moments[1:]):
        level += changes[moment]
        most = max(most, level)
        minute, last = (int(second // MINUTE_S) for second in (moment, moment if following is None else following))
        if following is None or last > minute:
            yield MinutesWithConstantSlotUse(minute, minute, most)
            most = level
        if last > minute + 1:
            yield MinutesWithConstantSlotUse(minute + 1, last - 1, level)


def _remove_needless_wait(
    task: RecordedReplayTask, free: Sequence[MinutesWithConstantSlotUse], lasts: Sequence[int]
) -> RecordedReplayTask:
    start_s = task.submitted_s + task.waited_s
    first = int(-(-task.submitted_s // MINUTE_S))
    index = bisect_left(lasts, first)
    if index == len(free) or (max(first, free[index].first) + 1) * MINUTE_S > start_s:
        return task
    return replace(task, submitted_s=start_s, waited_s=0.0, is_explained=False)
