"""A task has ended when its cluster reports the end, or has not listed it for long; each end has one outcome."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import permutations

import pytest

from gridbridge.batch.gridengine.status import decide_job_end
from gridbridge.batch.oar.oar_output_parser import parse_oarstat_jobs
from gridbridge.batch.oar.status import _job_end_with_usage
from gridbridge.decisions.campaigns.campaign_cycle_planning import (
    describe_campaign_cycle_plan,
    split_cycle_plan_by_transaction,
)
from gridbridge.decisions.campaigns.task_attempt_outcomes import (
    DELETED_BEFORE_START,
    ArrayWithMissingTasks,
    MissingAttemptOutcomeDecider,
    classify_job_end,
    close_attempts_without_end,
    mark_future_ends_as_disputed,
    outcome_of_task_deleted_by_nikita,
    outcomes_of_missing_attempts,
    select_attempts_still_alive,
    select_attempts_with_conflicting_ends,
)
from gridbridge.model.campaigns.campaign import CampaignState, TaskAttempt, TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCyclePlan, TaskRetry
from gridbridge.model.campaigns.jdl import Jdl, JdlSettingsAtCluster
from gridbridge.model.campaigns.task_deletions_and_preemptions import NikitaDeletionReason, TaskDeletionMark
from gridbridge.model.jobs_and_accounting import FutureDatedJobEnd, JobEnd, JobKillReason, JobRunAccounting
from tests.builders.campaigns import NOON, released_array
from tests.decisions.campaigns.campaign_builder import make_attempt as attempt
from tests.decisions.campaigns.campaign_builder import make_campaign

GONE = ArrayWithMissingTasks(is_listed=False, lives=None)
SWEEP = make_campaign(tasks=3, jdl=Jdl(name="sweep", clusters={"beta": JdlSettingsAtCluster(exec_file="run")}))
ARRAY = released_array(size=3, job_id=8)
DELETED = JobEnd(signal=9, killed_for=JobKillReason.DELETION)


def marked(*reasons: NikitaDeletionReason) -> dict[int, TaskDeletionMark]:
    return {index: TaskDeletionMark(wiped_for=reason) for index, reason in enumerate(reasons, start=1)}


def decider(
    state: CampaignState = CampaignState.IN_TREATMENT, marks: Mapping[int, TaskDeletionMark] = {}
) -> MissingAttemptOutcomeDecider:
    return MissingAttemptOutcomeDecider([replace(SWEEP, state=state)], (), {(1, 1): marks}, 60.0)


def test_a_missing_task_without_a_record_counts_as_cancelled_only_after_the_timeout() -> None:
    missing = {attempt(1): 0.0, attempt(2): 60.0, attempt(3): 61.0}

    found = outcomes_of_missing_attempts(missing, {1: JobEnd(exit_status=3, wallclock_s=4.6)}, 600, 60.0)

    told = [(one.place, one.outcome, one.exit_status, one.wallclock_s) for one in found]
    assert told == [(1, TaskAttemptOutcome.PROGRAM_ERROR, 3, 5), (3, TaskAttemptOutcome.CANCELLED, None, None)]


@pytest.mark.parametrize(
    ("end", "wiped_for", "outcome"),
    [
        (DELETED_BEFORE_START, NikitaDeletionReason.OVERFLOW, TaskAttemptOutcome.WIPED),
        (DELETED_BEFORE_START, NikitaDeletionReason.WAITED, TaskAttemptOutcome.WIPED),
        (DELETED_BEFORE_START, NikitaDeletionReason.NEVER_BEGAN, TaskAttemptOutcome.WIPED),
        (JobEnd(signal=9), NikitaDeletionReason.WAITED, TaskAttemptOutcome.PREEMPTED),
        (DELETED, NikitaDeletionReason.WAITED, TaskAttemptOutcome.PREEMPTED),
        (JobEnd(exit_status=0), NikitaDeletionReason.WAITED, TaskAttemptOutcome.SUCCESS),
        (DELETED, NikitaDeletionReason.OVERRAN, TaskAttemptOutcome.WALLTIME),
        (JobEnd(exit_status=3), NikitaDeletionReason.OVERRAN, TaskAttemptOutcome.PROGRAM_ERROR),
        (DELETED_BEFORE_START, NikitaDeletionReason.MOVED, TaskAttemptOutcome.MOVED),
        (JobEnd(signal=9), NikitaDeletionReason.MOVED, TaskAttemptOutcome.SIGNAL),
        (DELETED, NikitaDeletionReason.MOVED, TaskAttemptOutcome.CANCELLED),
    ],
)
def test_a_deletion_by_nikita_is_not_reported_as_a_deletion_by_the_owner(
    end: JobEnd, wiped_for: NikitaDeletionReason, outcome: TaskAttemptOutcome
) -> None:
    """A task that never started is not a failure; a task that ended by itself keeps its outcome."""
    (found,) = outcomes_of_missing_attempts({attempt(1): 99.0}, {1: end}, 600, 60.0, marked(wiped_for))

    assert found.outcome is outcome


@pytest.mark.parametrize(
    ("held", "wiped_for", "outcome"),
    [
        (NikitaDeletionReason.LEFT, NikitaDeletionReason.MOVED, TaskAttemptOutcome.MOVED),
        (NikitaDeletionReason.NEVER_BEGAN, NikitaDeletionReason.WAITED, TaskAttemptOutcome.WIPED),
    ],
)
def test_a_task_deleted_while_held_has_ended_at_once_despite_any_record(
    held: NikitaDeletionReason, wiped_for: NikitaDeletionReason, outcome: TaskAttemptOutcome
) -> None:
    """Such a task never started, so its record is forged."""
    judge = decider(marks=marked(held, held, wiped_for))
    ends = judge.filter_believed_job_ends(ARRAY, {}, {1: JobEnd(exit_status=0)})

    found = judge.list_ended_attempts(ARRAY, dict.fromkeys(map(attempt, (1, 2, 3)), 0.0), ends, GONE)

    assert [(one.place, one.outcome) for one in found] == [(1, outcome), (2, outcome)]


@pytest.mark.parametrize(
    ("state", "outcome"),
    [(CampaignState.CANCELLED, TaskAttemptOutcome.CANCELLED), (CampaignState.IN_TREATMENT, TaskAttemptOutcome.SIGNAL)],
)
def test_a_signal_to_a_task_of_a_cancelled_campaign_counts_as_cancellation(
    state: CampaignState, outcome: TaskAttemptOutcome
) -> None:
    ends = {1: JobEnd(signal=9), 2: JobEnd(exit_status=0), 3: JobEnd(exit_status=3)}
    found = decider(state).list_ended_attempts(ARRAY, dict.fromkeys(map(attempt, ends), 0.0), ends, GONE)

    assert [one.outcome for one in found] == [outcome, TaskAttemptOutcome.SUCCESS, TaskAttemptOutcome.PROGRAM_ERROR]


def test_an_exit_status_that_the_wrapper_changed_is_stored_as_the_program_returned_it() -> None:
    """The wrapper ends with 199 for 99, which Grid Engine would read as a request to requeue."""
    ends = {1: JobEnd(exit_status=199), 2: JobEnd(signal=63), 3: JobEnd(signal=11)}

    found = outcomes_of_missing_attempts(dict.fromkeys(map(attempt, ends), 0.0), ends, 600, 60.0)

    assert [one.exit_status for one in found] == [99, 199, None]


def of(task: int, number: int = 1, outcome: TaskAttemptOutcome = TaskAttemptOutcome.SUCCESS) -> TaskAttempt:
    return attempt(task + 1, attempt=number, array=number, outcome=outcome)


def test_many_task_ends_are_split_into_transactions_that_keep_a_tasks_attempts_together() -> None:
    copies = (of(1), of(1, 2, TaskAttemptOutcome.COPY))
    again = TaskRetry(campaign=1, task=2, attempt=1, outcome=TaskAttemptOutcome.SITE_FAULT)
    rest = {"finished": (7,), "again": (again,)}
    ended = (copies[0], of(3), of(0), of(2), copies[1])

    found = split_cycle_plan_by_transaction(CampaignCyclePlan(ended=ended, **rest), most=2)

    assert found == (
        CampaignCyclePlan(ended=(of(0), *copies)),
        CampaignCyclePlan(ended=(of(2), of(3)), **rest),
    )


@pytest.mark.parametrize(
    ("tasks", "sentences"),
    [
        (1, ["1 task ended, 1 of them runs again", "1 surplus attempt ended"]),
        (2, ["2 tasks ended, 2 of them run again", "2 surplus attempts ended"]),
    ],
)
def test_a_cycle_counts_ended_tasks_in_singular_and_plural(tasks: int, sentences: list[str]) -> None:
    outcomes = (TaskAttemptOutcome.SITE_FAULT, TaskAttemptOutcome.COPY)
    ended = tuple(of(task, outcome=outcome) for outcome in outcomes for task in range(tasks))
    lost = [TaskRetry(campaign=1, task=task, attempt=1, outcome=outcomes[0]) for task in range(tasks)]

    assert describe_campaign_cycle_plan(CampaignCyclePlan(ended=ended, again=tuple(lost))) == sentences


def test_an_attempt_with_contradicting_records_has_not_ended() -> None:
    missing = {attempt(1): 9999.0, attempt(2): 9999.0}

    assert decider().list_attempts_missing_too_long(missing, {1: None}) == (attempt(2),)
    assert [one.place for one in outcomes_of_missing_attempts(missing, {1: None}, 600, 60.0)] == [2]


@pytest.mark.parametrize(
    ("lives", "is_listed", "kept"),
    [
        pytest.param(None, False, [], id="the cluster does not know the array"),
        pytest.param({1}, True, [1], id="only running tasks are alive"),
        pytest.param({1}, False, [1, 2], id="a list without the array is truncated"),
        pytest.param(frozenset(), False, [1, 2], id="a truncated list while all tasks wait"),
    ],
)
def test_a_task_missing_in_a_truncated_job_list_may_be_alive(
    lives: set[int] | None, is_listed: bool, kept: list[int]
) -> None:
    """A truncated list must not start a second run of the task."""
    known = None if lives is None else frozenset(lives)

    found = select_attempts_still_alive((attempt(1), attempt(2)), known, is_listed)

    assert sorted(one.place for one in found) == kept


AHEAD = FutureDatedJobEnd(ended_at=NOON, host="n1", end=JobEnd(exit_status=0))


def test_an_end_in_the_future_counts_only_after_the_maximum_wait() -> None:
    """The host's clock may run fast."""
    missing = {attempt(1): 599.0, attempt(2): 601.0}
    ends = {1: AHEAD, 2: AHEAD}

    found = outcomes_of_missing_attempts(missing, ends, 600, 60.0)

    assert [(one.place, one.outcome) for one in found] == [(2, TaskAttemptOutcome.SUCCESS)]
    assert decider().list_attempts_missing_too_long(missing, ends) == (attempt(2),)


