"""gridbridge status: shows the clusters, the transfer queues and every open transfer."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime

import click

from gridbridge.cli import output_and_errors
from gridbridge.cli.command_groups_and_options import CONFIG_FILE, FOLDER, JSON, FiniteNumberRange, format_local_time
from gridbridge.decisions.site.site_picture_rows import choose_from_status_report, needs_attention, say_each_reason_once
from gridbridge.errors import GridbridgeError
from gridbridge.model.published_status_and_reports import SiteStatusReport, TransferAndAwaitedEvent
from gridbridge.program import status_and_why_reports
from gridbridge.site.cli import status_watch
from gridbridge.site.cli.top_command import LONGEST_S, SHORTEST_S
from gridbridge.state.published_json import to_json_types

CLUSTERS = ("CLUSTER", "ANSWERS", "WAITING", "FREE SLOTS", "")
QUEUES = ("QUEUE", "LEADS TO", "OPEN", "SLOTS USED", "")
ATTENTION = 1  # exit status with --exit-code
TRANSFERS = (*("JOB", "NAME", "OWNER", "HERE", "SINCE"), *("CLUSTER", "ID", "THERE", "SINCE", "HOST", "WAITS FOR"))


@click.command()
@click.option("-u", "--user", metavar="USER", default="", help="Show transfers of USER, a name or pattern like a*.")
@click.option("--cluster", metavar="NAME", default="", help="Show only this cluster, its queues and its transfers.")
@click.option(
    *("--watch", "watch_s"),
    metavar="[SECONDS]",
    type=FiniteNumberRange(SHORTEST_S, LONGEST_S),
    is_flag=False,
    flag_value=2.0,
    help="Show the report again every SECONDS, by default 2.",
)
@click.option(
    *("--exit-code", "has_code"),
    is_flag=True,
    help="Exit with 1 if a warning is shown or a cluster gets no jobs; with --watch, as soon as this happens.",
)
@FOLDER
@CONFIG_FILE
@JSON
def status(
    user: str, cluster: str, watch_s: float | None, has_code: bool, folder: str, path: str, is_json: bool
) -> None:
    """Show clusters, transfer queues and open transfers.

    HERE and THERE are a job's states at home and at the remote cluster, in the letters of qstat(1). FREE SLOTS are free
    slots of a cluster, without its transfer queues. All values are from the service's last round. If the
    values are too old, a first line says so, and names the mistakes in the file that --config names. Below 80
    columns each row becomes a paragraph. Exit status: 0, 1 with --exit-code, 2 for an error.

    \b
    Example:
      gridbridge status
      gridbridge status -u alice --watch 5
      gridbridge status --json
    """
    if is_json and watch_s is not None:
        raise click.UsageError("--watch excludes --json")

    def read(now: datetime) -> SiteStatusReport:
        report = status_and_why_reports.build_site_status_report(now, folder, path)
        _require_known_cluster(cluster, report)
        return choose_from_status_report(report, user, cluster)

    if watch_s is None:
        report = read(now := datetime.now(UTC))
        output_and_errors.print_json(to_json_types(report)) if is_json else print_status_report(report, now)
        if has_code and needs_attention(report):
            raise SystemExit(ATTENTION)
        return
    status_watch.watch_report(
        read,
        print_status_report,
        lambda report: has_code and needs_attention(report),
        lambda: datetime.now(UTC),
        lambda: time.sleep(watch_s),
    )
    raise SystemExit(ATTENTION)


def _require_known_cluster(cluster: str, report: SiteStatusReport) -> None:
    known = {row.cluster for row in report.clusters} | {row.transfer.remote for row in report.transfers}
    if cluster and cluster not in known:
        raise GridbridgeError(f"no cluster {cluster!r}; known: {', '.join(sorted(known)) or 'none'}")


def print_status_report(report: SiteStatusReport, now: datetime) -> None:
    """Print the report as three tables: clusters, transfer queues, open transfers."""
    report = say_each_reason_once(report)
    if report.alarm:
        output_and_errors.print_line(f"{report.alarm}\n")
    shown = output_and_errors.format_number_or_dash
    clusters = [
        (
            cluster.cluster,
            _yes_or_no(cluster.answers),
            shown(cluster.waiting),
            shown(cluster.free_slots),
            cluster.closed_by or cluster.why,
        )
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
        output_and_errors.print_table(TRANSFERS, rows, unbroken=(*TRANSFERS[:1], *TRANSFERS[2:-1]))
    else:
        output_and_errors.print_line("no open transfer")
    for line in (*report.drained, *report.late):
        output_and_errors.print_line(f"\n{line}")


def _transfer_table_row(report: TransferAndAwaitedEvent, now: datetime) -> tuple[str, ...]:
    shown = report.transfer
    return (
        *(report.job, shown.name or "-", shown.owner, shown.local_state or "-"),
        format_local_time(shown.local_since, now),
        *(shown.remote, output_and_errors.format_number_or_dash(shown.remote_id), shown.remote_state or "-"),
        *(format_local_time(shown.since, now), shown.remote_host or "-", report.waits_for),
    )


def _yes_or_no(fact: bool) -> str:
    return "yes" if fact else "no"


def _transfer_queue_row_style(row: Sequence[str]) -> str:
    return output_and_errors.STYLES["warning"] if "no" in row[1:3] else ""
