"""Tells users that a command waits for gridbridge-runner, and prints the runner's reply."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from threading import Timer

from gridbridge.campaigns.cli import UNANSWERED, UNREACHABLE
from gridbridge.campaigns.submission.jdl_reader import ParsedJdl
from gridbridge.campaigns.tools.campaign_client import ANSWER_S, TAKEN_S, NoRunnerForRequest, RunnerAnswerTimeout
from gridbridge.cli import output
from gridbridge.errors import StandardOutputReaderGone, StandardOutputUnwritable

SOON_S = 5.0  # time in which a runner with --loop answers
WAITING = f"waiting for gridbridge-runner, {ANSWER_S:g} s at most (from cron it comes once a minute)"
TAKEN = f"gridbridge-runner took it and has not answered; waiting on, {TAKEN_S:g} s at most"


@contextmanager
def report_late_runner_answer(
    program: str, after_s: float = SOON_S, taken_s: float = ANSWER_S + SOON_S
) -> Iterator[None]:
    """Print a line when the runner answers late, and another when it has taken the request."""
    timers = [
        Timer(limit_s, output.print_error, [f"{program}: {line}"])
        for limit_s, line in ((after_s, WAITING), (taken_s, TAKEN))
    ]
    for timer in timers:
        timer.daemon = True
        timer.start()
    try:
        yield
    finally:
        for timer in timers:
            timer.cancel()


def report_missing_runner_answer(program: str, error: NoRunnerForRequest | RunnerAnswerTimeout) -> int:
    """Print that the runner did not answer; return the exit status.

    The status shows whether the runner may still carry out the request.
    """
    output.print_error(f"{program}: {error}")
    return UNANSWERED if isinstance(error, RunnerAnswerTimeout) else UNREACHABLE


def stored_campaign_json(number: int, parsed: ParsedJdl) -> str:
    """Return a stored campaign as one line of JSON, with the number of its tasks."""
    return json.dumps({"id": number, **asdict(parsed.jdl), "nb_jobs": len(parsed.parameters)})


def print_stored_submission(program: str, lines: Sequence[str], summary: str) -> int:
    """Print that a submission is stored, and return the exit status.

    If standard output can't be written, standard error says what is stored, and the status keeps
    scripts from repeating the request.
    """
    try:
        for line in lines:
            output.print_line(line)
        output.flush_output()
    except StandardOutputReaderGone:
        output.print_error(f"{program}: nobody reads standard output; {summary}")
        return UNANSWERED
    except StandardOutputUnwritable as error:
        output.print_error(f"{program}: {error}; {summary}")
        return UNANSWERED
    return 0
