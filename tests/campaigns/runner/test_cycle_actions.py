"""Each step of a submission is recorded before the next step, so that the next cycle can continue."""

from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import pytest

from gridbridge import errors
from gridbridge.campaigns.runner.array_commands_as_owner import (
    EndedCampaignRefusal,
    PermanentArrayRefusal,
    RootCampaignRefusal,
    TemporaryArrayRefusal,
)
from gridbridge.campaigns.runner.cycle_result_recorders import CampaignStatisticsRecorder
from gridbridge.campaigns.runner.submission_failure_events import one_line_error_message
from gridbridge.decisions.campaigns.campaign_cycle_planning import ENDS_PER_TRANSACTION
from gridbridge.decisions.campaigns.cluster_closing_and_black_holes import new_campaign_event
from gridbridge.model.campaigns.campaign import (
    PRIORITY_AT_ONCE,
    ArraySubmissionState,
    CampaignArray,
    CampaignState,
    RootLedgerArray,
    TaskAttempt,
    TaskAttemptOutcome,
    WaitingTaskRange,
)
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCyclePlan as Plan
from gridbridge.model.campaigns.campaign_cycle_plan import PlannedCampaignTaskSend, TaskCountByExclusions, TaskRetry
from gridbridge.model.campaigns.campaign_events import CampaignEventCode, CampaignEventSubject
from gridbridge.model.campaigns.jdl import CampaignType
from gridbridge.shell.clock import Clock
from tests.builders.campaigns import NOON, POSTGRESQL, made_campaign, site_fixture
from tests.campaigns.runner.fake_clusters import GridSite


class ArraySite(GridSite):
    def open_event_counts(self) -> set[tuple[CampaignEventCode, str, int, int]]:
        events = self.events.query_open_events()
        return {(event.code, event.cluster, event.tasks, event.probes) for event in events}

    def reasons_of_open_events(self) -> set[str]:
        return {event.why for event in self.events.query_open_events()}


_site = site_fixture(lambda folder: ArraySite(folder, made_campaign("beta", "gamma", tasks=3)), "sqlite", POSTGRESQL)


def send(cluster: str, tasks: int, campaign: int = 1, **other: Any) -> Plan:
    return Plan(sends=(PlannedCampaignTaskSend(campaign=campaign, cluster=cluster, tasks=tasks, **other),))


SEND = send("beta", 2)
OFF_BETA = (TaskCountByExclusions(tasks=2, avoid=("beta",)),)


def test_one_call_submits_several_arrays_and_the_next_cycle_the_remaining(site: ArraySite) -> None:
    do = site.executor(most=2).execute_plan
    site.grid.takes = 1
    do(send("beta", 3))
    first, second = site.campaigns.query_open_arrays()
    site.grid.takes = 9
    do(Plan(resumed=(second,)))

    assert (first.size, second.size, second.state) == (2, 1, ArraySubmissionState.INTENDED)
    assert site.grid.told == ["submit 1 beta 0:1,1:1", "release 1 71", "submit 2 beta 2:1", "release 2 72"]
    assert [one.state for one in site.campaigns.query_open_arrays()] == [ArraySubmissionState.RELEASED] * 2


@pytest.mark.parametrize(
    ("step", "state", "rest"),
    [
        ("submit", ArraySubmissionState.INTENDED, ["submit 1 beta 0:1,1:1", "release 1 71"]),
        ("release", ArraySubmissionState.SUBMITTED, ["release 1 71"]),
    ],
)
def test_the_next_cycle_resumes_a_failed_submission_with_the_same_tasks(
    site: ArraySite, step: str, state: ArraySubmissionState, rest: list[str]
) -> None:
    site.grid.failing[step] = errors.GridbridgeError("no answer")
    site.do(SEND)
    begun = site.array

    site.grid.failing.clear()
    site.grid.told.clear()
    site.do(Plan(resumed=(begun,)))

    assert begun.state is state
    assert site.grid.told == rest
    assert site.array.state is ArraySubmissionState.RELEASED


