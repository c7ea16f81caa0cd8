"""Tasks that waited in vain at a cluster go to others, as long as those have room."""

from dataclasses import replace
from datetime import timedelta

import pytest

from gridbridge.decisions.campaigns.campaign_cycle_planning import plan_campaign_cycle
from gridbridge.decisions.campaigns.cluster_closing_and_black_holes import update_success_records
from gridbridge.model.campaigns.campaign import ArraySubmissionState, CampaignArray, TaskAttempt, TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_configuration_sections import FairShareUnit
from gridbridge.model.campaigns.campaign_cycle_plan import (
    CampaignCycleSituation,
    ClusterCapacityForCampaigns,
    FairShareInputs,
    ListedCampaignTaskCounts,
)
from gridbridge.model.campaigns.campaign_events import CampaignSuccessAtCluster
from tests.decisions.campaigns.campaign_builder import make_cycle_situation
from tests.decisions.campaigns.test_slot_distribution import NOON, at, campaign

ROOM = ClusterCapacityForCampaigns(free_slots=50, max_slots=100, slots=100, flood_rate=0.1)
IN_VAIN = CampaignSuccessAtCluster(campaign=1, cluster="beta", wiped_in_row=1)


def seen(**known: object) -> CampaignCycleSituation:
    """Return a campaign whose last task waits to be sent; beta is faster, or not known yet."""
    whole = make_cycle_situation(
        campaigns=(campaign(1, {"beta": at(), "gamma": at()}),),
        waiting={1: 1},
        max_tasks=1000,
        room={"beta": ROOM, "gamma": ROOM},
        sharing=FairShareInputs(mean_s={1: {"gamma": 60.0}}),
        at=NOON,
    )
    return replace(whole, **known)  # type: ignore[arg-type]  # a test's


def sent(look: CampaignCycleSituation) -> list[str]:
    return [one.cluster for one in plan_campaign_cycle(look).sends]


def attempt(place: int, outcome: TaskAttemptOutcome) -> TaskAttempt:
    return TaskAttempt(campaign=1, task=place, attempt=1, array=1, place=place, outcome=outcome)


@pytest.mark.parametrize("by", [FairShareUnit.NONE, FairShareUnit.USER])
@pytest.mark.parametrize("mean_s", [{"gamma": 60.0}, {"beta": 6.0, "gamma": 60.0}])
def test_a_task_that_waited_in_vain_starts_elsewhere(by: FairShareUnit, mean_s: dict[str, float]) -> None:
    """It was sent there again each time that nikita had deleted it, and never ended."""
    sharing = FairShareInputs(by=by, mean_s={1: mean_s})

    assert sent(seen(sharing=sharing)) == ["beta"]
    assert sent(seen(sharing=sharing, records=(IN_VAIN,))) == ["gamma"]


def test_where_no_other_has_room_it_is_sent_there_again() -> None:
    full = {"beta": ROOM, "gamma": replace(ROOM, free_slots=0, flood_rate=0.0)}

    assert sent(seen(records=(IN_VAIN,), room=full)) == ["beta"]


def test_a_task_that_runs_there_is_a_good_sign() -> None:
    runs = ListedCampaignTaskCounts(campaign=1, cluster="beta", waiting=0, listed=1)

    assert sent(seen(records=(IN_VAIN,), there=(runs,))) == ["beta"]


def test_what_was_deleted_as_it_waited_is_counted_until_one_begins() -> None:
    wiped = [(attempt(place, TaskAttemptOutcome.WIPED), "beta") for place in (1, 2)]
    other = [(attempt(3, TaskAttemptOutcome.MOVED), "beta"), (attempt(4, TaskAttemptOutcome.CANCELLED), "beta")]
    begun = [*wiped, (attempt(5, TaskAttemptOutcome.PROGRAM_ERROR), "beta")]

    assert update_success_records((), [*wiped, *other])[0].wiped_in_row == 2
    assert update_success_records((IN_VAIN,), wiped)[0].wiped_in_row == 3
    assert update_success_records((IN_VAIN,), begun)[0].wiped_in_row == 0


def test_a_cycle_notes_what_waited_in_vain() -> None:
    array = CampaignArray(
        campaign=1,
        number=1,
        cluster="beta",
        state=ArraySubmissionState.RELEASED,
        size=1,
        job_id=7,
        intended_at=NOON - timedelta(seconds=950),
    )
    look = seen(waiting={}, arrays=(array,), ended=(attempt(1, TaskAttemptOutcome.WIPED),), over=(array,))

    assert plan_campaign_cycle(look).changes.records == (IN_VAIN,)
