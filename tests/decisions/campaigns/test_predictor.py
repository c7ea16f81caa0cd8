"""The runner fills free slots in successive cycles, and floods no cluster."""

from dataclasses import replace
from typing import Any

import pytest

from gridbridge.decisions.campaigns.campaign_cycle_planning import describe_campaign_cycle_plan, plan_campaign_cycle
from gridbridge.decisions.campaigns.tasks_per_free_slot_predictor import predict_job_ratios
from gridbridge.model.campaigns.campaign_configuration_sections import JobRatioRule
from gridbridge.model.campaigns.campaign_cycle_plan import (
    CampaignCycleSituation,
    ClusterCapacityForCampaigns,
    JobRatio,
    JobRatioUpdate,
    ListedCampaignTaskCounts,
)
from tests.decisions.campaigns.campaign_builder import make_cycle_situation
from tests.decisions.campaigns.test_slot_distribution import at, campaign

ONE = campaign(1, {"beta": at()})


def seen(free: int, *, waiting: int = 0, running: int = 0, **other: Any) -> CampaignCycleSituation:
    law = {key: other.pop(key) for key in ("law", "flood_rate") if key in other}
    tasks = other.pop("tasks", {})
    listed = ListedCampaignTaskCounts(campaign=1, cluster="beta", waiting=waiting, listed=waiting + running, **tasks)
    room = {"beta": ClusterCapacityForCampaigns(free_slots=free, max_slots=100, **law)}
    usual = {"campaigns": (ONE,), "waiting": {1: 1000}, "max_tasks": 1000, "room": room, "there": (listed,)}
    return make_cycle_situation(**usual | other)


def kept(ratio: float, submitted: int = 0) -> tuple[JobRatio, ...]:
    return (JobRatio(campaign=1, cluster="beta", ratio=ratio, submitted=submitted),)


def sent(seen: CampaignCycleSituation) -> int:
    return sum(one.tasks for one in plan_campaign_cycle(seen).sends)


def until_sent(law: JobRatioRule, tasks: int, cycles: int) -> list[int]:
    """Return how many tasks each cycle sends to 100 free slots that start tasks at once."""
    left, running = tasks, 0
    ratios: tuple[JobRatio, ...] = ()
    counts: list[int] = []
    for _ in range(cycles):
        now = seen(100 - running, running=running, law=law, ratios=ratios)
        decided = plan_campaign_cycle(replace(now, waiting={1: left}))
        counts.append(sum(one.tasks for one in decided.sends))
        left, running = left - counts[-1], running + counts[-1]
        ratios = tuple(_ratio(one) for one in decided.predicted) or ratios
    return counts


def _ratio(one: JobRatioUpdate) -> JobRatio:
    return JobRatio(campaign=one.campaign, cluster=one.cluster, ratio=one.ratio, submitted=one.submitted)


@pytest.mark.parametrize("law", [JobRatioRule.MEASURED, JobRatioRule.TWO_WAY, JobRatioRule.ADAPTIVE])
def test_the_first_cycle_fills_a_hundred_free_slots(law: JobRatioRule) -> None:
    """CiGri's taps need ten cycles of 15 s."""
    assert until_sent(law, 100, 2) == [100, 0]


def test_slow_start_doubles_the_number_of_sent_tasks() -> None:
    assert until_sent(JobRatioRule.SLOW_START, 100, 6)[:5] == [1, 1, 3, 7, 14]


def test_a_cluster_that_starts_no_task_is_not_flooded() -> None:
    flooded = seen(100, waiting=100, ratios=kept(1.0, submitted=100), flood_rate=0.1)

    decided = plan_campaign_cycle(flooded)

    assert decided.sends == ()
    assert decided.predicted[0].ratio == pytest.approx(0.1)
    assert describe_campaign_cycle_plan(decided) == [
        "campaign 1 at beta: job ratio 1 -> 0.1 (measured: 100 slots free, 100 sent, 0 run, 100 wait, 10 may wait)"
    ]


def test_a_full_cluster_gets_only_tasks_that_may_wait() -> None:
    full = [{"flood_rate": 0.1}, {"flood_rate": 0.1, "waiting": 4}, {}]

    assert [sent(seen(0, running=100, **known)) for known in full] == [10, 6, 0]


def test_the_limit_of_waiting_tasks_is_shared_by_all_campaigns() -> None:
    two = (ONE, replace(ONE, number=2))
    decided = plan_campaign_cycle(replace(seen(0, flood_rate=0.1), campaigns=two, waiting={1: 7, 2: 1000}))

    assert [(one.campaign, one.tasks) for one in decided.sends] == [(1, 7), (2, 3)]


def test_no_task_waits_while_another_cluster_could_start_the_task() -> None:
    one = campaign(1, {"beta": at(), "gamma": at()})
    room = dict.fromkeys(("beta", "gamma"), ClusterCapacityForCampaigns(free_slots=5, max_slots=100, flood_rate=0.1))

    decided = plan_campaign_cycle(replace(seen(5), campaigns=(one,), waiting={1: 10}, room=room, there=()))

    assert {each.cluster: each.tasks for each in decided.sends} == {"beta": 5, "gamma": 5}


def test_the_job_ratio_counts_waiting_tasks_by_campaign() -> None:
    """CiGri v2 counted waiting tasks of all campaigns together, and computed a wrong ratio."""
    other = ListedCampaignTaskCounts(campaign=2, cluster="beta", waiting=50, listed=50)
    both = replace(
        seen(0, running=10, ratios=kept(1.0, 10)),
        campaigns=(ONE, replace(ONE, number=2)),
        waiting={1: 9, 2: 9},
        there=(ListedCampaignTaskCounts(campaign=1, cluster="beta", waiting=0, listed=10), other),
    )

    found = predict_job_ratios(both)

    assert found[1, "beta"].terms.waiting == 0
    assert found[2, "beta"].terms.waiting == 50


def test_the_job_ratio_uses_the_observed_slots_of_a_task() -> None:
    """OAR may give a task a whole node."""
    look = seen(10, running=5, tasks={"slots": 2.0}, ratios=kept(1.0, 5))

    assert (predict_job_ratios(look)[1, "beta"].ratio, sent(look)) == (0.5, 5)


def test_the_job_ratio_does_not_change_while_no_slot_is_free() -> None:
    assert plan_campaign_cycle(seen(0, running=100, ratios=kept(0.5))).predicted == ()


def test_sent_tasks_are_counted_until_the_tasks_had_time_to_start() -> None:
    fresh = plan_campaign_cycle(seen(50, waiting=10, tasks={"fresh": 10}, ratios=kept(1.0, 10)))

    assert [(one.ratio, one.submitted) for one in fresh.predicted] == [(1.0, 50)]


def test_only_clusters_that_answer_and_campaigns_with_waiting_tasks_have_job_ratios() -> None:
    assert predict_job_ratios(replace(seen(5), room={})) == {}
    assert predict_job_ratios(replace(seen(5), waiting={})) == {}