def test_contradicting_ends_in_the_future_are_disputed_after_the_maximum_wait() -> None:
    missing = {attempt(1): 599.0, attempt(2): 601.0}
    ends = dict.fromkeys((1, 2), replace(AHEAD, end=None))

    found = mark_future_ends_as_disputed(missing, ends)

    assert (found[1], found[2]) == (ends[1], None)
    assert select_attempts_with_conflicting_ends(missing, found) == (attempt(2),)
    assert outcomes_of_missing_attempts(missing, found, 600, 60.0) == ()


@pytest.mark.parametrize(
    ("state", "first"),
    [
        (CampaignState.IN_TREATMENT, (TaskAttemptOutcome.SITE_FAULT, 8)),
        (CampaignState.CANCELLED, (TaskAttemptOutcome.CANCELLED, 0)),
    ],
)
def test_a_started_task_without_a_record_was_lost_by_its_cluster(
    state: CampaignState, first: tuple[TaskAttemptOutcome, int]
) -> None:
    missing = dict.fromkeys(map(attempt, (1, 2, 3)), 61.0)

    found = decider(state).list_ended_attempts(ARRAY, missing, {3: JobEnd(exit_status=0)}, replace(GONE, ran={1, 3}))

    outcomes = [(one.outcome, one.forgotten_job) for one in found]
    assert outcomes == [first, (TaskAttemptOutcome.CANCELLED, 0), (TaskAttemptOutcome.SUCCESS, 0)]


