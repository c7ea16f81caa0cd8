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
    """Return the first attempt of the task at an array index of array 1."""
    return TaskAttempt(**{"campaign": 1, "task": place - 1, "attempt": 1, "array": 1, "place": place} | values)


def make_closing_event(code: CampaignEventCode, cluster: str) -> CampaignEvent:
    """Return an event of campaign 1 that closes a cluster to the campaign."""
    return new_campaign_event(CampaignEventSubject.CAMPAIGN, code, 1, cluster, NOON)


def make_cycle_situation(**values: Any) -> CampaignCycleSituation:
    """Return the facts of a cycle without arrays, with these values of its fields."""
    usual = {"waiting": {}, "arrays": (), "room": {}, "max_tasks": 100, "at": NOON}
    return CampaignCycleSituation(**usual | values)


def sent_tasks(situation: CampaignCycleSituation) -> dict[tuple[int, str], int]:
    """Return the number of tasks that a cycle sends, by campaign and cluster."""
    return {(send.campaign, send.cluster): send.tasks for send in plan_campaign_cycle(situation).sends}
