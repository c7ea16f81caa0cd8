"""What was begun and is not at its cluster yet counts, and begins only where that is wanted."""

from dataclasses import replace

import pytest

from gridbridge.decisions.campaigns.campaign_cycle_planning import plan_campaign_cycle
from gridbridge.decisions.campaigns.cluster_closing_and_black_holes import new_campaign_event
from gridbridge.model.campaigns.campaign import ArraySubmissionState, CampaignArray, CampaignState
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCycleSituation, ListedCampaignTaskCounts
from gridbridge.model.campaigns.campaign_events import CampaignEventCode, CampaignEventSubject
from tests.decisions.campaigns.test_slot_distribution import NOON, at, campaign, room

BEGUN = CampaignArray(
    campaign=1, number=1, cluster="beta", state=ArraySubmissionState.INTENDED, size=50, intended_at=NOON
)


def seen(max_jobs: int = 0, **known: object) -> CampaignCycleSituation:
    """Return beta with a hundred free slots, and a campaign of which fifty tasks were begun."""
    whole = CampaignCycleSituation(
        campaigns=(campaign(1, {"beta": at(max_jobs=max_jobs)}),),
        waiting={1: 1000},
        arrays=(BEGUN,),
        max_tasks=1000,
        room=room(beta=100),
        at=NOON,
    )
    return replace(whole, **known)  # type: ignore[arg-type]  # a test's


def given(look: CampaignCycleSituation) -> tuple[int, int]:
    found = plan_campaign_cycle(look)
    return sum(one.size for one in found.resumed), sum(one.tasks for one in found.sends)


@pytest.mark.parametrize("state", [ArraySubmissionState.INTENDED, ArraySubmissionState.SUBMITTED])
def test_what_is_begun_takes_its_slots_and_counts_for_max_jobs(state: ArraySubmissionState) -> None:
    """A runner that was killed goes on with it, and sends no more than there is room for."""
    arrays = (replace(BEGUN, state=state),)

    assert given(seen(arrays=arrays)) == (50, 50)
    assert given(seen(max_jobs=50, arrays=arrays)) == (50, 0)
    assert given(seen(max_jobs=60, arrays=arrays)) == (50, 10)


def test_nothing_begins_of_a_paused_campaign() -> None:
    """What is there by now, and held, is released: else nobody would ever end it."""
    paused = (campaign(1, {"beta": at()}, state=CampaignState.PAUSED),)
    held = replace(BEGUN, number=2, size=7, state=ArraySubmissionState.SUBMITTED)

    assert given(seen(campaigns=paused, arrays=(BEGUN, held))) == (7, 0)


@pytest.mark.parametrize("why", ["is_stressed", "is_drained"])
def test_nothing_begins_at_a_cluster_that_is_drained_or_under_stress(why: str) -> None:
    closed = replace(room(beta=100)["beta"], **{why: True})  # type: ignore[arg-type]  # a test's

    assert given(seen(room={"beta": closed})) == (0, 0)
    assert given(seen()) == (50, 50)


def test_tasks_that_wait_where_their_campaign_is_closed_out_have_their_slots_still() -> None:
    """Ten tasks of eight slots: another campaign gets the twenty that are left."""
    closed = replace(
        new_campaign_event(CampaignEventSubject.CAMPAIGN, CampaignEventCode.BLACKLIST, 1, "beta", NOON), number=1
    )
    two = (campaign(1, {"beta": at(slots=8)}), campaign(2, {"beta": at()}))
    look = seen(
        campaigns=two,
        waiting={1: 0, 2: 500},
        arrays=(replace(BEGUN, state=ArraySubmissionState.RELEASED, size=10),),
        there=(ListedCampaignTaskCounts(campaign=1, cluster="beta", waiting=10, listed=10),),
        events=(closed,),
    )

    assert given(look) == (0, 20)
    assert given(replace(look, events=())) == (0, 20)