def test_an_array_submitted_twice_is_deleted_after_its_end(site: ArraySite) -> None:
    """The cluster may accept the first submission late."""
    site.grid.failing["submit"] = errors.GridbridgeError("no answer")
    site.do(SEND)
    site.grid.failing.clear()
    site.do(Plan(resumed=(site.array,)))

    site.do(Plan(over=(site.array,)))

    assert site.grid.told[-2:] == ["release 1 71", "delete 1 71"]
    site.do(SEND)
    site.do(Plan(over=(site.array,)))
    assert site.grid.told[-1] == "release 2 72"


def test_tasks_refused_by_a_cluster_are_submitted_to_another_cluster(site: ArraySite) -> None:
    site.grid.failing["submit"] = PermanentArrayRefusal("no such queue")

    site.do(SEND)

    assert (site.campaign.ended, site.campaign.failed, site.campaigns.query_open_arrays()) == (0, 0, ())
    assert site.open_event_counts() == {(CampaignEventCode.RUNNER_SUBMIT_ERROR, "beta", 2, 0)}
    assert site.reasons_of_open_events() == {"no such queue"}
    site.grid.failing.clear()
    site.do(send("gamma", 3, kept_off=OFF_BETA))
    assert site.grid.told[-2:] == ["submit 2 gamma 0:2,1:2,2:1", "release 2 72"]


def test_a_refused_task_of_a_test_campaign_is_not_retried(site: ArraySite) -> None:
    usual = site.campaigns.find_campaign(1)
    number = site.insert(replace(usual, number=0, jdl=replace(usual.jdl, type=CampaignType.TEST), tasks=2))
    site.grid.failing["submit"] = PermanentArrayRefusal("no such queue")

    site.do(send("beta", 1, number))

    found = site.campaigns.find_campaign(number)
    assert (found.ended, found.failed, site.campaigns.count_unsent_tasks()[number]) == (1, 1, 1)


@pytest.mark.parametrize(
    ("error", "waiting", "failed"),
    [(PermanentArrayRefusal("no such queue"), {1: 2}, 0), (RootCampaignRefusal("not as it was"), {}, 2)],
    ids=["by its cluster", "by root"],
)
def test_a_cancelled_task_of_a_refused_array_is_not_retried(
    site: ArraySite, error: errors.GridbridgeError, waiting: dict[int, int], failed: int
) -> None:
    site.grid.failing["submit"] = TemporaryArrayRefusal("unreachable")
    site.do(SEND)
    assert site.marks.mark_task_cancelled(1, 0)
    site.grid.failing["submit"] = error

    site.do(Plan(resumed=(site.array,)))

    assert (site.campaigns.count_unsent_tasks(), site.campaign.failed, site.campaign.cancelled) == (waiting, failed, 1)
    (shown, *_) = site.tasks.submitted_tasks(1, 0, 0)
    assert (shown.outcome, shown.attempt) == (TaskAttemptOutcome.UNWANTED, 1)


def test_the_planned_number_of_tasks_of_each_exclusion_is_submitted(site: ArraySite) -> None:
    site.campaigns.remove_all_unsent_tasks(1)
    free = WaitingTaskRange(first=0, last=9, attempt=2, priority=PRIORITY_AT_ONCE)
    off_beta = WaitingTaskRange(first=10, last=19, attempt=2, avoid=("beta",))
    site.campaigns.add_unsent_tasks(1, free, off_beta)
    kinds = (TaskCountByExclusions(tasks=5, avoid=("beta",)),)

    site.do(send("gamma", 6, kept_off=kinds, array_tasks=4))
    site.do(send("beta", 9))

    assert site.grid.submissions() == [
        "submit 1 gamma 10:2,11:2,12:2,13:2",
        "submit 2 gamma 0:2,14:2",
        "submit 3 beta 1:2,2:2,3:2,4:2,5:2,6:2,7:2,8:2,9:2",
    ]


