"""Slots go to tasks that may use them: some keep off clusters that failed them."""

from dataclasses import replace

import pytest

from gridbridge.decisions.campaigns.campaign_cycle_planning import plan_campaign_cycle
from gridbridge.decisions.campaigns.cluster_closing_and_black_holes import new_campaign_event
from gridbridge.model.campaigns.campaign_configuration_sections import FairShareUnit
from gridbridge.model.campaigns.campaign_cycle_plan import (
    CampaignCycleSituation,
    ClusterCapacityForCampaigns,
    FairShareInputs,
    TaskCountByExclusions,
)
from gridbridge.model.campaigns.campaign_events import CampaignEventCode, CampaignEventSubject
from tests.decisions.campaigns.campaign_builder import make_cycle_situation
from tests.decisions.campaigns.test_slot_distribution import NOON, at, campaign

BOTH = {"beta": at(), "gamma": at()}
PROBED = replace(
    new_campaign_event(CampaignEventSubject.CAMPAIGN, CampaignEventCode.SETUP_ERROR, 1, "beta", NOON),
    number=1,
    until=NOON,
)


def room(**free: int) -> dict[str, ClusterCapacityForCampaigns]:
    return {name: ClusterCapacityForCampaigns(free_slots=slots, max_slots=100) for name, slots in free.items()}


def seen(**known: object) -> CampaignCycleSituation:
    """Return a campaign of two clusters with 100 tasks left, and a later one for beta alone."""
    whole = make_cycle_situation(
        campaigns=(campaign(1, BOTH), campaign(2, {"beta": at()})),
        waiting={1: 100, 2: 500},
        max_tasks=1000,
        room=room(beta=100, gamma=0),
        at=NOON,
    )
    return replace(whole, **known)  # type: ignore[arg-type]  # a test's


def sent(look: CampaignCycleSituation) -> dict[tuple[int, str], int]:
    return {(one.campaign, one.cluster): one.tasks for one in plan_campaign_cycle(look).sends}


def test_slots_that_a_campaigns_tasks_keep_off_go_to_the_next_one() -> None:
    """All of its tasks wait for gamma, which is full."""
    keeping_off = {1: (TaskCountByExclusions(tasks=100, avoid=("beta",)),)}

    assert sent(seen()) == {(1, "beta"): 100}
    assert sent(seen(kept_off=keeping_off)) == {(2, "beta"): 100}


def test_some_of_its_tasks_take_what_the_others_leave() -> None:
    keeping_off = {
        1: (TaskCountByExclusions(tasks=60, avoid=("beta",)), TaskCountByExclusions(tasks=10, never=("beta",)))
    }

    assert sent(seen(kept_off=keeping_off)) == {(1, "beta"): 30, (2, "beta"): 70}


def test_those_that_may_go_to_one_cluster_alone_are_taken_first() -> None:
    """Gamma comes first for its room, and leaves beta those that are free to go there."""
    keeping_off = {1: (TaskCountByExclusions(tasks=50, avoid=("beta",)),)}
    look = seen(kept_off=keeping_off, room=room(beta=50, gamma=60))

    assert sent(look) == {(1, "gamma"): 60, (1, "beta"): 40, (2, "beta"): 10}


def test_a_task_returns_where_it_failed_when_no_other_cluster_is_open() -> None:
    """But not to where it overran its walltime: gamma comes back, or its owner ends it."""
    keeping_off = {
        1: (TaskCountByExclusions(tasks=60, avoid=("beta",)), TaskCountByExclusions(tasks=40, never=("beta",)))
    }
    away = seen(kept_off=keeping_off, room=room(beta=100))
    closed = replace(
        new_campaign_event(CampaignEventSubject.CAMPAIGN, CampaignEventCode.BLACKLIST, 1, "gamma", NOON), number=1
    )

    assert sent(away) == {(1, "beta"): 60, (2, "beta"): 40}
    assert sent(seen(kept_off=keeping_off, events=(closed,))) == {(1, "beta"): 60, (2, "beta"): 40}
    assert [one.kept_off for one in plan_campaign_cycle(away).sends] == [keeping_off[1][:1], ()]


