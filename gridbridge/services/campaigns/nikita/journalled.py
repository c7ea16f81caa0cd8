"""What nikita decided, kept with the tasks that it looked at, and decided again."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from gridbridge.decisions.campaigns import flood as rules
from gridbridge.model.campaigns.wiping import Listed, Wiping
from gridbridge.services.journal import Entry, decode, encode, telling

PROGRAM = "nikita"


def entry(seen: Listed, plan: Wiping, now: datetime) -> Entry | None:
    """Tell a decision with its rows; nothing for one to do nothing."""
    told = rules.sentences(plan)
    return telling(PROGRAM, now, {"seen": encode(seen)}, told) if told else None


def again(kept: Mapping[str, Any]) -> list[str]:
    """Decide again from what was kept."""
    return rules.sentences(rules.plan(decode(kept["seen"], Listed)))


def said(actions: Sequence[str]) -> list[str]:
    """Say them as they are kept."""
    return list(actions)
