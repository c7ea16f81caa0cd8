"""The decisions about campaigns, kept with the rows that they looked at, and made again."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from gridbridge.decisions.campaigns import cycle as rules
from gridbridge.model.campaigns.plan import Plan, Seen
from gridbridge.services.journal import Entry, decode, encode, telling

PROGRAM = "runner"


def entry(seen: Seen, plan: Plan, now: datetime) -> Entry | None:
    """Tell a decision with its rows; nothing for one to do nothing."""
    told = rules.sentences(plan)
    return telling(PROGRAM, now, {"seen": encode(seen)}, told) if told else None


def again(kept: Mapping[str, Any]) -> list[str]:
    """Decide again from what was kept."""
    return rules.sentences(rules.plan(decode(kept["seen"], Seen)))


def said(actions: Sequence[str]) -> list[str]:
    """Say them as they are kept."""
    return list(actions)