def test_a_task_deleted_by_nikita_without_a_record_was_not_lost_by_its_cluster() -> None:
    judge = decider(marks=marked(NikitaDeletionReason.OVERRAN))

    (found,) = judge.list_ended_attempts(ARRAY, {attempt(1): 61.0}, {}, replace(GONE, ran={1}))

    assert (found.outcome, found.forgotten_job) == (TaskAttemptOutcome.WALLTIME, 0)


def test_a_task_cancelled_by_its_owner_is_unwanted_even_without_a_reported_end() -> None:
    attempts = (attempt(1), replace(attempt(2), is_unwanted=True))

    found = close_attempts_without_end(attempts, TaskAttemptOutcome.SITE_FAULT)

    lost = TaskAttemptOutcome.SITE_FAULT
    assert [one.outcome for one in found] == [lost, TaskAttemptOutcome.UNWANTED]


@pytest.mark.parametrize(
    ("told_s", "sent_s", "ran_s"),
    [(1e9, 300.0, 300), (200.0, 300.0, 200), (50.0, 3.0, 50), (50.0, -3600.0, 50), (1e9, -5.0, 60)],
    ids=["forged", "correct", "just sent", "a clock was set back", "forged and clock set back"],
)
def test_a_run_time_is_limited_to_the_time_since_the_submission(told_s: float, sent_s: float, ran_s: int) -> None:
    """A user may forge the accounting record, and the run time counts against the owner's share."""
    ends = {1: JobEnd(exit_status=0, wallclock_s=told_s)}

    (found,) = decider().list_ended_attempts(ARRAY, {attempt(1): 20.0}, ends, replace(GONE, sent_s=sent_s))

    assert (found.outcome, found.wallclock_s) == (TaskAttemptOutcome.SUCCESS, ran_s)