def test_a_task_that_failed_at_two_of_three_goes_back_once_the_third_is_closed() -> None:
    """Each of the two is closed to it by the other's being open no longer."""
    three = (campaign(1, {**BOTH, "delta": at()}),)
    keeping_off = {1: (TaskCountByExclusions(tasks=100, avoid=("beta", "gamma")),)}
    look = seen(campaigns=three, kept_off=keeping_off, room=room(beta=30, gamma=20, delta=0))
    closed = replace(
        new_campaign_event(CampaignEventSubject.CAMPAIGN, CampaignEventCode.BLACKLIST, 1, "delta", NOON), number=1
    )

    assert sent(look) == {}
    assert sent(replace(look, events=(closed,))) == {(1, "beta"): 30, (1, "gamma"): 20}


@pytest.mark.parametrize(
    "gamma",
    [
        ClusterCapacityForCampaigns(free_slots=4, max_slots=4, slots=4),
        ClusterCapacityForCampaigns(free_slots=100, max_slots=100, is_drained=True),
        ClusterCapacityForCampaigns(free_slots=100, max_slots=100, is_stressed=True),
        ClusterCapacityForCampaigns(free_slots=0, max_slots=0, slots=100),
    ],
    ids=["too small", "drained", "stressed", "its queues are disabled"],
)
def test_a_cluster_that_can_not_start_a_task_is_not_open(gamma: ClusterCapacityForCampaigns) -> None:
    """A task that lost its host at beta goes back there."""
    wide = (campaign(1, {"beta": at(slots=8), "gamma": at(slots=8)}),)
    keeping_off = {1: (TaskCountByExclusions(tasks=100, avoid=("beta",)),)}
    look = seen(campaigns=wide, kept_off=keeping_off, room=room(beta=80) | {"gamma": gamma})

    assert sent(look) == {(1, "beta"): 10}


@pytest.mark.parametrize(("failed", "taken"), [(100, 1), (99, 0)], ids=["all of them failed there", "one did not"])
def test_a_task_tries_a_closed_cluster_that_did_not_fail_there_if_one_waits(failed: int, taken: int) -> None:
    """Each such try costs a task one of its tries; gamma is open and full."""
    keeping_off = {1: (TaskCountByExclusions(tasks=failed, avoid=("beta",)),)}
    look = seen(kept_off=keeping_off, events=(PROBED,))

    first, *_ = plan_campaign_cycle(look).sends
    assert (first.campaign, first.cluster, first.tasks) == (1, "beta", 1)
    assert sum(one.tasks for one in first.kept_off) == taken


@pytest.mark.parametrize("by", [FairShareUnit.NONE, FairShareUnit.USER])
def test_a_probe_takes_one_slot_and_the_others_go_to_others(by: FairShareUnit) -> None:
    bobs = replace(campaign(2, {"beta": at()}), owner="bob")
    both = (campaign(1, BOTH), bobs)
    left = {1: 100, 2: 100}
    look = seen(campaigns=both, waiting=left, events=(PROBED,), sharing=FairShareInputs(by=by))

    assert sent(look) == {(1, "beta"): 1, (2, "beta"): 99}
    assert sent(seen(events=(PROBED,), room=room(beta=100, gamma=60)))[1, "gamma"] == 60


def test_what_is_sent_says_how_many_of_each_kind() -> None:
    """Gamma gets those that may go there alone, and the state file takes just these."""
    keeping_off = {
        1: (TaskCountByExclusions(tasks=50, avoid=("beta",)), TaskCountByExclusions(tasks=4, never=("beta",)))
    }
    look = seen(kept_off=keeping_off, room=room(beta=50, gamma=60))

    kinds = {(one.campaign, one.cluster): one.kept_off for one in plan_campaign_cycle(look).sends}
    assert kinds == {(1, "gamma"): keeping_off[1], (1, "beta"): (), (2, "beta"): ()}
