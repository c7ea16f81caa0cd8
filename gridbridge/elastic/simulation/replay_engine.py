"""Replays a workload as a discrete-event simulation, and computes waiting times and costs."""

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gridbridge.decisions.elastic.cyclecloud_policy_and_replay_timeouts import (
    plan_balance_like_cyclecloud,
    seconds_to_next_rule_timeout,
)
from gridbridge.decisions.elastic.standby_host_policy import plan_hosts_to_sleep_or_wake
from gridbridge.elastic.balancer import balancer_round_decision
from gridbridge.elastic.simulation.simulated_nodes_and_queue import (
    POOL,
    QUEUE,
    SimulatedNode,
    SimulatedNodes,
    SimulatedTaskQueue,
    replay_seconds_to_datetime,
)
from gridbridge.model.elastic.balance_plan import BalancePlan, BalancePolicyName, BalanceSituation
from gridbridge.model.elastic.balancer_config_sections import BalanceSection, DemandPolicySection, NodePoolSection
from gridbridge.model.elastic.elastic_nodes import ElasticNode, ElasticNodeState
from gridbridge.model.elastic.grid_engine_cell import RunningTaskGroup
from gridbridge.model.elastic.replay_tasks_and_results import (
    ComparedReplayRules,
    PolicyReplayResult,
    RecordedReplayTask,
    ReplayClusterState,
    ReplayNodePropertiesAndPrices,
    ReplayPolicy,
)
from gridbridge.model.elastic.standby_and_wake_plan import STANDBY_AUTO, HostTagsAndMovableTasks
from gridbridge.model.grid_engine_amounts import HOUR_S

LATE_S = 60.0
ROUND_S = 60.0
END, READY = 0, 1  # kinds of events; of events at the same time, task ends come first
Places = list[tuple[SimulatedNode, int]]


@dataclass(slots=True, kw_only=True)
class RunningReplayCounts:
    starts: list[float]
    on_s: float = 0.0
    paid_s: float = 0.0
    added: int = 0
    removed: int = 0
    rounds: int = 0
    most_nodes: int = 0
    last_end_s: float = -math.inf
    moments: list[ReplayClusterState] = field(default_factory=list)

    def add_time_of_removed_node(self, since_s: float, now_s: float, unit_s: float) -> None:
        on_s = max(0.0, now_s - since_s)
        self.on_s += on_s
        self.paid_s += math.ceil(on_s / unit_s) * unit_s


def summarize_replay(
    tasks: Sequence[RecordedReplayTask],
    terms: ReplayNodePropertiesAndPrices,
    way: ReplayPolicy,
    counts: RunningReplayCounts,
) -> PolicyReplayResult:
    waits = sorted(
        start - task.submitted_s for task, start in zip(tasks, counts.starts, strict=True) if task.is_explained
    )
    hours, paid_hours = counts.on_s / HOUR_S, counts.paid_s / HOUR_S
    slot_s = counts.on_s * terms.slots
    return PolicyReplayResult(
        way=way,
        tasks=len(tasks),
        counted=len(waits),
        wait_mean_s=_mean_wait_or_zero(waits),
        wait_p50_s=_percentile_of_waits(waits, 0.5),
        wait_p95_s=_percentile_of_waits(waits, 0.95),
        beyond_mean_s=_mean_wait_or_zero([max(0.0, wait - terms.boot_s) for wait in waits]),
        late=sum(wait > LATE_S for wait in waits),
        node_hours=hours,
        paid_hours=paid_hours,
        cost=paid_hours * terms.price,
        energy_kwh=hours * terms.watts / 1000,
        most_nodes=counts.most_nodes,
        added=counts.added,
        removed=counts.removed,
        rounds=counts.rounds,
        used=sum(task.slots * task.run_s for task in tasks) / slot_s if slot_s else 0.0,
        moments=tuple(counts.moments),
        starts=tuple(counts.starts),
    )


def _mean_wait_or_zero(waits: Sequence[float]) -> float:
    return sum(waits) / len(waits) if waits else 0.0


def _percentile_of_waits(waits: Sequence[float], part: float) -> float:
    return waits[max(0, math.ceil(part * len(waits)) - 1)] if waits else 0.0


