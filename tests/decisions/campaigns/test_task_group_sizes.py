"""Several short tasks run in one job: as many as the JDL, their mean run time, the walltime and the slots allow."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.decisions.campaigns.campaign_cycle_planning import describe_campaign_cycle_plan, plan_campaign_cycle
from gridbridge.decisions.campaigns.task_group_sizes import (
    MOST_TASKS,
    NEVER_S,
    largest_task_group,
    task_group_sizes,
    tasks_for_running_jobs,
)
from gridbridge.model.campaigns.campaign import ALONE, Campaign, CampaignState, TaskGroupSize
from gridbridge.model.campaigns.campaign_cycle_plan import (
    ClusterCapacityForCampaigns,
    FairShareInputs,
    InputCarryCost,
    PlannedCampaignTaskSend,
    TaskCountByExclusions,
)
from gridbridge.model.campaigns.grouped_tasks import MOST_TASKS_OF_JOB, PullingJob
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


@pytest.mark.parametrize(("tasks", "group", "jobs"), [(40, 4, 10), (42, 4, 11), (3, 3, 1), (1, 1, 1), (400, 4, 25)])
def test_jobs_are_filled_with_tasks_side_by_side(tasks: int, group: int, jobs: int) -> None:
    """100 slots are free, and each job requests four."""
    wide = {"beta": request(side_by_side=4, slots=4, temporal_grouping=False)}
    room = {"beta": ClusterCapacityForCampaigns(free_slots=100, max_slots=100, slots=100)}

    (send,) = plan_campaign_cycle(
        made_situation(campaigns=(campaign(tasks, clusters=wide),), waiting={1: tasks}, room=room)
    ).sends

    assert (min(tasks, 100), group, jobs) == (send.tasks, send.group.tasks, send.jobs)


PULL = {"pull_wait_s": 60, "pull_ahead_s": 60.0}


def pulling(index: int = 1, **fields: Any) -> PullingJob:
    """Return a job that has run 20 of its 40 tasks, one a second."""
    usual = {
        "cluster": "beta",
        "begin_s": 2700,
        "tasks": 40,
        "begun": 21,
        "ended": 20,
        "failed": 0,
        "wait_s": 60,
        "last_end_s": 20.0,
        "age_s": 0.0,
    }
    return PullingJob(**{"campaign": 1, "array": 1, "index": index} | usual | fields)


def test_a_job_that_pulls_begins_with_tasks_for_a_few_cycles() -> None:
    situation = made_situation(campaigns=(campaign(),), sharing=SHORT, group_below_s=BELOW_S, **PULL)

    sizes = task_group_sizes(situation, {(1, "beta"): 4}, {1: 1000})

    assert sizes == {(1, "beta"): TaskGroupSize(tasks=61, begin_s=2700, wait_s=60)}


@pytest.mark.parametrize(
    ("jobs", "unsent", "expected"),
    [
        ([{}], 1000, [41]),
        ([{"begun": 9}], 1000, []),
        ([{"begun": 9, "age_s": 10.0}], 1000, [39]),
        ([{"begun": 40, "age_s": 30.0}], 1000, [60]),
        ([{"begun": 40, "age_s": 30.1}], 1000, []),
        ([{"ended": 0, "last_end_s": 0.0}], 1000, []),
        ([{"failed": 11}], 1000, []),
        ([{"failed": 10}], 1000, [41]),
        ([{"begin_s": 25}], 1000, []),
        ([{"begin_s": 45}], 1000, [6]),
        ([{"tasks": 1990, "begun": 1971, "ended": 1970, "last_end_s": 1970.0}], 1000, [10]),
        ([{"ended": 2, "last_end_s": 40.0, "tasks": 3, "begun": 3}], 1000, [3]),
        ([{}, {}, {}], 10, [4, 3, 3]),
        ([{}, {"begun": 9}], 10, [5]),
        ([{}], 0, []),
        ([{"cluster": "gamma"}], 1000, []),
    ],
    ids=[
        "half",
        "enough",
        "read earlier",
        "idle",
        "idle too long",
        "no end",
        "most fail",
        "half fail",
        "time over",
        "little time",
        "most tasks",
        "long tasks",
        "last tasks",
        "another is full",
        "none left",
        "no answer",
    ],
)
def test_running_jobs_get_tasks_for_the_next_cycles(
    jobs: list[dict[str, Any]], unsent: int, expected: list[int]
) -> None:
    """Of the unsent tasks this cycle sends 7, and 13 avoid a cluster."""
    situation = made_situation(
        campaigns=(campaign(),),
        waiting={1: unsent + 20},
        kept_off={1: (TaskCountByExclusions(tasks=13, avoid=("gamma",)),)},
        room={"beta": ClusterCapacityForCampaigns(free_slots=0, max_slots=3, slots=3)},
        pulling=tuple(pulling(index, **fields) for index, fields in enumerate(jobs, 1)),
        **PULL,
    )

    added = tasks_for_running_jobs(situation, {1: 7})

    assert expected == [more.tasks for more in added]
    assert () == tasks_for_running_jobs(situation, {1: 7}, closed={(1, "beta")})
    paused = replace(situation, campaigns=(replace(campaign(), state=CampaignState.PAUSED),))
    assert () == tasks_for_running_jobs(paused, {1: 7})


@given(
    st.floats(0.01, 100),
    st.floats(0, 1e5),
    st.floats(0, 100),
    st.integers(0, 4000),
    st.integers(0, 2000),
    st.integers(1, 10**6),
)
def test_no_job_gets_tasks_that_it_would_not_begin_in_time(
    per_s: float, last_end_s: float, age_s: float, tasks: int, begun: int, begin_s: int
) -> None:
    ended = int(per_s * last_end_s)
    job = pulling(tasks=tasks, begun=begun, ended=ended, last_end_s=last_end_s, age_s=age_s, begin_s=begin_s)
    situation = made_situation(
        campaigns=(campaign(),), waiting={1: 10**6}, room={"beta": ClusterCapacityForCampaigns(free_slots=0)},
        pulling=(job,), **PULL,
    )  # fmt: skip

    for more in tasks_for_running_jobs(situation, {}):
        left_s = begin_s - last_end_s - age_s
        assert 0 < more.tasks <= ended / last_end_s * min(60, left_s) + 1
        assert tasks + more.tasks <= MOST_TASKS_OF_JOB


@pytest.mark.parametrize(
    ("tasks", "ordinary", "group", "jobs"), [(7, 0, 1, 7), (7, 2, 1, 7), (7, 0, 3, 3), (7, 3, 3, 3), (7, 2, 3, 3)]
)
def test_a_send_counts_its_jobs(tasks: int, ordinary: int, group: int, jobs: int) -> None:
    send = PlannedCampaignTaskSend(
        campaign=1, cluster="beta", tasks=tasks, ordinary=ordinary, group=TaskGroupSize(tasks=group)
    )

    assert jobs == send.jobs
