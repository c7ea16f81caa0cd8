"""What a replay needs and gives: tasks from a file or made up, and the outcome of each policy."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gridbridge.decisions.elastic.replay_slot_waits import drop_waits_for_other_causes
from gridbridge.elastic.acts import workload_reader
from gridbridge.elastic.simulation import policy_comparison, synthetic_workload
from gridbridge.elastic.simulation.replay_policies import way_of
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
    """One workload, and what became of it by each policy."""

    name: str
    workload: ReplayWorkload
    outcomes: tuple[ReplayOutcome, ...]
    frontier: tuple[ReplayOutcome, ...] = ()  # of a sweep


def from_file(path: str, begin_s: float | None, end_s: float | None) -> ReplayWorkload:
    """Read a file; only what was submitted in the time asked for is kept, if any was."""
    read = drop_waits_for_other_causes(workload_reader.read(path))
    tasks = tuple(
        task
        for task in read.tasks
        if (begin_s is None or task.submitted_s >= begin_s)
        and (end_s is None or task.submitted_s < end_s)
    )
    if not tasks:
        raise ParseError(f"{path}: no task was submitted in the time of --from and --to")
    return _without(read, tasks, ReplayExclusion.OUTSIDE)


def made(distribution: synthetic_workload.WorkloadDistribution) -> ReplayWorkload:
    """Make a workload; ParseError where it has no task."""
    workload = synthetic_workload.make(distribution)
    if not workload.tasks:
        words = f"no task in {distribution.days:g} days of {distribution.tasks_a_day:g} tasks a day"
        raise ParseError(f"{distribution.seed}: {words}")
    return workload


def compared(
    name: str,
    workload: ReplayWorkload,
    terms: ReplayNodeTerms,
    policies: Sequence[ReplayRules],
    demand: DemandSection,
    *,
    is_swept: bool = False,
) -> PolicyComparison:
    """Replay a workload by each policy; tasks that fit in no cluster of that size are left out."""
    most = terms.max_nodes * terms.slots
    fit = _without(
        workload,
        tuple(task for task in workload.tasks if task.slots <= most),
        ReplayExclusion.TOO_WIDE,
    )
    if not fit.tasks:
        nodes, slots = count(terms.max_nodes, "node"), count(terms.slots, "slot")
        raise ParseError(f"{name}: no task fits into {nodes} of {slots}")
    ways = [way_of(rules, terms, demand) for rules in policies]
    if is_swept:
        ways = [variant for way in ways for variant in policy_comparison.swept(way)]
    outcomes = policy_comparison.compare(fit.tasks, terms, ways)
    best = policy_comparison.frontier(outcomes) if is_swept else ()
    return PolicyComparison(name=name, workload=fit, outcomes=outcomes, frontier=best)


def _without(
    workload: ReplayWorkload, tasks: tuple[ReplayTask, ...], why: ReplayExclusion
) -> ReplayWorkload:
    missing = len(workload.tasks) - len(tasks)
    left_out = {**workload.left_out, **({why: missing} if missing else {})}
    return replace(workload, tasks=tasks, left_out=left_out)
