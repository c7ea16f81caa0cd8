"""Free slots are filled campaign by campaign, and none is given twice."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from gridbridge.decisions.campaigns import slot_distribution_to_campaigns
from gridbridge.decisions.campaigns.campaign_cycle_planning import describe_campaign_cycle_plan, plan_campaign_cycle
from gridbridge.decisions.campaigns.campaign_order_and_fairshare import COMMITTED_USE_S
from gridbridge.decisions.campaigns.tasks_per_free_slot_predictor import predict_job_ratios
from gridbridge.model.campaigns.campaign import ArraySubmissionState, Campaign, CampaignArray, CampaignState
from gridbridge.model.campaigns.campaign_configuration_sections import FairShareUnit
from gridbridge.model.campaigns.campaign_cycle_plan import (
    CampaignCycleSituation,
    ClusterCapacityForCampaigns,
    FairShareInputs,
    ListedCampaignTaskCounts,
    PlannedCampaignTaskSend,
)
from gridbridge.model.campaigns.jdl import CampaignType, Jdl, JdlSettingsAtCluster
from gridbridge.model.jobs_and_accounting import ClusterArrayLimits
from tests.decisions.campaigns.campaign_builder import make_campaign, make_cycle_situation

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def campaign(
    number: int,
    clusters: Mapping[str, JdlSettingsAtCluster],
    type_: CampaignType = CampaignType.DEFAULT,
    state: CampaignState = CampaignState.IN_TREATMENT,
) -> Campaign:
    return make_campaign(number=number, state=state, jdl=Jdl(name="sweep", type=type_, clusters=clusters))


def at(slots: int = 1, max_jobs: int = 0) -> JdlSettingsAtCluster:
    return JdlSettingsAtCluster(exec_file="run", slots=slots, max_jobs=max_jobs)


def sends(seen: CampaignCycleSituation) -> tuple[PlannedCampaignTaskSend, ...]:
    return slot_distribution_to_campaigns.distribute_slots_to_campaigns(seen, predict_job_ratios(seen))


def room(**free: int) -> dict[str, ClusterCapacityForCampaigns]:
    return {name: ClusterCapacityForCampaigns(free_slots=slots) for name, slots in free.items()}


def test_the_first_campaign_is_served_first() -> None:
    """The second gets what the first leaves: first come, first served."""
    first, second = campaign(1, {"beta": at()}), campaign(2, {"beta": at(slots=2)})

    seen = make_cycle_situation(campaigns=(first, second), waiting={1: 3, 2: 9}, room=room(beta=10))

    assert sends(seen) == (
        PlannedCampaignTaskSend(campaign=1, cluster="beta", tasks=3),
        PlannedCampaignTaskSend(campaign=2, cluster="beta", tasks=3),
    )


def test_tasks_that_wait_there_already_have_their_slots() -> None:
    one = campaign(1, {"beta": at(), "gamma": at()})

    seen = make_cycle_situation(
        campaigns=(one,),
        waiting={1: 50},
        room=room(beta=4, gamma=2),
        there=(ListedCampaignTaskCounts(campaign=1, cluster="beta", waiting=4, listed=4),),
    )

    assert sends(seen) == (PlannedCampaignTaskSend(campaign=1, cluster="gamma", tasks=2),)


def test_a_cluster_that_does_not_answer_gets_nothing() -> None:
    one = campaign(1, {"beta": at(), "gamma": at()})

    assert sends(make_cycle_situation(campaigns=(one,), waiting={1: 5}, room=room(gamma=0))) == ()


def test_a_campaign_keeps_its_own_limit() -> None:
    one = campaign(1, {"beta": at(max_jobs=5)})

    seen = make_cycle_situation(
        campaigns=(one,),
        waiting={1: 50},
        room=room(beta=10),
        there=(ListedCampaignTaskCounts(campaign=1, cluster="beta", waiting=0, listed=3),),
    )

    assert sends(seen) == (PlannedCampaignTaskSend(campaign=1, cluster="beta", tasks=2),)


@pytest.mark.parametrize("listed", [5, 9])
def test_a_campaign_that_has_its_limit_or_more_gets_none(listed: int) -> None:
    """CiGri v3 failed where nothing was allowed, and where nothing was said."""
    one = campaign(1, {"beta": at(max_jobs=5), "gamma": at()})
    there = ListedCampaignTaskCounts(campaign=1, cluster="beta", waiting=0, listed=listed)
    known = make_cycle_situation(campaigns=(one,), waiting={1: 50}, room=room(beta=9))

    assert sends(replace(known, there=(there,))) == ()
    assert sends(replace(known, there=(there,), room=room(beta=9, gamma=2))) == (
        PlannedCampaignTaskSend(campaign=1, cluster="gamma", tasks=2),
    )


def test_a_test_campaign_goes_first_and_sends_one_task_to_each_cluster_ever() -> None:
    usual = campaign(1, {"beta": at()})
    test = campaign(2, {"beta": at(), "gamma": at()}, CampaignType.TEST)

    seen = make_cycle_situation(
        campaigns=(usual, test), waiting={1: 50, 2: 2}, room=room(beta=3, gamma=3), tried={2: frozenset({"gamma"})}
    )

    assert sends(seen) == (
        PlannedCampaignTaskSend(campaign=2, cluster="beta", tasks=1),
        PlannedCampaignTaskSend(campaign=1, cluster="beta", tasks=2),
    )


def test_nothing_is_sent_to_a_stressed_cluster() -> None:
    one = campaign(1, {"beta": at(), "gamma": at()})
    stressed = ClusterCapacityForCampaigns(free_slots=9, max_slots=100, flood_rate=0.5, is_stressed=True)
    seen = make_cycle_situation(campaigns=(one,), waiting={1: 8}, room=room(gamma=2) | {"beta": stressed})

    assert sends(seen) == (PlannedCampaignTaskSend(campaign=1, cluster="gamma", tasks=2),)


def test_the_cluster_that_ends_its_tasks_fastest_comes_first() -> None:
    """One of which that is not known yet comes before, so that it is found out."""
    one = campaign(1, {"beta": at(), "delta": at(), "gamma": at()})
    seen = make_cycle_situation(
        campaigns=(one,),
        waiting={1: 8},
        room=room(beta=9, delta=2, gamma=5),
        sharing=FairShareInputs(mean_s={1: {"beta": 60.0, "gamma": 20.0}}),
    )

    assert sends(seen) == (
        PlannedCampaignTaskSend(campaign=1, cluster="delta", tasks=2),
        PlannedCampaignTaskSend(campaign=1, cluster="gamma", tasks=5),
        PlannedCampaignTaskSend(campaign=1, cluster="beta", tasks=1),
    )


def test_who_has_an_affinity_comes_before_older_campaigns_of_others() -> None:
    older, newer = (campaign(number, {"beta": at(), "gamma": at()}) for number in (1, 2))
    seen = make_cycle_situation(
        campaigns=(replace(older, owner="bob"), newer),
        waiting={1: 50, 2: 4},
        room=room(beta=6, gamma=3) | {"beta": ClusterCapacityForCampaigns(free_slots=6, affinity="alice")},
    )

    assert sends(seen) == (
        PlannedCampaignTaskSend(campaign=2, cluster="beta", tasks=4),
        PlannedCampaignTaskSend(campaign=1, cluster="gamma", tasks=3),
        PlannedCampaignTaskSend(campaign=1, cluster="beta", tasks=2),
    )


@pytest.mark.parametrize(
    ("sharing", "expected"),
    [
        (FairShareInputs(), {1: 8}),
        (FairShareInputs(by=FairShareUnit.USER), {1: 4, 2: 4}),
        (FairShareInputs(by=FairShareUnit.USER, used_s={"bob": 2 * COMMITTED_USE_S}), {1: 3, 2: 5}),
        (FairShareInputs(by=FairShareUnit.USER, used_s={"bob": 9 * COMMITTED_USE_S}), {2: 8}),
        (FairShareInputs(by=FairShareUnit.USER, used_s={"bob": 9 * COMMITTED_USE_S}, first_tasks=3), {1: 3, 2: 5}),
        (FairShareInputs(by=FairShareUnit.PROJECT), {1: 8}),
        (FairShareInputs(by=FairShareUnit.GROUP, groups={"alice": ("a",), "bob": ("b",)}), {1: 4, 2: 4}),
    ],
)
def test_free_slots_are_shared_by_what_each_has_had(sharing: FairShareInputs, expected: dict[int, int]) -> None:
    bobs, alices = campaign(1, {"beta": at()}), campaign(2, {"beta": at()})
    seen = make_cycle_situation(
        campaigns=(replace(bobs, owner="bob"), alices), waiting={1: 100, 2: 100}, room=room(beta=8), sharing=sharing
    )

    assert {one.campaign: one.tasks for one in sends(seen)} == expected


@pytest.mark.parametrize(
    ("listed", "expected"),
    [(0, {1: 5, 20: 59}), (3, {1: 2, 20: 62}), (5, {20: 64})],
    ids=["bob has none there", "some", "as many"],
)
def test_who_splits_work_into_many_campaigns_gets_no_more(listed: int, expected: dict[int, int]) -> None:
    """All of them are a few first tasks; these are bob's, not each campaign's."""
    bobs = tuple(replace(campaign(number, {"beta": at()}), owner="bob", tasks=5) for number in range(1, 20))
    seen = make_cycle_situation(
        campaigns=(*bobs, campaign(20, {"beta": at()})),
        waiting={one.number: 5 for one in bobs} | {20: 100},
        room=room(beta=64),
        there=(ListedCampaignTaskCounts(campaign=19, cluster="beta", waiting=0, listed=listed),),
        sharing=FairShareInputs(by=FairShareUnit.USER, first_tasks=5, used_s={"bob": 1e9}),
    )

    assert {one.campaign: one.tasks for one in sends(seen)} == expected


@pytest.mark.parametrize(
    ("fastest", "expected"), [("gamma", {(1, "gamma"): 2, (2, "gamma"): 2}), ("beta", {(1, "beta"): 2, (2, "beta"): 2})]
)
def test_where_slots_are_shared_the_fastest_cluster_comes_first_too(
    fastest: str, expected: dict[tuple[int, str], int]
) -> None:
    bobs, alices = (campaign(number, {"beta": at(), "gamma": at()}) for number in (1, 2))
    mean_s = {"beta": 60.0, "gamma": 60.0} | {fastest: 20.0}
    seen = make_cycle_situation(
        campaigns=(replace(bobs, owner="bob"), alices),
        waiting={1: 2, 2: 2},
        room=room(beta=9, gamma=5),
        sharing=FairShareInputs(by=FairShareUnit.USER, mean_s={1: mean_s, 2: mean_s}),
    )

    assert {(one.campaign, one.cluster): one.tasks for one in sends(seen)} == expected


def test_slots_that_somebody_holds_count_as_used() -> None:
    bobs, alices = campaign(1, {"beta": at()}), campaign(2, {"beta": at()})
    seen = make_cycle_situation(
        campaigns=(replace(bobs, owner="bob"), alices),
        waiting={1: 100, 2: 100},
        room=room(beta=4),
        there=(ListedCampaignTaskCounts(campaign=1, cluster="beta", waiting=0, listed=2),),
        sharing=FairShareInputs(by=FairShareUnit.USER),
    )

    assert {one.campaign: one.tasks for one in sends(seen)} == {1: 1, 2: 3}


@pytest.mark.parametrize("type_", list(CampaignType))
def test_a_paused_campaign_sends_nothing(type_: CampaignType) -> None:
    one = campaign(1, {"beta": at()}, type_, CampaignState.PAUSED)
    seen = make_cycle_situation(campaigns=(one,), waiting={1: 5}, room=room(beta=9))

    assert plan_campaign_cycle(seen).sends == ()
    assert plan_campaign_cycle(seen).finished == ()


def test_a_campaign_has_ended_once_nothing_of_it_waits_or_lives() -> None:
    one = campaign(1, {"beta": at()})

    decided = plan_campaign_cycle(make_cycle_situation(campaigns=(one,)))

    assert decided.finished == (1,)
    assert describe_campaign_cycle_plan(decided) == ["campaign 1 has ended"]


@pytest.mark.parametrize(
    ("waiting", "tried", "finished"),
    [({1: 1}, {"beta"}, ()), ({1: 1}, {"beta", "gamma"}, (1,)), ({}, {"beta"}, (1,))],
    ids=["gamma has none yet", "the rest is dropped", "no task is left for gamma"],
)
def test_a_test_ends_when_each_cluster_has_had_a_task_or_none_is_left(
    waiting: dict[int, int], tried: set[str], finished: tuple[int, ...]
) -> None:
    one = campaign(1, {"beta": at(), "gamma": at()}, CampaignType.TEST)
    rows = make_cycle_situation(campaigns=(one,), waiting=waiting, max_tasks=9, room=room(beta=1))

    assert plan_campaign_cycle(replace(rows, tried={1: frozenset(tried)})).finished == finished


def limited(**limits: int) -> dict[str, ClusterCapacityForCampaigns]:
    return {"beta": ClusterCapacityForCampaigns(free_slots=90, limits=ClusterArrayLimits(**limits))}


def test_arrays_are_as_small_as_a_cluster_wants_them() -> None:
    one = campaign(1, {"beta": at()})
    rows = make_cycle_situation(campaigns=(one,), waiting={1: 90}, max_tasks=50, room=limited(tasks=20))

    assert sends(replace(rows, arrays_at_once=3)) == (
        PlannedCampaignTaskSend(campaign=1, cluster="beta", tasks=60, array_tasks=20),
    )
    larger = sends(replace(rows, room=limited(tasks=70)))
    assert larger == (PlannedCampaignTaskSend(campaign=1, cluster="beta", tasks=50, array_tasks=70),)


def array(campaign: int, number: int) -> CampaignArray:
    known = {"cluster": "beta", "state": ArraySubmissionState.RELEASED, "size": 9, "intended_at": NOON}
    return CampaignArray(campaign=campaign, number=number, **known)  # type: ignore[arg-type]


@pytest.mark.parametrize("by", [FairShareUnit.NONE, FairShareUnit.USER])
@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, {1: 30, 2: 30, 3: 30}),
        ({"of_person": 3}, {1: 10, 3: 30}),
        ({"of_person": 4}, {1: 20, 3: 30}),
        ({"of_all": 4}, {1: 20}),
        ({"of_person": 2}, {3: 20}),
        ({"of_all": 2}, {}),
    ],
    ids=["none", "one more", "two more", "of all", "none more", "none more of anybody"],
)
def test_no_person_gets_more_arrays_than_a_cluster_takes(
    by: FairShareUnit, limits: dict[str, int], expected: dict[int, int]
) -> None:
    """Two are there; campaigns of one owner count together, and a third one is bob's."""
    first, second, third = (campaign(number, {"beta": at()}) for number in (1, 2, 3))
    rows = CampaignCycleSituation(
        campaigns=(first, second, replace(third, uid=1001, owner="bob")),
        waiting={1: 30, 2: 30, 3: 30},
        arrays=(array(1, 1), array(2, 1)),
        max_tasks=10,
        arrays_at_once=9,
        room=limited(**limits) | {"gamma": ClusterCapacityForCampaigns(free_slots=9)},
        sharing=FairShareInputs(by=by),
    )

    assert {one.campaign: one.tasks for one in sends(rows)} == expected


def test_an_array_that_is_over_leaves_room_for_the_next() -> None:
    one = campaign(1, {"beta": at()})
    rows = make_cycle_situation(campaigns=(one,), waiting={1: 9}, arrays=(array(1, 1),), max_tasks=9)
    full = replace(rows, room=limited(of_person=1))

    assert sends(full) == ()
    assert [each.tasks for each in sends(replace(full, over=full.arrays))] == [9]


def test_a_cycle_sends_several_arrays_of_a_campaign_where_there_is_room() -> None:
    one = campaign(1, {"beta": at()})
    seen = make_cycle_situation(campaigns=(one,), waiting={1: 90}, max_tasks=10, room=room(beta=70))

    assert sends(seen) == (PlannedCampaignTaskSend(campaign=1, cluster="beta", tasks=10),)
    assert sends(replace(seen, arrays_at_once=5)) == (PlannedCampaignTaskSend(campaign=1, cluster="beta", tasks=50),)
    assert sends(replace(seen, arrays_at_once=9)) == (PlannedCampaignTaskSend(campaign=1, cluster="beta", tasks=70),)