def retries(site: ArraySite, *outcomes: TaskAttemptOutcome) -> Plan:
    """Return a plan that retries the tasks of the only array after these outcomes."""
    pairs = zip(site.attempts(), outcomes, strict=True)
    ended = tuple(replace(attempt, outcome=outcome) for attempt, outcome in pairs)
    again = (TaskRetry(campaign=1, task=end.task, attempt=1, outcome=end.outcome) for end in ended)
    return Plan(ended=ended, again=tuple(again), over=(site.array,))


def test_exit_status_66_retries_a_task_first_and_67_last(site: ArraySite) -> None:
    """CiGri gives these exit statuses the same meaning."""
    site.do(SEND)
    outcomes = (TaskAttemptOutcome.RESUBMIT_LAST, TaskAttemptOutcome.RESUBMIT)
    site.do(retries(site, *outcomes))

    assert (site.campaign.ended, site.campaign.failed) == (0, 0)
    site.do(send("beta", 3, array_tasks=1))

    assert site.grid.submissions()[1:] == ["submit 2 beta 1:2", "submit 3 beta 2:1", "submit 4 beta 0:2"]


def test_tasks_fail_after_three_refusals_beyond_one_for_each_cluster(site: ArraySite) -> None:
    site.grid.failing["submit"] = PermanentArrayRefusal("no such queue")
    off_beta = (TaskCountByExclusions(tasks=3, avoid=("beta",)),)

    failed = []
    for kept_off in ((), *[off_beta] * 4):
        site.do(send("beta", 3, kept_off=kept_off))
        failed.append(site.campaign.failed)

    assert failed == [0, 0, 0, 0, 3]
    assert site.open_event_counts() == {
        (CampaignEventCode.RUNNER_SUBMIT_ERROR, "beta", 15, 0),
        (CampaignEventCode.NOT_STARTED, "beta", 3, 0),
    }


def test_a_campaign_refused_by_root_fails_with_its_unsent_tasks(site: ArraySite) -> None:
    site.grid.failing["submit"] = RootCampaignRefusal("not the file")

    site.do(SEND)

    assert (site.campaign.ended, site.campaign.failed, site.campaigns.count_unsent_tasks()) == (3, 3, {})
    assert site.open_event_counts() == {(CampaignEventCode.FILE_REFUSED, "", 0, 0)}
    assert site.reasons_of_open_events() == {"not the file"}


def test_a_retry_refused_by_root_keeps_the_earlier_outcome(site: ArraySite) -> None:
    site.do(send("beta", 2))
    site.do(retries(site, TaskAttemptOutcome.PROGRAM_ERROR, TaskAttemptOutcome.SITE_FAULT))
    site.grid.failing["submit"] = RootCampaignRefusal("not the file")

    site.do(send("gamma", 3))

    assert (site.campaign.ended, site.campaign.failed, site.campaigns.count_unsent_tasks()) == (3, 3, {})
    shown = site.tasks.submitted_tasks(1, 0, 2)
    assert [(task.state_word, task.cluster) for task in shown] == [
        ("program_error", "beta"),
        ("site_fault", "beta"),
        ("setup_error", "gamma"),
    ]


@pytest.mark.parametrize("sent", [1, 3], ids=["waits", "sent"])
def test_a_retry_refused_by_root_still_counts_in_its_event(site: ArraySite, sent: int) -> None:
    site.do(send("beta", 2))
    ended = site.end(site.attempts(), TaskAttemptOutcome.PROGRAM_ERROR, exit_status=3)
    site.do(Plan(ended=ended, over=(site.array,)))
    site.tries.set_past_mark_of_attempts(1, [0, 1])
    site.campaigns.add_unsent_tasks(1, WaitingTaskRange(first=0, last=1, attempt=2))
    site.campaigns.add_to_task_counts(1, -2, -2)
    site.grid.failing["submit"] = RootCampaignRefusal("not the file")

    site.do(send("gamma", sent))

    event = new_campaign_event(CampaignEventSubject.TASK, CampaignEventCode.EXIT_ERROR, 1, "beta", NOON)
    found = site.tries.failed_attempts_of_event(
        replace(event, exit_status=3), [TaskAttemptOutcome.PROGRAM_ERROR], -1, 9
    )
    assert [one.task for one in found] == [0, 1]


