"""The command qacct_remote: show the usage of local and remote jobs under the local job ids."""

from collections.abc import Sequence
from datetime import UTC, datetime

import click

from gridbridge.cli import output_and_errors
from gridbridge.cli.command_groups_and_options import (
    CONFIG_FILE,
    FOLDER,
    JSON,
    VERSION,
    FiniteNumberRange,
    format_local_time,
)
from gridbridge.model.jobs_and_accounting import JobRunAccounting, RemoteJobRunAccounting
from gridbridge.model.transfer_name import parse_local_job_and_task
from gridbridge.state.published_json import to_json_types
from gridbridge.transfer.cli import qacct_remote as service
from gridbridge.transfer.cli.qacct_remote import ANYBODY, HomeAndRemoteAccounting, RemoteUsageAtCluster
from gridbridge.transfer.cli.remote_tool_arguments import (
    UsageChoice,
    is_in_ranges,
    is_job_name,
    parse_qacct_time,
    parse_task_ranges,
    usage_period,
)

UNKNOWN = 1
ACCOUNTING_COLUMNS = (
    *("JOB", "OWNER", "CLUSTER", "ID", "HOST", "STARTED", "ENDED"),
    *("WAITED", "WALLCLOCK", "CPU", "MAXRSS", "FAILED", "EXIT", "TOLD BY"),
)
USAGE_TOTAL_COLUMNS = ("OWNER", "CLUSTER", "JOBS", "WALLCLOCK", "UTIME", "STIME", "CPU", "MAXRSS")
NUMBERS = ("WAITED", "WALLCLOCK", "CPU", "MAXRSS", "FAILED", "EXIT", "JOBS", "UTIME", "STIME")

MOST_DAYS = 36500.0


@click.command(context_settings={"help_option_names": ["-h", "--help", "-help"]})
@click.option("-j", "job", metavar="JOB[.TASK]|NAME", help="Show each accounting record of local jobs.")
@click.option("-t", "ranges", metavar="TASKS", default="", help="With -j: show only these tasks, such as 1-9:2,12.")
@click.option(
    "-o",
    "owner",
    metavar="[OWNER]",
    is_flag=False,
    flag_value=ANYBODY,
    help="Sum the usage of OWNER's remote jobs; without a name, of everybody's.",
)
@click.option(
    "-d",
    "days",
    metavar="DAYS",
    type=FiniteNumberRange(0, MOST_DAYS, min_open=True),
    help="Count only jobs that ended in the last DAYS days; with -b or -e, jobs that started in DAYS days.",
)
@click.option("-b", "begin", metavar="TIME", help="Count only jobs that started at TIME or later.")
@click.option("-e", "end", metavar="TIME", help="Count only jobs that started at TIME or earlier.")
@click.option(
    *("-q", "queue"),
    metavar="[QUEUE]",
    is_flag=False,
    flag_value="",
    help="Sum by remote queue; QUEUE is a name or pattern.",
)
@CONFIG_FILE
@FOLDER
@JSON
@VERSION
def qacct_remote(
    job: str | None,
    ranges: str,
    owner: str | None,
    days: float | None,
    begin: str | None,
    end: str | None,
    queue: str | None,
    path: str,
    folder: str,
    is_json: bool,
) -> None:
    """Show the usage of jobs that ran on another cluster.

    With -j the command shows the local record of a job, which is the starter's record, and the records of
    the job's remote jobs. Remote records are stored for [retention] accounting_d. Without -j the command
    sums the usage by owner and cluster, as qacct does. WAITED is the time from submission to start, CPU is
    user and system time. Notes below the table, on standard error, name unknown values and values that
    come from another source than the remote cluster's accounting. TIME is [[CC]YY]MMDDhhmm[.SS], as of qacct(1).
    With a NAME or pattern, -j shows the newest 50 jobs of that name.
    Exit status: 0, 1 for a job without a known transfer, 2 for any other error.

    \b
    Example:
      qacct_remote -j 12
      qacct_remote -j 'render*' -t 1-9
      qacct_remote -o alice -d 7
      qacct_remote -b 202611010000 -q
    """
    now = datetime.now(UTC)
    if job is not None and any(value is not None for value in (owner, days, begin, end, queue)):
        raise click.UsageError("-j JOB excludes -o and -d, -b, -e, -q")
    if ranges and job is None:
        raise click.UsageError("-t TASKS needs -j JOB")
    if job is not None:
        _print_accounting_of_job(job, parse_task_ranges(ranges, ranges), now, path, folder, is_json)
        return
    begin_at, end_at = (parse_qacct_time(text, now) if text else None for text in (begin, end))
    period = usage_period(begin_at, end_at, days)
    choice = UsageChoice(begin=period[0], end=period[1], queue=queue)
    ended_in_days = None if begin or end else days
    totals, notes = service.sum_remote_usage(owner or ANYBODY, ended_in_days, now, folder, path, choice)
    if is_json:
        output_and_errors.print_json({"notes": notes, "totals": to_json_types(totals)})
        return
    has_queue = queue is not None
    rows = [(*_usage_total_row(total), *([total.queue] if has_queue else [])) for total in totals]
    columns = (*USAGE_TOTAL_COLUMNS, *(["QUEUE"] if has_queue else []))
    output_and_errors.print_table(columns, rows, unbroken=columns, numbers=NUMBERS)
    _print_accounting_notes(notes)