WALLTIME_S = 60
RUN = JobRunAccounting(
    job_id=7,
    task=1,
    name="n",
    owner="alice",
    account="gc.alpha.1.1",
    queue="all.q",
    host="beta-n1",
    submitted_at=NOON,
    started_at=NOON,
    ended_at=NOON,
    failed=0,
    exit_status=0,
    wallclock_s=59.0,
    user_s=1.0,
    system_s=0.0,
    max_rss_kb=9.0,
)
LATE = replace(RUN, failed=100, exit_status=137, wallclock_s=61.0)
# Further records of the same task: rescheduled runs, a part of a parallel job, and a run without usage.
BESIDE = (
    replace(RUN, failed=25, exit_status=99),
    replace(RUN, failed=24, exit_status=0),
    replace(RUN, pe_task="1.beta-n1", exit_status=1),
    replace(RUN, failed=19, user_s=0.0, max_rss_kb=0.0),
)
SHOWN: dict[str, object] = {"Job_Id": 7, "name": "gc.alpha.1.1", "owner": "alice", "state": "Error"}
SHOWN |= {"queue": "default", "message": "", "submissionTime": 1000, "startTime": 1010, "stopTime": 1050}
SHOWN |= {"exit_code": None, "assigned_resources": [1], "assigned_network_address": ["gamma-n1"]}
KILL = 9  # as a wait status


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        (JobEnd(exit_status=0), TaskAttemptOutcome.SUCCESS),
        (JobEnd(exit_status=3), TaskAttemptOutcome.PROGRAM_ERROR),
        (JobEnd(exit_status=66), TaskAttemptOutcome.RESUBMIT),
        (JobEnd(exit_status=67), TaskAttemptOutcome.RESUBMIT_LAST),
        (JobEnd(exit_status=199), TaskAttemptOutcome.PROGRAM_ERROR),
        (JobEnd(signal=63), TaskAttemptOutcome.PROGRAM_ERROR),
        (JobEnd(exit_status=200, reason="WORKING_DIRECTORY: no"), TaskAttemptOutcome.SETUP_ERROR),
        (JobEnd(signal=11), TaskAttemptOutcome.SIGNAL),
        (JobEnd(signal=55), TaskAttemptOutcome.PREEMPTED),
        (JobEnd(signal=56, wallclock_s=61), TaskAttemptOutcome.PREEMPTED),
        (JobEnd(signal=57), TaskAttemptOutcome.SETUP_ERROR),
        (JobEnd(signal=9, wallclock_s=61), TaskAttemptOutcome.WALLTIME),
        (JobEnd(signal=9, wallclock_s=59), TaskAttemptOutcome.SIGNAL),
        (JobEnd(signal=9, killed_for=JobKillReason.WALLTIME), TaskAttemptOutcome.WALLTIME),
        (JobEnd(signal=9, killed_for=JobKillReason.DELETION), TaskAttemptOutcome.CANCELLED),
        (JobEnd(signal=9, killed_for=JobKillReason.PLACE), TaskAttemptOutcome.PREEMPTED),
        (JobEnd(is_preempted=True), TaskAttemptOutcome.PREEMPTED),
        (JobEnd(reason="failed 100"), TaskAttemptOutcome.SITE_FAULT),
    ],
)
def test_each_job_end_has_one_outcome(end: JobEnd, outcome: TaskAttemptOutcome) -> None:
    assert classify_job_end(end, WALLTIME_S) is outcome


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        (JobEnd(exit_status=0), TaskAttemptOutcome.SUCCESS),
        (JobEnd(exit_status=3), TaskAttemptOutcome.PROGRAM_ERROR),
        (JobEnd(exit_status=66), TaskAttemptOutcome.UNWANTED),
        (JobEnd(signal=9, killed_for=JobKillReason.DELETION), TaskAttemptOutcome.UNWANTED),
        (JobEnd(is_preempted=True), TaskAttemptOutcome.UNWANTED),
        (JobEnd(reason="failed 100"), TaskAttemptOutcome.UNWANTED),
    ],
)
def test_a_task_cancelled_by_its_owner_gets_no_retry(end: JobEnd, outcome: TaskAttemptOutcome) -> None:
    found = classify_job_end(end, WALLTIME_S)

    assert outcome_of_task_deleted_by_nikita(end, found, NikitaDeletionReason.UNWANTED) is outcome


