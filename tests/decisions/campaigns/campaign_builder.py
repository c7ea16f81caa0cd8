"""Builds campaigns for the tests of their rules."""

from datetime import UTC, datetime
from typing import Any

from gridbridge.model.campaigns.campaign import Campaign, CampaignState
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCycleSituation
from gridbridge.model.campaigns.jdl import Jdl

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def make_campaign(**values: Any) -> Campaign:
    usual = {"number": 1, "uid": 1000, "owner": "alice", "state": CampaignState.IN_TREATMENT, "submitted_at": NOON}
    return Campaign(**{"tasks": 100, "digest": "", "jdl": Jdl(name="sweep")} | usual | values)


def make_cycle_situation(**values: Any) -> CampaignCycleSituation:
    """Return the facts of a cycle without arrays, with these values of its fields."""
    return CampaignCycleSituation(**{"waiting": {}, "arrays": (), "room": {}, "max_tasks": 100} | values)
