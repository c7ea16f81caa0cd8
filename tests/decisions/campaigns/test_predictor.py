"""The job ratio: how many tasks are sent for each free slot, from the observed starts of earlier tasks."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.decisions.campaigns.campaign_cycle_planning import describe_campaign_cycle_plan, plan_campaign_cycle
from gridbridge.decisions.campaigns.remaining_cluster_capacity import max_waiting_tasks
from gridbridge.decisions.campaigns.tasks_per_free_slot_predictor import (
    MAX_RATIO,
    can_last_sent_tasks_be_judged,
    count_tasks_by_job_ratio,
    initial_job_ratio,
    next_job_ratio,
    predict_job_ratios,
)
from gridbridge.model.campaigns.campaign_configuration_sections import JobRatioRule
from gridbridge.model.campaigns.campaign_cycle_plan import (
    CampaignCycleSituation,
    CampaignTaskCountsAtCluster,
    ClusterCapacityForCampaigns,
    JobRatio,
    TasksPerFreeSlotInputs,
    TasksPerFreeSlotUpdate,
)
from tests.decisions.campaigns.campaign_builder import make_cycle_situation
from tests.decisions.campaigns.test_slots import at, campaign

ONE = campaign(1, {"beta": at()})


def seen(free: int, *, waiting: int = 0, running: int = 0, **other: Any) -> CampaignCycleSituation:
    law = {key: other.pop(key) for key in ("law", "flood_rate") if key in other}
    tasks = other.pop("tasks", {})
    listed = CampaignTaskCountsAtCluster(campaign=1, cluster="beta", waiting=waiting, listed=waiting + running, **tasks)
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


def _ratio(one: TasksPerFreeSlotUpdate) -> JobRatio:
    return JobRatio(campaign=one.campaign, cluster=one.cluster, ratio=one.ratio, submitted=one.submitted)


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
    other = CampaignTaskCountsAtCluster(campaign=2, cluster="beta", waiting=50, listed=50)
    both = replace(
        seen(0, running=10, ratios=kept(1.0, 10)),
        campaigns=(ONE, replace(ONE, number=2)),
        waiting={1: 9, 2: 9},
        there=(CampaignTaskCountsAtCluster(campaign=1, cluster="beta", waiting=0, listed=10), other),
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


SLOW, TWO_WAY, ADAPTIVE, MEASURED = (
    JobRatioRule.SLOW_START,
    JobRatioRule.TWO_WAY,
    JobRatioRule.ADAPTIVE,
    JobRatioRule.MEASURED,
)


def terms(old: float, submitted: int, **other: Any) -> TasksPerFreeSlotInputs:
    """Return the inputs of a job ratio at a cluster of 16 slots, for tasks of one slot."""
    known: dict[str, Any] = {"slots": 1, "max_slots": 16, "free": 16}
    seen = known | {"running": 0, "waiting": 0, "allowed": 0} | other
    return TasksPerFreeSlotInputs(old=old, submitted=submitted, **seen)


@pytest.mark.parametrize(
    ("law", "seen", "ratio"),
    [
        # slow-start doubles, and falls to one task a cluster
        (SLOW, terms(1 / 16, 1, running=1), 2 / 16),
        (SLOW, terms(1 / 2, 8, running=8), 1),
        (SLOW, terms(1, 16, running=16), 2),
        (SLOW, terms(1, 16, waiting=5, allowed=2), 1 / 16),
        # two-way: of 10 tasks 5 run, for each needs two resources
        (TWO_WAY, terms(1, 10, running=5, waiting=5), 0.5),
        (TWO_WAY, terms(1, 10, running=5, waiting=5, allowed=2), 0.7),
        # it forgets that when all that it sent runs
        (TWO_WAY, terms(0.5, 5, running=5), 1),
        # of 10 short tasks 6 are over: more may be sent
        (TWO_WAY, terms(1, 10, running=4), 2.5),
        # more is too much than was sent
        (TWO_WAY, terms(0.5, 10, waiting=30, allowed=5), 0),
        (TWO_WAY, terms(0, 0), 1),
        (TWO_WAY, terms(0, 0, waiting=3), 0),
        # adaptive-down, exponential-up
        (ADAPTIVE, terms(0.5, 10, waiting=8, allowed=5), 0.7),
        (ADAPTIVE, terms(0.5, 10), 1),
    ],
)
def test_job_ratio_rules_follow_the_cigri_specification(
    law: JobRatioRule, seen: TasksPerFreeSlotInputs, ratio: float
) -> None:
    """With too many waiting tasks the ratio is (S - E) / S.

    The specification's lines about this rule are damaged.
    """
    assert next_job_ratio(law, seen) == pytest.approx(ratio)


@pytest.mark.parametrize(
    ("seen", "ratio"),
    [
        # half of what was sent waits: half of the ratio, whatever it was
        (terms(1, 10, waiting=5), 0.5),
        (terms(0.5, 10, waiting=5), 0.25),
        # the same tasks still wait, and nothing was sent since: they were counted before
        (terms(0.5, 0, waiting=5), 0.5),
        (terms(0.5, 10, waiting=90), 1 / 16),
        # up in equal steps, to a task for each room of one
        (terms(0.5, 5, running=5), 0.75),
        (terms(0.9, 9, running=9), 1),
        # the last good one is kept while nothing is free
        (terms(0.5, 5, running=5, free=0), 0.5),
        # a task has two slots, whatever was asked for
        (terms(1, 5, running=5, slots=2), 0.5),
        (terms(0.25, 5, waiting=5, slots=2), 1 / 16),
    ],
)
def test_the_measured_job_ratio_rule_keeps_the_last_good_ratio(seen: TasksPerFreeSlotInputs, ratio: float) -> None:
    assert next_job_ratio(MEASURED, seen) == pytest.approx(ratio)


@pytest.mark.parametrize("law", [SLOW, ADAPTIVE])
def test_a_doubling_job_ratio_rule_doubles_only_after_sent_tasks(law: JobRatioRule) -> None:
    assert next_job_ratio(law, terms(0.5, 0)) == 0.5


@pytest.mark.parametrize("law", JobRatioRule)
def test_recently_sent_tasks_do_not_change_the_job_ratio(law: JobRatioRule) -> None:
    """Some batch systems start jobs only from time to time."""
    young, flooded = terms(0.5, 5, fresh=5), terms(0.5, 5, fresh=5, waiting=9)

    assert next_job_ratio(law, young) == 0.5
    assert (can_last_sent_tasks_be_judged(young), can_last_sent_tasks_be_judged(flooded)) == (False, True)


def test_the_first_job_ratio_fills_free_slots_except_for_slow_start() -> None:
    """The specification begins with one resource per task."""
    assert initial_job_ratio(MEASURED, 1, 100) == 1
    assert initial_job_ratio(ADAPTIVE, 4, 100) == 0.25
    assert initial_job_ratio(SLOW, 4, 100) == 0.01
    assert initial_job_ratio(SLOW, 1, 0) == 1


@pytest.mark.parametrize(
    ("ratio", "free", "slots", "tasks"),
    [(1, 100, 1, 100), (0.29, 100, 1, 29), (0.01, 60, 1, 1), (0.25, 3, 4, 0), (0, 9, 1, 0)],
)
def test_a_positive_job_ratio_sends_at_least_one_task_that_fits(
    ratio: float, free: int, slots: int, tasks: int
) -> None:
    assert count_tasks_by_job_ratio(ratio, free, slots) == tasks


def test_the_flood_rate_limits_waiting_tasks_to_a_share_of_the_slots() -> None:
    """The limit is rounded down; flood rate 0 allows no waiting task."""
    assert [max_waiting_tasks(19, rate) for rate in (0, 0.1, 0.5, 1)] == [0, 1, 9, 19]
    assert max_waiting_tasks(100, 0.29) == 29


@given(
    law=st.sampled_from(list(JobRatioRule)),
    old=st.floats(0, 4),
    submitted=st.integers(0, 10**6),
    waiting=st.integers(0, 10**6),
    running=st.integers(0, 10**6),
    allowed=st.integers(0, 100),
    free=st.integers(0, 1000),
    max_slots=st.integers(0, 1000),
    slots=st.integers(1, 64),
    fresh=st.integers(0, 3),
)
def test_a_job_ratio_stays_within_its_limits(law: JobRatioRule, **seen: Any) -> None:
    known = TasksPerFreeSlotInputs(**seen)
    ratio = next_job_ratio(law, known)

    assert 0 <= ratio * known.slots <= (1 if law is MEASURED else MAX_RATIO) + 1e-9
    if law is MEASURED and known.waiting > known.allowed:
        least = 1 / max(known.max_slots, known.slots)
        assert ratio <= max(known.old, least) + 1e-9
    if law is not TWO_WAY:
        assert ratio > 0


@pytest.mark.parametrize(
    ("what", "ratio"),
    [
        ({}, 0.75),
        ({"running": 0, "ended": 3}, 0.75),
        ({"running": 0}, 0.5),
        ({"waiting": 10, "allowed": 10}, 0.5),
        ({"others": 1}, 0.5),
        ({"is_wiped": True}, 0.5),
    ],
    ids=["tasks run", "tasks are short", "no task started", "tasks wait", "other campaigns wait", "tasks are deleted"],
)
def test_the_measured_job_ratio_rises_if_tasks_start_and_none_waits(what: dict[str, Any], ratio: float) -> None:
    """Otherwise tasks would be sent and deleted in turn at a cluster whose slots only look free."""
    settled = terms(0.5, 0, running=5)

    assert next_job_ratio(MEASURED, replace(settled, **what)) == ratio
