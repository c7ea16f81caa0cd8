"""Unsent tasks avoid clusters where they failed or waited in vain; some tasks no cluster may run."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gridbridge.decisions.campaigns.campaign_cycle_planning import plan_campaign_cycle
from gridbridge.decisions.campaigns.cluster_closing_and_black_holes import ClusterClosureOrProbe, update_success_records
from gridbridge.decisions.campaigns.unsent_task_backlog import has_unplaceable_tasks
from gridbridge.model.campaigns.campaign import CampaignState, TaskAttempt, TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_configuration_sections import FairShareUnit
from gridbridge.model.campaigns.campaign_cycle_plan import (
    CampaignCycleSituation,
    CampaignTaskCountsAtCluster,
    ClusterCapacityForCampaigns,
    FairShareInputs,
    TaskCountByExclusions,
)
from gridbridge.model.campaigns.campaign_events import CampaignEventCode, CampaignSuccessAtCluster
from tests.builders.campaigns import released_array
from tests.decisions.campaigns.campaign_builder import (
    NOON,
    make_attempt,
    make_closing_event,
    make_cycle_situation,
    sent_tasks,
)
from tests.decisions.campaigns.test_event_rules import array, ended, event, told
from tests.decisions.campaigns.test_event_rules import seen as seen_by_events
from tests.decisions.campaigns.test_slots import at, campaign

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


ROOM = ClusterCapacityForCampaigns(free_slots=50, max_slots=100, slots=100, flood_rate=0.1)
IN_VAIN = CampaignSuccessAtCluster(campaign=1, cluster="beta", wiped_in_row=1)


def with_free_slots(**values: Any) -> CampaignCycleSituation:
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

    assert sent(with_free_slots(sharing=sharing)) == ["beta"]
    assert sent(with_free_slots(sharing=sharing, records=(IN_VAIN,))) == ["gamma"]


def test_a_deleted_waiting_task_returns_to_its_cluster_if_all_others_are_full() -> None:
    full = {"beta": ROOM, "gamma": replace(ROOM, free_slots=0, flood_rate=0.0)}

    assert sent(with_free_slots(records=(IN_VAIN,), room=full)) == ["beta"]


def test_a_cluster_with_a_running_task_of_the_campaign_is_not_avoided() -> None:
    runs = CampaignTaskCountsAtCluster(campaign=1, cluster="beta", waiting=0, listed=1)

    assert sent(with_free_slots(records=(IN_VAIN,), there=(runs,))) == ["beta"]


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
    look = with_free_slots(waiting={}, arrays=(array,), ended=ended, over=(array,))

    assert plan_campaign_cycle(look).changes.records == (IN_VAIN,)


WIDE = campaign(1, {"beta": at(slots=8), "gamma": at(slots=8)})
LARGE = ClusterCapacityForCampaigns(free_slots=0, max_slots=800, slots=800)
SMALL = ClusterCapacityForCampaigns(free_slots=0, max_slots=4, slots=4)
BARRED = {(1, "gamma"): ClusterClosureOrProbe.PROBE}
OVERRAN = {1: (TaskCountByExclusions(tasks=1, never=("beta",)),)}
FAILED = {1: (TaskCountByExclusions(tasks=50, avoid=("beta",)),)}


@pytest.mark.parametrize(
    ("gamma", "known", "expected"),
    [
        pytest.param(LARGE, {"kept_off": OVERRAN}, False, id="gamma is large enough"),
        pytest.param(SMALL, {"kept_off": OVERRAN}, True, id="gamma is too small"),
        pytest.param(SMALL, {"kept_off": FAILED}, False, id="the task may return to beta"),
        pytest.param(SMALL, {}, False, id="no overrun"),
        pytest.param(replace(LARGE, is_drained=True), {"kept_off": OVERRAN}, True, id="drained"),
        pytest.param(replace(LARGE, is_stressed=True), {"kept_off": OVERRAN}, None, id="stressed"),
        pytest.param(replace(LARGE, max_slots=0), {"kept_off": OVERRAN}, None, id="disabled"),
        pytest.param(None, {"kept_off": OVERRAN}, None, id="no answer"),
        pytest.param(SMALL, {"kept_off": OVERRAN, "waiting": {}}, False, id="no waiting task"),
    ],
)
def test_tasks_are_unplaceable_if_every_cluster_is_excluded_too_small_or_drained(
    gamma: ClusterCapacityForCampaigns | None, known: dict[str, object], expected: bool | None
) -> None:
    assert has_unplaceable_tasks(WIDE, look(gamma, **known), {}) is expected


def look(gamma: ClusterCapacityForCampaigns | None, **known: object) -> CampaignCycleSituation:
    """Return the situation of a campaign at beta, and at gamma if its capacity is given."""
    room = {"beta": LARGE} | ({"gamma": gamma} if gamma else {})
    return seen_by_events(campaigns=(WIDE,), room=room, arrays=(), **known)


def test_a_cluster_closed_by_an_event_makes_tasks_unplaceable() -> None:
    one = look(LARGE, kept_off=OVERRAN)
    paused = replace(WIDE, state=CampaignState.PAUSED)

    assert (has_unplaceable_tasks(WIDE, one, BARRED), has_unplaceable_tasks(paused, one, BARRED)) == (True, False)


@pytest.mark.parametrize(
    ("gamma", "is_over"), [(SMALL, False), (None, False), (LARGE, True)], ids=["too small", "no answer", "large enough"]
)
def test_the_event_about_unplaceable_tasks_stays_open_until_a_cluster_accepts_the_tasks(
    gamma: ClusterCapacityForCampaigns | None, is_over: bool
) -> None:
    known = event(CampaignEventCode.NO_CLUSTER, "")

    first = told(look(SMALL, kept_off=OVERRAN))
    later = told(look(gamma, kept_off=OVERRAN, events=(known,)))

    assert first[CampaignEventCode.NO_CLUSTER].closed_at is None
    assert (CampaignEventCode.NO_CLUSTER in later) is is_over


def test_an_overrun_task_has_failed_if_every_other_cluster_is_too_small() -> None:
    overran = ended(TaskAttemptOutcome.WALLTIME)
    small, large = (replace(look(gamma), arrays=(array(),), ended=overran) for gamma in (SMALL, LARGE))

    assert (plan_campaign_cycle(small).again, len(plan_campaign_cycle(large).again)) == ((), 1)
    assert CampaignEventCode.WALLTIME in told(small)
