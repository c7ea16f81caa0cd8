"""Builds campaigns, attempts and cycle situations for the tests of campaign rules."""

from typing import Any

from gridbridge.decisions.campaigns.campaign_cycle_planning import plan_campaign_cycle
from gridbridge.decisions.campaigns.cluster_closing_and_black_holes import new_campaign_event
from gridbridge.model.campaigns.campaign import Campaign, TaskAttempt
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCycleSituation
from gridbridge.model.campaigns.campaign_events import CampaignEvent, CampaignEventCode, CampaignEventSubject
from gridbridge.model.campaigns.jdl import Jdl
from tests.builders.campaigns import NOON, made_campaign


def make_campaign(**values: Any) -> Campaign:
    return made_campaign(**{"number": 1, "tasks": 100, "jdl": Jdl(name="sweep")} | values)


def make_attempt(place: int = 1, **values: Any) -> TaskAttempt:
    """Return the first attempt of a task in array 1; `place` is the array index."""
    return TaskAttempt(**{"campaign": 1, "task": place - 1, "attempt": 1, "array": 1, "place": place} | values)


def make_closing_event(code: CampaignEventCode, cluster: str) -> CampaignEvent:
    return new_campaign_event(CampaignEventSubject.CAMPAIGN, code, 1, cluster, NOON)


def make_cycle_situation(**values: Any) -> CampaignCycleSituation:
    usual = {"waiting": {}, "arrays": (), "room": {}, "max_tasks": 100, "at": NOON}
    return CampaignCycleSituation(**usual | values)


def sent_tasks(situation: CampaignCycleSituation) -> dict[tuple[int, str], int]:
    return {(send.campaign, send.cluster): send.tasks for send in plan_campaign_cycle(situation).sends}
