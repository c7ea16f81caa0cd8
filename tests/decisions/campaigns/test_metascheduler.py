"""The metascheduler's built-in schedulers and those that a site adds."""

import re
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gridbridge.decisions.campaigns.campaign_order_and_fairshare import (
    configured_owner_priority,
    explain_campaign_order,
    is_owner_in_affinity_list,
    rank_campaigns_for_clusters,
    sum_usage_by_claimant,
)
from gridbridge.decisions.campaigns.campaign_schedulers import SCHEDULERS, ClusterOfferToScheduler, WorkqueueScheduler
from gridbridge.model.campaigns.campaign import Campaign, CampaignState
from gridbridge.model.campaigns.campaign_configuration_sections import FairShareUnit, JobRatioRule
from gridbridge.model.campaigns.campaign_cycle_plan import (
    CampaignCycleSituation,
    ClusterCapacityForCampaigns,
    FairShareInputs,
    TasksPerFreeSlotInputs,
    TasksPerFreeSlotUpdate,
)
from gridbridge.model.campaigns.jdl import CampaignType, Jdl, JdlSettingsAtCluster
from gridbridge.model.campaigns.send_reasons import CampaignPrecedenceReason
from tests.builders.campaigns import released_array
from tests.decisions.campaigns.campaign_builder import make_campaign, make_cycle_situation
from tests.decisions.campaigns.test_slots import at
from tests.decisions.campaigns.test_slots import campaign as campaign_at

GROUPS = {"alice": ("users", "staff"), "bob": ("users",)}


def campaign(number: int, owner: str, *clusters: str, type_: CampaignType = CampaignType.DEFAULT) -> Campaign:
    wish = JdlSettingsAtCluster(exec_file="run", project=f"of {owner}")
    jdl = Jdl(name="sweep", type=type_, clusters=dict.fromkeys(clusters, wish))
    return make_campaign(number=number, owner=owner, jdl=jdl)


def offered(seen: CampaignCycleSituation) -> list[tuple[int, tuple[str, ...]]]:
    return [(one.campaign.number, one.clusters) for turn in rank_campaigns_for_clusters(seen) for one in turn]


def seen(*campaigns: Campaign, sharing: FairShareInputs | None = None, **affinities: str) -> CampaignCycleSituation:
    rooms = {name: ClusterCapacityForCampaigns(free_slots=9, affinity=who) for name, who in affinities.items()}
    return make_cycle_situation(campaigns=campaigns, room=rooms, sharing=sharing or FairShareInputs())


def test_test_campaigns_above_the_owners_limit_come_last() -> None:
    usual = campaign(1, "alice", "beta")
    tests = [campaign(number, "bob", "beta", type_=CampaignType.TEST) for number in range(2, 7)]
    hers = campaign(7, "carol", "beta", type_=CampaignType.TEST)

    found = offered(seen(usual, *tests, hers, beta=""))

    assert [number for number, _ in found] == [2, 3, 4, 5, 6, 7, 1, 5, 6]
    assert [number for number, clusters in found if clusters] == [2, 3, 4, 7, 1, 5, 6]


def test_test_campaigns_with_running_tasks_count_towards_the_owners_limit() -> None:
    tests = [campaign(number, "bob", "beta", type_=CampaignType.TEST) for number in range(1, 7)]
    paused = replace(tests[0], state=CampaignState.PAUSED)
    arrays = tuple(released_array(campaign=number, size=1) for number in range(1, 5))
    sent = {number: frozenset({"beta"}) for number in range(1, 5)}
    now = replace(seen(paused, *tests[1:], beta=""), arrays=arrays, tried=sent, over=arrays[1:2])
    larger = replace(now, room={"beta": ClusterCapacityForCampaigns(free_slots=9, max_slots=16)})

    assert [one.campaign.number for one in rank_campaigns_for_clusters(now)[-1]] == [5, 6]
    reason = explain_campaign_order(campaign(9, "alice", "beta"), tests[4], "beta", now)
    assert reason == (CampaignPrecedenceReason.TESTS, 0, 3)
    assert [one.campaign.number for one in rank_campaigns_for_clusters(larger)[-1]] == [6]


def test_affinities_order_campaigns_as_in_the_example_of_the_specification() -> None:
    both = ("cluster1", "cluster2")
    first, second, third = (campaign(number, owner, *both) for number, owner in ((1, "ann"), (2, "bob"), (3, "cy")))

    assert offered(seen(first, second, third, cluster1="ann bob", cluster2="bob")) == [
        (1, ("cluster1",)),
        (2, ("cluster1", "cluster2")),
        (1, ("cluster2",)),
        (3, ("cluster1", "cluster2")),
    ]


def test_test_campaigns_come_first_despite_priorities() -> None:
    both = (campaign(1, "alice", "beta"), campaign(2, "bob", "beta", type_=CampaignType.TEST))
    found = offered(seen(*both, sharing=FairShareInputs(priorities="alice=9"), beta="alice"))

    assert found == [(2, ("beta",)), (1, ("beta",))]


