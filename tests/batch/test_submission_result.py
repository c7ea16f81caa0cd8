"""A submission without an answer is tried again only if nothing was sent."""

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
def test_only_what_was_never_sent_is_sent_again(error: CommandFailed, result: str) -> None:
    assert failed_submission_result(error).result == result
