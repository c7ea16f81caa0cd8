"""Writes a balancer round's statistics row, the record of ended tasks, and the published figures.

Columns of the statistics: dt,hosts,running_jobs,queued_jobs,slots,avg_duration,avg_wait,avg_load
"""

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from gridbridge.decisions.elastic.balancer_round_reports import (
    LOOKBACK,
    BalancerRoundNodeChanges,
    balancer_figures_if_cell_observed,
    balancer_figures_if_cell_unobserved,
    count_balancer_round_figures,
    extend_node_history,
)
from gridbridge.elastic import balancer_round_queries
from gridbridge.errors import ParseError, StateError
from gridbridge.model.elastic.balance_plan import BalancePlan, BalanceSituation
from gridbridge.model.elastic.published_balance import (
    BalanceRoundStatistics,
    PublishedBalancerFigures,
    PublishedNodeHistory,
    RecentlyEndedTasks,
    minute_since_epoch,
)
from gridbridge.model.fixed_paths import BALANCE_PUBLISHED
from gridbridge.model.site_configuration import ClusterSection
from gridbridge.shell.safe_files import iterate_bounded_lines
from gridbridge.state import published_files, published_json

_log = logging.getLogger(__name__)

LONGEST = timedelta(days=7)  # ended tasks are stored at least this long


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancerStatisticsPaths:
    accounting: str
    kept: str  # the balancer's file that stores recently ended tasks
    lookback: timedelta = LOOKBACK
    stats: str = ""


def local_accounting_file_path(cluster: ClusterSection, name: str) -> str:
    settings = cluster.with_defaults(name)
    return settings.accounting or f"{settings.root}/{settings.cell}/common/accounting"


def record_balancer_statistics(
    situation: BalanceSituation, queue: str, seeing: BalancerStatisticsPaths
) -> BalanceRoundStatistics:
    """Compute a round's statistics, and append a row to the statistics file; file errors are logged."""
    row = count_balancer_round_figures(
        situation, _read_and_extend_task_ends(situation.now, seeing), queue, seeing.lookback
    )
    if seeing.stats:
        try:
            append_balancer_statistics(seeing.stats, row)
        except StateError as error:
            _log.warning("event=no_statistics why=%r", str(error))
    return row


def _read_and_extend_task_ends(now: datetime, seeing: BalancerStatisticsPaths) -> RecentlyEndedTasks:
    before = balancer_round_queries.read_stored_task_ends(seeing.kept)
    try:
        read = balancer_round_queries.add_task_ends_from_accounting(seeing.accounting, before, now)
        since = minute_since_epoch(now - max(LONGEST, seeing.lookback))
        after = replace(read, minutes=tuple(m for m in read.minutes if m.minute >= since))
        if after != before:
            balancer_round_queries.write_stored_task_ends(seeing.kept, after)
    except StateError as error:
        _log.warning("event=no_accounting why=%r", str(error))
        return before
    return after


COLUMNS = 8
YEARS = range(1970, 9000)  # years that plots can show
MOST = 10**12  # every number is below this


def append_balancer_statistics(path: str, row: BalanceRoundStatistics) -> None:
    """Complete a last line that was cut off, then append a row in one write; raise StateError on failure."""
    line, flags = balancer_statistics_csv_line(row), os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    try:
        with open(os.open(path, flags, 0o644), "rb+", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            is_cut = bool(size) and os.pread(file.fileno(), 1, size - 1) != b"\n"
            data = f"\n{line}".encode() if is_cut else line.encode()
            if file.write(data) != len(data):
                raise OSError(28, "No space left on device")
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}") from error


def balancer_statistics_csv_line(row: BalanceRoundStatistics) -> str:
    """Format a row of statistics as a CSV line; the time is ISO 8601 with a zone."""
    numbers = (row.hosts, row.running, row.queued, row.slots, row.duration_s, row.wait_s)
    at = row.at.replace(microsecond=0).isoformat()
    return f"{at},{','.join(map(str, numbers))},{row.load:.2f}\n"


