"""A submission without an answer is tried again only if nothing was sent."""

import pytest

from gridbridge.batch.batch_submission_outcome import SubmissionOutcome, answer_to_failed_submission
from gridbridge.errors import CommandFailed, HostNotReached


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (CommandFailed(("qsub",), 127), SubmissionOutcome.LATER),
        (HostNotReached(("ssh",), 255), SubmissionOutcome.LATER),
        (CommandFailed(("qsub",), None), SubmissionOutcome.UNSURE),
        (CommandFailed(("ssh",), 255), SubmissionOutcome.UNSURE),
    ],
    ids=["not there", "not reached", "no answer in time", "cut"],
)
def test_only_what_was_never_sent_is_sent_again(error: CommandFailed, result: str) -> None:
    assert answer_to_failed_submission(error).result == result
