"""Decide simulated rounds by CycleCloud's rule, and when the next round may differ.

CycleCloud's rule puts all waiting tasks into free, booting and new nodes, and removes nodes that
stayed unused for 300 s, as cyclecloud-gridengine 2.0 does for one kind of node.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from gridbridge.decisions.elastic.balancer_node_and_job_counts import startable_waiting_jobs
from gridbridge.model.elastic.balance_plan import BalancePlan, BalancePlanFigures, BalancePlanReason, BalanceSituation
from gridbridge.model.elastic.elastic_nodes import ElasticNodeState
from gridbridge.model.elastic.replay_outcome import ComparedReplayRules, ReplayPolicy
from gridbridge.model.grid_engine_amounts import HOUR_S, MINUTE_S

IDLE_TIMEOUT_S = 300.0


def plan_balance_like_cyclecloud(situation: BalanceSituation, way: ReplayPolicy, slots: int) -> BalancePlan:
    """Return the plan of a round by the rules of CycleCloud's autoscaler.

    The plan keeps `min_nodes <= nodes - removed` and `nodes + added <= max_nodes`.
    """
    rules, nodes = way.balance, len(situation.nodes)
    bins = pack_tasks_into_simulated_nodes(situation, slots)
    short = max(bins.new, rules.min_nodes - nodes)
    add = max(0, min(short, rules.max_nodes - nodes))
    since = {node.name: node.idle_since for node in situation.nodes}
    timed_out = [
        name
        for name in idle_simulated_nodes(situation)
        if name not in bins.matched
        and (idle := since[name]) is not None
        and (situation.now - idle).total_seconds() >= IDLE_TIMEOUT_S
    ]
    remove = tuple(timed_out[: max(0, nodes - rules.min_nodes)])
    verdict = BalancePlanReason.MORE_WANTED if add else BalancePlanReason.IDLE if remove else BalancePlanReason.NO_NEED
    return BalancePlan(
        verdict=verdict, figures=count_simulated_nodes_and_jobs(situation), add=add, remove=remove if not add else ()
    )


@dataclass(slots=True, kw_only=True)
class SimulatedFreeSlots:
    """The free slots of present and new nodes, filled first fit."""

    names: list[str]
    free: list[int]
    new_slots: int  # slots of a new node
    matched: set[str]
    new: int = 0

    def put(self, slots: int, tasks: int) -> None:
        """Place tasks with equal slot counts, on new nodes if no slots are free."""
        if slots > self.new_slots:
            self._spread(slots * tasks)
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
        self._add(-(-tasks // per_node), self.new_slots - per_node * slots)
        self.free[-1] += (-tasks % per_node) * slots

    def _spread(self, slots: int) -> None:
        """Place the slots of a task that is wider than a node on any nodes."""
        for index, name in enumerate(self.names):
            used = min(slots, self.free[index])
            if used:
                self.free[index] -= used
                self.matched.add(name)
                slots -= used
        if slots:
            nodes = -(-slots // self.new_slots)
            self._add(nodes, 0)
            self.free[-1] += nodes * self.new_slots - slots

    def _add(self, nodes: int, free: int) -> None:
        for _ in range(nodes):
            self.new += 1
            self.names.append(f"+{self.new}")
            self.free.append(free)


def pack_tasks_into_simulated_nodes(situation: BalanceSituation, new_slots: int) -> SimulatedFreeSlots:
    """Place all waiting tasks on free, arriving or new nodes."""
    coming = [node.name for node in situation.nodes if node.state.is_coming]
    ready = [instance for instance in situation.cell.instances if instance.is_usable]
    bins = SimulatedFreeSlots(
        names=[*(instance.host for instance in ready), *coming],
        free=[*(instance.free for instance in ready), *(new_slots for _ in coming)],
        new_slots=new_slots,
        matched=set(),
    )
    for row in startable_waiting_jobs(situation.cell.waiting):
        bins.put(row.shape.slots, row.tasks)
    return bins


def idle_simulated_nodes(situation: BalanceSituation) -> list[str]:
    """Return the ready nodes without running tasks, the newest first."""
    busy = {instance.host for instance in situation.cell.instances if instance.running}
    ready = [node.name for node in situation.nodes if node.state is ElasticNodeState.READY]
    return [name for name in reversed(ready) if name not in busy]


def count_simulated_nodes_and_jobs(situation: BalanceSituation) -> BalancePlanFigures:
    """Count the nodes, jobs and slots that the replayed rules use."""
    waiting = startable_waiting_jobs(situation.cell.waiting)
    return BalancePlanFigures(
        nodes=len(situation.nodes),
        running=sum(not node.state.is_coming for node in situation.nodes),
        jobs=sum(len(row.jobs) for row in waiting),
        wanted=sum(row.slots for row in waiting),
        free=sum(instance.free for instance in situation.cell.instances),
        slots=sum(instance.total for instance in situation.cell.instances),
        slots_per_node=None,
        waited_s=0.0,
        unchanged_s=None,
    )


def seconds_to_next_rule_timeout(situation: BalanceSituation, way: ReplayPolicy) -> float:
    """Return the seconds until a timeout of the rules expires; infinite for never.

    Earlier rounds decide the same as the last round unless nodes or tasks change.
    """
    return min((seconds for seconds in _pending_timeouts(situation, way) if seconds > 0), default=math.inf)


def _pending_timeouts(situation: BalanceSituation, way: ReplayPolicy) -> Iterator[float]:
    rules, demand = way.balance, way.demand
    if situation.last_change is not None:
        changed_s = (situation.now - situation.last_change).total_seconds()
        if way.rules is ComparedReplayRules.STARCLUSTER:
            yield rules.stabilization_s - changed_s
        else:
            yield demand.grow_pause_s - changed_s
            yield demand.shrink_pause_s - changed_s
    if way.rules is ComparedReplayRules.DEMAND and demand.target_wait_s and situation.cell.waiting:
        yield MINUTE_S  # running tasks come nearer to their end
    for row in situation.cell.waiting:
        yield from _wait_timeouts(situation, way, row.oldest_since)
    for node in situation.nodes:
        if node.state is ElasticNodeState.READY and node.idle_since is not None:
            yield from _node_timeouts(situation, way, node.idle_since, node.up_since)
    if demand.schedule:
        yield HOUR_S - situation.now.timestamp() % HOUR_S


def _wait_timeouts(situation: BalanceSituation, way: ReplayPolicy, since: datetime | None) -> Iterator[float]:
    """Yield the seconds until a wait is long enough; StarCluster's limit must be exceeded."""
    if since is None:
        return
    waited_s = (situation.now - since).total_seconds()
    if way.rules is ComparedReplayRules.STARCLUSTER:
        yield way.balance.job_wait_time_s - waited_s + 1
    else:
        yield way.demand.wait_s - waited_s


def _node_timeouts(
    situation: BalanceSituation, way: ReplayPolicy, idle: datetime, up: datetime | None
) -> Iterator[float]:
    """Yield the seconds until an idle node may be removed: after a timeout, or late in a unit."""
    idle_s = (situation.now - idle).total_seconds()
    up_s = (situation.now - up).total_seconds() if up else 0.0
    if way.rules is ComparedReplayRules.AZGE:
        yield IDLE_TIMEOUT_S - idle_s
    elif way.rules is ComparedReplayRules.STARCLUSTER:
        yield _until_mark(way.balance.kill_after_min * MINUTE_S, up_s, HOUR_S)
    elif way.rules in (ComparedReplayRules.DEMAND, ComparedReplayRules.SQUEEZE):
        yield way.demand.idle_timeout_s - idle_s
        unit_s = way.demand.billing_s
        if unit_s > MINUTE_S:
            yield _until_mark(unit_s * (1 - way.demand.billing_window), up_s, unit_s)


def _until_mark(mark_s: float, up_s: float, unit_s: float) -> float:
    """Return the seconds until a node passes a mark in its current unit of time."""
    return (mark_s - up_s) % unit_s or unit_s
