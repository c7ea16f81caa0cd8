"""Several short tasks run in one job: as many as the JDL, their mean run time, the walltime and the slots allow."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.decisions.campaigns.campaign_cycle_planning import describe_campaign_cycle_plan, plan_campaign_cycle
from gridbridge.decisions.campaigns.task_group_sizes import MOST_TASKS, NEVER_S, largest_task_group, task_group_sizes
from gridbridge.model.campaigns.campaign import ALONE, Campaign, TaskGroupSize
from gridbridge.model.campaigns.campaign_cycle_plan import (
    ClusterCapacityForCampaigns,
    FairShareInputs,
    InputCarryCost,
    PlannedCampaignTaskSend,
    TaskCountByExclusions,
)
from gridbridge.model.campaigns.jdl import CampaignType, JdlSettingsAtCluster
from tests.builders.campaigns import made_campaign, made_situation

HOUR_S, BELOW_S = 3600, 30.0


def request(**fields: Any) -> JdlSettingsAtCluster:
    return JdlSettingsAtCluster(exec_file="run", **fields)


@pytest.mark.parametrize(
    ("grouping", "mean_s", "walltime_s", "expected"),
    [
        (True, None, HOUR_S, (50, 900)),
        (True, 10, HOUR_S, (91, 900)),
        (True, 60, HOUR_S, (16, 900)),
        (True, 400, HOUR_S, (3, 900)),
        (True, 1000, HOUR_S, (1, 0)),
        (True, 10, 600, (16, 150)),
        (True, 0, HOUR_S, (MOST_TASKS, 900)),
        (True, NEVER_S, HOUR_S, (50, 900)),
        (None, None, HOUR_S, (1, 0)),
        (None, NEVER_S, HOUR_S, (1, 0)),
        (None, 1, HOUR_S, (301, 300)),
        (None, 29, HOUR_S, (11, 300)),
        (None, 30, HOUR_S, (1, 0)),
        (None, 1, 60, (16, 15)),
        (False, 1, HOUR_S, (1, 0)),
    ],
)
def test_a_job_runs_as_many_tasks_as_its_time_allows(
    grouping: bool | None, mean_s: float | None, walltime_s: int, expected: tuple[int, int]
) -> None:
    """CiGri: 900 s divided by the mean, and one more; 50 before the first end."""
    asked = request(temporal_grouping=grouping, walltime_s=walltime_s)

    size = largest_task_group(made_campaign(), asked, mean_s, BELOW_S)

    assert expected == (size.tasks, size.begin_s)


@pytest.mark.parametrize(
    ("grouping", "mean_s", "expected"),
    [(False, 1, 4), (None, 100, 4), (None, 29, 11), (True, 400, 4), (True, None, 50)],
)
def test_a_job_has_at_least_the_tasks_that_run_side_by_side(
    grouping: bool | None, mean_s: float | None, expected: int
) -> None:
    asked = request(temporal_grouping=grouping, side_by_side=4, slots=4)

    assert expected == largest_task_group(made_campaign(), asked, mean_s, BELOW_S).tasks


@pytest.mark.parametrize(("grouping", "expected"), [(None, 1), (True, 901)])
@pytest.mark.parametrize("fields", [{"is_idempotent": True}, {"outputs": ("out",)}])
def test_tasks_that_may_get_speculative_attempts_are_grouped_only_by_the_jdl(
    fields: dict[str, Any], grouping: bool | None, expected: int
) -> None:
    size = largest_task_group(campaign(**fields), request(temporal_grouping=grouping), 1, BELOW_S)

    assert expected == size.tasks


@given(st.floats(0, 1e6), st.integers(1, 10**6), st.sampled_from([True, None]))
def test_each_task_may_use_three_quarters_of_its_walltime(
    mean_s: float, walltime_s: int, grouping: bool | None
) -> None:
    asked = request(temporal_grouping=grouping, walltime_s=walltime_s)
    size = largest_task_group(made_campaign(), asked, mean_s, BELOW_S)

    assert size == ALONE or (1 < size.tasks <= MOST_TASKS and 4 * size.begin_s <= walltime_s)
    assert (size.tasks - 1) * mean_s <= size.begin_s + 1 or mean_s < 0.1


SHORT = FairShareInputs(mean_s={1: {"beta": 1.0, "gamma": 1.0}})


def campaign(tasks: int = 1000, **jdl: Any) -> Campaign:
    made = made_campaign("beta", "gamma", number=1, tasks=tasks)
    return replace(made, jdl=replace(made.jdl, **jdl))


@pytest.mark.parametrize(
    ("jobs", "unsent", "fields", "other", "expected"),
    [
        ({"beta": 4}, 1000, {}, {}, {"beta": 251}),
        ({"beta": 4}, 5000, {}, {}, {"beta": 301}),
        ({"beta": 4, "gamma": 6}, 95, {}, {}, {"beta": 10, "gamma": 10}),
        ({"beta": 4}, 3, {}, {}, {}),
        ({"beta": 4}, 1000, {"first_tasks": 1}, {}, {}),
        ({"beta": 4}, 1000, {"checkpoint_files": ("state",)}, {}, {}),
        ({"beta": 4}, 1000, {"type": CampaignType.TEST}, {}, {}),
        ({"beta": 4}, 1000, {}, {"carry_costs": (InputCarryCost(campaign=1, cluster="beta", task_s=1),)}, {}),
        ({"beta": 4}, 1000, {}, {"group_below_s": 0.0}, {}),
    ],
    ids=[
        "all slots",
        "full jobs",
        "two clusters",
        "slots first",
        "first tasks",
        "checkpoints",
        "test",
        "carries",
        "off",
    ],
)
def test_tasks_are_spread_over_all_jobs(
    jobs: dict[str, int], unsent: int, fields: dict[str, Any], other: dict[str, Any], expected: dict[str, int]
) -> None:
    situation = made_situation(
        **{"campaigns": (campaign(**fields),), "sharing": SHORT, "group_below_s": BELOW_S} | other
    )
    given_jobs = {(1, name): count for name, count in jobs.items()}

    sizes = task_group_sizes(situation, given_jobs, {1: unsent})

    assert expected == {cluster: size.tasks for (_, cluster), size in sizes.items()}


def test_a_cycle_fills_its_jobs_with_short_tasks_and_says_so() -> None:
    """Three slots are free; of the 100 tasks 99 go, and tasks that avoid beta stay."""
    room = {"beta": ClusterCapacityForCampaigns(free_slots=3, max_slots=3, slots=3)}
    kept_off = {1: (TaskCountByExclusions(tasks=10, never=("beta",)),)}
    situation = made_situation(
        campaigns=(campaign(100),), waiting={1: 100}, room=room, sharing=SHORT, group_below_s=BELOW_S, kept_off=kept_off
    )

    plan = plan_campaign_cycle(situation)

    group = TaskGroupSize(tasks=33, begin_s=300)
    assert plan.sends == (PlannedCampaignTaskSend(campaign=1, cluster="beta", tasks=90, group=group),)
    assert plan.sends[0].jobs == 3
    assert describe_campaign_cycle_plan(plan) == ["sent: 90 tasks of campaign 1 to beta in 3 jobs"]


@pytest.mark.parametrize(
    ("tasks", "ordinary", "group", "jobs"), [(7, 0, 1, 7), (7, 2, 1, 7), (7, 0, 3, 3), (7, 3, 3, 3), (7, 2, 3, 3)]
)
def test_a_send_counts_its_jobs(tasks: int, ordinary: int, group: int, jobs: int) -> None:
    send = PlannedCampaignTaskSend(
        campaign=1, cluster="beta", tasks=tasks, ordinary=ordinary, group=TaskGroupSize(tasks=group)
    )

    assert jobs == send.jobs