class ReplaySimulation:
    """The replay of one workload by one policy; a dense replay has a round each minute."""

    def __init__(
        self,
        tasks: Sequence[RecordedReplayTask],
        terms: ReplayNodePropertiesAndPrices,
        way: ReplayPolicy,
        *,
        is_dense: bool = False,
    ) -> None:
        self._tasks, self._terms, self._way, self._is_dense = tasks, terms, way, is_dense
        self._decide = decision_function_for_replay(way, terms)
        self._is_named = way.rules is ComparedReplayRules.DEMAND and way.demand.target_wait_s > 0
        self._machines, self._line = SimulatedNodes(terms), SimulatedTaskQueue(tasks)
        self._events = list[tuple[float, int, int, SimulatedNode | Places]]()
        self._next, self._count = 0, 0
        self._now_s = self._begin_s = tasks[0].submitted_s if tasks else 0.0
        self._round_s, self._changed_s = math.inf, math.nan
        self._ended = dict[tuple[str, str], tuple[float, int]]()
        self._running = set[int]()
        self._counts = RunningReplayCounts(starts=[math.nan] * len(tasks))

    def replay_workload(self) -> PolicyReplayResult:
        always = self._way.rules is ComparedReplayRules.ALWAYS_ON
        for _ in range(self._terms.max_nodes if always else self._terms.min_nodes):
            self._machines.open_booted_node(self._machines.add_booting_node(self._now_s, self._now_s))
        self._record_node_and_task_counts()
        while (now_s := self._next_event_s()) < math.inf:
            self._now_s = now_s
            self._process_events_of_moment()
        nodes = len(self._machines.all)
        self._counts.moments.append(ReplayClusterState(at_s=self._end_of_last_task_s(), nodes=nodes, waiting=0))
        for machine in self._machines.all.values():
            self._counts.add_time_of_removed_node(
                machine.asked_s, self._end_of_last_task_s(), self._way.demand.billing_s
            )
        return summarize_replay(self._tasks, self._terms, self._way, self._counts)

    def _end_of_last_task_s(self) -> float:
        """Return when the last task ended; node hours after this time are left out."""
        return max(self._counts.last_end_s, self._begin_s)

    def _next_event_s(self) -> float:
        """Return the time of the next event; infinity after the end of all tasks."""
        submitted_s = self._tasks[self._next].submitted_s if self._next < len(self._tasks) else math.inf
        if submitted_s == math.inf and not self._running and not len(self._line):
            return math.inf
        return min(submitted_s, self._events[0][0] if self._events else math.inf, self._round_s)

    def _process_events_of_moment(self) -> None:
        """Process all events of the present moment, and run a round if one is due."""
        happened = False
        while self._events and self._events[0][0] <= self._now_s:
            _, _, number, subject = heapq.heappop(self._events)
            if isinstance(subject, SimulatedNode):
                self._machines.open_booted_node(subject)
                self._changed_s = self._now_s
            else:
                self._end_simulated_task(number, subject)
            happened = True
        while self._next < len(self._tasks) and self._tasks[self._next].submitted_s <= self._now_s:
            self._line.append_waiting_task(self._next)
            self._next, happened = self._next + 1, True
        if happened:
            self._start_simulated_tasks()
            self._round_s = min(self._round_s, self._first_round_time_after(self._now_s))
        if self._round_s <= self._now_s:
            self._run_simulated_round()
        self._record_node_and_task_counts()

    def _first_round_time_after(self, seconds: float) -> float:
        """Return the time of the first round at or after a moment."""
        return self._begin_s + math.ceil((seconds - self._begin_s) / ROUND_S) * ROUND_S

    def _start_simulated_tasks(self) -> None:
        for number, placement in self._line.pop_startable_tasks(self._machines):
            task = self._tasks[number]
            self._counts.starts[number] = self._now_s
            for machine, slots in placement:
                machine.free -= slots
                machine.running.append(slots)
                if self._is_named:
                    machine.begun.append(self._running_task_group(number, slots))
                machine.idle_s = None
                machine.drop_cached_values()
            self._running.add(number)
            heapq.heappush(self._events, (self._now_s + task.run_s, END, number, placement))

    def _running_task_group(self, number: int, slots: int) -> RunningTaskGroup:
        task, since = self._tasks[number], replay_seconds_to_datetime(self._counts.starts[number])
        return RunningTaskGroup(owner=task.owner, name=task.name, slots=slots, since=since)

    def _end_simulated_task(self, number: int, placement: Places) -> None:
        for machine, slots in placement:
            machine.free += slots
            machine.running.remove(slots)
            if self._is_named:
                machine.begun.remove(self._running_task_group(number, slots))
            machine.idle_s = None if machine.running else self._now_s
            machine.drop_cached_values()
        task = self._tasks[number]
        self._running.remove(number)
        self._counts.last_end_s = max(self._counts.last_end_s, self._now_s)
        total_s, count = self._ended.get((task.owner, task.name), (0.0, 0))
        self._ended[task.owner, task.name] = total_s + task.run_s, count + 1

    def _run_simulated_round(self) -> None:
        self._round_s = math.inf
        if self._decide is None:
            return
        self._counts.rounds += 1
        situation = self._round_situation()
        plan = self._decide(situation)
        if plan.add or plan.remove:
            self._apply_plan_to_simulated_nodes(plan)
            self._round_s = self._now_s + ROUND_S
            return
        wait_s = ROUND_S if self._is_dense else seconds_to_next_rule_timeout(situation, self._way)
        if wait_s < math.inf:
            self._round_s = max(self._first_round_time_after(self._now_s + wait_s), self._now_s + ROUND_S)

    def _round_situation(self) -> BalanceSituation:
        runtimes = {kind: total / count for kind, (total, count) in self._ended.items()}
        return BalanceSituation(
            now=replay_seconds_to_datetime(self._now_s),
            cell=self._machines.simulated_cell_snapshot(self._line.rows(is_named=self._is_named)),
            last_change=None if math.isnan(self._changed_s) else replay_seconds_to_datetime(self._changed_s),
            nodes=self._machines.as_elastic_nodes(),
            runtimes=runtimes if self._is_named else {},
        )

    def _apply_plan_to_simulated_nodes(self, plan: BalancePlan) -> None:
        self._changed_s = self._now_s
        for _ in range(plan.add):
            ready_s = self._now_s + self._terms.boot_s
            self._count += 1
            heapq.heappush(
                self._events, (ready_s, READY, self._count, self._machines.add_booting_node(self._now_s, ready_s))
            )
        for name in plan.remove:
            machine = self._machines.remove_idle_node(name)
            self._counts.add_time_of_removed_node(machine.asked_s, self._now_s, self._way.demand.billing_s)
        self._counts.added += plan.add
        self._counts.removed += len(plan.remove)

    def _record_node_and_task_counts(self) -> None:
        nodes, waiting = len(self._machines.all), len(self._line)
        self._counts.most_nodes = max(self._counts.most_nodes, nodes)
        last = self._counts.moments[-1] if self._counts.moments else None
        if last is None or (last.nodes, last.waiting) != (nodes, waiting):
            self._counts.moments.append(ReplayClusterState(at_s=self._now_s, nodes=nodes, waiting=waiting))


