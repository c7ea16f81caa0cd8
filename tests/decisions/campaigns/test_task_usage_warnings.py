"""The first ended tasks show that a walltime is too short, or a requested memory too small."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.decisions.campaigns.campaign_cycle_planning import plan_campaign_cycle
from gridbridge.decisions.campaigns.task_attempt_outcomes import outcomes_of_missing_attempts
from gridbridge.decisions.campaigns.task_usage_warnings import (
    add_ended_attempts_to_usage,
    update_task_usages,
    warnings_from_earlier_usage,
)
from gridbridge.model.campaigns.campaign import CampaignState, TaskAttempt, TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCycleSituation, ClusterCapacityForCampaigns
from gridbridge.model.campaigns.campaign_events import USAGE_EVENTS, CampaignEvent, CampaignEventCode
from gridbridge.model.campaigns.jdl import Jdl, JdlSettingsAtCluster
from gridbridge.model.campaigns.task_resource_usage import (
    MeasuredTaskAttempt,
    TaskMemoryRequest,
    TaskUsageAtCluster,
    keep_memory_conditions,
    parse_memory_requests,
)
from gridbridge.model.jobs_and_accounting import JobEnd
from tests.builders.campaigns import released_array
from tests.decisions.campaigns.campaign_builder import make_attempt, make_campaign, make_cycle_situation

GB = 1024**2  # in kB
OVERRUN, FAILED, GOOD = TaskAttemptOutcome.WALLTIME, TaskAttemptOutcome.PROGRAM_ERROR, TaskAttemptOutcome.SUCCESS
SHORT, SMALL = CampaignEventCode.WALLTIME_SHORT, CampaignEventCode.MEMORY_SMALL
NONE = TaskUsageAtCluster(campaign=1, cluster="beta")


def attempts_with(*outcomes: TaskAttemptOutcome, **usage: Any) -> tuple[TaskAttempt, ...]:
    usual = {"wallclock_s": 600, "max_rss_kb": GB, "max_vmem_kb": 2 * GB, "written_kb": 10}
    return tuple(make_attempt(place, outcome=outcome, **usual | usage) for place, outcome in enumerate(outcomes, 1))


def situation_with(
    ended: Sequence[TaskAttempt], properties: str = "", state: CampaignState = CampaignState.IN_TREATMENT, **values: Any
) -> CampaignCycleSituation:
    request = JdlSettingsAtCluster(exec_file="run", walltime_s=600, properties=properties)
    campaign = make_campaign(jdl=Jdl(name="sweep", clusters={"beta": request}), state=state)
    usual: dict[str, Any] = {
        "campaigns": (campaign,),
        "arrays": (released_array(number=1, size=100),),
        "waiting": {1: 50},
    }
    usual |= {"room": {"beta": ClusterCapacityForCampaigns(free_slots=0, max_slots=9, slots=9)}}
    return make_cycle_situation(**usual | {"ended": tuple(ended)} | values)


def usage_events(situation: CampaignCycleSituation) -> dict[CampaignEventCode, CampaignEvent]:
    events = plan_campaign_cycle(situation).changes.events
    return {event.code: event for event in events if event.code in USAGE_EVENTS}


@pytest.mark.parametrize(
    ("before", "ended", "properties", "expected"),
    [
        (NONE, attempts_with(OVERRUN, OVERRUN, GOOD), "", {}),
        (NONE, attempts_with(OVERRUN, OVERRUN, OVERRUN), "", {SHORT: 3}),
        (replace(NONE, ended=26, overruns=2), attempts_with(OVERRUN), "", {SHORT: 3}),
        (replace(NONE, ended=30, overruns=2), attempts_with(OVERRUN), "", {}),
        (replace(NONE, ended=9, overruns=3), attempts_with(OVERRUN), "", {}),
        (NONE, attempts_with(GOOD, GOOD, GOOD), "h_vmem=2G", {}),
        (NONE, attempts_with(GOOD, GOOD, GOOD), "h_vmem=1.9G,arch=x", {SMALL: 3}),
        (NONE, attempts_with(FAILED, FAILED, FAILED), "h_vmem=2200M", {SMALL: 3}),
        (NONE, attempts_with(FAILED, FAILED, FAILED), "h_vmem=2400M", {}),
        (NONE, attempts_with(GOOD, GOOD, GOOD), "mem_free=0.9G", {SMALL: 3}),
        (NONE, attempts_with(GOOD, GOOD, GOOD), "mem_free=1G", {}),
        (NONE, attempts_with(GOOD, GOOD, GOOD, max_rss_kb=None), "mem_free=1k", {}),
    ],
    ids=[
        "two may be exceptions",
        "three overruns",
        "a tenth of all",
        "less than a tenth",
        "closed by the owner before",
        "exactly the requested memory",
        "more than the requested memory",
        "failed with almost the requested memory",
        "failed with less memory",
        "more resident memory",
        "virtual memory counts only for requests of virtual memory",
        "not measured",
    ],
)
def test_three_and_a_tenth_of_the_ended_attempts_open_an_event(
    before: TaskUsageAtCluster,
    ended: tuple[TaskAttempt, ...],
    properties: str,
    expected: dict[CampaignEventCode, int],
) -> None:
    events = usage_events(situation_with(ended, properties, usages=(before,)))

    assert expected == {code: event.tasks for code, event in events.items()}


def test_the_event_is_open_long_before_a_thousand_tasks_have_failed() -> None:
    """All tasks overrun their walltime, five in each cycle."""
    usages: tuple[TaskUsageAtCluster, ...] = ()
    opened_after = []
    for failed in range(5, 1000, 5):
        situation = situation_with(attempts_with(*[OVERRUN] * 5), usages=usages)
        opened_after += [failed] * len(usage_events(situation))
        usages = plan_campaign_cycle(situation).changes.usages

    assert opened_after == [5]


def test_an_open_event_keeps_its_numbers_current_and_ends_with_the_campaign() -> None:
    first = situation_with(attempts_with(*[OVERRUN] * 3))
    event = usage_events(first)[SHORT]
    known = {"usages": plan_campaign_cycle(first).changes.usages, "events": (replace(event, number=1),)}
    later = usage_events(situation_with(attempts_with(OVERRUN, GOOD), **known))[SHORT]
    over = usage_events(situation_with((), **known | {"waiting": {}, "arrays": ()}))[SHORT]

    assert event.why == "3 of 3 attempts ran longer than 0:10:00"
    assert (later.number, later.tasks, later.why) == (1, 4, "4 of 5 attempts ran longer than 0:10:00")
    assert over.closed_at


@pytest.mark.parametrize(
    ("values", "outcome"),
    [
        ({"state": CampaignState.CANCELLED}, OVERRUN),
        ({}, TaskAttemptOutcome.PREEMPTED),
        ({}, TaskAttemptOutcome.COPY),
        ({"arrays": (released_array(size=100, campaign=2),)}, OVERRUN),
    ],
    ids=["cancelled", "preempted", "surplus attempts", "another campaign's array"],
)
def test_only_attempts_that_ran_to_their_end_in_a_living_campaign_count(
    values: dict[str, Any], outcome: TaskAttemptOutcome
) -> None:
    assert usage_events(situation_with(attempts_with(*[outcome] * 9), **values)) == {}


def test_usage_read_after_the_end_counts_too() -> None:
    """OAR's accounting has no memory: a program of the owner reads it later."""
    late = [
        MeasuredTaskAttempt(
            campaign=1, task=task, attempt=1, cluster="beta", has_failed=False, max_rss_kb=2 * GB, written_kb=7
        )
        for task in range(3)
    ]
    before = replace(NONE, ended=3, longest_s=60)
    plan = plan_campaign_cycle(situation_with((), "mem_free=1G", usages=(before,), measured=tuple(late)))

    assert [event.code for event in plan.changes.events] == [SMALL]
    assert plan.measured == tuple(late)
    assert plan.changes.usages == (replace(before, measured=3, beyond_memory=3, max_rss_kb=2 * GB, written_kb=21),)