def test_a_campaign_that_ended_in_roots_ledger_is_cancelled(site: ArraySite) -> None:
    site.grid.failing["submit"] = EndedCampaignRefusal("the campaign has ended")

    site.do(SEND)

    assert (site.campaign.state, site.campaign.ended_at is not None) == (CampaignState.CANCELLED, True)
    assert (site.campaigns.query_open_arrays(), site.campaigns.count_unsent_tasks()) == ((), {})
    assert site.open_event_counts() == {(CampaignEventCode.RESTORED, "", 0, 0)}


def test_an_array_without_unfinished_attempts_is_not_submitted(site: ArraySite) -> None:
    """Root would refuse the whole campaign."""
    site.grid.failing["submit"] = errors.GridbridgeError("lost")
    site.do(SEND)
    array = site.array
    site.end(site.attempts(array), TaskAttemptOutcome.SITE_FAULT)
    site.grid.failing.clear()
    site.grid.told.clear()

    site.do(Plan(resumed=(array,)))

    known = site.array
    assert site.grid.told == []
    assert (known.state, known.is_repeated) == (ArraySubmissionState.RELEASED, True)


def test_a_terminated_campaign_stays_terminated(site: ArraySite) -> None:
    site.grid.failing["submit"] = errors.GridbridgeError("lost")
    site.do(SEND)
    site.campaigns.set_campaign_state(1, CampaignState.TERMINATED, NOON)
    site.grid.failing["submit"] = EndedCampaignRefusal("the campaign has ended")

    site.do(Plan(resumed=(site.array,)))

    assert (site.campaign.state, site.campaigns.query_open_arrays()) == (CampaignState.TERMINATED, ())
    assert (CampaignEventCode.RESTORED, "", 0, 0) not in site.open_event_counts()


def test_a_temporary_refusal_opens_an_event_and_doubles_the_pause(site: ArraySite) -> None:
    now = [NOON]
    clock = Clock(lambda: now[0].timestamp())
    do = site.executor(clock).execute_plan
    site.grid.failing["submit"] = TemporaryArrayRefusal("unreachable")
    do(SEND)
    now[0] += timedelta(seconds=61)
    do(Plan(resumed=(site.array,)))

    assert site.open_event_counts() == {(CampaignEventCode.SUBMIT_JOB, "beta", 4, 1)}
    (event,) = site.events.query_open_events()
    assert event.until
    assert event.until - event.last_at == timedelta(seconds=120)
    assert event.why == "unreachable"
    site.grid.failing.clear()
    do(Plan(resumed=(site.array,)))
    assert site.open_event_counts() == set()


@pytest.mark.parametrize(
    ("trouble", "code"),
    [
        (errors.OwnerAccountGone("uid 1000 has no account"), CampaignEventCode.OWNER_UNKNOWN),
        (errors.RootLedgerUnreadable("c.1: Input/output error"), CampaignEventCode.NO_LEDGER),
        (errors.CampaignFileUnreadable("c.1: No such file or directory"), CampaignEventCode.NO_FILE),
    ],
)
def test_a_failure_of_root_opens_an_event_that_blames_no_cluster(
    site: ArraySite, trouble: errors.GridbridgeError, code: CampaignEventCode
) -> None:
    site.grid.failing["submit"] = trouble
    site.do(SEND)

    assert site.open_event_counts() == {(code, "beta", 2, 0)}
    site.grid.failing.clear()
    site.do(Plan(resumed=(site.array,)))
    assert site.open_event_counts() == set()


