"""A campaign waits for its predecessors, and the failure of a predecessor is an event or cancels the campaign."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.decisions.campaigns.campaign_cycle_planning import plan_campaign_cycle
from gridbridge.decisions.campaigns.event_texts_and_notifications import describe_campaign_event
from gridbridge.decisions.campaigns.predecessor_conditions import (
    explain_unusable_predecessor,
    release_tasks_from_predecessor,
    waiting_ranges_of_new_tasks,
)
from gridbridge.decisions.campaigns.task_send_explanation import explain_campaign_task_sends
from gridbridge.model.campaigns.campaign import Campaign, CampaignState, WaitingTaskRange
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCycleSituation, ClusterCapacityForCampaigns
from gridbridge.model.campaigns.campaign_events import CampaignEventCode
from gridbridge.model.campaigns.campaign_predecessors import (
    AwaitedPredecessor,
    CampaignPredecessor,
    PredecessorCondition,
    PredecessorFailureAction,
    PredecessorProgress,
    describe_unmet_predecessor,
)
from gridbridge.model.campaigns.jdl import Jdl, JdlSettingsAtCluster
from tests.builders.campaigns import released_array
from tests.decisions.campaigns.campaign_builder import make_campaign, make_cycle_situation, sent_tasks

OK, ENDED, SAME = PredecessorCondition
WAIT, CANCEL = PredecessorFailureAction
RUNNING = PredecessorProgress(number=1, name="reads", tasks=100, succeeded=30, is_unfinished=True)
SUCCEEDED = replace(RUNNING, succeeded=100, is_unfinished=False)
FAILED = replace(SUCCEEDED, succeeded=97, failed=3)
PLAIN = {"beta": JdlSettingsAtCluster(exec_file="run")}
CANCELLED = replace(RUNNING, is_unfinished=False, is_cancelled=True)


def dependent(condition: PredecessorCondition = OK, **values: Any) -> Campaign:
    after = (CampaignPredecessor(number=1, condition=condition),)
    clusters = {"beta": JdlSettingsAtCluster(exec_file="run", prologue="make")}
    return make_campaign(number=2, jdl=Jdl(**{"name": "sum", "clusters": clusters, "after": after} | values))


def situation(progress: PredecessorProgress, campaign: Campaign, **values: Any) -> CampaignCycleSituation:
    """Return a situation with 9 free slots, and a later campaign that waits for nothing."""
    other = make_campaign(number=3, jdl=Jdl(name="other", clusters=PLAIN))
    usual = {"waiting": {2: 100, 3: 100}, "room": {"beta": ClusterCapacityForCampaigns(free_slots=9, max_slots=9)}}
    return make_cycle_situation(campaigns=(campaign, other), predecessors={1: progress}, **usual | values)


@pytest.mark.parametrize(
    ("condition", "progress", "is_met"),
    [
        (OK, RUNNING, False),
        (OK, replace(RUNNING, succeeded=100), False),
        (OK, SUCCEEDED, True),
        (OK, replace(SUCCEEDED, has_outputs_elsewhere=True), False),
        (OK, FAILED, False),
        (OK, CANCELLED, False),
        (ENDED, RUNNING, False),
        (ENDED, replace(CANCELLED, is_unfinished=True), False),
        (ENDED, SUCCEEDED, True),
        (ENDED, FAILED, True),
        (ENDED, CANCELLED, True),
    ],
)
def test_a_waiting_campaign_gets_no_slot_and_no_prologue(
    condition: PredecessorCondition, progress: PredecessorProgress, is_met: bool
) -> None:
    plan = plan_campaign_cycle(situation(progress, dependent(condition)))

    assert ([step.campaign for step in plan.steps], [send.campaign for send in plan.sends]) == (
        ([2], []) if is_met else ([], [3])
    )
    assert 2 not in plan.finished


def test_a_waiting_campaign_takes_no_slot_from_others() -> None:
    of_others = situation(RUNNING, dependent())

    assert {(3, "beta"): 9} == sent_tasks(of_others)
    assert {3} == {reason.campaign for reason in explain_campaign_task_sends(of_others, plan_campaign_cycle(of_others))}


def test_a_predecessor_that_a_restored_state_file_lacks_never_meets_the_condition() -> None:
    assert {(3, "beta"): 9} == sent_tasks(replace(situation(RUNNING, dependent()), predecessors={}))


def test_tasks_that_wait_for_the_same_task_are_not_sent_and_do_not_let_the_campaign_end() -> None:
    campaign = dependent(SAME, clusters=PLAIN)

    assert {(2, "beta"): 4, (3, "beta"): 5} == sent_tasks(
        situation(RUNNING, campaign, waiting={2: 4, 3: 100}, awaiting={2: 96})
    )
    assert 2 not in plan_campaign_cycle(situation(RUNNING, campaign, waiting={3: 1}, awaiting={2: 1})).finished


@pytest.mark.parametrize("condition", [OK, SAME])
@pytest.mark.parametrize("progress", [FAILED, CANCELLED])
@pytest.mark.parametrize("action", [WAIT, CANCEL])
def test_a_failed_predecessor_is_one_event_and_cancels_only_on_request(
    condition: PredecessorCondition, progress: PredecessorProgress, action: PredecessorFailureAction
) -> None:
    waiting = situation(progress, dependent(condition, on_failure=action), awaiting={2: 3} if condition is SAME else {})
    arrays = (released_array(campaign=2, size=1),)

    plan = plan_campaign_cycle(replace(waiting, arrays=arrays))
    (event,) = (event for event in plan.changes.events if event.campaign == 2)
    again = plan_campaign_cycle(replace(waiting, events=(replace(event, number=7),)))

    assert (CampaignEventCode.PREDECESSOR_FAILED, None) == (event.code, event.closed_at)
    assert (2,) * (action is CANCEL) == plan.cancelled
    assert (arrays if action is CANCEL else ()) == plan.deleted
    assert (condition is SAME and action is WAIT) == bool([step for step in plan.steps if step.campaign == 2])
    assert [] == [changed for changed in again.changes.events if changed.campaign == 2]


def test_the_event_about_a_failed_predecessor_closes_once_its_tasks_are_retried() -> None:
    waiting = situation(FAILED, dependent())
    (event,) = plan_campaign_cycle(waiting).changes.events
    mended = replace(FAILED, failed=0, is_unfinished=True)

    (closed,) = plan_campaign_cycle(
        replace(waiting, predecessors={1: mended}, events=(replace(event, number=7),))
    ).changes.events

    assert waiting.at == closed.closed_at
    assert (
        "a predecessor has failed: campaign 1 (reads): 97 of 100 tasks succeeded, 3 failed;"
        " tasks wait until gridevents -r has retried the failed tasks; griddel 2 cancels the campaign"
    ) == describe_campaign_event(event, CampaignState.IN_TREATMENT)


def test_a_paused_campaign_waits_for_a_retry_that_a_restored_file_lacks() -> None:
    paused = replace(dependent(on_failure=CANCEL), state=CampaignState.PAUSED)
    plan = plan_campaign_cycle(replace(situation(FAILED, paused), arrays=(released_array(campaign=2, size=1),)))

    assert ((), ()) == (plan.cancelled, plan.deleted)
    assert [CampaignEventCode.PREDECESSOR_FAILED] == [event.code for event in plan.changes.events]


@pytest.mark.parametrize("progress", [FAILED, CANCELLED])
def test_the_condition_ended_knows_no_failure(progress: PredecessorProgress) -> None:
    plan = plan_campaign_cycle(situation(progress, dependent(ENDED, on_failure=CANCEL)))

    assert ((), ()) == (plan.cancelled, plan.changes.events)


@pytest.mark.parametrize(
    ("condition", "progress", "sentence"),
    [
        (OK, RUNNING, "waits for campaign 1 (reads): 30 of 100 tasks succeeded"),
        (ENDED, FAILED, "waits for campaign 1 (reads): 97 of 100 tasks succeeded, 3 failed"),
        (
            SAME,
            replace(RUNNING, cancelled=2),
            "each task waits for the task of the same number of campaign 1 (reads): 30 of 100 tasks succeeded,"
            " 2 were cancelled",
        ),
        (OK, CANCELLED, "waits for campaign 1 (reads): 30 of 100 tasks succeeded, and the campaign was cancelled"),
        (
            OK,
            replace(SUCCEEDED, has_outputs_elsewhere=True),
            "waits for campaign 1 (reads): 100 of 100 tasks succeeded, and not all outputs have been brought home",
        ),
    ],
)
def test_a_sentence_says_for_what_a_campaign_waits(
    condition: PredecessorCondition, progress: PredecessorProgress, sentence: str
) -> None:
    assert sentence == describe_unmet_predecessor(AwaitedPredecessor(condition=condition, progress=progress))


@pytest.mark.parametrize(
    ("condition", "progress", "tasks", "action", "why"),
    [
        (OK, RUNNING, 7, CANCEL, ""),
        (OK, FAILED, 7, WAIT, ""),
        (OK, FAILED, 7, CANCEL, "would never start"),
        (ENDED, CANCELLED, 7, CANCEL, ""),
        (OK, CANCELLED, 7, WAIT, "the campaign was cancelled, so this campaign would never start"),
        (SAME, replace(RUNNING, cancelled=1), 100, WAIT, "1 were cancelled, so this campaign would never start"),
        (SAME, SUCCEEDED, 100, WAIT, ""),
        (SAME, RUNNING, 99, WAIT, "its 100 tasks and these 99 differ; expected equal numbers"),
    ],
)
def test_a_predecessor_that_can_never_meet_the_condition_is_refused(
    condition: PredecessorCondition,
    progress: PredecessorProgress,
    tasks: int,
    action: PredecessorFailureAction,
    why: str,
) -> None:
    found = explain_unusable_predecessor(CampaignPredecessor(number=1, condition=condition), progress, tasks, action)

    assert (bool(why), True) == (bool(found), found.endswith(why))


@given(
    starts=st.lists(st.integers(0, 30), unique=True, min_size=1),
    other=st.sets(st.integers(0, 30)),
    succeeded=st.sets(st.integers(0, 30)),
)
def test_exactly_the_succeeded_tasks_are_released(starts: list[int], other: set[int], succeeded: set[int]) -> None:
    """Tasks that also wait for another predecessor still wait; the ranges stay disjoint, and adjoining ones join."""
    cuts = [*sorted(starts), 31]
    waiting = tuple(
        WaitingTaskRange(first=first, last=last - 1, awaits=(1, 5) if first in other else (1,))
        for first, last in pairwise(cuts)
    )

    released = release_tasks_from_predecessor(waiting, 1, [range(task, task + 1) for task in sorted(succeeded)])

    before, after = (
        {task: span.awaits for span in spans for task in range(span.first, span.last + 1)}
        for spans in (waiting, released)
    )
    assert {
        task: tuple(number for number in awaits if number != 1 or task not in succeeded)
        for task, awaits in before.items()
    } == after
    assert sum(span.last - span.first + 1 for span in released) == len(after)
    assert released == release_tasks_from_predecessor(
        released, 1, [range(task, task + 1) for task in sorted(succeeded)]
    )


@given(succeeded=st.dictionaries(st.integers(1, 4), st.sets(st.integers(0, 35))))
def test_new_tasks_wait_as_if_each_predecessor_had_released_them(succeeded: dict[int, set[int]]) -> None:
    waiting: tuple[WaitingTaskRange, ...] = (WaitingTaskRange(first=0, last=30, awaits=tuple(succeeded)),)
    for number, tasks in succeeded.items():
        waiting = release_tasks_from_predecessor(waiting, number, [range(task, task + 1) for task in sorted(tasks)])
    starts = {number: sorted(tasks - {task + 1 for task in tasks}) for number, tasks in succeeded.items()}
    stops = {number: sorted({task + 1 for task in tasks} - tasks) for number, tasks in succeeded.items()}
    ranges = {number: [*map(range, starts[number], stops[number])] for number in succeeded}

    assert waiting == tuple(waiting_ranges_of_new_tasks(31, ranges))


def test_ranges_of_released_tasks_join() -> None:
    waiting = (WaitingTaskRange(first=0, last=999_999, awaits=(1,)),)
    for task in range(100):
        waiting = release_tasks_from_predecessor(waiting, 1, (range(task, task + 1),))

    assert (WaitingTaskRange(first=0, last=99), WaitingTaskRange(first=100, last=999_999, awaits=(1,))) == waiting