def test_forged_amounts_fit_the_integers_of_the_state_file() -> None:
    before = replace(NONE, ended=3, measured=3, written_kb=10**18 - 1)
    (usage,) = plan_campaign_cycle(
        situation_with(attempts_with(GOOD, written_kb=10**15), usages=(before,))
    ).changes.usages

    assert usage.written_kb == 10**18


OUTCOMES = st.sampled_from((GOOD, FAILED, OVERRUN, TaskAttemptOutcome.SIGNAL))
AMOUNTS = st.none() | st.integers(0, 10**9)
ATTEMPTS = st.lists(
    st.builds(
        make_attempt,
        outcome=OUTCOMES,
        wallclock_s=AMOUNTS,
        max_rss_kb=AMOUNTS,
        max_vmem_kb=AMOUNTS,
        written_kb=AMOUNTS,
    )
)


@given(ATTEMPTS, ATTEMPTS)
def test_usage_is_the_same_in_one_cycle_or_in_two(first: list[TaskAttempt], second: list[TaskAttempt]) -> None:
    requests = (TaskMemoryRequest(resource="h_vmem", kb=GB, is_virtual=True),)
    in_two = add_ended_attempts_to_usage(add_ended_attempts_to_usage(NONE, first, requests), second, requests)

    assert in_two == add_ended_attempts_to_usage(NONE, [*second, *first], requests)
    assert in_two.beyond_memory <= in_two.measured <= in_two.ended
    assert in_two.failed + in_two.overruns <= in_two.ended == len(first) + len(second)


