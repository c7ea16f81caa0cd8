"""gridbridge status: shows the clusters, the transfer queues and every open transfer."""

from collections.abc import Sequence
from datetime import UTC, datetime

import click

from gridbridge.cli import output_and_errors
from gridbridge.cli.command_groups_and_options import CONFIG_FILE, FOLDER, JSON, format_local_time
from gridbridge.model.published_status_and_reports import SiteStatusReport, TransferAndAwaitedEvent
from gridbridge.program import status_and_why_reports
from gridbridge.state.published_json import to_json_types

CLUSTERS = ("CLUSTER", "ANSWERS", "WAITING", "FREE SLOTS", "")
QUEUES = ("QUEUE", "LEADS TO", "OPEN", "SLOTS USED", "")
TRANSFERS = (*("JOB", "OWNER", "HERE", "SINCE"), *("CLUSTER", "ID", "THERE", "SINCE", "HOST", "WAITS FOR"))


@click.command()
@FOLDER
@CONFIG_FILE
@JSON
def status(folder: str, path: str, is_json: bool) -> None:
    """Show clusters, transfer queues and open transfers.

    HERE and THERE are a job's states at home and at the remote cluster, in the letters of qstat(1). FREE SLOTS are free
    slots of a cluster, without its transfer queues. All values are from the service's last round. If the
    values are too old, a first line says so, and names the mistakes in the file that --config names.

    \b
    Example:
      gridbridge status
      gridbridge status --json
    """
    now = datetime.now(UTC)
    report = status_and_why_reports.build_site_status_report(now, folder, path)
    if is_json:
        output_and_errors.print_json(to_json_types(report))
    else:
        print_status_report(report, now)


def print_status_report(report: SiteStatusReport, now: datetime) -> None:
    """Print the report as three tables: clusters, transfer queues, open transfers."""
    if report.alarm:
        output_and_errors.print_line(f"{report.alarm}\n")
    shown = output_and_errors.format_number_or_dash
    clusters = [
        (cluster.cluster, _yes_or_no(cluster.answers), shown(cluster.waiting), shown(cluster.free_slots), cluster.why)
        for cluster in report.clusters
    ]
    output_and_errors.print_table(CLUSTERS, clusters, _transfer_queue_row_style)
    output_and_errors.print_line()
    queues = [
        (queue.queue, queue.cluster, _yes_or_no(queue.is_open), f"{queue.used} of {queue.total}", queue.why)
        for queue in report.queues
    ]
    if queues:
        output_and_errors.print_table(QUEUES, queues, _transfer_queue_row_style)
    else:
        output_and_errors.print_line("no transfer queue")
    output_and_errors.print_line()
    if report.transfers:
        rows = [_transfer_table_row(transfer, now) for transfer in report.transfers]
        output_and_errors.print_table(TRANSFERS, rows, unbroken=TRANSFERS[:-1])
    else:
        output_and_errors.print_line("no open transfer")
    for line in (*report.drained, *report.late):
        output_and_errors.print_line(f"\n{line}")


def _transfer_table_row(report: TransferAndAwaitedEvent, now: datetime) -> tuple[str, ...]:
    shown = report.transfer
    return (
        *(report.job, shown.owner, shown.local_state or "-"),
        format_local_time(shown.local_since, now),
        *(shown.remote, output_and_errors.format_number_or_dash(shown.remote_id), shown.remote_state or "-"),
        *(format_local_time(shown.since, now), shown.remote_host or "-", report.waits_for),
    )


def _yes_or_no(fact: bool) -> str:
    return "yes" if fact else "no"


def _transfer_queue_row_style(row: Sequence[str]) -> str:
    return output_and_errors.STYLES["warning"] if "no" in row[1:3] else ""