def test_an_array_that_root_cannot_delete_stays_open(site: ArraySite) -> None:
    site.grid.failing["release"] = TemporaryArrayRefusal("unreachable")
    site.do(SEND)
    site.events.close_events_of_campaign(1, NOON)
    held = site.array
    site.grid.failing["delete"] = errors.RootLedgerUnreadable("root's ledger lacks array 1")
    for _ in range(2):
        site.do(Plan(deleted=(held,)))

    assert site.array == held
    assert site.open_event_counts() == {(CampaignEventCode.NO_LEDGER, "beta", 2, 0)}
    site.grid.failing.clear()
    site.do(Plan(deleted=(held,)))
    assert site.campaigns.query_open_arrays() == ()
    assert site.open_event_counts() == set()


def test_arrays_of_roots_ledger_are_imported_into_an_older_state_file(
    site: ArraySite, caplog: pytest.LogCaptureFixture
) -> None:
    site.grid.ledger = (RootLedgerArray(number=1, cluster="gamma", tasks=((1, 1),), job_id=44),)
    site.grid.failing["submit"] = errors.ArrayTasksAlreadyInLedger("array 1 is recorded with other tasks")

    site.do(SEND)

    assert "event=taken_over campaign=1 arrays=1 tasks=1 why=" in caplog.text
    known = site.array
    assert (known.number, known.cluster, known.job_id) == (1, "gamma", 44)
    assert known.state is ArraySubmissionState.SUBMITTED
    assert [(one.task, one.attempt) for one in site.attempts(known)] == [(1, 1)]
    assert site.campaigns.count_unsent_tasks() == {1: 2}
    assert site.open_event_counts() == {(CampaignEventCode.RESTORED, "", 0, 0)}
    site.grid.failing.clear()
    site.do(Plan(resumed=(known,), sends=SEND.sends))
    assert site.grid.told[-3:] == ["release 1 44", "submit 2 beta 0:1,2:1", "release 2 72"]


def test_a_task_queued_again_by_the_import_avoids_its_overrun_cluster(site: ArraySite) -> None:
    site.do(SEND)
    overran = replace(site.attempts()[0], outcome=TaskAttemptOutcome.WALLTIME)
    off_beta = {"avoid": ("beta",), "never": ("beta",)}
    again = TaskRetry(campaign=1, task=0, attempt=1, outcome=TaskAttemptOutcome.WALLTIME, **off_beta)
    site.do(Plan(ended=(overran,), again=(again,)))
    site.grid.ledger = (
        RootLedgerArray(number=1, cluster="beta", tasks=((0, 1), (1, 1)), job_id=71),
        RootLedgerArray(number=2, cluster="gamma", tasks=((2, 1),), job_id=44),
    )
    site.grid.failing["submit"] = errors.ArrayTasksAlreadyInLedger("array 2 is recorded with other tasks")

    kinds = (TaskCountByExclusions(tasks=1, **off_beta),)
    site.do(send("gamma", 1, kept_off=kinds))

    assert site.campaigns.list_unsent_tasks(1) == (WaitingTaskRange(first=0, last=0, attempt=2, **off_beta),)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("no such\nqueue", "no such queue"),
        ("gridbridge-as-user: c.1: uid 0 is not an ordinary account", "uid 0 is not an ordinary account"),
        ("\x1b[1mno", "\N{REPLACEMENT CHARACTER}[1mno"),
        (f"no{'x' * 300}", f"no{'x' * 195}..."),
    ],
    ids=["lines", "root's", "terminal", "long"],
)
def test_an_error_message_becomes_one_short_printable_line(said: str, why: str) -> None:
    assert one_line_error_message(PermanentArrayRefusal(said)) == why


