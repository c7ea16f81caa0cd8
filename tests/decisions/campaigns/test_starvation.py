"""Tasks that waited in vain at a cluster go to clusters with free slots."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gridbridge.decisions.campaigns.campaign_cycle_planning import plan_campaign_cycle
from gridbridge.decisions.campaigns.cluster_closing_and_black_holes import update_success_records
from gridbridge.model.campaigns.campaign import TaskAttempt, TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_configuration_sections import FairShareUnit
from gridbridge.model.campaigns.campaign_cycle_plan import (
    CampaignCycleSituation,
    ClusterCapacityForCampaigns,
    FairShareInputs,
    ListedCampaignTaskCounts,
)
from gridbridge.model.campaigns.campaign_events import CampaignSuccessAtCluster
from tests.builders.campaigns import released_array
from tests.decisions.campaigns.campaign_builder import NOON, make_attempt, make_cycle_situation, sent_tasks
from tests.decisions.campaigns.test_slot_distribution import at, campaign

ROOM = ClusterCapacityForCampaigns(free_slots=50, max_slots=100, slots=100, flood_rate=0.1)
IN_VAIN = CampaignSuccessAtCluster(campaign=1, cluster="beta", wiped_in_row=1)


def seen(**values: Any) -> CampaignCycleSituation:
    usual = {"campaigns": (campaign(1, {"beta": at(), "gamma": at()}),), "waiting": {1: 1}, "max_tasks": 1000}
    usual |= {"room": {"beta": ROOM, "gamma": ROOM}, "sharing": FairShareInputs(mean_s={1: {"gamma": 60.0}})}
    return make_cycle_situation(**usual | values)


def sent(look: CampaignCycleSituation) -> list[str]:
    return [cluster for _, cluster in sent_tasks(look)]


def at_beta(*outcomes: TaskAttemptOutcome) -> list[tuple[TaskAttempt, str]]:
    return [(make_attempt(place, outcome=outcome), "beta") for place, outcome in enumerate(outcomes, start=1)]


@pytest.mark.parametrize("by", [FairShareUnit.NONE, FairShareUnit.USER])
@pytest.mark.parametrize("mean_s", [{"gamma": 60.0}, {"beta": 6.0, "gamma": 60.0}])
def test_a_task_that_nikita_deleted_while_waiting_goes_to_another_cluster(
    by: FairShareUnit, mean_s: dict[str, float]
) -> None:
    """Otherwise the task would be sent to the same cluster again and again, and never end."""
    sharing = FairShareInputs(by=by, mean_s={1: mean_s})

    assert sent(seen(sharing=sharing)) == ["beta"]
    assert sent(seen(sharing=sharing, records=(IN_VAIN,))) == ["gamma"]


def test_a_deleted_waiting_task_returns_to_its_cluster_if_all_others_are_full() -> None:
    full = {"beta": ROOM, "gamma": replace(ROOM, free_slots=0, flood_rate=0.0)}

    assert sent(seen(records=(IN_VAIN,), room=full)) == ["beta"]


def test_a_cluster_with_a_running_task_of_the_campaign_is_not_avoided() -> None:
    runs = ListedCampaignTaskCounts(campaign=1, cluster="beta", waiting=0, listed=1)

    assert sent(seen(records=(IN_VAIN,), there=(runs,))) == ["beta"]


def test_deleted_waiting_tasks_are_counted_until_a_task_starts() -> None:
    wiped = at_beta(TaskAttemptOutcome.WIPED, TaskAttemptOutcome.WIPED)
    other = at_beta(TaskAttemptOutcome.MOVED, TaskAttemptOutcome.CANCELLED)
    begun = [*wiped, *at_beta(TaskAttemptOutcome.PROGRAM_ERROR)]

    assert update_success_records((), [*wiped, *other])[0].wiped_in_row == 2
    assert update_success_records((IN_VAIN,), wiped)[0].wiped_in_row == 3
    assert update_success_records((IN_VAIN,), begun)[0].wiped_in_row == 0


def test_a_cycle_records_waiting_tasks_that_nikita_deleted() -> None:
    array = released_array(size=1, job_id=7, intended_at=NOON - timedelta(seconds=950))
    ended = (make_attempt(outcome=TaskAttemptOutcome.WIPED),)
    look = seen(waiting={}, arrays=(array,), ended=ended, over=(array,))

    assert plan_campaign_cycle(look).changes.records == (IN_VAIN,)
