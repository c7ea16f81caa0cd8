"""Ordinary and best-effort tasks have separate free slots, and each core is given once."""

import pytest

from gridbridge.decisions.campaigns.remaining_cluster_capacity import FreeClusterSlots
from gridbridge.model.campaigns.campaign_cycle_plan import ClusterCapacityForCampaigns
from gridbridge.model.campaigns.jdl import JdlSettingsAtCluster

ORDINARY = JdlSettingsAtCluster(exec_file="run", is_besteffort=False)
YIELDING = JdlSettingsAtCluster(exec_file="run", slots=2)


@pytest.mark.parametrize(
    ("room", "ordinary", "besteffort"),
    [
        (ClusterCapacityForCampaigns(free_slots=5, besteffort_slots=3), 5, 3),
        (ClusterCapacityForCampaigns(free_slots=5, besteffort_slots=0), 5, 0),
        (ClusterCapacityForCampaigns(free_slots=5), 5, 5),
    ],
    ids=["both", "all suspended", "no best-effort queues"],
)
def test_ordinary_and_best_effort_tasks_have_separate_free_slots(
    room: ClusterCapacityForCampaigns, ordinary: int, besteffort: int
) -> None:
    free = FreeClusterSlots({"beta": room})

    assert (free.free_slots_for_request("beta", ORDINARY), free.free_slots_for_request("beta", YIELDING)) == (
        ordinary,
        besteffort,
    )


def test_each_sent_task_takes_an_ordinary_and_a_best_effort_slot() -> None:
    free = FreeClusterSlots({"beta": ClusterCapacityForCampaigns(free_slots=5, besteffort_slots=4)})

    free.take_slots("beta", YIELDING, 1)
    free.take_slots("beta", ORDINARY, 1)

    assert (free.free_slots_for_request("beta", ORDINARY), free.free_slots_for_request("beta", YIELDING)) == (2, 1)


def test_a_cluster_that_does_not_answer_has_no_free_slots() -> None:
    free = FreeClusterSlots({})
    free.take_slots("beta", ORDINARY, 1)

    assert free.free_slots_for_request("gamma", ORDINARY) == 0
    assert free.free_slots_for_request("beta", YIELDING) < 0