def test_all_test_campaigns_come_first_in_order_of_submission() -> None:
    """CiGri v3 changed its list during the loop, so the second test campaign came too late."""
    usual = campaign(1, "alice", "beta")
    tests = [campaign(number, "alice", "beta", type_=CampaignType.TEST) for number in (2, 3, 4)]

    assert [number for number, _ in offered(seen(usual, *tests, beta=""))] == [2, 3, 4, 1]


def test_campaigns_with_a_higher_priority_go_before_older_campaigns() -> None:
    both = (campaign(1, "alice", "beta"), campaign(2, "bob", "beta"))
    found = offered(seen(*both, sharing=FairShareInputs(priorities="bob=1"), beta=""))

    assert found == [(2, ("beta",)), (1, ("beta",))]


def test_a_cluster_that_did_not_answer_is_not_offered() -> None:
    assert offered(seen(campaign(1, "alice", "beta", "gamma"), gamma="")) == [(1, ("gamma",))]


@pytest.mark.parametrize(
    ("owner", "priorities", "expected"),
    [
        ("alice", "", 0),
        ("alice", "alice=3 @staff=9", 3),
        ("alice", "@users=-2 @staff=4", 4),
        ("bob", "@users=-2 @staff=4", -2),
        ("eve", "@users=-2", 0),
    ],
)
def test_a_users_own_priority_counts_before_priorities_of_groups(owner: str, priorities: str, expected: int) -> None:
    assert configured_owner_priority(owner, FairShareInputs(priorities=priorities, groups=GROUPS)) == expected


@pytest.mark.parametrize(
    ("owner", "affinity", "expected"),
    [
        ("alice", "", False),
        ("alice", "bob alice", True),
        ("alice", "@staff", True),
        ("bob", "@staff", False),
        ("ali", "alice", False),
    ],
)
def test_a_clusters_affinity_list_names_users_and_groups(owner: str, affinity: str, expected: bool) -> None:
    assert is_owner_in_affinity_list(owner, affinity, FairShareInputs(groups=GROUPS)) == expected


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        (FairShareUnit.USER, {"alice": 3.0, "bob": 4.0}),
        (FairShareUnit.PROJECT, {"of alice": 3.0, "of bob": 4.0}),
        (FairShareUnit.GROUP, {"users": 7.0}),
    ],
)
def test_usage_of_campaigns_is_summed_by_user_project_or_group(by: FairShareUnit, expected: dict[str, float]) -> None:
    campaigns = (campaign(1, "alice", "beta"), campaign(2, "alice"), campaign(3, "bob", "beta"))
    used_s = {1: 3.0, 3: 4.0} if by is FairShareUnit.PROJECT else {1: 1.0, 2: 2.0, 3: 4.0}

    found = sum_usage_by_claimant(campaigns, FairShareInputs(by=by, groups=GROUPS), used_s)
    assert {name: used for name, used in found.items() if used} == expected


PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "campaign-schedulers.md"


def ratio(value: float, slots: float = 1.0) -> TasksPerFreeSlotUpdate:
    terms = TasksPerFreeSlotInputs(
        old=1.0, slots=slots, max_slots=100, free=0, submitted=0, running=0, waiting=0, allowed=0
    )
    return TasksPerFreeSlotUpdate(
        campaign=1, cluster="beta", law=JobRatioRule.MEASURED, terms=terms, ratio=value, submitted=0
    )


def place(slots: int = 1, **known: Any) -> ClusterOfferToScheduler:
    usual: dict[str, Any] = {"free_slots": 10, "may_wait": 3, "most": 100}
    one = campaign_at(1, {"beta": at(slots=slots)})
    return ClusterOfferToScheduler(campaign=one, cluster="beta", **usual | known)


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (place(predicted=ratio(1.0)), 10),
        (place(predicted=ratio(0.5)), 5),
        (place(predicted=ratio(0.25, slots=4.0), slots=4), 2),
        (place(predicted=ratio(1.0), most=4), 4),
        (place(predicted=ratio(1.0), free_slots=0), 0),
        (place(predicted=ratio(1.0), free_slots=8, waiting=2), 8),  # two of ten have theirs
        (place(), 0),
    ],
)
def test_the_workqueue_scheduler_fills_free_slots_by_the_job_ratio(one: ClusterOfferToScheduler, expected: int) -> None:
    assert WorkqueueScheduler().count_tasks_to_start(one) == expected


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (place(predicted=ratio(1.0)), 3),
        (place(predicted=ratio(1.0), most=11, given=10), 1),
        (place(predicted=ratio(1.0), may_wait=-2), 0),
        (place(), 0),
    ],
)
def test_the_workqueue_scheduler_sends_further_tasks_to_wait(one: ClusterOfferToScheduler, expected: int) -> None:
    assert WorkqueueScheduler().count_tasks_to_wait(one) == expected


def test_every_campaign_type_has_a_scheduler() -> None:
    assert set(SCHEDULERS) == set(CampaignType)


def test_the_example_scheduler_of_the_manual_works() -> None:
    text, _ = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    polite = ModuleType("polite")
    exec(text, vars(polite))

    assert (polite.count_tasks_to_start(place()), polite.count_tasks_to_start(place(slots=2, most=1))) == (5, 1)
    assert polite.count_tasks_to_wait(place()) == 0
