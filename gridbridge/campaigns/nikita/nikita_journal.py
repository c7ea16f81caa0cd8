"""What nikita decided, kept with the tasks that it looked at, and decided again."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from gridbridge.decisions.campaigns import throttle as rules
from gridbridge.decisions.campaigns.preemption.blocked_requests import same
from gridbridge.model.campaigns.cancellation import CancellationPlan, ListedAttempt
from gridbridge.model.campaigns.preemption import BlockedRequest
from gridbridge.program.encoding import decode, encode
from gridbridge.program.journal import JournalEntry, telling

PROGRAM = "nikita"


def entry(situation: ListedAttempt, plan: CancellationPlan, now: datetime) -> JournalEntry | None:
    """Tell a decision with its rows; nothing for one to do nothing."""
    sentences = rules.sentences(plan)
    situation = replace(situation, contests=tuple(_decisive(situation, plan)))
    return telling(PROGRAM, now, {"seen": encode(situation)}, sentences) if sentences else None


def _decisive(situation: ListedAttempt, plan: CancellationPlan) -> Iterator[BlockedRequest]:
    """Give the requests for which tasks end; of many others that wait nothing is kept."""
    for request in situation.contests:
        if any(request.cluster == way.cluster and same(request.asked, way) for way in plan.ways):
            yield request


def again(row: Mapping[str, Any]) -> list[str]:
    """Decide again from what was kept."""
    return rules.sentences(rules.plan(decode(row["seen"], ListedAttempt)))


def said(actions: Sequence[str]) -> list[str]:
    """Say them as they are kept."""
    return list(actions)
