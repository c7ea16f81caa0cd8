"""gridbridge why: shows where a job or campaign is, why it waits, and what happened to it."""

import re
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from operator import itemgetter
from typing import NoReturn

import click

from gridbridge.batch.batch_adapter_table import batch_adapter_of_cluster
from gridbridge.batch.configured_cluster_access_and_routes import configured_cluster_access
from gridbridge.campaigns.cli import campaign_explanation
from gridbridge.campaigns.cli.campaign_explanation import CampaignExplanation
from gridbridge.cli import output_and_errors
from gridbridge.cli.command_groups_and_options import CONFIG_FILE, FOLDER, JSON, format_local_time
from gridbridge.decisions.site.home_job_description import describe_home_job_state
from gridbridge.decisions.transfer import transfer_status_explanation
from gridbridge.errors import ConfigError, GridbridgeError, ParseError, StateError
from gridbridge.model.cluster_snapshot import ListedJobStatus
from gridbridge.model.fixed_paths import CONFIG, PUBLISHED
from gridbridge.model.published_status_and_reports import (
    FIRST_EVENTS,
    LocalTaskExplanation,
    TransferAttemptExplanation,
    number_with_noun,
    replace_control_characters,
)
from gridbridge.model.site_configuration import Policy
from gridbridge.model.transfer_name import parse_local_job_and_task
from gridbridge.program import configuration_in_force, status_and_why_reports
from gridbridge.state import published_json
from gridbridge.state.published_json import to_json_types
from gridbridge.transfer.cli.owner_remote_job_access import LIMIT_S


