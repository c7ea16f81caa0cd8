"""The decisions about moves, kept with what they looked at, and made again."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from gridbridge.model.rebalance.sections import Rebalance
from gridbridge.model.rebalance.snapshot import Snapshot
from gridbridge.services.encoding import decode, encode
from gridbridge.services.journal import Entry, telling
from gridbridge.services.rebalance.deciding import Asked, Planned, plan, sentences

PROGRAM = "rebalance"


def entry(planned: Planned, asked: Asked, now: datetime) -> Entry | None:
    """Tell a decision with its rows; nothing for one to move nothing."""
    if not planned.advice.moves:
        return None
    kept = {
        "snapshot": encode(planned.snapshot),
        "rules": encode(planned.rules),
        "asked": encode(asked),
    }
    return telling(PROGRAM, now, kept, [*sentences(planned.advice)], [planned.advice.sentence])


def again(kept: Mapping[str, Any]) -> list[str]:
    """Decide again from what was kept."""
    snapshot, rules = decode(kept["snapshot"], Snapshot), decode(kept["rules"], Rebalance)
    return [*sentences(plan(snapshot, rules, decode(kept["asked"], Asked)))]


def said(actions: Sequence[str]) -> list[str]:
    """Say them as they are kept."""
    return list(actions)
