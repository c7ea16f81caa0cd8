"""What cycles and rounds say of one thing is said of one: 1 task, 2 tasks."""

from datetime import UTC, datetime

import pytest

from gridbridge.decisions.campaigns.campaign_cycle_planning import describe_campaign_cycle_plan
from gridbridge.decisions.campaigns.event_texts_and_notifications import describe_campaign_event
from gridbridge.model.campaigns.campaign import TaskAttempt, TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCyclePlan, TaskRetry
from gridbridge.model.campaigns.campaign_events import CampaignEvent, CampaignEventCode, CampaignEventSubject

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def ended(task: int, outcome: TaskAttemptOutcome) -> TaskAttempt:
    return TaskAttempt(campaign=1, task=task, attempt=1, array=1, place=task + 1, outcome=outcome)


@pytest.mark.parametrize(
    ("tasks", "told"),
    [
        (1, ["1 task ended, 1 of them runs again", "1 surplus attempt ended"]),
        (2, ["2 tasks ended, 2 of them run again", "2 surplus attempts ended"]),
    ],
)
def test_a_cycle_counts_what_ended(tasks: int, told: list[str]) -> None:
    lost = tuple(ended(task, TaskAttemptOutcome.SITE_FAULT) for task in range(tasks))
    copies = tuple(ended(task, TaskAttemptOutcome.COPY) for task in range(tasks))
    again = tuple(TaskRetry(campaign=1, task=one.task, attempt=1, outcome=one.outcome) for one in lost)

    assert describe_campaign_cycle_plan(CampaignCyclePlan(ended=(*lost, *copies), again=again)) == told


@pytest.mark.parametrize(
    ("tasks", "told"),
    [(1, "the last 1 task at beta failed by itself"), (2, "the last 2 tasks at beta failed by themselves")],
)
def test_an_event_counts_its_tasks(tasks: int, told: str) -> None:
    event = CampaignEvent(
        kind=CampaignEventSubject.CAMPAIGN,
        code=CampaignEventCode.BLACKLIST,
        cluster="beta",
        tasks=tasks,
        opened_at=NOON,
        last_at=NOON,
    )

    assert describe_campaign_event(event) == told
