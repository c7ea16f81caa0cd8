"""The decisions about campaigns, kept with the rows that they looked at, and made again."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from gridbridge.decisions.campaigns import campaign_cycle as rules
from gridbridge.model.campaigns.cycle_plan import CyclePlan, CycleSituation
from gridbridge.program.encoding import decode, encode
from gridbridge.program.journal import JournalEntry, telling

PROGRAM = "runner"


def entry(seen: CycleSituation, plan: CyclePlan, now: datetime) -> JournalEntry | None:
    """Tell a decision with its rows; nothing for one to do nothing.

    What campaigns run is left out: it decides nothing, and a script a cycle would fill the journal.
    """
    told = rules.sentences(plan)
    campaigns = tuple(replace(one, jdl=one.jdl.outline) for one in seen.campaigns)
    kept = {"seen": encode(replace(seen, campaigns=campaigns))} if told else {}
    return telling(PROGRAM, now, kept, told) if told else None


def again(kept: Mapping[str, Any]) -> list[str]:
    """Decide again from what was kept."""
    return rules.sentences(rules.plan(decode(kept["seen"], CycleSituation)))


def said(actions: Sequence[str]) -> list[str]:
    """Say them as they are kept."""
    return list(actions)
