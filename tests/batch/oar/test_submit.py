"""Tests of the classification of oarsub's answers, as printed by OAR 2.5.9."""

import pytest

from gridbridge.batch.batch_submission_outcome import JobSubmissionOutcome
from gridbridge.batch.oar.submit import _read_answer
from gridbridge.shell.program_runs import CompletedProgram

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
    ("status", "said", "expected"),
    [
        (0, f"{CHATTER}OAR_JOB_ID=12\n", (JobSubmissionOutcome.ACCEPTED, "12", "")),
        (
            8,
            f"{CHATTER}{NO_COLUMN}OAR_JOB_ID=-5\n{FAILED}",
            (JobSubmissionOutcome.REFUSED, "", 'column "nonesuch" does not exist'),
        ),
        (8, f"{TOO_MUCH}OAR_JOB_ID=-5\n{FAILED}", (JobSubmissionOutcome.REFUSED, "", TOO_MUCH.strip())),
        (251, f"{CHATTER}{ARRAY}{NO_COLUMN}", (JobSubmissionOutcome.REFUSED, "", 'column "nonesuch" does not exist')),
        (251, f"{CHATTER}{ARRAY}{TOO_MUCH}", (JobSubmissionOutcome.REFUSED, "", TOO_MUCH.strip())),
        (251, f"{CHATTER}{ARRAY}{DATABASE_DOWN}", (JobSubmissionOutcome.UNSURE, "", DATABASE_DOWN.strip())),
        (244, NO_FILE, (JobSubmissionOutcome.REFUSED, "", NO_FILE.strip())),
        (248, f"{CHATTER}{NO_QUEUE}", (JobSubmissionOutcome.REFUSED, "", NO_QUEUE.strip())),
        (254, BY_RULE, (JobSubmissionOutcome.REFUSED, "", "at most 1 h here")),
        (9, f"{CHATTER}OAR_JOB_ID=6\n{SERVER_DOWN}", (JobSubmissionOutcome.UNSURE, "", SERVER_DOWN.strip())),
        (8, f"{DATABASE_DOWN}OAR_JOB_ID=\n", (JobSubmissionOutcome.UNSURE, "", DATABASE_DOWN.strip())),
        (142, DATABASE_DOWN, (JobSubmissionOutcome.UNSURE, "", DATABASE_DOWN.strip())),
        (-14, DATABASE_DOWN, (JobSubmissionOutcome.UNSURE, "", DATABASE_DOWN.strip())),
        (0, CHATTER, (JobSubmissionOutcome.UNSURE, "", CHATTER.removeprefix("[ADMISSION RULE] ").strip())),
        (75, "", (JobSubmissionOutcome.LATER, "", "oarsub printed no reason, exit status 75")),
        (127, "", (JobSubmissionOutcome.LATER, "", "oarsub printed no reason, exit status 127")),
    ],
    ids=[
        *("accepted", "property", "resources", "an array's property", "an array's resources"),
        *("an array, database down", "output", "queue", "rule", "server down", "database down"),
        *("alarm", "alarm by ssh", "no id", "cut script", "no oarsub"),
    ],
)
def test_an_oarsub_answer_is_classified_by_status_and_message(
    status: int, said: str, expected: tuple[str, str, str]
) -> None:
    """The message `Job is killed` is wrong: the held job exists and is found by its name."""
    answer = _read_answer(CompletedProgram(("oarsub",), status, said.encode(), b""))

    assert (answer.result, answer.remote_id, answer.reason) == expected
