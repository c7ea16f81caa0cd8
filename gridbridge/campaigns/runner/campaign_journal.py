"""Encode the campaign runner's decisions for the journal, and replay them."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from gridbridge.decisions.campaigns import campaign_cycle as rules
from gridbridge.model.campaigns.cycle_plan import CampaignCyclePlan, CampaignCycleSituation
from gridbridge.program.decision_journal import DecisionJournalEntry, make_journal_entry
from gridbridge.program.model_values_as_json import model_value_from_json, model_value_to_json

RUNNER_PROGRAM = "runner"


def campaign_cycle_journal_entry(
    situation: CampaignCycleSituation, plan: CampaignCyclePlan, now: datetime
) -> DecisionJournalEntry | None:
    """Return the journal entry of a cycle's decision; None if the cycle does nothing.

    The campaigns' scripts are left out: they do not affect decisions and would fill the journal.
    """
    sentences = rules.describe_campaign_cycle_plan(plan)
    campaigns = tuple(replace(campaign, jdl=campaign.jdl.outline) for campaign in situation.campaigns)
    row = {"seen": model_value_to_json(replace(situation, campaigns=campaigns))} if sentences else {}
    return make_journal_entry(RUNNER_PROGRAM, now, row, sentences) if sentences else None


def replay_campaign_cycle_decision(row: Mapping[str, Any]) -> list[str]:
    """Replay a journalled decision from its stored situation; return its actions."""
    return rules.describe_campaign_cycle_plan(
        rules.plan_campaign_cycle(model_value_from_json(row["seen"], CampaignCycleSituation))
    )