def main() -> None:
    output_and_errors.run_command_reporting_errors(qacct_remote, "qacct_remote")


def _print_accounting_of_job(
    job: str, ranges: Sequence[range], now: datetime, path: str, folder: str, is_json: bool
) -> None:
    read = service.read_accounting_of_named_jobs if is_job_name(job) else service.read_home_remote_accounting
    try:
        tasks, notes = read(job, now, folder, path)
        tasks = tuple(task for task in tasks if is_in_ranges(parse_local_job_and_task(task.job)[1], ranges))
        if not tasks:
            raise service.NoAccountedJob(f"job {job}: no accounting record of these tasks")
    except service.NoAccountedJob as error:
        output_and_errors.print_error(f"qacct_remote: {error}")
        raise SystemExit(UNKNOWN) from error
    if is_json:
        output_and_errors.print_json({"notes": notes, "tasks": to_json_types(tasks)})
        return
    print_home_and_remote_usage(tasks, notes, now)


def print_home_and_remote_usage(tasks: Sequence[HomeAndRemoteAccounting], notes: Sequence[str], now: datetime) -> None:
    """Print the accounting records of all tasks as a table, and the notes on standard error."""
    rows = [row for task in tasks for row in _accounting_rows_of_task(task, now)]
    output_and_errors.print_table(ACCOUNTING_COLUMNS, rows, unbroken=ACCOUNTING_COLUMNS[:-1], numbers=NUMBERS)
    _print_accounting_notes(notes)


def _print_accounting_notes(notes: Sequence[str]) -> None:
    for note in notes:
        output_and_errors.print_error(f"qacct_remote: {note}")


def _accounting_rows_of_task(task: HomeAndRemoteAccounting, now: datetime) -> list[tuple[str, ...]]:
    rows = [_accounting_row(task.job, task.cluster, record, "accounting", now) for record in task.local]
    rows += [_accounting_row(task.job, record.cluster, record, record.source.value, now) for record in task.remote]
    shown_transfers = {record.transfer for record in task.remote}
    rows += [
        (task.job, transfer.owner, transfer.remote, str(transfer.remote_id or "-"), transfer.remote_host or "-")
        + ("-",) * 8
        + (transfer.outcome or transfer.reason or "nothing yet",)
        for transfer in task.transfers
        if transfer.transfer not in shown_transfers
    ]
    return rows


def _accounting_row(
    job: str, cluster: str, record: JobRunAccounting | RemoteJobRunAccounting, by: str, now: datetime
) -> tuple[str, ...]:
    waited_s = None
    if record.submitted_at and record.started_at:
        waited_s = (record.started_at - record.submitted_at).total_seconds()
    number = output_and_errors.format_number_or_dash
    return (
        *(job, record.owner, cluster, str(record.job_id), record.host or "-"),
        *(format_local_time(record.started_at, now), format_local_time(record.ended_at, now)),
        *(_format_seconds(waited_s), _format_seconds(record.wallclock_s)),
        *(_format_cpu_time(record.user_s, record.system_s), _format_memory(record.max_rss_kb)),
        *(number(record.failed), number(record.exit_status), by),
    )


def _usage_total_row(total: RemoteUsageAtCluster) -> tuple[str, ...]:
    user_s, system_s = total.user_s, total.system_s
    return (
        *(total.owner, total.cluster, str(total.jobs), _format_seconds(total.wallclock_s)),
        *(_format_cpu_time(user_s), _format_cpu_time(system_s), _format_cpu_time(user_s, system_s)),
        _format_memory(total.max_rss_kb),
    )


def _format_seconds(amount: float | None) -> str:
    return "-" if amount is None else f"{amount:.0f} s"


def _format_cpu_time(*amounts: float | None) -> str:
    seconds = [amount for amount in amounts if amount is not None]
    return f"{sum(seconds):.2f} s" if len(seconds) == len(amounts) else "-"


def _format_memory(amount_kb: float | None) -> str:
    return "-" if not amount_kb else f"{amount_kb / 1024:.1f} MB"