Decides = Callable[[BalanceSituation], BalancePlan]


def decision_function_for_replay(way: ReplayPolicy, terms: ReplayNodePropertiesAndPrices) -> Decides | None:
    """Return the function that decides each round of a replay; None for a policy without rounds."""
    if way.rules is ComparedReplayRules.ALWAYS_ON:
        return None
    if way.rules is ComparedReplayRules.AZGE:
        return lambda situation: plan_balance_like_cyclecloud(situation, way, terms.slots)
    by_rules = (
        BalancePolicyName.STARCLUSTER if way.rules is ComparedReplayRules.STARCLUSTER else BalancePolicyName.DEMAND
    )
    balance = replace(way.balance, policy=by_rules)
    pools = {POOL: NodePoolSection(slots=terms.slots, price=terms.price, boot_s=terms.boot_s)}
    if way.rules is ComparedReplayRules.SQUEEZE:
        return lambda situation: _decide_with_squeeze(situation, way, balance, pools)
    return lambda situation: balancer_round_decision.decide_balance_plan(situation, balance, way.demand, pools)


def _decide_with_squeeze(
    situation: BalanceSituation, way: ReplayPolicy, balance: BalanceSection, pools: Mapping[str, NodePoolSection]
) -> BalancePlan:
    """Decide by policy `demand`, then let a squeeze choose hosts; hosts outside the simulation count as off."""
    plan = balancer_round_decision.decide_balance_plan(situation, balance, way.demand, pools)
    names = [f"resting{number:05d}" for number in range(balance.max_nodes - len(situation.nodes))]
    resting = tuple(ElasticNode(name=name, state=ElasticNodeState.STANDBY) for name in names)
    facts = HostTagsAndMovableTasks(tags=dict.fromkeys(names, (STANDBY_AUTO,)))
    standby_plan = plan_hosts_to_sleep_or_wake(
        replace(situation, nodes=(*situation.nodes, *resting)), plan, balance, way.squeeze, facts
    )
    return replace(plan, add=len(standby_plan.on), remove=standby_plan.off)


def make_replay_policy(
    rules: ComparedReplayRules, terms: ReplayNodePropertiesAndPrices, demand: DemandPolicySection
) -> ReplayPolicy:
    """Return a policy for a replay, with the given node limits and otherwise default settings."""
    limits = BalanceSection(queue=QUEUE, max_nodes=terms.max_nodes, min_nodes=terms.min_nodes)
    return ReplayPolicy(rules=rules, balance=limits, demand=demand)
