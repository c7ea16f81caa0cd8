"""Tests of the classification of qsub's messages."""

import pytest

from gridbridge.batch.batch_submission_outcome import JobSubmissionOutcome
from gridbridge.batch.gridengine.submit import _read_answer
from gridbridge.shell.program_runs import CompletedProgram

NO_CHECKPOINT = 'Unable to run job: the checkpoint object "timeout error" does not exist.\nExiting.'
BY_JSV = "Unable to run job: job rejected: critical errors in site policy: ask for h_rt.\nExiting."
NO_ANSWER = (
    "Unable to run job: failed receiving gdi request response for mid=1 "
    "(got syncron message receive timeout error).\nExiting."
)

NO_SUBMIT_HOST = 'Unable to run job: denied: host "h" is not a submit host\nExiting.'
TOO_MANY = "Unable to run job: job rejected: Only 3 jobs are allowed per user (current job count: 3)"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (NO_CHECKPOINT, JobSubmissionOutcome.REFUSED),
        (BY_JSV, JobSubmissionOutcome.REFUSED),
        (NO_ANSWER, JobSubmissionOutcome.UNSURE),
        (NO_SUBMIT_HOST, JobSubmissionOutcome.DENIED),
        (TOO_MANY, JobSubmissionOutcome.BARRED),
        ("critical error: can't read bootstrap file", JobSubmissionOutcome.LATER),
        ('error: unable to contact qmaster using port 6444 on host "beta"', JobSubmissionOutcome.LATER),
    ],
    ids=["a name", "a site's words", "no answer", "not from this host", "a person's limit", "no cell", "no qmaster"],
)
def test_a_submission_is_classified_by_qsubs_message(words: str, expected: str) -> None:
    assert _read_answer(CompletedProgram(("qsub",), 1, b"", words.encode())).result == expected