def test_users_change_only_the_usage_of_their_own_campaign() -> None:
    """Everybody can forge the usage of his own tasks."""
    other = replace(NONE, campaign=2)
    ended = [(attempt, "beta") for attempt in attempts_with(OVERRUN, OVERRUN, OVERRUN)]

    assert [usage.campaign for usage in update_task_usages(situation_with((), usages=(other,)), ended)] == [1]


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ("h_vmem=2G", [("h_vmem", 4.0 * GB, True)]),
        ("mem_free=512M,s_vmem=1g", [("mem_free", 1.0 * GB, False), ("s_vmem", 2e9 / 1024, True)]),
        ("vf=1048576", [("vf", 2048.0, True)]),
        ("h_vmem=INFINITY", []),
        ("mem>=2000", []),
        ("h_vmem=1G;h_vmem=2G", []),
        ("", []),
    ],
)
def test_requests_for_memory_count_for_each_slot(properties: str, expected: list[tuple[str, float, bool]]) -> None:
    requests = parse_memory_requests(properties, 2)

    assert [(one.resource, pytest.approx(one.kb), one.is_virtual) for one in requests] == expected
    assert parse_memory_requests(keep_memory_conditions(f"arch=lx,{properties},os=a;os=b"), 2) == requests


def test_a_replayed_decision_knows_the_requested_memory() -> None:
    """The journal of decisions has no properties but those for memory."""
    outline = Jdl(
        name="n", clusters={"beta": JdlSettingsAtCluster(exec_file="run", properties="secret=x,h_vmem=2G")}
    ).jdl_without_shell_lines

    assert outline.clusters["beta"].properties == "h_vmem=2G"


@pytest.mark.parametrize(
    ("usage", "properties", "expected"),
    [
        (replace(NONE, longest_s=541), "", ["beta: a task ran 0:09:01; the walltime is 0:10:00"]),
        (replace(NONE, longest_s=540), "", []),
        (
            replace(NONE, max_vmem_kb=2 * GB),
            "h_vmem=2G",
            ["beta: a task used 2 GB of virtual memory (requested: h_vmem, 2 GB)"],
        ),
        (replace(NONE, max_rss_kb=512), "mf=500k", ["beta: a task used 512 kB of memory (requested: mf, 488 kB)"]),
        (replace(NONE, max_rss_kb=2 * GB, max_vmem_kb=GB), "h_vmem=2G", []),
        (replace(NONE, failed=1), "", ["beta: 1 of 10 attempts failed"]),
        (replace(NONE, cluster="gamma", failed=9), "", []),
        (replace(NONE, ended=-10), "h_vmem=0", []),
    ],
    ids=["long", "shorter", "virtual", "resident", "another kind", "failures", "unused cluster", "nothing ended"],
)
def test_a_check_compares_requests_with_the_last_campaign(
    usage: TaskUsageAtCluster, properties: str, expected: list[str]
) -> None:
    request = JdlSettingsAtCluster(exec_file="run", walltime_s=600, properties=properties)
    usage = replace(usage, ended=usage.ended + 10)

    assert expected == [*warnings_from_earlier_usage([usage], {"beta": request})]


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (JobEnd(exit_status=0, max_rss_kb=4.6, max_vmem_kb=9.0, written_kb=8.0), (5, 9, 8)),
        (JobEnd(exit_status=0, max_rss_kb=4.0), (4, 0, 0)),
        (JobEnd(exit_status=0, max_rss_kb=0.0, written_kb=8.0), (None, None, None)),
        (JobEnd(exit_status=0), (None, None, None)),
    ],
    ids=["measured", "short", "deleted by force", "unknown"],
)
def test_an_attempt_gets_the_memory_and_written_bytes_of_its_accounting_record(
    end: JobEnd, expected: tuple[int | None, ...]
) -> None:
    (attempt,) = outcomes_of_missing_attempts({make_attempt(): 0.0}, {1: end}, 600, 60)

    assert (attempt.max_rss_kb, attempt.max_vmem_kb, attempt.written_kb) == expected
