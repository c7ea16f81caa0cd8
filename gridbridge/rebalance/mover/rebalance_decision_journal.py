"""Writes rebalancing decisions into the journal, and recomputes decisions for `gridbridge replay`."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from gridbridge.model.rebalance.rebalance_section import RebalanceSection
from gridbridge.model.rebalance.rebalance_snapshot_and_moves import RebalanceSnapshot
from gridbridge.program.model_values_as_json import model_value_from_json, model_value_to_json
from gridbridge.rebalance.mover.rebalance_plan_by_target import (
    RebalancePlanWithInputs,
    RebalanceTarget,
    RebalanceTargetKind,
    describe_move_plan,
    plan_moves_for_target,
)
from gridbridge.state.decision_journal import DecisionJournalEntry, InputsNotJournalled, make_journal_entry

PROGRAM = "rebalance"
MOST_ROWS = 10_000  # limit of hosts, jobs and tasks in one journal entry, about 1 MB


def rebalance_journal_entry(
    planned: RebalancePlanWithInputs, question: RebalanceTarget, now: datetime
) -> DecisionJournalEntry | None:
    """Return the journal entry of a rebalancing plan; None for a plan without moves."""
    if not planned.advice.moves:
        return None
    snapshot = planned.snapshot
    if question.what is RebalanceTargetKind.JOB:
        jobs = tuple(job for job in snapshot.jobs if job.name == question.name)
        tasks = tuple(task for task in snapshot.tasks if task.job == question.name)
        snapshot = replace(snapshot, jobs=jobs, tasks=tasks)
    rows = len(snapshot.hosts) + len(snapshot.jobs) + len(snapshot.tasks)
    situation = {
        "snapshot": model_value_to_json(snapshot) if rows <= MOST_ROWS else None,
        "rows": rows,
        "rules": model_value_to_json(planned.rules),
        "asked": model_value_to_json(question),
    }
    return make_journal_entry(PROGRAM, now, situation, [*describe_move_plan(planned.advice)], [planned.advice.sentence])


def replay_rebalance_decision(situation: Mapping[str, Any]) -> list[str]:
    """Recompute a decision from the journal; raise InputsNotJournalled if the inputs were too large."""
    if situation["snapshot"] is None:
        raise InputsNotJournalled(
            f"the inputs were not kept: {situation['rows']} hosts, jobs and tasks; at most {MOST_ROWS} are kept"
        )
    snapshot = model_value_from_json(situation["snapshot"], RebalanceSnapshot)
    rules = model_value_from_json(situation["rules"], RebalanceSection)
    question = model_value_from_json(situation["asked"], RebalanceTarget)
    return [*describe_move_plan(plan_moves_for_target(snapshot, rules, question))]
