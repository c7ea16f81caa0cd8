"""A job that ran several tasks leaves a record, which splits the job's end into the ends of its tasks."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.decisions.campaigns.grouped_task_ends import split_job_end_among_tasks
from gridbridge.decisions.campaigns.task_attempt_outcomes import (
    DELETED_BEFORE_START,
    UNKNOWN_END,
    outcomes_of_grouped_attempts,
)
from gridbridge.model.campaigns.campaign import TaskAttempt
from gridbridge.model.campaigns.campaign import TaskAttemptOutcome as Outcome
from gridbridge.model.campaigns.grouped_tasks import JobRecord, RecordedTaskRun, parse_job_record
from gridbridge.model.campaigns.task_deletions_and_preemptions import NikitaDeletionReason, TaskDeletionMark
from gridbridge.model.jobs_and_accounting import JobEnd, JobKillReason

WALLTIME_S = 600
DONE = JobEnd(exit_status=0, wallclock_s=40)
KILLED = JobEnd(signal=9, wallclock_s=40)
PREEMPTED = JobEnd(signal=55, wallclock_s=40)
BY_WALLTIME = JobEnd(killed_for=JobKillReason.WALLTIME, signal=9, wallclock_s=WALLTIME_S)
LATE = JobEnd(signal=9, wallclock_s=WALLTIME_S)
DELETED = JobEnd(killed_for=JobKillReason.DELETION, wallclock_s=40)
NO_FOLDER = JobEnd(signal=57, wallclock_s=1)
RAN = "begin 0.1 0 \nexit 0.1 900 0\n"
FAILED = f"{RAN}begin 1.1 900 \nexit 1.1 1800 3\n"
CUT = f"{FAILED}begin 2.1 1800 \n"
ALL = f"{CUT}signal 2.1 2700 11\nbegin 3.1 2700 \nexit 3.1 3600 66\n"
GOOD, BAD, UNBEGUN = Outcome.SUCCESS, Outcome.PROGRAM_ERROR, Outcome.UNBEGUN


def attempt(task: int, *, is_unwanted: bool = False) -> TaskAttempt:
    return TaskAttempt(campaign=1, task=task, attempt=1, array=1, place=1, is_unwanted=is_unwanted)


FOUR = tuple(map(attempt, range(4)))


def outcomes(
    end: JobEnd,
    record: JobRecord | None,
    attempts: Iterable[TaskAttempt] = FOUR,
    wiped_for: NikitaDeletionReason | None = None,
    may_live: Iterable[int] = (),
) -> list[Outcome]:
    marks = {1: TaskDeletionMark(wiped_for=wiped_for)} if wiped_for else {}
    ends = dict.fromkeys(attempts, end)
    ended = outcomes_of_grouped_attempts(ends, WALLTIME_S, marks, {1: record}, may_live={*may_live})
    return [one.outcome for one in sorted(ended, key=lambda one: one.task)]


@pytest.mark.parametrize(
    ("end", "record", "expected"),
    [
        (DONE, ALL, [GOOD, BAD, Outcome.SIGNAL, Outcome.RESUBMIT]),
        (DONE, FAILED, [GOOD, BAD, UNBEGUN, UNBEGUN]),
        (DONE, CUT, [GOOD, BAD, Outcome.SITE_FAULT, UNBEGUN]),
        (KILLED, CUT, [GOOD, BAD, Outcome.SIGNAL, UNBEGUN]),
        (PREEMPTED, CUT, [GOOD, BAD, Outcome.PREEMPTED, UNBEGUN]),
        (BY_WALLTIME, CUT, [GOOD, BAD, Outcome.PREEMPTED, UNBEGUN]),
        (LATE, CUT, [GOOD, BAD, Outcome.PREEMPTED, UNBEGUN]),
        (BY_WALLTIME, "begin 0.1 0 \n", [Outcome.WALLTIME, UNBEGUN, UNBEGUN, UNBEGUN]),
        (DELETED, CUT, [GOOD, BAD, Outcome.CANCELLED, UNBEGUN]),
        (UNKNOWN_END, CUT, [GOOD, BAD, Outcome.SITE_FAULT, UNBEGUN]),
        (NO_FOLDER, "", [Outcome.SETUP_ERROR, UNBEGUN, UNBEGUN, UNBEGUN]),
        (DELETED_BEFORE_START, "", [Outcome.CANCELLED] * 4),
        (UNKNOWN_END, "", [Outcome.SITE_FAULT] * 4),
        (DONE, None, [Outcome.SITE_FAULT] * 4),
        (DONE, "", [Outcome.SITE_FAULT] * 4),
    ],
)
def test_ended_tasks_stay_ended_and_tasks_that_had_not_begun_are_resent(
    end: JobEnd, record: str | None, expected: list[Outcome]
) -> None:
    """The walltime of a job is that of one task, so only the first task of a job can overrun it."""
    assert expected == outcomes(end, None if record is None else parse_job_record(record))


def test_a_task_of_a_lost_job_that_may_still_live_is_not_resent_as_unbegun() -> None:
    lost = Outcome.SITE_FAULT

    assert [GOOD, BAD, lost, lost] == outcomes(UNKNOWN_END, parse_job_record(CUT), may_live=[1])


@pytest.mark.parametrize(
    ("unwanted", "end", "record", "expected"),
    [
        (3, DELETED, CUT, [GOOD, BAD, UNBEGUN, Outcome.UNWANTED]),
        (2, KILLED, CUT, [GOOD, BAD, Outcome.UNWANTED, UNBEGUN]),
        (1, DELETED_BEFORE_START, "", [UNBEGUN, Outcome.UNWANTED, UNBEGUN, UNBEGUN]),
        (0, DELETED, CUT, [GOOD, BAD, UNBEGUN, UNBEGUN]),
    ],
    ids=["not begun", "running", "no task begun", "ended"],
)
def test_a_cancelled_task_ends_its_job_and_the_other_tasks_are_resent(
    unwanted: int, end: JobEnd, record: str, expected: list[Outcome]
) -> None:
    attempts = [attempt(task, is_unwanted=task == unwanted) for task in range(4)]

    assert expected == outcomes(end, parse_job_record(record), attempts, NikitaDeletionReason.UNWANTED)


@pytest.mark.parametrize(
    ("wiped_for", "end", "record", "expected"),
    [
        (NikitaDeletionReason.WAITED, DELETED_BEFORE_START, "", [Outcome.WIPED] * 4),
        (NikitaDeletionReason.MOVED, DELETED_BEFORE_START, "", [Outcome.MOVED] * 4),
        (NikitaDeletionReason.MADE_WAY, DELETED, CUT, [GOOD, BAD, Outcome.PREEMPTED, UNBEGUN]),
    ],
)
def test_a_job_that_nikita_deleted_changes_no_task_that_had_ended(
    wiped_for: NikitaDeletionReason, end: JobEnd, record: str, expected: list[Outcome]
) -> None:
    assert expected == outcomes(end, parse_job_record(record), FOUR, wiped_for)


@pytest.mark.parametrize(
    "text",
    ["begin 0.1 5 \nexit 0.1 9 0",
     "begin 0.1 5 \nexit 0.1 x 0\n", "exit 1.1 9 0\nbegin 0.1 5 \n", "begin 0.1 5 \n\n-\n",
     "begin 0.1 5 \nbegin 0.1 7 \nexit 0.1 9 300\nexit 0.1 9\n", "begin 0.1 5 \nsignal 0.1 999999999999 9\n",
     f"begin 0.1 5 \nexit 0.1 {'0' * 12}{'9' * 400} 0\n", f"begin 0.1 5 \nbegin {'9' * 5000}.1 0 \n"],
    ids=["cut off", "no number", "end without begin", "other lines", "out of range", "after a century", "huge time",
         "huge task"],
)  # fmt: skip
def test_wrong_lines_of_a_record_are_ignored(text: str) -> None:
    assert {(0, 1): RecordedTaskRun(began_cs=5)} == parse_job_record(text)


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (f"begin 99.1 0 \nexit 99.1 9999999 0\n{ALL}", [GOOD, BAD, Outcome.SIGNAL, Outcome.RESUBMIT]),
        ("begin 99.1 0 \nexit 99.1 9999999 0\n", [Outcome.SITE_FAULT] * 4),
        ("begin 0.2 0 \nexit 0.2 9999999 0\n", [Outcome.SITE_FAULT] * 4),
        (None, [Outcome.SITE_FAULT] * 4),
    ],
    ids=["beside own tasks", "alone", "other attempt", "unreadable"],
)
def test_a_record_of_other_tasks_neither_resends_tasks_for_ever_nor_hides_used_slots(
    record: str | None, expected: list[Outcome]
) -> None:
    """A task that has not begun is resent without loss of an attempt, so each job uses up at least one attempt."""
    read = None if record is None else parse_job_record(record)

    split = split_job_end_among_tasks(DONE, FOUR, read, WALLTIME_S)

    assert expected == outcomes(DONE, read)
    assert DONE.wallclock_s == sum((task_end.end and task_end.end.wallclock_s) or 0 for task_end in split.values())


@given(
    st.lists(st.tuples(st.integers(0, 9000), st.integers(0, 9000)), min_size=1, max_size=30),
    st.floats(0, 90_000),
    st.booleans(),
)
def test_the_run_times_of_the_tasks_are_together_that_of_the_job(
    runs: list[tuple[int, int]], wallclock_s: float, is_cut: bool
) -> None:
    """So an owner who writes into a record hides no used slot."""
    record = {
        (task, 1): RecordedTaskRun(began_cs=begin, ended_cs=begin + run, exit_status=0)
        for task, (begin, run) in enumerate(runs)
    }
    if is_cut:
        record[len(runs) - 1, 1] = RecordedTaskRun(began_cs=runs[-1][0])
    job = JobEnd(signal=9, wallclock_s=wallclock_s)
    attempts = tuple(map(attempt, range(len(runs))))

    split = split_job_end_among_tasks(job, attempts, record, WALLTIME_S)

    times = [task_end.end.wallclock_s for task_end in split.values() if task_end.end]
    assert round(wallclock_s) == sum(round(time_s) for time_s in times if time_s is not None)
    assert all(time_s is not None and time_s >= 0 for time_s in times)
