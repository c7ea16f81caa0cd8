"""A prologue runs before a campaign's first task at a cluster, an epilogue after the last task."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gridbridge.decisions.campaigns import task_send_explanation as why
from gridbridge.decisions.campaigns.campaign_cycle_planning import describe_campaign_cycle_plan, plan_campaign_cycle
from gridbridge.model.campaigns.campaign import (
    ArraySubmissionState,
    Campaign,
    CampaignArray,
    CampaignState,
    TaskAttemptOutcome,
)
from gridbridge.model.campaigns.campaign_cycle_plan import (
    CampaignCyclePlan,
    CampaignCycleSituation,
    CampaignPrologueOrEpilogueStart,
    ClusterCapacityForCampaigns,
    LastPrologueOrEpilogueAttempt,
)
from gridbridge.model.campaigns.campaign_events import CampaignEventCode
from gridbridge.model.campaigns.jdl import Jdl, JdlSettingsAtCluster
from gridbridge.model.campaigns.send_reasons import TaskSentOrUnsentCause
from gridbridge.model.campaigns.task_index_and_attempt_texts import EPILOGUE, PROLOGUE, prologue_or_epilogue_task_number
from tests.builders.campaigns import NOON, released_array
from tests.decisions.campaigns.campaign_builder import make_attempt, make_campaign, make_cycle_situation

WISH = JdlSettingsAtCluster(exec_file="run", prologue="make", epilogue="rm -r data")
CLUSTERS = {"beta": WISH, "gamma": JdlSettingsAtCluster(exec_file="run")}
ONE = make_campaign(tasks=20, jdl=Jdl(name="n", clusters={"beta": WISH}))
CANCELLED = replace(ONE, state=CampaignState.CANCELLED)
BOTH = replace(ONE, jdl=Jdl(name="n", clusters=CLUSTERS))


def seen(one: Campaign = ONE, waiting: int = 20, **values: Any) -> CampaignCycleSituation:
    names = one.jdl.clusters.keys()
    usual = {"campaigns": (one,), "waiting": {1: waiting} if waiting else {}, "asked": frozenset(names)}
    usual["room"] = dict.fromkeys(names, ClusterCapacityForCampaigns(free_slots=10, max_slots=10))
    return make_cycle_situation(**usual | {"last_arrays": {1: dict.fromkeys(names, 1)}} | values)


def plan(one: Campaign = ONE, waiting: int = 20, **values: Any) -> CampaignCyclePlan:
    return plan_campaign_cycle(seen(one, waiting, **values))


def stepped(step: str, outcome: TaskAttemptOutcome, attempt: int = 1) -> LastPrologueOrEpilogueAttempt:
    known = {"campaign": 1, "cluster": "beta", "array": 1}
    return LastPrologueOrEpilogueAttempt(step=step, attempt=attempt, outcome=outcome, **known)


def pending(step: str, state: ArraySubmissionState = ArraySubmissionState.RELEASED) -> dict[str, Any]:
    return {"steps": (stepped(step, TaskAttemptOutcome.PENDING),), "arrays": (array(state),)}


def array(state: ArraySubmissionState = ArraySubmissionState.RELEASED, number: int = 1) -> CampaignArray:
    return released_array(state=state, number=number, size=1)


def ended(step: str, outcome: TaskAttemptOutcome, attempt: int = 1) -> dict[str, Any]:
    task = prologue_or_epilogue_task_number(step, "beta", ONE.jdl.clusters)
    one = make_attempt(task=task, attempt=attempt, outcome=outcome)
    before = stepped(step, TaskAttemptOutcome.PENDING, attempt)
    return {"steps": (before,), "stepped": (one,), "arrays": (array(),), "over": (array(),)}


def begun(step: str, attempt: int = 1) -> CampaignPrologueOrEpilogueStart:
    return CampaignPrologueOrEpilogueStart(campaign=1, cluster="beta", step=step, attempt=attempt)


def test_a_prologue_runs_before_the_first_task() -> None:
    found = plan(BOTH)

    assert found.steps == (begun(PROLOGUE),)
    assert [one.cluster for one in found.sends] == ["gamma"]
    assert "prologue of campaign 1 at beta begins" in describe_campaign_cycle_plan(found)


def test_a_campaign_under_recovery_reports_no_sent_tasks() -> None:
    found = plan(BOTH, behind=(1,))

    assert (found.steps, [one.cluster for one in found.sends]) != ((), [])
    assert describe_campaign_cycle_plan(found) == [
        "campaign 1: arrays in root's ledger are missing in the state file and are restored"
    ]


def test_no_task_is_sent_while_the_prologue_runs() -> None:
    looked = seen(BOTH, **pending(PROLOGUE))
    found = plan_campaign_cycle(looked)

    assert (found.steps, [one.cluster for one in found.sends]) == ((), ["gamma"])
    causes = {one.cluster: one.cause for one in why.explain_campaign_task_sends(looked, found)}
    assert causes == {"beta": TaskSentOrUnsentCause.PREPARING, "gamma": TaskSentOrUnsentCause.SENT}


@pytest.mark.parametrize(
    "outcome", [TaskAttemptOutcome.PROGRAM_ERROR, TaskAttemptOutcome.SIGNAL, TaskAttemptOutcome.WALLTIME]
)
def test_a_failed_prologue_closes_the_cluster_to_the_campaign(outcome: TaskAttemptOutcome) -> None:
    """The next probe starts the prologue again."""
    found = plan(BOTH, **ended(PROLOGUE, outcome))

    (event,) = found.changes.events
    assert (event.code, event.cluster, event.tasks) == (CampaignEventCode.SETUP_ERROR, "beta", 0)
    assert (found.steps, [one.cluster for one in found.sends]) == ((), ["gamma"])
    assert found.finished == ()

    later = seen(steps=(stepped(PROLOGUE, outcome),), events=(event,), at=event.until)
    again = plan_campaign_cycle(later)
    assert (again.sends, again.steps) == ((), (begun(PROLOGUE, 2),))
    (pushed,) = (one for one in again.changes.events if one.code is CampaignEventCode.SETUP_ERROR)
    assert pushed.until == event.until + timedelta(seconds=120)


def test_a_successful_prologue_closes_the_setup_error_event() -> None:
    event = plan(**ended(PROLOGUE, TaskAttemptOutcome.SIGNAL)).changes.events[0]
    found = plan(events=(event,), **ended(PROLOGUE, TaskAttemptOutcome.SUCCESS, 2))

    assert [(one.code, one.closed_at) for one in found.changes.events] == [(CampaignEventCode.SETUP_ERROR, NOON)]
    assert found.sends


PREPARED, MOVED = stepped(PROLOGUE, TaskAttemptOutcome.SUCCESS), stepped(PROLOGUE, TaskAttemptOutcome.MOVED)
RUNS_AFTER = replace(stepped(EPILOGUE, TaskAttemptOutcome.PENDING), array=2)


@pytest.mark.parametrize(
    ("known", "sent", "steps"),
    [
        pytest.param(ended(PROLOGUE, TaskAttemptOutcome.SUCCESS), 10, (), id="success"),
        *(
            pytest.param(ended(PROLOGUE, outcome), 0, (begun(PROLOGUE, 2),), id=outcome.value)
            for outcome in (TaskAttemptOutcome.WIPED, TaskAttemptOutcome.PREEMPTED, TaskAttemptOutcome.SITE_FAULT)
        ),
        pytest.param({"steps": (MOVED,)}, 0, (begun(PROLOGUE, 2),), id="deleted before"),
        pytest.param({"steps": (PREPARED, RUNS_AFTER), "arrays": (array(number=2),)}, 0, (), id="an epilogue runs"),
    ],
)
def test_tasks_are_sent_after_a_successful_prologue_and_a_lost_prologue_is_started_again(
    known: dict[str, Any], sent: int, steps: tuple[CampaignPrologueOrEpilogueStart, ...]
) -> None:
    """A prologue that the cluster ended opens no event."""
    found = plan(**known)

    assert (sum(send.tasks for send in found.sends), found.steps) == (sent, steps)
    assert (found.changes.events, found.ended, found.finished) == ((), (), ())


TERMINATED = replace(ONE, state=CampaignState.TERMINATED)
READY = stepped(PROLOGUE, TaskAttemptOutcome.SUCCESS)
STARTS_EPILOGUE, ENDS, WAITS = (True, False), (False, True), (False, False)


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        pytest.param({"steps": (READY,)}, STARTS_EPILOGUE, id="the last task has ended"),
        pytest.param({"arrays": (array(number=2),)}, WAITS, id="a task may run"),
        pytest.param({"waiting": {1: 1}}, WAITS, id="a task waits"),
        pytest.param(pending(PROLOGUE), WAITS, id="an unneeded prologue runs"),
        pytest.param(ended(PROLOGUE, TaskAttemptOutcome.MOVED), ENDS, id="the prologue was deleted"),
        pytest.param(ended(PROLOGUE, TaskAttemptOutcome.MOVED, 2), STARTS_EPILOGUE, id="a second prologue was deleted"),
        pytest.param(pending(EPILOGUE), WAITS, id="the epilogue runs"),
        pytest.param(ended(EPILOGUE, TaskAttemptOutcome.SUCCESS), ENDS, id="the epilogue has succeeded"),
        pytest.param({"last_arrays": {1: {}}}, ENDS, id="the cluster got no task"),
        pytest.param({"asked": frozenset()}, ENDS, id="the cluster is not queried"),
    ],
)
def test_an_epilogue_runs_only_after_the_last_task_at_a_cluster_with_tasks(
    known: dict[str, Any], expected: tuple[bool, bool]
) -> None:
    found = plan_campaign_cycle(replace(seen(waiting=0), **known))

    assert (begun(EPILOGUE) in found.steps, found.finished == (1,)) == expected
    assert found.changes.events == ()


@pytest.mark.parametrize(
    ("campaign", "known", "codes"),
    [
        (ONE, ended(EPILOGUE, TaskAttemptOutcome.PROGRAM_ERROR), [CampaignEventCode.EPILOG_EXIT_ERROR]),
        (TERMINATED, ended(PROLOGUE, TaskAttemptOutcome.SIGNAL), []),
        (CANCELLED, ended(PROLOGUE, TaskAttemptOutcome.CANCELLED), []),
    ],
    ids=["failed epilogue", "prologue fails after the end", "prologue of a cancelled campaign"],
)
def test_only_a_failed_epilogue_opens_an_event_after_the_last_task(
    campaign: Campaign, known: dict[str, Any], codes: list[CampaignEventCode]
) -> None:
    found = plan(campaign, waiting=0, **known)

    assert [event.code for event in found.changes.events] == codes
    assert found.finished == ((1,) if codes else ())


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (CampaignState.IN_TREATMENT, {"is_drained": True}),
        (CampaignState.IN_TREATMENT, {"is_stressed": True}),
        (CampaignState.PAUSED, {}),
    ],
    ids=["drained", "stressed", "paused"],
)
def test_an_epilogue_runs_at_a_closed_cluster_and_in_a_paused_campaign(
    state: CampaignState, why: dict[str, bool]
) -> None:
    one, room = replace(ONE, state=state), {"beta": ClusterCapacityForCampaigns(free_slots=10, **why)}
    cut_off = pending(EPILOGUE, ArraySubmissionState.INTENDED)

    assert plan(one, waiting=0, room=room).steps == (begun(EPILOGUE),)
    assert plan(one, waiting=0, room=room, **cut_off).resumed == cut_off["arrays"]


def test_tasks_retried_after_the_epilogue_get_a_new_prologue() -> None:
    before = replace(stepped(PROLOGUE, TaskAttemptOutcome.SUCCESS), array=1)
    after = replace(stepped(EPILOGUE, TaskAttemptOutcome.SUCCESS), array=3)
    first = plan(waiting=2, steps=(before, after), last_arrays={1: {"beta": 3}})
    anew = replace(before, attempt=2, array=4)
    then = plan(waiting=2, steps=(anew, after), last_arrays={1: {"beta": 4}})
    last = plan(waiting=0, steps=(anew, after), last_arrays={1: {"beta": 5}})

    assert (first.sends, first.steps) == ((), (begun(PROLOGUE, 2),))
    assert (sum(one.tasks for one in then.sends), then.steps) == (2, ())
    assert (last.steps, last.finished) == ((begun(EPILOGUE, 2),), ())


def test_a_waiting_prologue_without_remaining_tasks_is_unneeded() -> None:
    known = pending(PROLOGUE)
    idle = {**known, "idle_steps": frozenset({(1, 1)})}
    waits, runs = (plan(waiting=0, **idle), plan(waiting=0, **known))

    assert (waits.unneeded, waits.finished, waits.deleted) == ((array(),), (), ())
    assert (runs.unneeded, runs.finished) == ((), ())
    assert plan(**idle).unneeded == ()  # there are tasks for it


@pytest.mark.parametrize("state", [CampaignState.IN_TREATMENT, CampaignState.TERMINATED])
def test_an_unsubmitted_prologue_is_given_up_when_no_task_remains(state: CampaignState) -> None:
    one, begun_one = replace(ONE, state=state), array(ArraySubmissionState.INTENDED)
    known = pending(PROLOGUE, begun_one.state)
    found = plan(one, waiting=0, **known)
    away = plan(one, waiting=0, **known, room={})

    assert (found.unsent, found.resumed, found.deleted) == ((begun_one,), (), ())
    unsent = "not sent, because no task is left: the prologue"
    assert [each for each in describe_campaign_cycle_plan(found) if each.startswith(unsent)]
    assert (away.unsent, away.resumed) == ((), ())


def test_a_cancelled_campaign_runs_its_epilogue_after_the_deletion_of_its_tasks() -> None:
    ready = stepped(PROLOGUE, TaskAttemptOutcome.SUCCESS)
    of_tasks = array(number=2)
    early = plan(CANCELLED, waiting=0, steps=(ready,), arrays=(of_tasks,))
    preparing = plan(CANCELLED, waiting=0, **pending(PROLOGUE))
    then = plan(CANCELLED, waiting=0, steps=(ready,))

    assert (early.deleted, early.steps) == ((of_tasks,), ())
    assert (preparing.deleted, preparing.steps) == ((array(),), ())
    assert (then.steps, then.wound_up, then.finished) == ((begun(EPILOGUE),), (), ())


@pytest.mark.parametrize("state", [ArraySubmissionState.INTENDED, ArraySubmissionState.RELEASED])
def test_the_epilogue_of_a_cancelled_campaign_is_not_deleted(state: ArraySubmissionState) -> None:
    known = pending(EPILOGUE, state)
    found = plan(CANCELLED, waiting=0, **known)
    over = plan(replace(CANCELLED, ended_at=NOON), waiting=0, **known)

    assert (found.deleted, found.wound_up, found.steps) == ((), (), ())
    assert bool(found.resumed) == (state is ArraySubmissionState.INTENDED)
    assert (over.deleted, over.resumed, over.wound_up) == ((array(state),), (), ())


@pytest.mark.parametrize("outcome", [TaskAttemptOutcome.SUCCESS, TaskAttemptOutcome.SIGNAL])
def test_a_cancelled_campaign_ends_with_its_epilogue(outcome: TaskAttemptOutcome) -> None:
    found = plan(CANCELLED, waiting=0, **ended(EPILOGUE, outcome))

    assert (found.wound_up, found.finished) == ((1,), ())
    failed = outcome is TaskAttemptOutcome.SIGNAL
    assert [one.code for one in found.changes.events] == [CampaignEventCode.EPILOG_EXIT_ERROR] * failed


@pytest.mark.parametrize(("attempt", "is_again"), [(1, True), (2, True), (3, False)])
def test_an_epilogue_ended_by_its_cluster_runs_up_to_three_times(attempt: int, is_again: bool) -> None:
    found = plan(waiting=0, **ended(EPILOGUE, TaskAttemptOutcome.SITE_FAULT, attempt))

    assert found.steps == ((begun(EPILOGUE, attempt + 1),) if is_again else ())
    assert found.finished == (() if is_again else (1,))


def test_an_epilogue_that_was_always_preempted_is_described_so() -> None:
    found = plan(waiting=0, **ended(EPILOGUE, TaskAttemptOutcome.PREEMPTED, 3))

    told = "campaign 1: the epilogue failed at beta: the last attempt was preempted"
    assert told in describe_campaign_cycle_plan(found)
