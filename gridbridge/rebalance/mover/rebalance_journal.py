"""Record rebalancing decisions with their inputs, and recompute recorded decisions."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from gridbridge.model.rebalance.placement_snapshot_and_moves import PlacementSnapshot
from gridbridge.model.rebalance.rebalance_section import RebalanceSection
from gridbridge.program.model_values_as_json import model_value_from_json, model_value_to_json
from gridbridge.rebalance.mover.rebalance_decision import (
    RebalancePlanWithInputs,
    RebalanceScope,
    RebalanceTarget,
    describe_move_plan,
    plan_moves_for_target,
)
from gridbridge.state.decision_journal import (
    DecisionJournalEntry,
    InputsNotJournalled,
    make_journal_entry,
)

PROGRAM = "rebalance"
MOST_ROWS = 10_000  # most hosts, jobs and tasks in a journalled decision: 1 MB


def rebalance_journal_entry(
    planned: RebalancePlanWithInputs, question: RebalanceTarget, now: datetime
) -> DecisionJournalEntry | None:
    """Return the journal entry of a plan with its inputs; None for a plan without moves."""
    if not planned.advice.moves:
        return None
    snapshot = _looked_at(planned.snapshot, question)
    rows = len(snapshot.hosts) + len(snapshot.jobs) + len(snapshot.tasks)
    situation = {
        "snapshot": model_value_to_json(snapshot) if rows <= MOST_ROWS else None,
        "rows": rows,
        "rules": model_value_to_json(planned.rules),
        "asked": model_value_to_json(question),
    }
    return make_journal_entry(PROGRAM, now, situation, [*describe_move_plan(planned.advice)], [planned.advice.sentence])


def _looked_at(snapshot: PlacementSnapshot, question: RebalanceTarget) -> PlacementSnapshot:
    """Return the part of the snapshot to record; for one job, only this job and its tasks."""
    if question.what is not RebalanceScope.JOB:
        return snapshot
    return replace(
        snapshot,
        jobs=tuple(job for job in snapshot.jobs if job.name == question.name),
        tasks=tuple(task for task in snapshot.tasks if task.job == question.name),
    )


def replay_rebalance_decision(situation: Mapping[str, Any]) -> list[str]:
    """Recompute a recorded decision; InputsNotJournalled if its inputs were too large to record."""
    if situation["snapshot"] is None:
        raise InputsNotJournalled(f"its {situation['rows']} hosts, jobs and tasks were too many to be kept")
    snapshot, rules = (
        model_value_from_json(situation["snapshot"], PlacementSnapshot),
        model_value_from_json(situation["rules"], RebalanceSection),
    )
    return [
        *describe_move_plan(
            plan_moves_for_target(snapshot, rules, model_value_from_json(situation["asked"], RebalanceTarget))
        )
    ]
