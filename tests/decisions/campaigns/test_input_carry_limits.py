"""Tasks go to a cluster only if their input files get there sooner than other clusters start the tasks."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.decisions.campaigns.campaign_cycle_planning import plan_campaign_cycle
from gridbridge.decisions.campaigns.input_carry_limits import InputCarryLimits
from gridbridge.decisions.campaigns.task_send_explanation import explain_campaign_task_sends
from gridbridge.model.campaigns.campaign import ArraySubmissionState, Campaign
from gridbridge.model.campaigns.campaign_cycle_plan import (
    CampaignCycleSituation,
    CampaignTaskCountsAtCluster,
    ClusterCapacityForCampaigns,
    FairShareInputs,
    InputCarryCost,
)
from gridbridge.model.campaigns.jdl import Jdl, JdlSettingsAtCluster
from gridbridge.model.campaigns.send_reasons import TaskSentOrUnsentCause
from tests.builders.campaigns import released_array
from tests.decisions.campaigns.campaign_builder import make_campaign, make_cycle_situation, sent_tasks

Cause = TaskSentOrUnsentCause


def reads(*clusters: str) -> Campaign:
    return make_campaign(
        number=1, jdl=Jdl(name="reads", clusters={name: JdlSettingsAtCluster(exec_file="run") for name in clusters})
    )


def situation(
    task_s: float | None, waiting: int, running: int, free: dict[str, int], travelling: int = 0
) -> CampaignCycleSituation:
    """Alpha sees the input files and runs tasks of 10 s; gamma gets the files of a task in `task_s`."""
    campaign = reads("alpha", "gamma")
    array = replace(released_array(cluster="gamma", size=travelling), state=ArraySubmissionState.INTENDED)
    return make_cycle_situation(
        campaigns=(campaign,),
        waiting={1: waiting},
        room={name: ClusterCapacityForCampaigns(free_slots=slots, max_slots=99) for name, slots in free.items()},
        there=(CampaignTaskCountsAtCluster(campaign=1, cluster="alpha", waiting=0, listed=running),),
        arrays=(array,) if travelling else (),
        sharing=FairShareInputs(mean_s={1: {"alpha": 10.0, "gamma": 10.0}}),
        carry_costs=(InputCarryCost(campaign=1, cluster="gamma", task_s=task_s),),
    )


@pytest.mark.parametrize(
    ("task_s", "waiting", "running", "travelling", "expected"),
    [
        (0.0, 20, 10, 0, 20),
        (1.0, 20, 10, 0, 10),
        (1.0, 20, 0, 0, 20),
        (19.0, 20, 10, 0, 1),
        (20.0, 20, 10, 0, 0),
        (1.0, 20, 10, 4, 8),
        (1.0, 1, 10, 4, 0),
        (None, 20, 10, 0, 1),
        (None, 20, 10, 1, 0),
    ],
    ids=[
        "files are there",
        "half of the tasks start sooner at gamma",
        "nothing runs elsewhere",
        "one task",
        "alpha starts all sooner",
        "tasks whose files travel count",
        "more than is worth it travel",
        "the first carry is timed with one task",
        "the first carry runs",
    ],
)
def test_tasks_go_where_they_start_sooner(
    task_s: float | None, waiting: int, running: int, travelling: int, expected: int
) -> None:
    seen = situation(task_s, waiting, running, {"alpha": 0, "gamma": 99}, travelling)

    assert expected == sent_tasks(seen).get((1, "gamma"), 0)


def test_the_only_cluster_gets_all_tasks_before_the_first_carry_is_timed() -> None:
    seen = situation(None, 20, 0, {"gamma": 99})

    assert {(1, "gamma"): 20} == sent_tasks(replace(seen, campaigns=(reads("gamma"),)))


def test_the_cluster_with_the_files_is_filled_first() -> None:
    assert {(1, "alpha"): 3} == sent_tasks(situation(0.1, 3, 0, {"alpha": 3, "gamma": 9}))


@pytest.mark.parametrize(
    ("task_s", "travelling", "cause"),
    [(60.0, 0, Cause.INPUTS_ELSEWHERE), (None, 1, Cause.FIRST_CARRY), (0.0, 0, Cause.SENT)],
)
def test_it_is_told_why_a_cluster_gets_no_task(task_s: float | None, travelling: int, cause: Cause) -> None:
    seen = situation(task_s, 20, 10, {"alpha": 0, "gamma": 9}, travelling)

    by_cluster = {told.cluster: told for told in explain_campaign_task_sends(seen, plan_campaign_cycle(seen))}

    assert (cause, task_s or 0.0) == (by_cluster["gamma"].cause, by_cluster["gamma"].carry_s)


@pytest.mark.parametrize(
    ("task_bytes", "ahead_bytes", "free", "waiting", "travelling", "expected"),
    [
        (0.0, 0.0, 2, 0, 0, 12),
        (10.0, 1000.0, 2, 0, 0, 12),
        (10.0, 59.0, 2, 0, 0, 7),
        (10.0, 59.0, 2, 2, 0, 3),
        (10.0, 59.0, 2, 0, 3, 2),
        (10.0, 0.0, 2, 0, 0, 2),
    ],
    ids=["no files", "few bytes", "the limit", "tasks that wait", "files that travel", "none ahead"],
)
def test_files_are_carried_ahead_of_free_slots_up_to_a_number_of_bytes(
    task_bytes: float, ahead_bytes: float, free: int, waiting: int, travelling: int, expected: int
) -> None:
    """By its flood rate gamma would get ten tasks without a free slot."""
    seen = situation(0.0, 50, 0, {"gamma": free}, travelling)
    capacity = replace(seen.room["gamma"], max_slots=100, flood_rate=0.1, inputs_ahead_bytes=ahead_bytes)
    seen = replace(
        seen,
        room={"gamma": capacity},
        there=(CampaignTaskCountsAtCluster(campaign=1, cluster="gamma", waiting=waiting, listed=waiting),),
        carry_costs=(InputCarryCost(campaign=1, cluster="gamma", task_s=0.0, task_bytes=task_bytes),),
    )

    assert expected == sent_tasks(seen)[1, "gamma"]


@pytest.mark.parametrize(
    ("rates", "free", "expected"),
    [
        ({"beta": 1e6, "gamma": 9e6}, 2, {"beta": 0, "gamma": 10}),
        ({"beta": 5e6, "gamma": 5e6}, 2, {"beta": 10, "gamma": 10}),
        ({"beta": 1e6, "gamma": 9e6}, 20, {"beta": 0, "gamma": 1}),
        ({"gamma": 9e6}, 2, {"beta": 10, "gamma": 0}),
    ],
    ids=["the faster carry", "equal carries", "all tasks have a free slot", "a cluster that sees the files"],
)
def test_files_of_a_single_task_are_carried_ahead_where_carries_are_fast(
    rates: dict[str, float], free: int, expected: dict[str, int]
) -> None:
    """By the flood rate a cluster gets ten tasks without a free slot, if so many are left."""
    campaign = reads("beta", "gamma")
    capacity = ClusterCapacityForCampaigns(free_slots=free, max_slots=100, flood_rate=0.1)
    seen = make_cycle_situation(
        campaigns=(replace(campaign, jdl=replace(campaign.jdl, inputs=("{1}",))),),
        waiting={1: 40},
        room={"beta": capacity, "gamma": capacity},
        carry_costs=tuple(
            InputCarryCost(campaign=1, cluster=name, task_s=0.0, bytes_per_s=rate) for name, rate in rates.items()
        ),
    )

    assert expected == {send.cluster: send.unshared_first for send in plan_campaign_cycle(seen).sends}


@given(st.floats(0.01, 1000), st.integers(0, 1000), st.integers(0, 50), st.integers(0, 9), st.integers(0, 9))
def test_the_last_task_that_goes_starts_sooner_and_one_more_would_not(
    task_s: float, unsent: int, running: int, travelling: int, given_now: int
) -> None:
    """The clusters with the files start `running` / 10 s tasks a second."""
    limits = InputCarryLimits(situation(task_s, unsent, running, {"alpha": 0, "gamma": 9}, travelling))
    tasks = limits.max_tasks_worth_carrying(reads("alpha", "gamma"), "gamma", unsent, given_now)
    at_gamma, rate = tasks + travelling + given_now, running / 10

    assert 0 <= tasks <= unsent
    assert not tasks or at_gamma * task_s * rate <= unsent - tasks + 1e-6
    assert tasks == unsent or (at_gamma + 1) * task_s * rate > unsent - tasks - 1 - 1e-6
