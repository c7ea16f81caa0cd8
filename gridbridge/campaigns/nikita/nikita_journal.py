"""Journals nikita's decisions with the tasks that they were based on, and replays them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from gridbridge.decisions.campaigns import throttle as rules
from gridbridge.decisions.campaigns.preemption.blocked_requests import same
from gridbridge.model.campaigns.cancellation import CancellationPlan, ListedAttempt
from gridbridge.model.campaigns.preemption import BlockedRequest
from gridbridge.program.encoding import decode_model_value, encode_model_value
from gridbridge.program.journal import JournalEntry, make_journal_entry

PROGRAM = "nikita"


def entry(situation: ListedAttempt, plan: CancellationPlan, now: datetime) -> JournalEntry | None:
    """Return the journal entry of a decision; None if no task is deleted."""
    sentences = rules.sentences(plan)
    situation = replace(situation, contests=tuple(_decisive(situation, plan)))
    return (
        make_journal_entry(PROGRAM, now, {"seen": encode_model_value(situation)}, sentences)
        if sentences
        else None
    )


def _decisive(situation: ListedAttempt, plan: CancellationPlan) -> Iterator[BlockedRequest]:
    """Yield the blocked requests for which tasks are preempted; other requests are not saved."""
    for request in situation.contests:
        if any(request.cluster == way.cluster and same(request.asked, way) for way in plan.ways):
            yield request


def again(row: Mapping[str, Any]) -> list[str]:
    """Decide again from what was kept."""
    return rules.sentences(rules.plan(decode_model_value(row["seen"], ListedAttempt)))


def said(actions: Sequence[str]) -> list[str]:
    """Say them as they are kept."""
    return list(actions)
