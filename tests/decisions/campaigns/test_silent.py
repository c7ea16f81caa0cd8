"""At a cluster that did not answer nothing is tried: each call would wait there in vain."""

from dataclasses import replace
from typing import Any

import pytest

from gridbridge.decisions.campaigns.campaign_cycle_planning import plan_campaign_cycle
from gridbridge.model.campaigns.campaign import ArraySubmissionState, CampaignArray, CampaignState, TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCyclePlan, ClusterCapacityForCampaigns
from gridbridge.model.campaigns.jdl import JdlSettingsAtCluster
from gridbridge.model.campaigns.speculative_attempts import CompetingAttempt
from tests.decisions.campaigns.campaign_builder import make_cycle_situation
from tests.decisions.campaigns.test_slot_distribution import NOON, campaign

WISH = JdlSettingsAtCluster(exec_file="run")
STATES = [ArraySubmissionState.INTENDED, ArraySubmissionState.SUBMITTED, ArraySubmissionState.RELEASED]


def array(number: int, cluster: str, state: ArraySubmissionState, **known: Any) -> CampaignArray:
    return CampaignArray(campaign=1, number=number, cluster=cluster, state=state, size=2, intended_at=NOON, **known)


def rival(task: int, attempt: int, number: int, outcome: TaskAttemptOutcome) -> CompetingAttempt:
    """Return an attempt of a task that had a copy: the first array is at beta."""
    return CompetingAttempt(
        campaign=1,
        task=task,
        attempt=attempt,
        array=number,
        place=1,
        cluster={1: "beta", 2: "gamma"}[number],
        outcome=outcome,
        is_copy=attempt > 1,
    )


def decided(state: ArraySubmissionState, campaigns: CampaignState, **known: Any) -> CampaignCyclePlan:
    """Return what a cycle does about an array at beta, which answers, and one at gamma."""
    one = campaign(1, {"beta": WISH, "gamma": WISH}, state=campaigns)
    seen = make_cycle_situation(
        campaigns=(one,),
        arrays=(array(1, "beta", state), array(2, "gamma", state)),
        room={"beta": ClusterCapacityForCampaigns(free_slots=0)},
        max_tasks=9,
        asked=frozenset({"beta", "gamma"}),
        at=NOON,
    )
    return plan_campaign_cycle(replace(seen, **known))


@pytest.mark.parametrize("state", STATES)
def test_what_a_cancelled_campaign_has_there_is_deleted_once_it_answers(state: ArraySubmissionState) -> None:
    found = decided(state, CampaignState.CANCELLED)
    later = decided(
        state, CampaignState.CANCELLED, room=dict.fromkeys(("beta", "gamma"), ClusterCapacityForCampaigns(free_slots=0))
    )

    assert [one.cluster for one in found.deleted] == ["beta"]
    assert [one.cluster for one in later.deleted] == ["beta", "gamma"]


@pytest.mark.parametrize("state", STATES[:2])
def test_no_submission_goes_on_there(state: ArraySubmissionState) -> None:
    """Neither one that is not known to have come there, nor the release of one that has."""
    found = decided(state, CampaignState.IN_TREATMENT)

    assert [one.cluster for one in found.resumed] == ["beta"]


def test_no_attempt_is_ended_there_whose_task_has_succeeded() -> None:
    rivals = tuple(
        rival(task, attempt, number, outcome)
        for task, number in ((0, 1), (1, 2))
        for attempt, outcome in ((1, TaskAttemptOutcome.SUCCESS), (2, TaskAttemptOutcome.PENDING))
    )

    found = decided(ArraySubmissionState.RELEASED, CampaignState.IN_TREATMENT, rivals=rivals)

    assert [one.array.cluster for one in found.losers] == ["beta"]
