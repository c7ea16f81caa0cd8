"""Unsent tasks avoid clusters where they failed, and free slots go to tasks that may use the slots."""

from dataclasses import replace
from typing import Any

import pytest

from gridbridge.decisions.campaigns.campaign_cycle_planning import plan_campaign_cycle
from gridbridge.model.campaigns.campaign_configuration_sections import FairShareUnit
from gridbridge.model.campaigns.campaign_cycle_plan import (
    CampaignCycleSituation,
    ClusterCapacityForCampaigns,
    FairShareInputs,
    TaskCountByExclusions,
)
from gridbridge.model.campaigns.campaign_events import CampaignEventCode
from tests.decisions.campaigns.campaign_builder import NOON, make_closing_event, make_cycle_situation, sent_tasks
from tests.decisions.campaigns.test_slot_distribution import at, campaign

BOTH = {"beta": at(), "gamma": at()}
PROBED = replace(make_closing_event(CampaignEventCode.SETUP_ERROR, "beta"), until=NOON)
AVOIDING = TaskCountByExclusions(tasks=60, avoid=("beta",))


def room(**free: int) -> dict[str, ClusterCapacityForCampaigns]:
    return {name: ClusterCapacityForCampaigns(free_slots=slots, max_slots=100) for name, slots in free.items()}


def seen(*kept_off: TaskCountByExclusions, **values: Any) -> CampaignCycleSituation:
    """Return campaign 1 with 100 unsent tasks for two clusters, and campaign 2 for beta alone."""
    usual = {"campaigns": (campaign(1, BOTH), campaign(2, {"beta": at()})), "waiting": {1: 100, 2: 500}}
    usual |= {"max_tasks": 1000, "room": room(beta=100, gamma=0), "kept_off": {1: kept_off} if kept_off else {}}
    return make_cycle_situation(**usual | values)


def test_slots_that_all_tasks_of_a_campaign_avoid_go_to_the_next_campaign() -> None:
    assert sent_tasks(seen()) == {(1, "beta"): 100}
    assert sent_tasks(seen(TaskCountByExclusions(tasks=100, avoid=("beta",)))) == {(2, "beta"): 100}


def test_tasks_that_avoid_no_cluster_get_slots_that_other_tasks_of_the_campaign_avoid() -> None:
    never = TaskCountByExclusions(tasks=10, never=("beta",))

    assert sent_tasks(seen(AVOIDING, never)) == {(1, "beta"): 30, (2, "beta"): 70}


def test_tasks_that_avoid_a_cluster_are_sent_before_unrestricted_tasks() -> None:
    look = seen(TaskCountByExclusions(tasks=50, avoid=("beta",)), room=room(beta=50, gamma=60))

    assert sent_tasks(look) == {(1, "gamma"): 60, (1, "beta"): 40, (2, "beta"): 10}


def test_a_failed_task_returns_to_its_cluster_if_no_other_cluster_is_open() -> None:
    """A task never returns to a cluster where the task overran its walltime."""
    kept_off = (AVOIDING, TaskCountByExclusions(tasks=40, never=("beta",)))
    away = seen(*kept_off, room=room(beta=100))
    closed = seen(*kept_off, events=(make_closing_event(CampaignEventCode.BLACKLIST, "gamma"),))

    assert sent_tasks(away) == sent_tasks(closed) == {(1, "beta"): 60, (2, "beta"): 40}
    assert [send.kept_off for send in plan_campaign_cycle(away).sends] == [(AVOIDING,), ()]


def test_a_task_that_failed_at_two_of_three_clusters_returns_when_the_third_cluster_is_closed() -> None:
    known = {"campaigns": (campaign(1, {**BOTH, "delta": at()}),), "room": room(beta=30, gamma=20, delta=0)}
    look = seen(TaskCountByExclusions(tasks=100, avoid=("beta", "gamma")), **known)
    closed = make_closing_event(CampaignEventCode.BLACKLIST, "delta")

    assert sent_tasks(look) == {}
    assert sent_tasks(replace(look, events=(closed,))) == {(1, "beta"): 30, (1, "gamma"): 20}


@pytest.mark.parametrize(
    "gamma",
    [
        ClusterCapacityForCampaigns(free_slots=4, max_slots=4, slots=4),
        ClusterCapacityForCampaigns(free_slots=100, max_slots=100, is_drained=True),
        ClusterCapacityForCampaigns(free_slots=100, max_slots=100, is_stressed=True),
        ClusterCapacityForCampaigns(free_slots=0, max_slots=0, slots=100),
    ],
    ids=["too small", "drained", "stressed", "queues disabled"],
)
def test_a_task_returns_to_its_failed_cluster_if_the_other_cluster_cannot_start_the_task(
    gamma: ClusterCapacityForCampaigns,
) -> None:
    wide = (campaign(1, {"beta": at(slots=8), "gamma": at(slots=8)}),)
    failed = TaskCountByExclusions(tasks=100, avoid=("beta",))

    assert sent_tasks(seen(failed, campaigns=wide, room=room(beta=80) | {"gamma": gamma})) == {(1, "beta"): 10}


@pytest.mark.parametrize(
    ("failed", "taken"), [(100, 1), (99, 0)], ids=["all tasks failed at beta", "one task has not failed at beta"]
)
def test_a_probe_of_a_closed_cluster_prefers_a_task_that_has_not_failed_there(failed: int, taken: int) -> None:
    look = seen(TaskCountByExclusions(tasks=failed, avoid=("beta",)), events=(PROBED,))

    first, *_ = plan_campaign_cycle(look).sends
    assert (first.campaign, first.cluster, first.tasks) == (1, "beta", 1)
    assert sum(one.tasks for one in first.kept_off) == taken


@pytest.mark.parametrize("by", [FairShareUnit.NONE, FairShareUnit.USER])
def test_a_probe_takes_one_slot_and_other_campaigns_get_the_remaining_slots(by: FairShareUnit) -> None:
    bobs = replace(campaign(2, {"beta": at()}), owner="bob")
    known = {"campaigns": (campaign(1, BOTH), bobs), "waiting": {1: 100, 2: 100}}

    assert sent_tasks(seen(**known, events=(PROBED,), sharing=FairShareInputs(by=by))) == {
        (1, "beta"): 1,
        (2, "beta"): 99,
    }
    assert sent_tasks(seen(events=(PROBED,), room=room(beta=100, gamma=60)))[1, "gamma"] == 60


def test_each_planned_send_counts_its_tasks_by_the_clusters_that_the_tasks_avoid() -> None:
    kept_off = (TaskCountByExclusions(tasks=50, avoid=("beta",)), TaskCountByExclusions(tasks=4, never=("beta",)))
    look = seen(*kept_off, room=room(beta=50, gamma=60))

    kinds = {(one.campaign, one.cluster): one.kept_off for one in plan_campaign_cycle(look).sends}
    assert kinds == {(1, "gamma"): kept_off, (1, "beta"): (), (2, "beta"): ()}
