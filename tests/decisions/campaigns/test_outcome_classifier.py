"""A job end has the same outcome for each batch system, and for each order of the records."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import permutations

import pytest

from gridbridge.batch.gridengine.status import decide_job_end
from gridbridge.batch.oar.oar_output_parser import parse_oarstat_jobs
from gridbridge.batch.oar.status import _job_end_with_usage
from gridbridge.decisions.campaigns.task_attempt_outcomes import classify_job_end, outcome_of_task_deleted_by_nikita
from gridbridge.model.campaigns.campaign import TaskAttemptOutcome
from gridbridge.model.campaigns.task_deletions_and_preemptions import NikitaDeletionReason
from gridbridge.model.jobs_and_accounting import JobEnd, JobKillReason, JobRunAccounting
from tests.builders.campaigns import NOON

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
