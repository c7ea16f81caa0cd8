"""Arrays with an unfinished submission count in limits, and are submitted only to open clusters."""

from dataclasses import replace
from typing import Any

import pytest

from gridbridge.decisions.campaigns.campaign_cycle_planning import plan_campaign_cycle
from gridbridge.model.campaigns.campaign import ArraySubmissionState, CampaignState
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCycleSituation, ListedCampaignTaskCounts
from gridbridge.model.campaigns.campaign_events import CampaignEventCode
from tests.builders.campaigns import released_array
from tests.decisions.campaigns.campaign_builder import make_closing_event, make_cycle_situation
from tests.decisions.campaigns.test_slot_distribution import at, campaign, room

BEGUN = released_array(state=ArraySubmissionState.INTENDED, size=50)


def seen(max_jobs: int = 0, **values: Any) -> CampaignCycleSituation:
    """Return beta with 100 free slots, and a campaign with 50 tasks in a begun submission."""
    usual = {"campaigns": (campaign(1, {"beta": at(max_jobs=max_jobs)}),), "waiting": {1: 1000}, "arrays": (BEGUN,)}
    return make_cycle_situation(**usual | {"max_tasks": 1000, "room": room(beta=100)} | values)


def given(look: CampaignCycleSituation) -> tuple[int, int]:
    found = plan_campaign_cycle(look)
    return sum(one.size for one in found.resumed), sum(one.tasks for one in found.sends)


@pytest.mark.parametrize("state", [ArraySubmissionState.INTENDED, ArraySubmissionState.SUBMITTED])
def test_arrays_whose_submission_has_begun_take_slots_and_count_towards_max_jobs(state: ArraySubmissionState) -> None:
    """A restarted runner continues a submission, and sends no more tasks than fit."""
    arrays = (replace(BEGUN, state=state),)

    assert given(seen(arrays=arrays)) == (50, 50)
    assert given(seen(max_jobs=50, arrays=arrays)) == (50, 0)
    assert given(seen(max_jobs=60, arrays=arrays)) == (50, 10)


def test_a_paused_campaign_submits_no_array_but_releases_its_held_arrays() -> None:
    paused = (campaign(1, {"beta": at()}, state=CampaignState.PAUSED),)
    held = replace(BEGUN, number=2, size=7, state=ArraySubmissionState.SUBMITTED)

    assert given(seen(campaigns=paused, arrays=(BEGUN, held))) == (7, 0)


@pytest.mark.parametrize("why", ["is_stressed", "is_drained"])
def test_no_array_is_submitted_to_a_drained_or_stressed_cluster(why: str) -> None:
    closed = replace(room(beta=100)["beta"], **{why: True})

    assert given(seen(room={"beta": closed})) == (0, 0)
    assert given(seen()) == (50, 50)


def test_slots_are_kept_for_waiting_tasks_of_a_campaign_to_which_the_cluster_is_closed() -> None:
    look = seen(
        campaigns=(campaign(1, {"beta": at(slots=8)}), campaign(2, {"beta": at()})),
        waiting={1: 0, 2: 500},
        arrays=(replace(BEGUN, state=ArraySubmissionState.RELEASED, size=10),),
        there=(ListedCampaignTaskCounts(campaign=1, cluster="beta", waiting=10, listed=10),),
        events=(make_closing_event(CampaignEventCode.BLACKLIST, "beta"),),
    )

    assert given(look) == (0, 20)
    assert given(replace(look, events=())) == (0, 20)
