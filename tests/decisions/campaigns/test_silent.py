"""No action is tried at a cluster that does not answer, because each call would time out."""

from typing import Any

import pytest

from gridbridge.decisions.campaigns.campaign_cycle_planning import plan_campaign_cycle
from gridbridge.model.campaigns.campaign import ArraySubmissionState, CampaignState, TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCyclePlan, ClusterCapacityForCampaigns
from gridbridge.model.campaigns.jdl import JdlSettingsAtCluster
from tests.builders.campaigns import released_array
from tests.decisions.campaigns.campaign_builder import make_cycle_situation
from tests.decisions.campaigns.test_slots import campaign
from tests.decisions.campaigns.test_speculative import rival

WISH = JdlSettingsAtCluster(exec_file="run")
FULL = ClusterCapacityForCampaigns(free_slots=0)
STATES = [ArraySubmissionState.INTENDED, ArraySubmissionState.SUBMITTED, ArraySubmissionState.RELEASED]


def decided(state: ArraySubmissionState, campaigns: CampaignState, **values: Any) -> CampaignCyclePlan:
    """Return the plan when beta answers and gamma does not; each cluster has an array."""
    arrays = (released_array(size=2, state=state), released_array(size=2, state=state, number=2, cluster="gamma"))
    usual = {"campaigns": (campaign(1, {"beta": WISH, "gamma": WISH}, state=campaigns),), "arrays": arrays}
    usual |= {"room": {"beta": FULL}, "max_tasks": 9, "asked": frozenset({"beta", "gamma"})}
    return plan_campaign_cycle(make_cycle_situation(**usual | values))


@pytest.mark.parametrize("state", STATES)
def test_arrays_are_deleted_or_resumed_only_at_clusters_that_answer(state: ArraySubmissionState) -> None:
    found = decided(state, CampaignState.CANCELLED)
    later = decided(state, CampaignState.CANCELLED, room={"beta": FULL, "gamma": FULL})
    resumed = decided(state, CampaignState.IN_TREATMENT).resumed

    assert [array.cluster for array in found.deleted] == ["beta"]
    assert [array.cluster for array in later.deleted] == ["beta", "gamma"]
    assert [array.cluster for array in resumed] == ["beta"] * (state in STATES[:2])


def test_no_superseded_attempt_is_ended_at_a_cluster_that_does_not_answer() -> None:
    rivals = tuple(
        rival(attempt, outcome, task, array=number)
        for task, number in ((0, 1), (1, 2))
        for attempt, outcome in ((1, TaskAttemptOutcome.SUCCESS), (2, TaskAttemptOutcome.PENDING))
    )

    found = decided(ArraySubmissionState.RELEASED, CampaignState.IN_TREATMENT, rivals=rivals)

    assert [one.array.cluster for one in found.losers] == ["beta"]