@pytest.mark.parametrize(
    ("record", "outcome"),
    [
        (RUN, TaskAttemptOutcome.SUCCESS),
        (replace(RUN, exit_status=3), TaskAttemptOutcome.PROGRAM_ERROR),
        (replace(RUN, exit_status=66), TaskAttemptOutcome.RESUBMIT),
        (replace(RUN, failed=100, exit_status=139), TaskAttemptOutcome.SIGNAL),
        (LATE, TaskAttemptOutcome.WALLTIME),
        (replace(RUN, failed=100, exit_status=128 + 55), TaskAttemptOutcome.PREEMPTED),
        (replace(RUN, failed=100, exit_status=128 + 57), TaskAttemptOutcome.SETUP_ERROR),
        (replace(RUN, failed=19, user_s=0.0, max_rss_kb=0.0), TaskAttemptOutcome.SITE_FAULT),
    ],
    ids=["0", "3", "66", "signal", "walltime", "preempted", "setup error", "lost"],
)
def test_the_order_of_grid_engine_records_does_not_change_the_outcome(
    record: JobRunAccounting, outcome: TaskAttemptOutcome
) -> None:
    found = {_told_by_records(some) for some in permutations((record, *BESIDE))}

    assert found == {outcome}


def _told_by_records(records: Sequence[JobRunAccounting]) -> TaskAttemptOutcome | None:
    end, is_disputed = decide_job_end(records, NOON)
    return classify_job_end(end, WALLTIME_S) if end and not is_disputed else None


@pytest.mark.parametrize(
    ("code", "types", "outcome"),
    [
        (0, ("WALLTIME", "FRAG_JOB_REQUEST"), TaskAttemptOutcome.SUCCESS),
        (3 << 8, ("BESTEFFORT_KILL", "RESUBMIT_JOB_AUTOMATICALLY"), TaskAttemptOutcome.PROGRAM_ERROR),
        (KILL, ("WALLTIME", "SEND_KILL_JOB", "FRAG_JOB_REQUEST"), TaskAttemptOutcome.WALLTIME),
        (KILL, ("FRAG_JOB_REQUEST", "SEND_KILL_JOB"), TaskAttemptOutcome.CANCELLED),
        (KILL, ("BESTEFFORT_KILL", "FRAG_JOB_REQUEST", "WALLTIME"), TaskAttemptOutcome.PREEMPTED),
        (None, ("BESTEFFORT_KILL", "FRAG_JOB_REQUEST", "WALLTIME"), TaskAttemptOutcome.PREEMPTED),
        (None, ("EXTERMINATE_JOB", "SEND_KILL_JOB", "SWITCH_INTO_ERROR_STATE"), TaskAttemptOutcome.SITE_FAULT),
        (None, ("WORKING_DIRECTORY", "SWITCH_INTO_ERROR_STATE", "WALLTIME"), TaskAttemptOutcome.SETUP_ERROR),
        (None, ("WALLTIME", "FRAG_JOB_REQUEST", "SEND_KILL_JOB"), TaskAttemptOutcome.WALLTIME),
        (None, ("SWITCH_INTO_ERROR_STATE", "LOG_SUSPECTED"), TaskAttemptOutcome.SITE_FAULT),
    ],
)
def test_the_order_of_oar_events_does_not_change_the_outcome(
    code: int | None, types: tuple[str, ...], outcome: TaskAttemptOutcome
) -> None:
    found = {_told_by_events(code, some) for some in permutations(types)}

    assert found == {outcome}


def _told_by_events(code: int | None, types: Iterable[str]) -> TaskAttemptOutcome | None:
    events = [{"event_id": number, "type": each, "description": "d"} for number, each in enumerate(types)]
    shown = {"7": SHOWN | {"exit_code": code, "events": events}}
    (job,) = parse_oarstat_jobs(json.dumps(shown).encode())
    end = _job_end_with_usage(job)
    return classify_job_end(end, WALLTIME_S) if end else None
