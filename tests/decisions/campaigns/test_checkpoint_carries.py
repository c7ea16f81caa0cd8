"""A checkpoint is carried to another cluster if this takes less time than would be lost without it."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.decisions.campaigns.campaign_cycle_planning import plan_campaign_cycle
from gridbridge.decisions.campaigns.checkpoint_carries import lost_s_without_carry, plan_checkpoint_carries
from gridbridge.model.campaigns.campaign_cycle_plan import (
    CampaignCycleSituation,
    CampaignTaskCountsAtCluster,
    ClusterCapacityForCampaigns,
    FairShareInputs,
    TaskCountByExclusions,
)
from gridbridge.model.campaigns.checkpoint_statistics import CheckpointOfWaitingTask
from gridbridge.model.campaigns.jdl import Jdl, JdlSettingsAtCluster
from gridbridge.program.model_values_as_json import model_value_from_json, model_value_to_json
from tests.decisions.campaigns.campaign_builder import make_campaign, make_cycle_situation

MB = 1_000_000
CLUSTERS = ("alpha", "beta", "gamma")
SAVED = CheckpointOfWaitingTask(
    campaign=1,
    task=7,
    attempt=1,
    clusters=("alpha",),
    size_bytes=100 * MB,
    work_s=3000.0,
    waited_s=0.0,
    avoid=("beta", "gamma"),
    never=("beta", "gamma"),
)
AT_BETA_TOO = replace(SAVED, never=("gamma",))


def situation(
    free: dict[str, int], *checkpoints: CheckpointOfWaitingTask, running: int = 0, **more: Any
) -> CampaignCycleSituation:
    """Carries go to gamma with 10 MB a second; alpha and beta share a filesystem. Tasks run 100 s at alpha."""
    clusters = {name: JdlSettingsAtCluster(exec_file="run") for name in CLUSTERS}
    kinds = [TaskCountByExclusions(tasks=1, avoid=saved.avoid, never=saved.never) for saved in checkpoints]
    room = {name: ClusterCapacityForCampaigns(free_slots=slots, max_slots=99) for name, slots in free.items()}
    usual = {
        "campaigns": (make_campaign(jdl=Jdl(name="saves", clusters=clusters)),),
        "waiting": {1: len(checkpoints)},
        "kept_off": {1: tuple(kinds)},
        "room": room,
        "there": (CampaignTaskCountsAtCluster(campaign=1, cluster="alpha", waiting=0, listed=running),),
        "sharing": FairShareInputs(mean_s={1: {"alpha": 100.0}}),
        "waiting_checkpoints": checkpoints,
        "carry_rates": {"gamma": {1000: 10.0 * MB}},
    }
    return make_cycle_situation(**usual | more)


def carried(seen: CampaignCycleSituation) -> list[tuple[str, float, float]]:
    return [(carry.cluster, carry.carry_s, carry.lost_s) for carry in plan_checkpoint_carries(seen, seen.campaigns)]


FULL = {"alpha": 0, "gamma": 1}
AWAY = {"gamma": 1}  # alpha does not answer, or is closed


@pytest.mark.parametrize(
    ("free", "running", "saved", "expected"),
    [
        (FULL, 1, SAVED, [("gamma", 15, 100)]),
        (FULL, 10, SAVED, []),
        ({"alpha": 1, "gamma": 1}, 1, SAVED, []),
        (FULL, 0, SAVED, [("gamma", 15, 600)]),
        (AWAY, 0, SAVED, [("gamma", 15, 600)]),
        (AWAY, 0, replace(SAVED, waited_s=5000.0), [("gamma", 15, 3000)]),
        (AWAY, 0, replace(SAVED, work_s=15.0), []),
        (AWAY, 0, replace(SAVED, size_bytes=5950 * MB), []),
        (AWAY, 0, replace(SAVED, size_bytes=None), []),
        (AWAY, 0, replace(SAVED, excluded=("gamma",)), []),
        ({"gamma": 0}, 0, SAVED, []),
        (AWAY | {"beta": 1}, 0, SAVED, [("beta", 5, 600)]),
        ({"beta": 1, "gamma": 1}, 0, AT_BETA_TOO, []),
        ({"beta": 0, "gamma": 1}, 0, AT_BETA_TOO, [("gamma", 15, 600)]),
        (AWAY, 0, replace(SAVED, clusters=("gamma", "beta"), never=("alpha",)), []),
    ],
    ids=[
        "the next task at home ends in 100 s",
        "home starts a task sooner than a carry takes",
        "home has a free slot",
        "nobody knows when home has a free slot",
        "home is closed",
        "a long wait at home goes on as long, but at most the work is lost",
        "to repeat the work takes less time",
        "a large checkpoint",
        "unknown size",
        "a carry has failed",
        "no free slot elsewhere",
        "a shared filesystem",
        "an allowed cluster has a free slot",
        "an allowed cluster is full",
        "the checkpoint was carried before",
    ],
)
def test_a_checkpoint_is_carried_if_this_takes_less_time_than_would_be_lost(
    free: dict[str, int], running: int, saved: CheckpointOfWaitingTask, expected: list[tuple[str, float, float]]
) -> None:
    assert expected == carried(situation(free, saved, running=running))


def test_no_more_tasks_go_elsewhere_than_slots_are_free_there() -> None:
    tasks = [replace(SAVED, task=task) for task in range(5)]

    assert 2 == len(carried(situation({"gamma": 2}, *tasks)))
    assert 1 == len(carried(situation({"gamma": 2}, replace(SAVED, never=("beta",)), *tasks)))


def test_a_task_is_sent_in_the_cycle_that_allows_its_carry() -> None:
    """Otherwise the task could be sent to wait at its full cluster."""
    plan = plan_campaign_cycle(situation(FULL, SAVED))
    (send,) = plan.sends

    assert ["gamma"] == [carry.cluster for carry in plan.carries]
    assert ("gamma", 1) == (send.cluster, send.tasks)
    assert (TaskCountByExclusions(tasks=1, avoid=("beta",), never=("beta",)),) == send.kept_off


def test_the_journal_keeps_what_decided() -> None:
    seen = situation(FULL, SAVED)

    assert seen == model_value_from_json(json.loads(json.dumps(model_value_to_json(seen))), CampaignCycleSituation)


TIMES = st.floats(0, 1e7)


@given(TIMES, TIMES, st.integers(0, 10**13), TIMES)
def test_a_carry_never_costs_more_than_to_wait_or_to_begin_anew(
    waited_s: float, work_s: float, size_bytes: int, mean_s: float
) -> None:
    saved = replace(SAVED, waited_s=waited_s, work_s=work_s, size_bytes=size_bytes)
    seen = situation(FULL, saved, running=1, sharing=FairShareInputs(mean_s={1: {"alpha": mean_s}}))

    for carry in plan_checkpoint_carries(seen, seen.campaigns):
        assert 0 < carry.carry_s < carry.lost_s <= work_s
        assert carry.lost_s == lost_s_without_carry(mean_s or max(600, waited_s), 0.0, work_s)
