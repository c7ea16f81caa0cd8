"""Cycle by cycle the predictor fills what is free, and floods nothing that is not."""

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
from tests.decisions.campaigns.test_slot_distribution import at, campaign

ONE = campaign(1, {"beta": at()})


def seen(free: int, *, waiting: int = 0, running: int = 0, **other: Any) -> CampaignCycleSituation:
    law = {key: other.pop(key) for key in ("law", "flood_rate") if key in other}
    tasks = other.pop("tasks", {})
    listed = ListedCampaignTaskCounts(campaign=1, cluster="beta", waiting=waiting, listed=waiting + running, **tasks)
    known: dict[str, Any] = {"campaigns": (ONE,), "waiting": {1: 1000}, "max_tasks": 1000}
    room = {"beta": ClusterCapacityForCampaigns(free_slots=free, max_slots=100, **law)}
    return CampaignCycleSituation(**known | {"arrays": (), "room": room, "there": (listed,)} | other)


def kept(ratio: float, submitted: int = 0) -> tuple[JobRatio, ...]:
    return (JobRatio(campaign=1, cluster="beta", ratio=ratio, submitted=submitted),)


def sent(seen: CampaignCycleSituation) -> int:
    return sum(one.tasks for one in plan_campaign_cycle(seen).sends)


def until_sent(law: JobRatioRule, tasks: int, cycles: int) -> list[int]:
    """Return how many tasks each cycle sends to 100 free slots that take them at once."""
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
def test_a_hundred_tasks_are_on_a_hundred_free_slots_in_the_first_cycle(law: JobRatioRule) -> None:
    """From nothing known; CiGri's taps needed ten cycles, 150 s. A cycle comes every 15 s."""
    assert until_sent(law, 100, 2) == [100, 0]


def test_slow_start_doubles_what_it_sends() -> None:
    assert until_sent(JobRatioRule.SLOW_START, 100, 6)[:5] == [1, 1, 3, 7, 14]


def test_a_cluster_that_starts_nothing_is_not_flooded() -> None:
    """Its slots look free; after the first try a task a cycle is too many already."""
    flooded = seen(100, waiting=100, ratios=kept(1.0, submitted=100), flood_rate=0.1)

    decided = plan_campaign_cycle(flooded)

    assert decided.sends == ()
    assert decided.predicted[0].ratio == pytest.approx(0.1)
    assert describe_campaign_cycle_plan(decided) == [
        "campaign 1 at beta: job ratio 1 -> 0.1 (measured: 100 slots free, 100 sent, 0 run, 100 wait, 10 may wait)"
    ]


def test_where_nothing_is_free_only_what_may_wait_is_sent() -> None:
    assert sent(seen(0, running=100, flood_rate=0.1)) == 10
    assert sent(seen(0, running=100, waiting=4, flood_rate=0.1)) == 6
    assert sent(seen(0, running=100)) == 0


def test_what_may_wait_at_a_cluster_is_shared_by_all_campaigns() -> None:
    two = (ONE, replace(ONE, number=2))

    full = replace(seen(0, flood_rate=0.1), campaigns=two, waiting={1: 7, 2: 1000})

    decided = plan_campaign_cycle(full)

    assert [(one.campaign, one.tasks) for one in decided.sends] == [(1, 7), (2, 3)]


def test_no_task_waits_where_it_could_run_elsewhere() -> None:
    one = campaign(1, {"beta": at(), "gamma": at()})
    room = {
        name: ClusterCapacityForCampaigns(free_slots=5, max_slots=100, flood_rate=0.1) for name in ("beta", "gamma")
    }

    decided = plan_campaign_cycle(replace(seen(5), campaigns=(one,), waiting={1: 10}, room=room, there=()))

    assert {each.cluster: each.tasks for each in decided.sends} == {"beta": 5, "gamma": 5}


def test_the_waiting_tasks_of_another_campaign_are_not_ones_own() -> None:
    """CiGri v2 counted all of them together, and learnt the wrong ratio."""
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


def test_a_task_that_takes_two_slots_is_seen_to_take_them() -> None:
    """Whatever the JDL asks for: OAR may give a whole node."""
    found = predict_job_ratios(seen(10, running=5, tasks={"slots": 2.0}, ratios=kept(1.0, 5)))

    assert found[1, "beta"].ratio == 0.5
    assert sent(seen(10, running=5, tasks={"slots": 2.0}, ratios=kept(1.0, 5))) == 5


def test_what_was_learnt_is_kept_until_something_is_free() -> None:
    full = plan_campaign_cycle(seen(0, running=100, ratios=kept(0.5)))

    assert full.predicted == ()


def test_what_was_sent_is_counted_until_it_tells_something() -> None:
    """A task that was sent some seconds ago waits as every task does."""
    fresh = plan_campaign_cycle(seen(50, waiting=10, tasks={"fresh": 10}, ratios=kept(1.0, 10)))

    assert [(one.ratio, one.submitted) for one in fresh.predicted] == [(1.0, 50)]


def test_a_campaign_is_tried_at_a_cluster_that_answers() -> None:
    """There is no ratio for one that does not, nor for a campaign that has nothing to send."""
    assert predict_job_ratios(replace(seen(5), room={})) == {}
    assert predict_job_ratios(replace(seen(5), waiting={})) == {}
