"""Tells who waits for gridbridge-runner that it is waited for, and what came of it."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from threading import Timer

from gridbridge.campaigns.cli import UNANSWERED, UNREACHABLE
from gridbridge.campaigns.submission.jdl_reader import ParsedJdl
from gridbridge.campaigns.tools.campaign_client import (
    ANSWER_S,
    TAKEN_S,
    NothingStored,
    RunnerSilent,
)
from gridbridge.cli import output
from gridbridge.errors import OutputError, ReaderGone

SOON_S = 5.0  # a runner with --loop has answered
WAITING = (
    f"waiting for gridbridge-runner, {ANSWER_S:g} s at most (from cron it comes once a minute)"
)
TAKEN = f"gridbridge-runner took it and has not answered; waiting on, {TAKEN_S:g} s at most"


@contextmanager
def report_delay(
    program: str, after_s: float = SOON_S, taken_s: float = ANSWER_S + SOON_S
) -> Iterator[None]:
    """Say once that something takes longer, if it does, and that what was taken does."""
    timers = [
        Timer(limit_s, output.complain, [f"{program}: {line}"])
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


def ended(program: str, error: NothingStored | RunnerSilent) -> int:
    """Tell that nobody answered; return the exit status, which says whether it may be done."""
    output.complain(f"{program}: {error}")
    return UNANSWERED if isinstance(error, RunnerSilent) else UNREACHABLE


def details(number: int, parsed: ParsedJdl) -> str:
    """Return a campaign as it is stored, as a line of JSON; its tasks are only counted."""
    return json.dumps({"id": number, **asdict(parsed.jdl), "nb_jobs": len(parsed.parameters)})


def stored(program: str, lines: Sequence[str], summary: str) -> int:
    """Print what is stored, and return the exit status.

    Where that can't be printed nobody shall repeat it: standard error says what is stored.
    """
    try:
        for line in lines:
            output.line(line)
        output.finish()
    except ReaderGone:
        output.complain(f"{program}: nobody reads standard output; {summary}")
        return UNANSWERED
    except OutputError as error:
        output.complain(f"{program}: {error}; {summary}")
        return UNANSWERED
    return 0
