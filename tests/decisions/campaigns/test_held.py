"""Arrays that are being submitted, and tasks that are held: what they take, and what they do not block."""

from dataclasses import replace
from typing import Any

import pytest

from gridbridge.decisions.campaigns.campaign_cycle_planning import plan_campaign_cycle
from gridbridge.decisions.campaigns.tasks_per_free_slot_predictor import predict_job_ratios
from gridbridge.model.campaigns.campaign import ArraySubmissionState, CampaignState
from gridbridge.model.campaigns.campaign_cycle_plan import (
    CampaignCycleSituation,
    CampaignTaskCountsAtCluster,
    ClusterCapacityForCampaigns,
)
from gridbridge.model.campaigns.campaign_events import CampaignEventCode
from gridbridge.model.campaigns.jdl import CampaignType
from tests.builders.campaigns import released_array
from tests.decisions.campaigns.campaign_builder import make_closing_event, make_cycle_situation, sent_tasks
from tests.decisions.campaigns.test_slots import at, campaign, room

BOBS, ALICES = (replace(campaign(1, {"beta": at()}), owner="bob"), campaign(2, {"beta": at()}))


def there(number: int = 1, waiting: int = 64, **counts: int) -> CampaignTaskCountsAtCluster:
    known: dict[str, Any] = {"waiting": waiting, "listed": waiting}
    return CampaignTaskCountsAtCluster(campaign=number, cluster="beta", **known | counts)


def seen(free: int, *listed: CampaignTaskCountsAtCluster, **values: Any) -> CampaignCycleSituation:
    """Return campaigns of bob and alice for beta, where `free` of 64 slots are free."""
    room = {"beta": ClusterCapacityForCampaigns(free_slots=free, max_slots=64, slots=64)}
    usual = {"campaigns": (BOBS, ALICES), "waiting": {1: 100, 2: 100}, "room": room, "there": listed}
    return make_cycle_situation(**usual | values)


def sent(look: CampaignCycleSituation) -> dict[int, int]:
    return {number: tasks for (number, _), tasks in sent_tasks(look).items()}


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        (there(), {}),
        (there(held=64), {2: 64}),
        (there(old=64), {2: 64}),
        (there(held=40, old=14), {2: 54}),
        (there(waiting=10, held=10), {1: 54, 2: 10}),
        (there(waiting=10, old=6), {1: 54, 2: 6}),
        (there(waiting=10, old=10), {2: 64}),
    ],
    ids=["may start", "held", "old", "some of each", "a few held", "a few old", "all are old"],
)
def test_free_slots_are_kept_only_for_startable_tasks_that_have_not_waited_long(
    listed: CampaignTaskCountsAtCluster, expected: dict[int, int]
) -> None:
    """A campaign gets no new tasks in exchange for held tasks.

    Repeated holds therefore flood no cluster.
    """
    assert sent(seen(64, listed)) == expected


def test_waiting_test_tasks_that_never_start_block_no_other_campaign() -> None:
    """Nikita never deletes waiting test tasks."""
    tests = tuple(replace(campaign(n, {"beta": at(slots=2)}, CampaignType.TEST)) for n in range(3, 67))
    listed = tuple(there(one.number, 1, old=1) for one in tests)
    tried = {one.number: frozenset({"beta"}) for one in tests}
    known = {"campaigns": (BOBS, ALICES, *tests), "tried": tried}
    look = seen(64, *listed, **known)

    assert sent(look) == {1: 64}
    assert predict_job_ratios(look)[1, "beta"].terms.others == 0

    room = {"beta": replace(look.room["beta"], free_slots=0, flood_rate=0.1)}
    wide = replace(ALICES, jdl=replace(ALICES.jdl, clusters={"beta": at(slots=4)}))
    assert sent(replace(look, room=room)) == {1: 6}
    assert sent(replace(look, room=room, campaigns=(wide, *tests), waiting={2: 9})) == {2: 6}


@pytest.mark.parametrize(
    ("counts", "others", "own"),
    [({}, 10, 10), ({"held": 10}, 0, 0), ({"held": 4, "fresh": 2}, 4, 4), ({"old": 10}, 10, 10)],
    ids=["may start", "held", "some held", "old"],
)
def test_only_startable_waiting_tasks_count_in_job_ratios(counts: dict[str, int], others: int, own: int) -> None:
    found = predict_job_ratios(seen(64, there(waiting=10, **counts)))

    assert found[2, "beta"].terms.others == others
    assert found[1, "beta"].terms.waiting == own


@pytest.mark.parametrize(
    ("slots", "counts", "expected"),
    [
        (1, {}, {1: 2}),
        (1, {"old": 4}, {1: 2}),
        (1, {"held": 4}, {1: 2, 2: 4}),
        (1, {"waiting": 9, "held": 9}, {2: 6}),
        (4, {"waiting": 9, "held": 9}, {2: 6}),
    ],
    ids=["may start", "old", "held", "many held", "of several slots"],
)
def test_flood_control_counts_startable_tasks_and_the_held_tasks_of_the_same_campaign(
    slots: int, counts: dict[str, int], expected: dict[int, int]
) -> None:
    bobs = replace(BOBS, jdl=replace(BOBS.jdl, clusters={"beta": at(slots=slots)}))
    room = {"beta": ClusterCapacityForCampaigns(free_slots=0, max_slots=64, slots=64, flood_rate=0.1)}
    look = seen(0, there(**{"waiting": 4} | counts), room=room, campaigns=(bobs, ALICES))

    assert sent(look) == expected


BEGUN = released_array(state=ArraySubmissionState.INTENDED, size=50)


def with_begun_array(max_jobs: int = 0, **values: Any) -> CampaignCycleSituation:
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

    assert given(with_begun_array(arrays=arrays)) == (50, 50)
    assert given(with_begun_array(max_jobs=50, arrays=arrays)) == (50, 0)
    assert given(with_begun_array(max_jobs=60, arrays=arrays)) == (50, 10)


def test_a_paused_campaign_submits_no_array_but_releases_its_held_arrays() -> None:
    paused = (campaign(1, {"beta": at()}, state=CampaignState.PAUSED),)
    held = replace(BEGUN, number=2, size=7, state=ArraySubmissionState.SUBMITTED)

    assert given(with_begun_array(campaigns=paused, arrays=(BEGUN, held))) == (7, 0)


@pytest.mark.parametrize("why", ["is_stressed", "is_drained"])
def test_no_array_is_submitted_to_a_drained_or_stressed_cluster(why: str) -> None:
    closed = replace(room(beta=100)["beta"], **{why: True})

    assert given(with_begun_array(room={"beta": closed})) == (0, 0)
    assert given(with_begun_array()) == (50, 50)


def test_slots_are_kept_for_waiting_tasks_of_a_campaign_to_which_the_cluster_is_closed() -> None:
    look = with_begun_array(
        campaigns=(campaign(1, {"beta": at(slots=8)}), campaign(2, {"beta": at()})),
        waiting={1: 0, 2: 500},
        arrays=(replace(BEGUN, state=ArraySubmissionState.RELEASED, size=10),),
        there=(CampaignTaskCountsAtCluster(campaign=1, cluster="beta", waiting=10, listed=10),),
        events=(make_closing_event(CampaignEventCode.BLACKLIST, "beta"),),
    )

    assert given(look) == (0, 20)
    assert given(replace(look, events=())) == (0, 20)
