"""gridbridge why: says where a job or campaign is, why it waits, and what happened to it."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from operator import itemgetter
from typing import NoReturn

import click

from gridbridge.campaigns.cli import campaign_explanation
from gridbridge.campaigns.cli.campaign_explanation import CampaignExplanation
from gridbridge.cli import error_boundary, output
from gridbridge.cli.shared_options import CONFIG_FILE, FOLDER, JSON, format_local_time
from gridbridge.errors import GridbridgeError, ParseError, StateError
from gridbridge.model.status_report import (
    FIRST_EVENTS,
    LocalTaskExplanation,
    TransferAttemptExplanation,
    number_with_noun,
    replace_control_characters,
)
from gridbridge.program import status_and_why_reports
from gridbridge.site import home_job_explanation
from gridbridge.site.home_job_explanation import HomeBatchSystemSilent, UntransferredHomeJob
from gridbridge.state.published_json import to_json_types

UNKNOWN = 1
OLD = datetime.min.replace(tzinfo=UTC)
LATE = timedelta(minutes=3)  # cron has a cycle each minute
IS_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?").fullmatch  # JOB, CAMPAIGN or JOB.TASK


@click.command()
@click.argument("job", metavar="JOB[.TASK]|CAMPAIGN[.TASK]|[OWNER/]DATASET")
@FOLDER
@CONFIG_FILE
@JSON
def why(job: str, folder: str, path: str, is_json: bool) -> int:
    """Tell where a job, a campaign or a dataset is, and what a job waits for.

    JOB is the local job's id, as qsub and qstat tell it; below it stands what happened to it so
    far, and the tasks of an array are shown one by one. Finished transfers are known as long as
    gridbridge.toml says ([retention] closed_h). For a job that is at home, also if it came back
    from another cluster, it shows the job's state, what keeps it from starting in the scheduler's
    words, and which transfer queues would take it. CAMPAIGN is the number that gridsub printed:
    each cluster that may run it is shown with the numbers of the last cycle, and what would change
    them. If a job and a campaign have the same number, both are shown, the newer first. DATASET is
    a dataset of your own, with its replicas and the service's acts on it; root and the service
    account may ask for anybody's by OWNER/DATASET. Exit
    status: 0, 1 for an unknown number, 2 for anything else, as when the local qmaster gives no
    answer about a number that is otherwise unknown.

    \b
    Example:
      gridbridge why 12
      gridbridge why 12.3 --json
      gridbridge why reads
    """
    now = datetime.now(UTC)
    if not IS_NUMBER(job):
        return _dataset(job, path, now, is_json=is_json)
    matches = _gather(job, now, folder, path)
    if matches.trouble:
        output.print_error(f"gridbridge: job {job}: {matches.trouble}")
    if is_json:
        kinds = {"campaign": matches.campaign, "home": matches.home}
        shown = {name: to_json_types(value) for name, value in kinds.items() if value}
        output.print_json({"alarm": matches.alarm, "tasks": to_json_types(matches.tasks), **shown})
        return 0
    for number, part in enumerate(matches.newest_first()):
        if number:
            output.print_line()
        part(now)
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobNumberMatches:
    """The transfers, the home job and the campaign that share a number."""

    alarm: str = ""
    tasks: tuple[LocalTaskExplanation, ...] = ()
    home: UntransferredHomeJob | None = None
    trouble: str = ""  # why the home cluster did not answer about the job
    campaign: CampaignExplanation | None = None

    def newest_first(self) -> list[Callable[[datetime], None]]:
        """Return printers of found items, newest first; a job and a campaign may share an id."""
        parts: list[tuple[datetime, Callable[[datetime], None]]] = []
        if self.tasks:
            parts.append((_began(self.tasks), self._show_sent))
        elif self.home:
            parts.append((self.home.submitted_at or OLD, partial(_show_home, self.home)))
        if self.campaign:
            at = self.campaign.campaign.submitted_at
            parts.append((at, partial(_show_campaign, self.campaign)))
        return [part for _, part in sorted(parts, key=itemgetter(0), reverse=True)]

    def _show_sent(self, now: datetime) -> None:
        """Print a job's present state at home, if it is at home, and below its transfers."""
        if self.home:
            _show_home(self.home, now)
            output.print_line()
        print_task_attempts(self.alarm, self.tasks, now)


def _gather(job: str, now: datetime, folder: str, path: str) -> JobNumberMatches:
    """Look a number up among transfers, home jobs and campaigns."""
    campaign = campaign_explanation.explain_campaign_or_task(job, folder)
    try:
        alarm, tasks = status_and_why_reports.explain_transfers_of_local_job(job, now, folder)
    except (status_and_why_reports.JobWithoutTransfers, ParseError, StateError) as error:
        is_unknown = isinstance(error, status_and_why_reports.JobWithoutTransfers)
        home, trouble = _at_home(job, now, folder, path) if is_unknown else (None, "")
        if not campaign and not home:
            _refuse(job, error, trouble)
        return JobNumberMatches(home=home, trouble=trouble, campaign=campaign)
    newest = [attempt.transfer for task in tasks for attempt in task.attempts[-1:]]
    is_back = any(transfer.closed_at for transfer in newest)
    home, trouble = _at_home(job, now, folder, path, was_sent=True) if is_back else (None, "")
    return JobNumberMatches(alarm=alarm, tasks=tasks, home=home, trouble=trouble, campaign=campaign)


