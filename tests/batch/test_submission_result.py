"""Tests of a submission whose client program failed."""

import pytest

from gridbridge.batch.batch_submission_outcome import JobSubmissionOutcome, failed_submission_result
from gridbridge.errors import CommandFailed, HostNotReached


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
