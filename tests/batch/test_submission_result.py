"""A submission without an answer is tried again only if nothing was sent."""

import pytest

from gridbridge.batch.submission_result import Result, unanswered
from gridbridge.errors import CommandFailed, HostNotReached


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (CommandFailed(("qsub",), 127), Result.LATER),
        (HostNotReached(("ssh",), 255), Result.LATER),
        (CommandFailed(("qsub",), None), Result.UNSURE),
        (CommandFailed(("ssh",), 255), Result.UNSURE),
    ],
    ids=["not there", "not reached", "no answer in time", "cut"],
)
def test_only_what_was_never_sent_is_sent_again(error: CommandFailed, result: str) -> None:
    assert unanswered(error).result == result
