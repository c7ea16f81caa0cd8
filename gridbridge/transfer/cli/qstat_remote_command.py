"""The command qstat_remote: show the states of jobs at other clusters under their local ids."""

from collections.abc import Sequence
from datetime import UTC, datetime

import click

from gridbridge.cli import output_and_errors
from gridbridge.cli.command_groups_and_options import CONFIG_FILE, FOLDER, JSON, VERSION, format_local_time
from gridbridge.model.published_status_and_reports import TransferAndAwaitedEvent, TransferQueueReport
from gridbridge.model.transfer_name import parse_transfer_name
from gridbridge.program import status_and_why_reports
from gridbridge.state.published_json import to_json_types
from gridbridge.transfer.cli import owner_remote_job_access
from gridbridge.transfer.cli import qstat_remote as service
from gridbridge.transfer.cli.qstat_remote import TaskWithRemoteMessages, TransferFilter
from gridbridge.transfer.starter.local_task import own_login_name

UNKNOWN = 1
TRANSFER_COLUMNS = ("JOB", "USER", "CLUSTER", "ID", "STATE", "SINCE", "HOST", "HERE", "WAITS FOR")
EXTENDED_COLUMNS = ("NAME", "QUEUE", "SENT")
TASK_COLUMNS = ("TASK", "FUNCTION")
STATES = "prsha"
CALLING_USER = "$user"  # stands for the calling user in option -u of qstat(1)


def _check_qstat_state_letters(_: click.Context, __: click.Parameter, value: str) -> str:
    if not value or set(value) - set(STATES):
        raise click.BadParameter(
            f"{value!r}: unknown state; expected p (waiting), r (running), s (suspended), h (held) or a (all)"
        )
    return value


