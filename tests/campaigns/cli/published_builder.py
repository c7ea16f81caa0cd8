"""Builds published campaigns and events for the tests of the commands that show them."""

from datetime import UTC, datetime
from typing import Any

from gridbridge.model.campaigns.campaign import CampaignState
from gridbridge.model.campaigns.campaign_events import CampaignEvent, CampaignEventCode, CampaignEventSubject
from gridbridge.model.campaigns.jdl import CampaignType
from gridbridge.model.campaigns.published_campaigns_and_tasks import ShownCampaign

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def make_shown_campaign(**values: Any) -> ShownCampaign:
    """Return alice's campaign 7 of two tasks, in treatment, with these values of its fields."""
    usual: dict[str, Any] = {"number": 7, "name": "sweep", "owner": "alice", "submitted_at": NOON, "tasks": 2}
    usual |= {"type": CampaignType.DEFAULT, "state": CampaignState.IN_TREATMENT, "clusters": ("beta", "gamma")}
    return ShownCampaign(**usual | {"ended": 0, "failed": 0} | values)


def make_event(number: int, kind: CampaignEventSubject, code: CampaignEventCode, **values: Any) -> CampaignEvent:
    return CampaignEvent(**{"number": number, "kind": kind, "code": code, "opened_at": NOON, "last_at": NOON} | values)
