"""gridbridge status: the clusters, the transfer queues and every open transfer."""

from collections.abc import Sequence
from datetime import UTC, datetime

import click

from gridbridge.cli import output
from gridbridge.cli.options import CONFIG_FILE, FOLDER, JSON, clock
from gridbridge.model.status_report import ClusterReport, QueueReport, SiteReport, TransferReport
from gridbridge.program import reports
from gridbridge.state.published_json import plain

CLUSTERS = ("CLUSTER", "ANSWERS", "WAITING", "FREE SLOTS", "")
QUEUES = ("QUEUE", "LEADS TO", "OPEN", "SLOTS USED", "")
TRANSFERS = (
    *("JOB", "OWNER", "HERE", "SINCE"),
    *("CLUSTER", "ID", "THERE", "SINCE", "HOST", "WAITS FOR"),
)


@click.command()
@FOLDER
@CONFIG_FILE
@JSON
def status(folder: str, path: str, is_json: bool) -> None:
    """Show clusters, queues and open transfers.

    HERE and THERE are the job's states at home and away, in the letters of qstat(1). FREE SLOTS
    are those of a cluster's own queues. All values are what the service saw last. When they are
    too old to be trusted, the first line says so, and what is wrong with the file of --config.

    \b
    Example:
      gridbridge status
      gridbridge status --json
    """
    now = datetime.now(UTC)
    report = reports.report(now, folder, path)
    if is_json:
        output.as_json(plain(report))
    else:
        show(report, now)


def show(report: SiteReport, now: datetime) -> None:
    """Print the report as three tables."""
    if report.alarm:
        output.line(f"{report.alarm}\n")
    output.table(CLUSTERS, [_cluster(one) for one in report.clusters], _style)
    output.line()
    if report.queues:
        output.table(QUEUES, [_queue(one) for one in report.queues], _style)
    else:
        output.line("no transfer queue")
    output.line()
    if report.transfers:
        rows = [_transfer(one, now) for one in report.transfers]
        output.table(TRANSFERS, rows, _plain, unbroken=TRANSFERS[:-1])
    else:
        output.line("no open transfer")
    for line in (*report.drained, *report.late):
        output.line(f"\n{line}")


def _cluster(one: ClusterReport) -> tuple[str, ...]:
    return (one.cluster, _yes(one.answers), _number(one.waiting), _number(one.free_slots), one.why)


def _queue(one: QueueReport) -> tuple[str, ...]:
    return (one.queue, one.cluster, _yes(one.is_open), f"{one.used} of {one.total}", one.why)


def _transfer(one: TransferReport, now: datetime) -> tuple[str, ...]:
    shown = one.transfer
    return (
        *(one.job, shown.owner, shown.local_state or "-"),
        clock(shown.local_since, now),
        *(shown.remote, _number(shown.remote_id), shown.remote_state or "-"),
        *(clock(shown.since, now), shown.remote_host or "-", one.waits_for),
    )


def _yes(fact: bool) -> str:
    return "yes" if fact else "no"


def _number(known: int | None) -> str:
    return "-" if known is None else str(known)


def _style(row: Sequence[str]) -> str:
    return output.STYLES["warning"] if "no" in row[1:3] else ""


def _plain(_: Sequence[str]) -> str:
    return ""
