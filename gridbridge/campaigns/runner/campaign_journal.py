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


def entry(situation: CycleSituation, plan: CyclePlan, now: datetime) -> JournalEntry | None:
    """Tell a decision with its rows; nothing for one to do nothing.

    What campaigns run is left out: it decides nothing, and a script a cycle would fill the journal.
    """
    sentences = rules.sentences(plan)
    campaigns = tuple(
        replace(campaign, jdl=campaign.jdl.outline) for campaign in situation.campaigns
    )
    row = {"seen": encode(replace(situation, campaigns=campaigns))} if sentences else {}
    return telling(PROGRAM, now, row, sentences) if sentences else None


def again(row: Mapping[str, Any]) -> list[str]:
    """Decide again from what was kept."""
    return rules.sentences(rules.plan(decode(row["seen"], CycleSituation)))


def said(actions: Sequence[str]) -> list[str]:
    """Say them as they are kept."""
    return list(actions)
