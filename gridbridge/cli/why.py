"""gridbridge why: where a job is, what it waits for, and all that happened to it."""

from datetime import UTC, datetime

import click

from gridbridge.cli import output
from gridbridge.cli.options import FOLDER, JSON, clock
from gridbridge.model.report import FIRST_EVENTS, Attempt, Explanation
from gridbridge.services.tools import reports
from gridbridge.state.shown import plain

UNKNOWN = 1


@click.command()
@click.argument("job", metavar="JOB[.TASK]")
@FOLDER
@JSON
def why(job: str, folder: str, is_json: bool) -> None:
    """Tell where a job is and what it waits for.

    Below that stands what happened to it so far. JOB is the local job's id, as qsub and qstat
    tell it; the tasks of an array are shown one by one. Finished transfers are known as long as
    gridbridge.toml says ([retention] closed_h). Exit status: 0, 1 for a job of which no
    transfer is known, 2 for anything else.

    \b
    Example:
      gridbridge why 12
      gridbridge why 12.3 --json
    """
    now = datetime.now(UTC)
    try:
        alarm, tasks = reports.why(job, now, folder)
    except reports.UnknownJob as error:
        output.complain(f"gridbridge: {error}")
        raise SystemExit(UNKNOWN) from error
    if is_json:
        output.as_json({"alarm": alarm, "tasks": plain(tasks)})
    else:
        show(alarm, tasks, now)


def show(alarm: str, tasks: tuple[Explanation, ...], now: datetime) -> None:
    """Print each attempt of each task as a paragraph, the newest last."""
    if alarm:
        output.line(f"{alarm}\n")
    for count, task in enumerate(tasks):
        if count:
            output.line()
        _show_task(task, now)


def _show_task(task: Explanation, now: datetime) -> None:
    if task.left_out:
        output.line(f"job {task.job}: {task.left_out} earlier transfers are not shown\n")
    for count, attempt in enumerate(task.attempts):
        if count:
            output.line()
        _show(attempt, now)


def _show(attempt: Attempt, now: datetime) -> None:
    output.line(attempt.where)
    facts = (("here", attempt.here), ("there", attempt.there), ("waits for", attempt.waits_for))
    for title, text in facts:
        if text:
            output.line(f"  {title:<10} {text}")
    output.line()
    for count, event in enumerate(attempt.events):
        if attempt.left_out and count == FIRST_EVENTS:
            output.line(f"  {'...':<10} {attempt.left_out} lines are not shown")
        output.line(f"  {clock(event.at, now):<10} {event.text}")
