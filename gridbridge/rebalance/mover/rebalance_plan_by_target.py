"""Plans the moves of tasks or dataset replicas for a round, a host or a job."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from gridbridge.decisions.rebalance.automatic_round_and_evacuation import (
    plan_automatic_round,
    plan_host_evacuation,
    why_host_balancing_waits,
)
from gridbridge.decisions.rebalance.host_rebalancing import host_loads_before_after, plan_host_balance
from gridbridge.decisions.rebalance.job_copy_repair_and_spread import plan_job_repair_or_spread
from gridbridge.decisions.rebalance.storage_area_rebalancing import plan_dataset_rebalance_round
from gridbridge.errors import ConfigError
from gridbridge.model.rebalance.rebalance_section import RebalanceSection
from gridbridge.model.rebalance.rebalance_snapshot_and_moves import (
    HostLoadBeforeAfter,
    RebalanceMove,
    RebalanceMovePlan,
    RebalanceSnapshot,
)


class RebalanceTargetKind(StrEnum):
    NONE = ""  # a whole round, which itself chooses hosts and jobs
    HOST = "host"
    JOB = "job"
    FAIL = "fail"  # move everything off a failed host


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceTarget:
    """The host or job to rebalance; empty fields mean a whole round."""

    what: RebalanceTargetKind = RebalanceTargetKind.NONE
    name: str = ""
    is_of_data: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalancePlanWithInputs:
    snapshot: RebalanceSnapshot
    rules: RebalanceSection
    advice: RebalanceMovePlan

    @property
    def host_load_changes(self) -> tuple[HostLoadBeforeAfter, ...]:
        return host_loads_before_after(self.snapshot, self.rules, self.advice)


def plan_moves_for_target(
    snapshot: RebalanceSnapshot, rules: RebalanceSection, question: RebalanceTarget
) -> RebalanceMovePlan:
    """Plan the moves for a round, a host or a job; the snapshot must contain the host or job."""
    if not question.what:
        return (plan_dataset_rebalance_round if question.is_of_data else plan_automatic_round)(snapshot, rules)
    if question.what is RebalanceTargetKind.JOB:
        return plan_job_repair_or_spread(snapshot, question.name, rules)
    plan = plan_host_balance if question.what is RebalanceTargetKind.HOST else plan_host_evacuation
    return plan(snapshot, question.name, rules)


def check_target_and_plan_moves(
    where: str, snapshot: RebalanceSnapshot, rules: RebalanceSection, question: RebalanceTarget, *, why_none: str = ""
) -> RebalancePlanWithInputs:
    """Plan the moves for a round, a host or a job; if `why_none` gives a reason, plan none.

    An unknown host or job raises ConfigError; the message begins with `where`.
    """
    is_of_job = question.what is RebalanceTargetKind.JOB
    names = sorted(row.name for row in (snapshot.jobs if is_of_job else snapshot.hosts))
    if question.what and question.name not in names:
        listed = ", ".join(names[:5]) + (" ..." if len(names) > 5 else "")
        kind = "jobs" if is_of_job else "hosts"
        raise ConfigError((f"{where}: {kind}: no {question.name}; expected one of: {listed or 'none'}",))
    advice = RebalanceMovePlan(sentence=why_none) if why_none else plan_moves_for_target(snapshot, rules, question)
    return RebalancePlanWithInputs(snapshot=snapshot, rules=rules, advice=advice)


def why_not_rebalanced_now(snapshot: RebalanceSnapshot, question: RebalanceTarget) -> str:
    return (
        why_host_balancing_waits(snapshot)
        if question.what in (RebalanceTargetKind.HOST, RebalanceTargetKind.JOB)
        else ""
    )


def describe_move_plan(advice: RebalanceMovePlan) -> Iterator[str]:
    """Yield the plan's summary, then one line for each move."""
    yield advice.sentence
    yield from map(describe_move, advice.moves)


def describe_move(move: RebalanceMove) -> str:
    source = f"from {move.source}" if move.source else ""
    to = f"to {move.target}" if move.target else "removed"
    words = (move.job, str(move.number), f"({move.kind.value})", source, to)
    return " ".join(filter(None, words))
