"""The CSV file of the balancer's statistics: a row a round, StarCluster's columns, no header.

dt,hosts,running_jobs,queued_jobs,slots,avg_duration,avg_wait,avg_load
"""

import os
from collections.abc import Iterator
from datetime import UTC, datetime

from gridbridge.errors import ParseError, StateError
from gridbridge.model.elastic.published_balance import BalanceRoundStatistics
from gridbridge.model.fixed_paths import BALANCE_ACCOUNT
from gridbridge.shell.process_account import drop_root_to_account
from gridbridge.shell.safe_files import iterate_bounded_lines

COLUMNS = 8
YEARS = range(1970, 9000)  # years that plots can show
MOST = 10**12  # upper limit of each number


def append_balancer_statistics(path: str, row: BalanceRoundStatistics) -> None:
    """Append a row in one write; raise StateError when the write fails.

    A partial last line, as a full disk leaves it, gets a newline first.
    """
    try:
        _append(path, balancer_statistics_csv_line(row))
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}") from error


def balancer_statistics_csv_line(row: BalanceRoundStatistics) -> str:
    """Format a row as a CSV line; its time is ISO 8601 with a zone."""
    numbers = (row.hosts, row.running, row.queued, row.slots, row.duration_s, row.wait_s)
    at = row.at.replace(microsecond=0).isoformat()
    return f"{at},{','.join(map(str, numbers))},{row.load:.2f}\n"


def read_balancer_statistics(path: str) -> tuple[tuple[BalanceRoundStatistics, ...], tuple[int, ...]]:
    """Return the rows sorted by time, and the numbers of the invalid lines.

    StarCluster's own files have times without a zone, which are taken as UTC. Raises
    StateError for an unreadable file, and ParseError for a file without a valid row.
    """
    try:
        with open(path, "rb") as file:
            numbered_rows = tuple(_rows(line.decode("utf-8", "replace") for line in iterate_bounded_lines(file, path)))
    except FileNotFoundError as error:
        mend = "each round of `gridbridge-balance --dump-stats-file FILE` adds a row to its file"
        raise StateError(f"{path}: {error.strerror}; {mend}") from error
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}") from error
    rows = sorted((row for _, row in numbered_rows if row), key=lambda row: row.at)
    if not rows:
        raise ParseError(f"{path}: no row of statistics; each has {COLUMNS} columns: dt,hosts,...")
    return tuple(rows), tuple(number for number, row in numbered_rows if row is None)


def _append(path: str, line: str) -> None:
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    end = os.open(path, flags, 0o644)
    try:
        size = os.fstat(end).st_size
        is_cut = bool(size) and os.pread(end, 1, size - 1) != b"\n"
        data = f"\n{line}".encode() if is_cut else line.encode()
        if os.write(end, data) != len(data):
            raise OSError(28, "No space left on device")
    finally:
        os.close(end)


def _rows(texts: Iterator[str]) -> Iterator[tuple[int, BalanceRoundStatistics | None]]:
    for number, line in enumerate(texts, 1):
        if line.strip():
            yield number, _row(line.strip())


def _row(line: str) -> BalanceRoundStatistics | None:
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


def become_balancer_account() -> None:
    """Change from root to the balancer's account, which owns the folder of the plots."""
    drop_root_to_account(BALANCE_ACCOUNT)