def _check_queue_patterns(_: click.Context, __: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    names = tuple(name for words in value for name in words.split(",") if name)
    if value and not names:
        raise click.BadParameter("no queue named; expected transfer queues such as transfer-beta")
    if at_host := next((name for name in names if "@" in name), ""):
        raise click.BadParameter(f"{at_host!r}: expected the name of a transfer queue, without a host")
    return names


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
@click.option(
    *("-q", "queues"),
    metavar="QUEUE[,QUEUE]",
    multiple=True,
    callback=_check_queue_patterns,
    help="Show jobs in these transfer queues; QUEUE is a name or pattern.",
)
@click.option("-f", "is_full", is_flag=True, help="Show the transfer queues, each with its jobs.")
@click.option("-ext", "is_extended", is_flag=True, help="Also show name, transfer queue and time of sending.")
@click.option("-t", "has_tasks", is_flag=True, help="Also show the array task and the function of the parallel task.")
@click.option("-xml", "is_xml", is_flag=True, help="Print XML with the elements of qstat -xml.")
@CONFIG_FILE
@FOLDER
@JSON
@VERSION
def qstat_remote(
    users: tuple[str, ...],
    jobs: tuple[str, ...],
    states: str,
    cluster: str | None,
    queues: tuple[str, ...],
    is_full: bool,
    is_extended: bool,
    has_tasks: bool,
    is_xml: bool,
    path: str,
    folder: str,
    is_json: bool,
) -> None:
    """Show your jobs that are at another cluster.

    ID, STATE (in the letters of qstat), SINCE and HOST describe the remote job, HERE is the local
    job's state. A list shows the states that the service has published last, and queries no
    cluster; if these states are too old, the first line says so. With -j the command also queries
    the remote cluster, as yourself, for at most ten seconds, about at most 20 remote jobs.
    The service publishes no tickets, no usage and no slave tasks of parallel jobs, so -ext, -t and -xml
    show none. Exit status: 0, 1 for a job without a known transfer, 2 for any other error.

    \b
    Example:
      qstat_remote
      qstat_remote -u '*' -s p --cluster beta
      qstat_remote -f -q 'transfer-*' -ext
      qstat_remote -j 12
    """
    now = datetime.now(UTC)
    _refuse_conflicting_options(jobs, is_xml and is_json, queues or is_full or is_extended or has_tasks or is_xml)
    if jobs:
        _print_details_of_named_jobs(owner_remote_job_access.parse_job_list(jobs), now, path, folder, is_json)
        return
    named = tuple(name for words in users for name in words.split(",") if name)
    owners = tuple(own_login_name() if name == CALLING_USER else name for name in named or (CALLING_USER,))
    choice = TransferFilter(users=owners, states=states, cluster=cluster, queues=queues)
    rows, notes, listed_queues = service.list_open_transfers(choice, now, folder)
    if is_json:
        output_and_errors.print_json({"notes": notes, "transfers": to_json_types(rows)})
        return
    queues_to_print = listed_queues if is_full else None
    if is_xml:
        _print_xml(rows, notes, queues_to_print or ())
        return
    for note in notes:
        output_and_errors.print_line(f"{note}\n")
    added = (*(EXTENDED_COLUMNS if is_extended else ()), *(TASK_COLUMNS if has_tasks else ()))
    _print_tables(rows, queues_to_print, added, now)


def _refuse_conflicting_options(jobs: tuple[str, ...], is_xml_and_json: bool, is_list: object) -> None:
    if jobs and is_list:
        raise click.UsageError("-j shows details of jobs and excludes -f, -q, -t, -ext and -xml")
    if is_xml_and_json:
        raise click.UsageError("-xml excludes --json")


def _print_xml(
    rows: Sequence[TransferAndAwaitedEvent], notes: Sequence[str], queues: Sequence[TransferQueueReport]
) -> None:
    from gridbridge.transfer.cli.qstat_xml_writer import transfers_as_qstat_xml

    for note in notes:
        output_and_errors.print_error(f"qstat_remote: {note}")
    output_and_errors.print_line(transfers_as_qstat_xml(rows, queues))


def _print_tables(
    rows: Sequence[TransferAndAwaitedEvent],
    queues: Sequence[TransferQueueReport] | None,
    added: Sequence[str],
    now: datetime,
) -> None:
    """Print one table, or each queue with its jobs, and at the end the jobs of queues that are gone."""
    if queues is None:
        _print_transfers(rows, added, now)
        return
    for place, queue in enumerate(queues):
        state = "open" if queue.is_open else f"closed: {queue.why}"
        head = f"{queue.queue} to {queue.cluster}, {queue.used}/{queue.total} slots used, {state}"
        output_and_errors.print_line(f"\n{head}" if place else head)
        _print_transfers([row for row in rows if row.transfer.queue == queue.queue], added, now)
    names = {queue.queue for queue in queues}
    if lost := [row for row in rows if row.transfer.queue not in names]:
        output_and_errors.print_line("\nin transfer queues that the service does not have any more")
        _print_transfers(lost, added, now)


def _print_transfers(rows: Sequence[TransferAndAwaitedEvent], added: Sequence[str], now: datetime) -> None:
    """Print a table of transfers; the columns in `added` stand before the last one."""
    if rows:
        columns = (*TRANSFER_COLUMNS[:-1], *added, TRANSFER_COLUMNS[-1])
        table = [_table_row_of_transfer(report, added, now) for report in rows]
        output_and_errors.print_table(columns, table, unbroken=[name for name in columns[:-1] if name != "NAME"])


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


def _table_row_of_transfer(report: TransferAndAwaitedEvent, added: Sequence[str], now: datetime) -> tuple[str, ...]:
    transfer = report.transfer
    task = parse_transfer_name(transfer.transfer).task
    more = {"NAME": transfer.name or "-", "QUEUE": transfer.queue, "SENT": format_local_time(transfer.created_at, now)}
    more |= {"TASK": str(task or "-"), "FUNCTION": "MASTER"}  # a transferred job runs on one host, without slaves
    return (
        *(report.job, transfer.owner, transfer.remote, str(transfer.remote_id or "-")),
        *(transfer.remote_state or "-", format_local_time(transfer.since, now), transfer.remote_host or "-"),
        *(transfer.local_state or "-", *(more[name] for name in added), report.waits_for),
    )
