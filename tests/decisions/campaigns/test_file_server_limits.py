"""A file server's load limits the tasks at its clusters, and stays near its target."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from math import floor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.file_server import RULE, SERVERS, FileServer, largest_deviation, loads_by_second
from gridbridge.decisions.campaigns.campaign_cycle_planning import describe_campaign_cycle_plan, plan_campaign_cycle
from gridbridge.decisions.campaigns.file_server_task_limits import describe_file_server_limits, next_file_server_limit
from gridbridge.decisions.campaigns.task_send_explanation import explain_campaign_task_sends
from gridbridge.model.campaigns.campaign import ArraySubmissionState, TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_configuration_sections import FairShareUnit
from gridbridge.model.campaigns.campaign_cycle_plan import (
    CampaignCycleSituation,
    CampaignTaskCountsAtCluster,
    ClusterCapacityForCampaigns,
    FairShareInputs,
    InputCarryCost,
)
from gridbridge.model.campaigns.file_server_load import FileServerLimit, FileServerRule, FileServerSituation
from gridbridge.model.campaigns.jdl import Jdl, JdlSettingsAtCluster
from gridbridge.model.campaigns.send_reasons import TaskSentOrUnsentCause
from tests.builders.campaigns import NOON, released_array
from tests.decisions.campaigns.campaign_builder import make_attempt, make_campaign, make_cycle_situation, sent_tasks

CYCLE = timedelta(seconds=15)


@pytest.mark.parametrize(("server", "task_s"), SERVERS.values(), ids=SERVERS)
def test_the_load_stays_near_its_target_where_on_and_off_swings(server: FileServer, task_s: float) -> None:
    ours, on_and_off = (loads_by_second(replace(server), task_s, rule) for rule in (RULE, None))

    assert largest_deviation(ours) < 0.1
    assert max(ours) < 1.1 * RULE.target
    assert largest_deviation(on_and_off) > 0.3


def follow(rule: FileServerRule, *cycles: tuple[int, float | None], last: FileServerLimit | None = None) -> list[int]:
    """Return the limit of each cycle; a cycle has the tasks at the clusters and the load."""
    limits = []
    for number, (tasks, load) in enumerate(cycles):
        last = next_file_server_limit(rule, last, tasks, load, NOON + number * CYCLE)
        limits.append(floor(last.limit))
    return limits


@pytest.mark.parametrize(
    ("cycles", "expected"),
    [
        ([(40, 10.0)] * 3, [40, 40, 40]),
        ([(40, 0.0)] * 2, [50, 50]),
        ([(0, 0.0)] * 2, [10, 10]),
        ([(40, 30.0)] * 2, [30, 30]),
        ([(40, 30.0), (20, 30.0)], [30, 26]),
        ([(200, 10.0), (90, 30.0)], [200, 190]),
        ([(40, None)] * 2, [0, 0]),
        ([(40, 10.0)] + [(40, None)] * 12, [40] * 9 + [30, 20, 10, 0]),
        ([(40, None), (0, 0.0), (10, 0.0)], [0, 1, 1]),
        ([(9, 0.0)] * 3, [12, 12, 12]),
    ],
    ids=[
        "at its target",
        "at most a step above the tasks",
        "unused",
        "at most a step below the tasks",
        "overload",
        "at most a step in a cycle",
        "no load yet",
        "the load is missing",
        "the first load",
        "max_jobs",
    ],
)
def test_the_limit_changes_in_steps_and_falls_without_a_load(
    cycles: list[tuple[int, float | None]], expected: list[int]
) -> None:
    assert follow(replace(RULE, max_jobs=12 if cycles[0][0] == 9 else 0), *cycles) == expected


CYCLES = st.lists(st.tuples(st.integers(0, 500), st.none() | st.floats(0, 1e6), st.integers(-60, 600)), min_size=1)
RULES = st.builds(
    lambda max_jobs, step, gain: replace(RULE, max_jobs=max_jobs, step=step, gain=gain),
    st.integers(0, 300),
    st.integers(1, 50),
    st.floats(0.01, 0.9),
)


@given(RULES, CYCLES)
def test_the_limit_keeps_its_bounds_and_changes_by_a_step_at_most(
    rule: FileServerRule, cycles: list[tuple[int, float | None, int]]
) -> None:
    last, at, most = None, NOON, rule.max_jobs or 10**9
    for tasks, load, passed_s in cycles:
        at += timedelta(seconds=passed_s)
        new = next_file_server_limit(rule, last, tasks, load, at)
        assert 0 <= new.limit <= most
        if last:
            proven = max(tasks, last.tasks) + rule.step
            assert min(last.limit - rule.step, proven) <= new.limit <= min(last.limit + rule.step, proven)
        last = new


@given(RULES, CYCLES)
def test_after_any_history_the_limit_follows_the_load_at_once(
    rule: FileServerRule, cycles: list[tuple[int, float | None, int]]
) -> None:
    """No integral term winds up: the limit rises while the server is idle, and falls while it is overloaded."""
    last, at = None, NOON
    for tasks, load, passed_s in cycles:
        at += timedelta(seconds=passed_s)
        last = next_file_server_limit(rule, last, tasks, load, at)
    assert last

    idle = over = last
    for _ in range(9):
        before, at = (idle, over), at + CYCLE
        idle = next_file_server_limit(rule, idle, floor(idle.limit), 0.0, at)
        over = next_file_server_limit(rule, over, floor(over.limit), 10 * rule.target, at)

        assert idle.limit > before[0].limit or idle.limit == rule.max_jobs
        assert over.limit < before[1].limit or over.limit < 1
    assert idle.limit >= 1


def at_both(campaign: int = 1, **values: Any) -> Any:
    clusters = dict.fromkeys(("beta", "gamma"), JdlSettingsAtCluster(exec_file="run"))
    return make_campaign(number=campaign, jdl=Jdl(name="sweep", clusters=clusters, **values))


HOME = FileServerRule(storage="home", clusters=("beta", "gamma"), max_jobs=10)
ROOM = {name: ClusterCapacityForCampaigns(free_slots=8, max_slots=99) for name in ("beta", "gamma")}
LISTED = (CampaignTaskCountsAtCluster(campaign=1, cluster="beta", waiting=1, listed=3),)


def situation(*rules: FileServerRule, **values: Any) -> CampaignCycleSituation:
    usual = {"campaigns": (at_both(),), "waiting": {1: 50, 2: 50}, "room": ROOM, "there": LISTED}
    return make_cycle_situation(**{"servers": FileServerSituation(rules=rules)} | usual | values)


INTENDED = replace(released_array(size=4), state=ArraySubmissionState.INTENDED)
CARRIED = tuple(InputCarryCost(campaign=1, cluster=name, task_s=0.0) for name in ("beta", "gamma"))
SUCCESS = make_attempt(outcome=TaskAttemptOutcome.SUCCESS)
FAIR = FairShareInputs(by=FairShareUnit.USER)
TWO = (at_both(1), replace(at_both(2), owner="bob"))


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (situation(), {1: 15}),
        (situation(HOME), {1: 7}),
        (situation(replace(HOME, clusters=("gamma",), max_jobs=2)), {1: 9}),
        (situation(HOME, replace(HOME, storage="work", max_jobs=4)), {1: 1}),
        (situation(replace(HOME, max_jobs=2)), {}),
        (situation(HOME, arrays=(INTENDED,)), {1: 3}),
        (situation(HOME, room={"gamma": ROOM["gamma"]}, there=(), arrays=(released_array(size=9),)), {1: 1}),
        (situation(HOME, campaigns=TWO, there=(), carry_costs=CARRIED), {1: 5, 2: 5}),
        (situation(HOME, campaigns=TWO, there=(), carry_costs=CARRIED, arrays=(INTENDED,)), {1: 1, 2: 5}),
        (situation(HOME, campaigns=TWO), {1: 7}),
        (situation(HOME, campaigns=TWO, sharing=FAIR), {1: 2, 2: 5}),
        (situation(campaigns=(at_both(max_parallel=5),)), {1: 2}),
        (situation(HOME, campaigns=(at_both(max_parallel=5), TWO[1])), {1: 2, 2: 5}),
        (situation(campaigns=(at_both(first_tasks=5),)), {1: 2}),
        (situation(campaigns=(replace(at_both(first_tasks=5), ended=1),)), {1: 1}),
        (situation(campaigns=(replace(at_both(first_tasks=5), ended=2, failed=1),)), {1: 1}),
        (situation(campaigns=(replace(at_both(first_tasks=5), ended=5),)), {1: 15}),
        (situation(campaigns=(replace(at_both(first_tasks=5), ended=4),), ended=(SUCCESS,)), {1: 15}),
    ],
    ids=[
        "no limit",
        "two clusters share a limit",
        "one cluster has a limit",
        "the lower limit counts",
        "more tasks than the limit",
        "an array on its way counts",
        "an array at a silent cluster counts",
        "tasks whose inputs travel get half",
        "tasks whose inputs travel already",
        "the older campaign comes first",
        "fair shares",
        "max_parallel",
        "max_parallel and the next campaign",
        "the first tasks run",
        "some first tasks have succeeded",
        "failed first tasks are replaced",
        "the first tasks have succeeded",
        "the last first task has just succeeded",
    ],
)
def test_clusters_and_campaigns_share_a_limit(seen: CampaignCycleSituation, expected: dict[int, int]) -> None:
    sent = Counter[int]()
    for (number, _), tasks in sent_tasks(seen).items():
        sent[number] += tasks

    assert dict(sent) == expected


def test_a_carry_that_never_ends_leaves_half_of_a_file_server_to_others() -> None:
    """A person's own remote account decides how long a carry lasts."""
    stuck, waiting = replace(INTENDED, size=5), {1: 50, 2: 3}
    seen = situation(HOME, campaigns=TWO, there=(), carry_costs=CARRIED, arrays=(stuck,), waiting=waiting)

    assert {2: 3} == {number: tasks for (number, _), tasks in sent_tasks(seen).items()}
    causes = {(why.campaign, why.cause) for why in explain_campaign_task_sends(seen, plan_campaign_cycle(seen))}
    assert (1, TaskSentOrUnsentCause.INPUTS_TRAVEL) in causes


def test_the_plan_keeps_the_rule_going_and_says_what_binds() -> None:
    seen = situation(replace(RULE, clusters=("beta", "gamma")))
    seen = replace(seen, servers=replace(seen.servers, loads={"home": 12.0}))
    (limit,) = plan_campaign_cycle(seen).server_limits

    assert (limit.tasks, limit.load, limit.load_at) == (floor(limit.limit), 12.0, NOON)
    assert f"storage home: load 12, {limit.tasks} of at most {limit.tasks} tasks" in describe_campaign_cycle_plan(
        plan_campaign_cycle(seen)
    )
    by_max_jobs = replace(limit, load=None, load_at=None)
    assert describe_file_server_limits((by_max_jobs,)) == [
        f"storage home: {limit.tasks} of at most {limit.tasks} tasks"
    ]
