"""The command qstat_remote: show the states of jobs at other clusters under their local ids."""

from collections.abc import Sequence
from datetime import UTC, datetime

import click

from gridbridge.cli import output_and_errors
from gridbridge.cli.command_groups_and_options import CONFIG_FILE, FOLDER, JSON, VERSION, format_local_time
from gridbridge.model.published_status_and_reports import TransferAndAwaitedEvent
from gridbridge.program import status_and_why_reports
from gridbridge.state.published_json import to_json_types
from gridbridge.transfer.cli import owner_remote_job_access
from gridbridge.transfer.cli import qstat_remote as service
from gridbridge.transfer.cli.qstat_remote import TaskWithRemoteMessages, TransferFilter
from gridbridge.transfer.starter.local_task import own_login_name

UNKNOWN = 1
TRANSFER_COLUMNS = ("JOB", "USER", "CLUSTER", "ID", "STATE", "SINCE", "HOST", "HERE", "WAITS FOR")
STATES = "prsha"
CALLING_USER = "$user"  # stands for the calling user in option -u of qstat(1)


def _check_qstat_state_letters(_: click.Context, __: click.Parameter, value: str) -> str:
    if not value or set(value) - set(STATES):
        raise click.BadParameter(
            f"{value!r}: unknown state; expected p (waiting), r (running), s (suspended), h (held) or a (all)"
        )
    return value


@click.command(context_settings={"help_option_names": ["-h", "--help", "-help"]})
@click.option(
    *("-u", "users"),
    metavar="USER[,USER]",
    multiple=True,
    help="Show jobs of USER, a name or pattern: '*' is everybody, '$user' yourself.",
)
@click.option("-j", "jobs", metavar="JOB[.TASK],...", multiple=True, help="Show details of jobs.")
@click.option(
    *("-s", "states"),
    metavar="p|r|s|h|a",
    callback=_check_qstat_state_letters,
    default="a",
    help="Show remote jobs in these states: waiting, running, suspended, held, all.",
)
@click.option("--cluster", metavar="NAME", help="Show jobs at this cluster.")
@CONFIG_FILE
@FOLDER
@JSON
@VERSION
def qstat_remote(
    users: tuple[str, ...],
    jobs: tuple[str, ...],
    states: str,
    cluster: str | None,
    path: str,
    folder: str,
    is_json: bool,
) -> None:
    """Show your jobs that are at another cluster.

    ID, STATE (in the letters of qstat), SINCE and HOST describe the remote job, HERE is the local
    job's state. A list shows the states that the service has published last, and queries no
    cluster; if these states are too old, the first line says so. With -j the command also queries
    the remote cluster, as yourself, for at most ten seconds, about at most 20 remote jobs.
    Exit status: 0, 1 for a job without a known transfer, 2 for any other error.

    \b
    Example:
      qstat_remote
      qstat_remote -u '*' -s p --cluster beta
      qstat_remote -j 12
    """
    now = datetime.now(UTC)
    if jobs:
        _print_details_of_named_jobs(owner_remote_job_access.parse_job_list(jobs), now, path, folder, is_json)
        return
    named = tuple(name for words in users for name in words.split(",") if name)
    owners = tuple(own_login_name() if name == CALLING_USER else name for name in named or (CALLING_USER,))
    choice = TransferFilter(users=owners, states=states, cluster=cluster)
    rows, notes = service.list_open_transfers(choice, now, folder)
    if is_json:
        output_and_errors.print_json({"notes": notes, "transfers": to_json_types(rows)})
        return
    for note in notes:
        output_and_errors.print_line(f"{note}\n")
    if rows:
        table = [_table_row_of_transfer(report, now) for report in rows]
        output_and_errors.print_table(TRANSFER_COLUMNS, table, unbroken=TRANSFER_COLUMNS[:-1])


def main() -> None:
    output_and_errors.run_command_reporting_errors(qstat_remote, "qstat_remote")


def _print_details_of_named_jobs(jobs: tuple[str, ...], now: datetime, path: str, folder: str, is_json: bool) -> None:
    asking = service.SingleRemoteJobQueries(path)
    tasks: list[TaskWithRemoteMessages] = []
    alarm, unknown = "", []
    for job in jobs:
        try:
            alarm, details = service.query_remote_task_details(job, asking, now, folder)
        except status_and_why_reports.JobWithoutTransfers as error:
            unknown.append(str(error))
            continue
        tasks += details
    if is_json:
        output_and_errors.print_json({"notes": [alarm] if alarm else [], "tasks": to_json_types(tuple(tasks))})
    else:
        _print_transferred_task_details(tasks, alarm, now)
    for problem in unknown:
        output_and_errors.print_error(f"qstat_remote: {problem}")
    if unknown:
        raise SystemExit(UNKNOWN)


def _print_transferred_task_details(tasks: Sequence[TaskWithRemoteMessages], alarm: str, now: datetime) -> None:
    if alarm:
        output_and_errors.print_line(f"{alarm}\n")
    for count, task in enumerate(tasks):
        if count:
            output_and_errors.print_line()
        _print_details_of_one_task(task, now)


def _print_details_of_one_task(task: TaskWithRemoteMessages, now: datetime) -> None:
    transfer = task.attempt.transfer
    output_and_errors.print_line(task.attempt.where)
    facts = (
        ("transfer", f"{transfer.transfer}, sent at {format_local_time(transfer.created_at, now)}"),
        ("here", task.attempt.here),
        ("there", task.attempt.there),
        ("waits for", task.attempt.waits_for),
        *((transfer.remote, message) for message in (*task.messages, task.asked)),
    )
    width = max(len(title) for title, _ in facts)
    for title, text in facts:
        if text:
            output_and_errors.print_line(f"  {title:<{width}}  {text}")


def _table_row_of_transfer(report: TransferAndAwaitedEvent, now: datetime) -> tuple[str, ...]:
    transfer = report.transfer
    return (
        *(report.job, transfer.owner, transfer.remote, str(transfer.remote_id or "-")),
        *(transfer.remote_state or "-", format_local_time(transfer.since, now), transfer.remote_host or "-"),
        *(transfer.local_state or "-", report.waits_for),
    )
