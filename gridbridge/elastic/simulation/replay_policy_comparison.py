"""Replays a workload by several policies, and finds the outcomes with the best cost and waiting time."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from gridbridge.decisions.elastic.cyclecloud_policy_and_replay_timeouts import drop_waits_unexplained_by_slots
from gridbridge.elastic.simulation import replay_workload, synthetic_workload
from gridbridge.elastic.simulation.replay_engine import ReplaySimulation, make_replay_policy
from gridbridge.errors import ParseError
from gridbridge.model.elastic.balancer_config_sections import DemandPolicySection
from gridbridge.model.elastic.replay_tasks_and_results import (
    ComparedReplayRules,
    PolicyReplayResult,
    RecordedReplayTask,
    RecordedWorkload,
    ReplayExclusionReason,
    ReplayNodePropertiesAndPrices,
    ReplayPolicy,
)
from gridbridge.model.published_status_and_reports import number_with_noun

IDLE_S = (0.0, 60.0, 300.0, 900.0, 1800.0)
SPARE_NODES = (0, 1, 2)
RESERVES = ((0.0, 0.0), (0.0, 1.0), (1.0, 2.0), (2.0, 3.0))  # pairs of minimal and target reserve
WAITS_S = (60.0, 300.0, 900.0)


def replay_by_each_policy(
    tasks: Sequence[RecordedReplayTask], terms: ReplayNodePropertiesAndPrices, ways: Iterable[ReplayPolicy]
) -> tuple[PolicyReplayResult, ...]:
    return tuple(ReplaySimulation(tasks, terms, way).replay_workload() for way in ways)


def vary_policy_settings(way: ReplayPolicy) -> Iterator[ReplayPolicy]:
    """Yield variants of a policy, with settings that shorten waits or lower costs."""
    if way.rules is ComparedReplayRules.DEMAND:
        for idle_s, spare in product(IDLE_S, SPARE_NODES):
            demand = replace(way.demand, idle_timeout_s=idle_s, spare_nodes=spare)
            yield replace(way, demand=demand, settings=f"idle_timeout_s {idle_s:g}, spare_nodes {spare}")
    elif way.rules is ComparedReplayRules.SQUEEZE:
        for least, target in RESERVES:
            squeeze = replace(way.squeeze, minimal_reserve=least, target_reserve=target)
            yield replace(way, squeeze=squeeze, settings=f"minimal_reserve {least:g}, target_reserve {target:g}")
    elif way.rules is ComparedReplayRules.STARCLUSTER:
        for wait_s in WAITS_S:
            balance = replace(way.balance, job_wait_time_s=wait_s)
            yield replace(way, balance=balance, settings=f"job_wait_time_s {wait_s:g}")
    else:
        yield way


def find_cost_wait_frontier(outcomes: Iterable[PolicyReplayResult]) -> tuple[PolicyReplayResult, ...]:
    """Return the outcomes that no other outcome beats in both cost and mean wait, the cheapest first."""
    front, best_s = list[PolicyReplayResult](), float("inf")
    for outcome in sorted(outcomes, key=lambda outcome: (outcome.cost, outcome.wait_mean_s)):
        if outcome.wait_mean_s < best_s:
            front.append(outcome)
            best_s = outcome.wait_mean_s
    return tuple(front)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPolicyComparison:
    name: str
    workload: RecordedWorkload
    outcomes: tuple[PolicyReplayResult, ...]
    frontier: tuple[PolicyReplayResult, ...] = ()  # outcomes that no other outcome beats in both cost and wait


def load_workload_to_replay(path: str, begin_s: float | None, end_s: float | None) -> RecordedWorkload:
    """Load the recorded tasks that were submitted in a time range; raises ParseError if no task remains."""
    read = drop_waits_unexplained_by_slots(replay_workload.read_workload_file(path))
    tasks = tuple(
        task
        for task in read.tasks
        if (begin_s is None or task.submitted_s >= begin_s) and (end_s is None or task.submitted_s < end_s)
    )
    if not tasks:
        raise ParseError(f"{path}: no task was submitted between --from and --to")
    return _workload_without_tasks(read, tasks, ReplayExclusionReason.OUTSIDE)


def generate_workload_to_replay(distribution: synthetic_workload.SyntheticWorkloadSettings) -> RecordedWorkload:
    """Generate a synthetic workload; raises ParseError for a workload without a task."""
    workload = synthetic_workload.generate_synthetic_workload(distribution)
    if not workload.tasks:
        words = f"no task in {distribution.days:g} days with {distribution.tasks_a_day:g} tasks a day"
        raise ParseError(f"{distribution.seed}: {words}")
    return workload


def compare_policies_by_replay(
    name: str,
    workload: RecordedWorkload,
    terms: ReplayNodePropertiesAndPrices,
    policies: Sequence[ComparedReplayRules],
    demand: DemandPolicySection,
    *,
    is_swept: bool = False,
) -> ReplayPolicyComparison:
    """Replay a workload by each policy, without the tasks that are too wide for the cluster."""
    most = terms.max_nodes * terms.slots
    narrow = tuple(task for task in workload.tasks if task.slots <= most)
    fit = _workload_without_tasks(workload, narrow, ReplayExclusionReason.TOO_WIDE)
    if not fit.tasks:
        nodes, slots = number_with_noun(terms.max_nodes, "node"), number_with_noun(terms.slots, "slot")
        raise ParseError(f"{name}: no task fits into {nodes} of {slots} each")
    ways = [make_replay_policy(rules, terms, demand) for rules in policies]
    if is_swept:
        ways = [variant for way in ways for variant in vary_policy_settings(way)]
    outcomes = replay_by_each_policy(fit.tasks, terms, ways)
    best = find_cost_wait_frontier(outcomes) if is_swept else ()
    return ReplayPolicyComparison(name=name, workload=fit, outcomes=outcomes, frontier=best)


def _workload_without_tasks(
    workload: RecordedWorkload, tasks: tuple[RecordedReplayTask, ...], why: ReplayExclusionReason
) -> RecordedWorkload:
    missing = len(workload.tasks) - len(tasks)
    left_out = {**workload.left_out, **({why: missing} if missing else {})}
    return replace(workload, tasks=tasks, left_out=left_out)
