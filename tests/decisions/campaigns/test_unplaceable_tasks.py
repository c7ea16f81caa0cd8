"""Owners get an event about tasks that no cluster may run, but not for a short outage."""

from dataclasses import replace

import pytest

from gridbridge.decisions.campaigns.campaign_cycle_planning import plan_campaign_cycle
from gridbridge.decisions.campaigns.cluster_closing_and_black_holes import ClusterClosureOrProbe
from gridbridge.decisions.campaigns.unsent_task_backlog import has_unplaceable_tasks
from gridbridge.model.campaigns.campaign import CampaignState, TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_cycle_plan import (
    CampaignCycleSituation,
    ClusterCapacityForCampaigns,
    TaskCountByExclusions,
)
from gridbridge.model.campaigns.campaign_events import CampaignEventCode
from tests.decisions.campaigns.test_event_rules import array, ended, event, seen, told
from tests.decisions.campaigns.test_slot_distribution import at, campaign

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
    return seen(campaigns=(WIDE,), room=room, arrays=(), **known)


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
