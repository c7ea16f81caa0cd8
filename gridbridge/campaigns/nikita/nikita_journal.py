"""Journals nikita's decisions with the tasks that they were based on, and replays them."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from gridbridge.decisions.campaigns import nikita_deletion_planning as rules
from gridbridge.decisions.campaigns.task_preemption_planning import is_preemption_for_request
from gridbridge.model.campaigns.nikita_deletion_values import NikitaDeletionPlan, NikitaSituation
from gridbridge.model.campaigns.preemption import BlockedLocalRequest
from gridbridge.program.decision_journal import DecisionJournalEntry, make_journal_entry
from gridbridge.program.model_values_as_json import model_value_from_json, model_value_to_json

NIKITA_PROGRAM = "nikita"


def nikita_journal_entry(
    situation: NikitaSituation, plan: NikitaDeletionPlan, now: datetime
) -> DecisionJournalEntry | None:
    """Return the journal entry of a decision; None if no task is deleted."""
    sentences = rules.describe_nikita_deletions(plan)
    situation = replace(situation, contests=tuple(_decisive(situation, plan)))
    return (
        make_journal_entry(NIKITA_PROGRAM, now, {"seen": model_value_to_json(situation)}, sentences)
        if sentences
        else None
    )


def _decisive(situation: NikitaSituation, plan: NikitaDeletionPlan) -> Iterator[BlockedLocalRequest]:
    """Yield the blocked requests for which tasks are preempted; other requests are not saved."""
    for request in situation.contests:
        if any(request.cluster == way.cluster and is_preemption_for_request(request.asked, way) for way in plan.ways):
            yield request


def replay_nikita_deletions(row: Mapping[str, Any]) -> list[str]:
    """Repeat a journalled decision from its stored situation; return its actions."""
    return rules.describe_nikita_deletions(
        rules.plan_nikita_deletions(model_value_from_json(row["seen"], NikitaSituation))
    )
