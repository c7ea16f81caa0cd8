"""Tests of the outcome of a submission: qsub 8.1.9, oarsub 2.5.9, and a client program that failed."""

import pytest

from gridbridge.batch.batch_submission_outcome import JobSubmissionOutcome, failed_submission_result
from gridbridge.batch.gridengine import submit as gridengine
from gridbridge.batch.oar import submit as oar
from gridbridge.errors import CommandFailed, HostNotReached
from gridbridge.shell.program_runs import CompletedProgram


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (CommandFailed(("qsub",), 127), JobSubmissionOutcome.LATER),
        (HostNotReached(("ssh",), 255), JobSubmissionOutcome.LATER),
        (CommandFailed(("qsub",), None), JobSubmissionOutcome.UNSURE),
        (CommandFailed(("ssh",), 255), JobSubmissionOutcome.UNSURE),
    ],
    ids=["not there", "not reached", "no answer in time", "cut"],
)
def test_only_a_submission_that_was_never_sent_is_retried(error: CommandFailed, result: str) -> None:
    assert failed_submission_result(error).result == result


QSUB = [
    ('Unable to run job: the checkpoint object "timeout error" does not exist.', JobSubmissionOutcome.REFUSED),
    ("Unable to run job: job rejected: critical errors in site policy: ask for h_rt.", JobSubmissionOutcome.REFUSED),
    (
        "Unable to run job: failed receiving gdi request response for mid=1 "
        "(got syncron message receive timeout error).",
        JobSubmissionOutcome.UNSURE,
    ),
    ('Unable to run job: denied: host "h" is not a submit host', JobSubmissionOutcome.DENIED),
    ("Unable to run job: job rejected: Only 3 jobs are allowed per user", JobSubmissionOutcome.BARRED),
    ("critical error: can't read bootstrap file", JobSubmissionOutcome.LATER),
    ('error: unable to contact qmaster using port 6444 on host "beta"', JobSubmissionOutcome.LATER),
]


@pytest.mark.parametrize(
    ("words", "expected"),
    QSUB,
    ids=["a name", "a site's words", "no answer", "not from this host", "a person's limit", "no cell", "no qmaster"],
)
def test_a_submission_is_classified_by_qsubs_message(words: str, expected: str) -> None:
    answer = CompletedProgram(("qsub",), 1, b"", f"{words}\nExiting.".encode())

    assert gridengine._parse_qsub_answer(answer).result == expected


MISSING_COLUMN = 'column "nonesuch" does not exist'
CHATTER = "[ADMISSION RULE] Modify resource description with type constraints\n"
FAILED = "[ERROR] Oarsub failed, please verify your request syntax.\n"
NO_COLUMN = 'DBD::Pg::st execute failed: ERROR:  column "nonesuch" does not exist\nLINE 4: ...\n'
SERVER_DOWN = "[ERROR] Cannot connect to executor gamma-master:6666. Job is killed.\n"
DATABASE_DOWN = "DBI connect('database=oar',...) failed: Connection refused at OAR/IO.pm line 307.\n"
ARRAY = "Simple array job submission is used\n"
NO_FILE = "/!\\ Invalid stdout file name (bad character)\n"
TOO_MUCH = "There are not enough resources for your request\n"
NO_QUEUE = "ERROR : The queue nosuch does not exist\n"
BY_RULE = "[ADMISSION RULE] Set default walltime to 7200.\n[ADMISSION RULE] at most 1 h here\n\n"


@pytest.mark.parametrize(
    ("status", "said", "result", "reason"),
    [
        (0, f"{CHATTER}OAR_JOB_ID=12\n", JobSubmissionOutcome.ACCEPTED, ""),
        (8, f"{CHATTER}{NO_COLUMN}OAR_JOB_ID=-5\n{FAILED}", JobSubmissionOutcome.REFUSED, MISSING_COLUMN),
        (8, f"{TOO_MUCH}OAR_JOB_ID=-5\n{FAILED}", JobSubmissionOutcome.REFUSED, TOO_MUCH),
        (251, f"{CHATTER}{ARRAY}{NO_COLUMN}", JobSubmissionOutcome.REFUSED, MISSING_COLUMN),
        (251, f"{CHATTER}{ARRAY}{TOO_MUCH}", JobSubmissionOutcome.REFUSED, TOO_MUCH),
        (251, f"{CHATTER}{ARRAY}{DATABASE_DOWN}", JobSubmissionOutcome.UNSURE, DATABASE_DOWN),
        (244, NO_FILE, JobSubmissionOutcome.REFUSED, NO_FILE),
        (248, f"{CHATTER}{NO_QUEUE}", JobSubmissionOutcome.REFUSED, NO_QUEUE),
        (254, BY_RULE, JobSubmissionOutcome.REFUSED, "at most 1 h here"),
        (9, f"{CHATTER}OAR_JOB_ID=6\n{SERVER_DOWN}", JobSubmissionOutcome.UNSURE, SERVER_DOWN),
        (8, f"{DATABASE_DOWN}OAR_JOB_ID=\n", JobSubmissionOutcome.UNSURE, DATABASE_DOWN),
        (142, DATABASE_DOWN, JobSubmissionOutcome.UNSURE, DATABASE_DOWN),
        (-14, DATABASE_DOWN, JobSubmissionOutcome.UNSURE, DATABASE_DOWN),
        (0, CHATTER, JobSubmissionOutcome.UNSURE, CHATTER.removeprefix("[ADMISSION RULE] ")),
        (75, "", JobSubmissionOutcome.LATER, "oarsub printed no reason and ended with exit status 75"),
        (127, "", JobSubmissionOutcome.LATER, "oarsub printed no reason and ended with exit status 127"),
    ],
    ids=[
        *("accepted", "property", "resources", "an array's property", "an array's resources"),
        *("an array, database down", "output", "queue", "rule", "server down", "database down"),
        *("alarm", "alarm by ssh", "no id", "cut script", "no oarsub"),
    ],
)
def test_an_oarsub_answer_is_classified_by_status_and_message(status: int, said: str, result: str, reason: str) -> None:
    """The message `Job is killed` is wrong: the held job exists and is found by its name."""
    answer = oar._parse_oarsub_answer(CompletedProgram(("oarsub",), status, said.encode(), b""))

    remote_id = "12" if result == JobSubmissionOutcome.ACCEPTED else ""
    assert (answer.result, answer.remote_id, answer.reason) == (result, remote_id, reason.strip())
