"""What a replay needs and gives: tasks from a file or made up, and the outcome of each policy."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gridbridge.decisions.elastic.replay.slot_waits import explained
from gridbridge.elastic.acts import workload_reader
from gridbridge.elastic.simulation import policy_comparison, synthetic_workload
from gridbridge.elastic.simulation.replay_policies import way_of
from gridbridge.errors import ParseError
from gridbridge.model.elastic.balance_sections import Demand
from gridbridge.model.elastic.replay_outcome import (
    LeftOut,
    NodeTerms,
    RecordedTask,
    ReplayOutcome,
    ReplayRules,
    Workload,
)
from gridbridge.model.status_report import count


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyComparison:
    """One workload, and what became of it by each policy."""

    name: str
    workload: Workload
    outcomes: tuple[ReplayOutcome, ...]
    frontier: tuple[ReplayOutcome, ...] = ()  # of a sweep


def from_file(path: str, begin_s: float | None, end_s: float | None) -> Workload:
    """Read a file; only what was submitted in the time asked for is kept, if any was."""
    read = explained(workload_reader.read(path))
    kept = tuple(
        one
        for one in read.tasks
        if (begin_s is None or one.submitted_s >= begin_s)
        and (end_s is None or one.submitted_s < end_s)
    )
    if not kept:
        raise ParseError(f"{path}: no task was submitted in the time of --from and --to")
    return _without(read, kept, LeftOut.OUTSIDE)


def made(asked: synthetic_workload.WorkloadDistribution) -> Workload:
    """Make a workload; ParseError where it has no task."""
    found = synthetic_workload.make(asked)
    if not found.tasks:
        words = f"no task in {asked.days:g} days of {asked.tasks_a_day:g} tasks a day"
        raise ParseError(f"{asked.seed}: {words}")
    return found


def compared(
    name: str,
    workload: Workload,
    terms: NodeTerms,
    policies: Sequence[ReplayRules],
    demand: Demand,
    *,
    is_swept: bool = False,
) -> PolicyComparison:
    """Replay a workload by each policy; tasks that fit in no cluster of that size are left out."""
    most = terms.max_nodes * terms.slots
    fit = _without(
        workload, tuple(one for one in workload.tasks if one.slots <= most), LeftOut.TOO_WIDE
    )
    if not fit.tasks:
        nodes, slots = count(terms.max_nodes, "node"), count(terms.slots, "slot")
        raise ParseError(f"{name}: no task fits into {nodes} of {slots}")
    ways = [way_of(rules, terms, demand) for rules in policies]
    if is_swept:
        ways = [one for way in ways for one in policy_comparison.swept(way)]
    outcomes = policy_comparison.compare(fit.tasks, terms, ways)
    best = policy_comparison.frontier(outcomes) if is_swept else ()
    return PolicyComparison(name=name, workload=fit, outcomes=outcomes, frontier=best)


def _without(workload: Workload, kept: tuple[RecordedTask, ...], why: LeftOut) -> Workload:
    missing = len(workload.tasks) - len(kept)
    left_out = {**workload.left_out, **({why: missing} if missing else {})}
    return replace(workload, tasks=kept, left_out=left_out)