def test_task_ends_recorded_before_a_kill_count_once(site: ArraySite, monkeypatch: pytest.MonkeyPatch) -> None:
    array = site.campaigns.insert_array(1, "beta", [(task, 1) for task in range(ENDS_PER_TRANSACTION + 2)], NOON)
    act = site.executor()
    with monkeypatch.context() as killed:
        killed.setattr(CampaignStatisticsRecorder, "count_ended_tasks", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            act.execute_plan(Plan(ended=succeeded(site, array), over=(array,)))
    left = succeeded(site, array)
    act.execute_plan(Plan(ended=left, over=(array,)))

    assert len(left) == 2
    assert site.campaigns.query_open_arrays() == ()
    assert (site.campaign.ended, site.campaign.failed) == (ENDS_PER_TRANSACTION + 2, 0)


def succeeded(site: ArraySite, array: CampaignArray) -> tuple[TaskAttempt, ...]:
    """Return the unfinished attempts of an array as successes."""
    return tuple(replace(attempt, outcome=TaskAttemptOutcome.SUCCESS) for attempt in site.attempts(array))


@pytest.mark.parametrize(
    ("fails", "known", "left"),
    [
        pytest.param("", 71, [71], id="it may run"),
        pytest.param("release", 71, [71], id="it may run: no answer came to its release"),
        pytest.param("submit", 71, [71], id="it may run: no answer came to its submission"),
        pytest.param("submit", 0, [], id="it was never submitted"),
    ],
)
def test_an_array_of_a_cancelled_campaign_is_deleted(site: ArraySite, fails: str, known: int, left: list[int]) -> None:
    """An array that may have run stays open until the cluster reports its end."""
    site.grid.failing = {fails: errors.GridbridgeError("no answer")}
    site.do(SEND)
    noted = RootLedgerArray(number=1, cluster="beta", tasks=((0, 1), (1, 1)), job_id=known)
    site.grid.ledger = (noted,) if known else ()

    site.do(Plan(deleted=(site.array,)))

    assert site.grid.told[-1].startswith("delete 1")
    assert [one.job_id for one in site.campaigns.query_open_arrays()] == left
    assert all(one.state is ArraySubmissionState.RELEASED for one in site.campaigns.query_open_arrays())


def test_arrays_of_roots_ledger_are_imported_before_new_submissions(site: ArraySite) -> None:
    site.do(send("beta", 2))
    site.grid.ledger = (
        RootLedgerArray(number=1, cluster="beta", tasks=((0, 1), (1, 1)), job_id=71),
        RootLedgerArray(number=2, cluster="gamma", tasks=((1, 2),), job_id=44),
    )
    site.grid.told.clear()

    site.do(Plan(behind=(1,), sends=(PlannedCampaignTaskSend(campaign=1, cluster="beta", tasks=1),)))

    first, second = site.campaigns.query_open_arrays()
    assert (second.number, second.cluster, second.job_id) == (2, "gamma", 44)
    assert [(one.task, one.attempt) for one in site.attempts(first)] == [(0, 1)]
    assert [(one.task, one.attempt) for one in site.attempts(second)] == [(1, 2)]
    assert site.grid.told == []
    assert site.open_event_counts() == {(CampaignEventCode.RESTORED, "", 0, 0)}


@pytest.mark.parametrize(
    ("found", "expected"), [(0, []), (71, [(ArraySubmissionState.RELEASED, 71)])], ids=["never there", "there"]
)
def test_an_array_of_an_owner_without_account_is_deleted_by_the_service(
    site: ArraySite, found: int, expected: list[tuple[ArraySubmissionState, int]]
) -> None:
    array = site.send()
    site.grid.failing["delete"] = errors.OwnerAccountGone("uid 1000 has no account")
    delete = Mock(return_value=found)

    site.executor(ownerless=delete).execute_plan(Plan(deleted=(array,)))

    delete.assert_called_once_with(array)
    assert [(left.state, left.job_id) for left in site.campaigns.query_open_arrays()] == expected
