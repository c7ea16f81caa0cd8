"""Load or generate a workload, replay it by several policies, and return their outcomes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gridbridge.decisions.elastic.replay_slot_waits import drop_waits_for_other_causes
from gridbridge.elastic.acts import workload_reader
from gridbridge.elastic.simulation import policy_comparison, synthetic_workload
from gridbridge.elastic.simulation.replay_policies import make_replay_policy
from gridbridge.errors import ParseError
from gridbridge.model.elastic.balance_sections import DemandSection
from gridbridge.model.elastic.replay_outcome import (
    ReplayExclusion,
    ReplayNodeTerms,
    ReplayOutcome,
    ReplayRules,
    ReplayTask,
    ReplayWorkload,
)
from gridbridge.model.status_report import count


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyComparison:
    """One workload with the replay outcome of each policy."""

    name: str
    workload: ReplayWorkload
    outcomes: tuple[ReplayOutcome, ...]
    frontier: tuple[ReplayOutcome, ...] = ()  # of a sweep


def load_workload_to_replay(
    path: str, begin_s: float | None, end_s: float | None
) -> ReplayWorkload:
    """Load a recorded workload; keep the tasks that were submitted in a time range.

    Raises ParseError if no task remains.
    """
    read = drop_waits_for_other_causes(workload_reader.read_workload_file(path))
    tasks = tuple(
        task
        for task in read.tasks
        if (begin_s is None or task.submitted_s >= begin_s)
        and (end_s is None or task.submitted_s < end_s)
    )
    if not tasks:
        raise ParseError(f"{path}: no task was submitted in the time of --from and --to")
    return _without(read, tasks, ReplayExclusion.OUTSIDE)


def generate_workload_to_replay(
    distribution: synthetic_workload.WorkloadDistribution,
) -> ReplayWorkload:
    """Generate a synthetic workload; raise ParseError if it has no task."""
    workload = synthetic_workload.generate_synthetic_workload(distribution)
    if not workload.tasks:
        words = f"no task in {distribution.days:g} days of {distribution.tasks_a_day:g} tasks a day"
        raise ParseError(f"{distribution.seed}: {words}")
    return workload


def compare_balance_policies(
    name: str,
    workload: ReplayWorkload,
    terms: ReplayNodeTerms,
    policies: Sequence[ReplayRules],
    demand: DemandSection,
    *,
    is_swept: bool = False,
) -> PolicyComparison:
    """Replay a workload by each policy; skip tasks that are wider than the largest cluster."""
    most = terms.max_nodes * terms.slots
    fit = _without(
        workload,
        tuple(task for task in workload.tasks if task.slots <= most),
        ReplayExclusion.TOO_WIDE,
    )
    if not fit.tasks:
        nodes, slots = count(terms.max_nodes, "node"), count(terms.slots, "slot")
        raise ParseError(f"{name}: no task fits into {nodes} of {slots}")
    ways = [make_replay_policy(rules, terms, demand) for rules in policies]
    if is_swept:
        ways = [variant for way in ways for variant in policy_comparison.vary_policy_settings(way)]
    outcomes = policy_comparison.replay_by_each_policy(fit.tasks, terms, ways)
    best = policy_comparison.find_cost_wait_frontier(outcomes) if is_swept else ()
    return PolicyComparison(name=name, workload=fit, outcomes=outcomes, frontier=best)


def _without(
    workload: ReplayWorkload, tasks: tuple[ReplayTask, ...], why: ReplayExclusion
) -> ReplayWorkload:
    missing = len(workload.tasks) - len(tasks)
    left_out = {**workload.left_out, **({why: missing} if missing else {})}
    return replace(workload, tasks=tasks, left_out=left_out)