def _at_home(
    job: str, now: datetime, folder: str, path: str, *, was_sent: bool = False
) -> tuple[UntransferredHomeJob | None, str]:
    """Query a job at home; return the job, or the reason why the home cluster did not answer."""
    try:
        return home_job_explanation.find_untransferred_home_job(job, now, folder, path, was_sent=was_sent), ""
    except HomeBatchSystemSilent as error:
        return None, str(error)


def _refuse(job: str, error: GridbridgeError, trouble: str) -> NoReturn:
    """Report an unknown number; re-raise the error for a text that is no number."""
    if not isinstance(error, status_and_why_reports.JobWithoutTransfers):
        raise error
    if trouble:
        output.print_error(f"gridbridge: {error}; {trouble}")
        raise SystemExit(error_boundary.ERROR) from error
    subject = f"campaign has a task {job}" if "." in job else f"campaign {job}"
    output.print_error(f"gridbridge: {error}; no {subject} either")
    raise SystemExit(UNKNOWN) from error


def _began(tasks: tuple[LocalTaskExplanation, ...]) -> datetime:
    """Return when a job's first known transfer began."""
    events = (event.at for task in tasks for attempt in task.attempts for event in attempt.events)
    return min(events, default=OLD)


def _show_home(job: UntransferredHomeJob, _: datetime) -> None:
    """Print a home job's state, and each transfer queue's verdict."""
    end = " now" if job.was_sent else ": it was not sent to another cluster"
    output.print_line(f"job {job.job} of {job.owner} is at home{end}")
    for sentence in job.sentences:
        output.print_line(f"  {sentence}")
    for queue in job.queues:
        would = "would take it" if queue.would_take else "would not take it"
        open_ = ", but is closed now" if queue.would_take and queue.why else ""
        why = f": {queue.why}" if queue.why else ""
        output.print_line(f"  {queue.queue} (to {queue.cluster}) {would}{open_}{why}")


def _dataset(name: str, path: str, now: datetime, *, is_json: bool) -> int:
    """Print a dataset with its replicas and moves."""
    from gridbridge.rebalance.cli import dataset_report as shown  # a rare question
    from gridbridge.rebalance.cli import dataset_report

    return shown.print_dataset_report(dataset_report.report_dataset(name, path), now, is_json=is_json)


def _show_campaign(answer: CampaignExplanation, now: datetime) -> None:
    """Print a campaign's explanation below its name."""
    campaign = answer.campaign
    task = "" if answer.task is None else f", task {answer.task.number}"
    moment = f" ({_as_of(answer.at, now)})" if answer.at else ""
    output.print_line(
        f"campaign {campaign.number} of {campaign.owner}, {replace_control_characters(campaign.name)}{task}{moment}"
    )
    for sentence in answer.sentences:
        output.print_line(f"  {sentence}")


def _as_of(at: datetime, now: datetime) -> str:
    """Say when the last cycle was, and whether the next cycle is late."""
    late = "; no cycle since: gridbridge-runner may not run" if now - at > LATE else ""
    return f"as of {format_local_time(at, now)}{late}"


def print_task_attempts(alarm: str, tasks: tuple[LocalTaskExplanation, ...], now: datetime) -> None:
    """Print a paragraph for each attempt of each task, the newest last."""
    if alarm:
        output.print_line(f"{alarm}\n")
    for number, task in enumerate(tasks):
        if number:
            output.print_line()
        _show_task(task, now)


def _show_task(task: LocalTaskExplanation, now: datetime) -> None:
    if task.left_out:
        output.print_line(f"job {task.job}: {task.left_out} earlier transfers are not shown\n")
    for number, attempt in enumerate(task.attempts):
        if number:
            output.print_line()
        _show(attempt, now)


def _show(attempt: TransferAttemptExplanation, now: datetime) -> None:
    output.print_line(attempt.where)
    facts = (("here", attempt.here), ("there", attempt.there), ("waits for", attempt.waits_for))
    for title, text in facts:
        if text:
            output.print_line(f"  {title:<10} {text}")
    output.print_line()
    for number, event in enumerate(attempt.events):
        if attempt.left_out and number == FIRST_EVENTS:
            are = number_with_noun(attempt.left_out, "line is", "lines are")
            output.print_line(f"  {'...':<10} {are} not shown")
        output.print_line(f"  {format_local_time(event.at, now):<10} {event.text}")