class HomeBatchSystemSilent(GridbridgeError):
    """Raised if the home cluster does not answer, so that it is unknown whether a job exists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferQueueVerdict:
    queue: str
    cluster: str
    would_take: bool
    why: str = ""  # why the queue does not start the job now, or never will; empty: no reason


@dataclass(frozen=True, slots=True, kw_only=True)
class UntransferredHomeJob:
    job: str
    owner: str
    submitted_at: datetime | None
    sentences: tuple[str, ...]
    queues: tuple[TransferQueueVerdict, ...] = ()  # verdicts about a waiting job; empty: the job does not wait
    was_sent: bool = False  # whether an earlier transfer of the job has ended


def find_untransferred_home_job(
    job: str, now: datetime, folder: str = PUBLISHED, path: str = CONFIG, *, was_sent: bool = False
) -> UntransferredHomeJob | None:
    """Return a home job's state; None without a configuration, or if the cluster does not list the job.

    `was_sent` leaves out tasks in transfer queues. Raises HomeBatchSystemSilent, and ParseError for an invalid job
    id.
    """
    number, task = parse_local_job_and_task(job)
    try:
        policy = configuration_in_force.load_config_or_one_in_force(path)[0]
    except ConfigError:
        return None
    home = configured_cluster_access(policy, policy.site.cluster).with_time_limit(LIMIT_S)
    shows = batch_adapter_of_cluster(home).user_jobs
    try:
        standing = shows.query_job_states_and_wait_reasons(home, number) if shows else None
    except GridbridgeError as error:
        raise HomeBatchSystemSilent(f"{policy.site.cluster}: no answer: {error}") from error
    standing = _narrow_job_status_to_task(standing, task, policy.queues if was_sent else ()) if standing else None
    if not standing or not standing.rows:
        return None
    does_wait = any(row.state.is_waiting for row in standing.rows)
    return UntransferredHomeJob(
        job=job,
        owner=standing.owner,
        submitted_at=standing.submitted_at,
        sentences=tuple(map(replace_control_characters, describe_home_job_state(standing, now))),
        queues=tuple(_transfer_queue_verdicts(job, policy, now, folder)) if does_wait else (),
        was_sent=was_sent,
    )


def _narrow_job_status_to_task(standing: ListedJobStatus, task: int, left_out: Container[str]) -> ListedJobStatus:
    rows = [row for row in standing.rows if row.queue.partition("@")[0] not in left_out]
    if not task:
        return replace(standing, rows=tuple(rows))
    of_task = [replace(row, tasks=(range(task, task + 1),)) for row in rows if row.tasks and row.contains_task(task)]
    is_wrong = any(row.state.is_error for row in of_task)
    return replace(standing, rows=tuple(of_task), errors=standing.errors if is_wrong else ())


def _transfer_queue_verdicts(job: str, policy: Policy, now: datetime, folder: str) -> Iterator[TransferQueueVerdict]:
    from gridbridge.site.submission_explanation import transfer_queue_refusals

    shown = published_json.read_all_published_files(folder)
    routes = {route.queue: route for route in shown.service.routes} if shown.service else {}
    for name, refused in transfer_queue_refusals(job, policy):
        route = routes.get(name)
        report = transfer_status_explanation.report_transfer_queue_status
        closed = report(route, shown, now).why if route and not refused else ""
        yield TransferQueueVerdict(
            queue=name,
            cluster=policy.queues[name].cluster,
            would_take=not refused,
            why=replace_control_characters(refused or closed),
        )


UNKNOWN = 1
OLD = datetime.min.replace(tzinfo=UTC)
LATE = timedelta(minutes=3)  # a campaign cycle counts as missing after this time; cron starts one each minute
IS_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?").fullmatch  # JOB, CAMPAIGN or JOB.TASK


@click.command()
@click.argument("job", metavar="JOB[.TASK]|CAMPAIGN[.TASK]|[OWNER/]DATASET")
@FOLDER
@CONFIG_FILE
@JSON
def why(job: str, folder: str, path: str, is_json: bool) -> int:
    """Show where a job, a campaign or a dataset is, and why a job waits.

    JOB is the local job's id, as printed by qsub and qstat. The command shows the history of the job, and each task of
    an array. Finished transfers are kept as long as gridbridge.toml says ([retention] closed_h). For a job at home the
    command shows the job's state, the scheduler's reasons why the job waits, and the transfer queues that would take
    the job. CAMPAIGN is the number printed by gridsub; the command shows each cluster that may run the campaign, with
    the numbers of the last cycle. If a job and a campaign have the same number, both are shown, the newer first.
    DATASET is a dataset of yours, shown with its replicas and the service's actions; root and the service account may
    name any OWNER/DATASET. Exit status: 0 done; 1 an unknown number; 2 an error, such as an unknown number while the
    home qmaster does not answer.

    \b
    Example:
      gridbridge why 12
      gridbridge why 12.3 --json
      gridbridge why reads
    """
    now = datetime.now(UTC)
    if not IS_NUMBER(job):
        from gridbridge.rebalance.cli import dataset_report

        return dataset_report.print_dataset_report(dataset_report.report_dataset(job, path), now, is_json=is_json)
    matches = _find_jobs_and_campaign_by_number(job, now, folder, path)
    if matches.trouble:
        output_and_errors.print_error(f"gridbridge: job {job}: {matches.trouble}")
    if is_json:
        kinds = {"campaign": matches.campaign, "home": matches.home}
        shown = {name: to_json_types(value) for name, value in kinds.items() if value}
        output_and_errors.print_json({"alarm": matches.alarm, "tasks": to_json_types(matches.tasks), **shown})
        return 0
    print_paragraphs(partial(part, now) for part in matches.printers_newest_first())
    return 0


def print_paragraphs(parts: Iterable[Callable[[], None]]) -> None:
    """Call functions that print, with an empty line between the printed paragraphs."""
    for number, print_part in enumerate(parts):
        if number:
            output_and_errors.print_line()
        print_part()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobNumberMatches:
    alarm: str = ""
    tasks: tuple[LocalTaskExplanation, ...] = ()
    home: UntransferredHomeJob | None = None
    trouble: str = ""  # why the home cluster gave no answer about the job; empty: the cluster answered
    campaign: CampaignExplanation | None = None

    def printers_newest_first(self) -> list[Callable[[datetime], None]]:
        """Return a printing function for each job and campaign that has the number, the newest first."""
        parts: list[tuple[datetime, Callable[[datetime], None]]] = []
        if self.tasks:
            events = (event.at for task in self.tasks for attempt in task.attempts for event in attempt.events)
            parts.append((min(events, default=OLD), self._print_transferred_tasks))
        elif self.home:
            parts.append((self.home.submitted_at or OLD, partial(_print_home_job, self.home)))
        if self.campaign:
            parts.append((self.campaign.campaign.submitted_at, partial(_print_campaign_explanation, self.campaign)))
        return [part for _, part in sorted(parts, key=itemgetter(0), reverse=True)]

    def _print_transferred_tasks(self, now: datetime) -> None:
        if self.home:
            _print_home_job(self.home, now)
            output_and_errors.print_line()
        print_task_attempts(self.alarm, self.tasks, now)


def _find_jobs_and_campaign_by_number(job: str, now: datetime, folder: str, path: str) -> JobNumberMatches:
    campaign = campaign_explanation.explain_campaign_or_task(job, folder)
    try:
        alarm, tasks = status_and_why_reports.explain_transfers_of_local_job(job, now, folder)
    except (status_and_why_reports.JobWithoutTransfers, ParseError, StateError) as error:
        is_unknown = isinstance(error, status_and_why_reports.JobWithoutTransfers)
        home, trouble = _find_home_job_or_query_error(job, now, folder, path) if is_unknown else (None, "")
        if not campaign and not home:
            _report_unknown_job_number(job, error, trouble)
        return JobNumberMatches(home=home, trouble=trouble, campaign=campaign)
    newest = [attempt.transfer for task in tasks for attempt in task.attempts[-1:]]
    is_back = any(transfer.closed_at for transfer in newest)
    home, trouble = _find_home_job_or_query_error(job, now, folder, path, was_sent=True) if is_back else (None, "")
    return JobNumberMatches(alarm=alarm, tasks=tasks, home=home, trouble=trouble, campaign=campaign)


def _find_home_job_or_query_error(
    job: str, now: datetime, folder: str, path: str, *, was_sent: bool = False
) -> tuple[UntransferredHomeJob | None, str]:
    try:
        return find_untransferred_home_job(job, now, folder, path, was_sent=was_sent), ""
    except HomeBatchSystemSilent as error:
        return None, str(error)


def _report_unknown_job_number(job: str, error: GridbridgeError, trouble: str) -> NoReturn:
    if not isinstance(error, status_and_why_reports.JobWithoutTransfers):
        raise error
    if trouble:
        output_and_errors.print_error(f"gridbridge: {error}; {trouble}")
        raise SystemExit(output_and_errors.ERROR) from error
    subject = f"campaign has a task {job}" if "." in job else f"campaign {job}"
    output_and_errors.print_error(f"gridbridge: {error}; no {subject} either")
    raise SystemExit(UNKNOWN) from error


def _print_home_job(job: UntransferredHomeJob, _: datetime) -> None:
    end = " now" if job.was_sent else ": the job was not sent to another cluster"
    output_and_errors.print_line(f"job {job.job} of {job.owner} is at home{end}")
    for sentence in job.sentences:
        output_and_errors.print_line(f"  {sentence}")
    for queue in job.queues:
        would = "would take the job" if queue.would_take else "would not take the job"
        open_ = ", but is closed now" if queue.would_take and queue.why else ""
        why = f": {queue.why}" if queue.why else ""
        output_and_errors.print_line(f"  {queue.queue} (to {queue.cluster}) {would}{open_}{why}")


def _print_campaign_explanation(answer: CampaignExplanation, now: datetime) -> None:
    campaign = answer.campaign
    task = "" if answer.task is None else f", task {answer.task.number}"
    moment = ""
    if answer.at:
        late = "; no cycle since: gridbridge-runner may not run" if now - answer.at > LATE else ""
        moment = f" (as of {format_local_time(answer.at, now)}{late})"
    name = replace_control_characters(campaign.name)
    output_and_errors.print_line(f"campaign {campaign.number} of {campaign.owner}, {name}{task}{moment}")
    for sentence in answer.sentences:
        output_and_errors.print_line(f"  {sentence}")


def print_task_attempts(alarm: str, tasks: tuple[LocalTaskExplanation, ...], now: datetime) -> None:
    """Print a paragraph for each attempt of each task, the newest last."""
    if alarm:
        output_and_errors.print_line(f"{alarm}\n")
    print_paragraphs(partial(_print_local_task_explanation, task, now) for task in tasks)


def _print_local_task_explanation(task: LocalTaskExplanation, now: datetime) -> None:
    if task.left_out:
        output_and_errors.print_line(f"job {task.job}: {task.left_out} earlier transfers are not shown\n")
    print_paragraphs(partial(_print_transfer_attempt, attempt, now) for attempt in task.attempts)


def _print_transfer_attempt(attempt: TransferAttemptExplanation, now: datetime) -> None:
    output_and_errors.print_line(attempt.where)
    facts = (("here", attempt.here), ("there", attempt.there), ("waits for", attempt.waits_for))
    for title, text in facts:
        if text:
            output_and_errors.print_line(f"  {title:<10} {text}")
    output_and_errors.print_line()
    for number, event in enumerate(attempt.events):
        if attempt.left_out and number == FIRST_EVENTS:
            are = number_with_noun(attempt.left_out, "line is", "lines are")
            output_and_errors.print_line(f"  {'...':<10} {are} not shown")
        output_and_errors.print_line(f"  {format_local_time(event.at, now):<10} {event.text}")