def read_balancer_statistics(path: str) -> tuple[tuple[BalanceRoundStatistics, ...], tuple[int, ...]]:
    """Return the rows sorted by time, and the line numbers of invalid lines.

    Raises StateError for an unreadable file, and ParseError for a file without a valid row.
    """
    try:
        with open(path, "rb") as file:
            lines = (line.decode("utf-8", "replace").strip() for line in iterate_bounded_lines(file, path))
            numbered_rows = [(number, _parse_statistics_line(line)) for number, line in enumerate(lines, 1) if line]
    except FileNotFoundError as error:
        mend = "each round of `gridbridge-balance --dump-stats-file FILE` adds a row to FILE"
        raise StateError(f"{path}: {error.strerror}; {mend}") from error
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}") from error
    rows = sorted((row for _, row in numbered_rows if row), key=lambda row: row.at)
    if not rows:
        raise ParseError(f"{path}: no row of statistics; expected rows of {COLUMNS} columns: dt,hosts,...")
    return tuple(rows), tuple(number for number, row in numbered_rows if row is None)


def _parse_statistics_line(line: str) -> BalanceRoundStatistics | None:
    try:
        at, hosts, running, queued, slots, duration, wait, load = line.split(",")
        moment = datetime.fromisoformat(at)
        numbers = map(float, (hosts, running, queued, slots, duration, wait, load))
        if moment.year not in YEARS or not all(abs(number) < MOST for number in numbers):
            return None
        return BalanceRoundStatistics(
            at=moment if moment.tzinfo else moment.replace(tzinfo=UTC),
            hosts=int(hosts),
            running=int(running),
            queued=int(queued),
            slots=int(slots),
            duration_s=round(float(duration)),
            wait_s=round(float(wait)),
            load=float(load),
        )
    except (ValueError, OverflowError):
        return None


NAME = "balance.json"
HISTORY = "nodes.json"


def write_published_balance(value: PublishedBalancerFigures, folder: str = BALANCE_PUBLISHED) -> None:
    """Replace the published file, and create its folder if missing; raises StateError if this fails."""
    published_files.publish_file(f"{folder}/{NAME}", published_json.encode_published_value(value))


def read_published_balance(folder: str = BALANCE_PUBLISHED) -> PublishedBalancerFigures | None:
    """Return the published figures; None before the first round.

    Raises StateError for an invalid or unsafe file.
    """
    return published_json.read_published_value(f"{folder}/{NAME}", PublishedBalancerFigures)


def read_published_node_history(folder: str = BALANCE_PUBLISHED) -> PublishedNodeHistory | None:
    return published_json.read_published_value(f"{folder}/{HISTORY}", PublishedNodeHistory)


def publish_balancer_round(
    cluster: str,
    situation: BalanceSituation,
    plan: BalancePlan,
    numbers: BalanceRoundStatistics,
    outcome: BalancerRoundNodeChanges,
    folder: str = BALANCE_PUBLISHED,
) -> None:
    """Publish the figures of a round that read the whole cell; an unwritable file is logged."""
    _publish_balancer_figures(
        lambda last: balancer_figures_if_cell_observed(last, cluster, situation, plan, numbers, outcome), folder
    )


def publish_round_without_cell_answer(
    cluster: str, now: datetime, trouble: str, folder: str = BALANCE_PUBLISHED
) -> None:
    _publish_balancer_figures(lambda last: balancer_figures_if_cell_unobserved(last, cluster, now, trouble), folder)


def _publish_balancer_figures(
    following: Callable[[PublishedBalancerFigures | None], PublishedBalancerFigures], folder: str
) -> None:
    last, history = None, None
    with suppress(StateError):  # an unreadable file restarts all counters
        last = read_published_balance(folder)
    with suppress(StateError):
        history = read_published_node_history(folder)
    figures = following(last)
    longer = extend_node_history(history, figures)
    try:
        write_published_balance(figures, folder)
        published_files.publish_file(f"{folder}/{HISTORY}", published_json.encode_published_value(longer))
    except StateError as error:
        _log.warning("event=not_shown why=%r", str(error))
