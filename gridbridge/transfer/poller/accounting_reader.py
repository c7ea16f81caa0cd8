"""Read new lines of a cluster's accounting file, and pick transfers' records."""

import logging
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gridbridge.errors import GridbridgeError
from gridbridge.model.cluster import ClusterSection
from gridbridge.model.remote_job_accounting import (
    ClusterAccountingProgress,
    JobRunAccounting,
    RemoteJobRunAccounting,
    RemoteUsageSource,
)
from gridbridge.model.transfer_name import is_transfer_name
from gridbridge.program.work.thread_pools import ThreadNotStarted, ThreadPool
from gridbridge.shell import followed_file
from gridbridge.shell.clock import Clock

if TYPE_CHECKING:
    from gridbridge.batch.optional_adapter_protocols import JobAccountingReader
    from gridbridge.model.transfer_route import Away

_reader_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountingFileReadResult:
    """The result of reading an accounting file once: records, cursor and error."""

    cursor: ClusterAccountingProgress
    records: tuple[RemoteJobRunAccounting, ...] = ()
    is_more: bool = False
    lost: str = ""
    trouble: str = ""


class RemoteAccountingFileReader:
    """Reads a cluster's accounting file regularly, in a thread as the disk may hang."""

    def __init__(
        self,
        cursor: ClusterAccountingProgress,
        cluster: ClusterSection,
        accounts: "JobAccountingReader[Away]",
        prefix: str,
        clock: Clock,
    ) -> None:
        self.cursor = cursor
        self.accounts = accounts
        self._cluster = cluster
        self._prefix = prefix
        self._clock = clock
        self._due = clock.steady_s()
        self._threads = ThreadPool(1, f"accounting-{cursor.cluster}")
        self._open: Future[AccountingFileReadResult] | None = None

    def is_of(self, cluster: ClusterSection) -> bool:
        """Return whether the reader still reads the file that a cluster configuration names."""
        ours, theirs = (
            (section.kind, section.accounting, section.users, bool(section.ssh)) for section in (self._cluster, cluster)
        )
        return ours == theirs

    def look_if_due(self, interval_s: float) -> None:
        """Start to read the accounting file if a reading is due and none is in progress."""
        if self._open is None and self._clock.steady_s() >= self._due:
            self._due = self._clock.steady_s() + interval_s
            self._open = self._threads.submit(self.look)

    def hasten(self) -> None:
        """Make the next reading of the accounting file due now."""
        self._due = self._clock.steady_s()

    def take(self) -> AccountingFileReadResult | None:
        """Return a finished reading of the accounting file once; None without a new reading."""
        if self._open is None or not self._open.done():
            return None
        look, self._open = self._read(self._open), None
        self.cursor = look.cursor
        if look.is_more:
            self._due = self._clock.steady_s()
        return look

    def _read(self, open_: "Future[AccountingFileReadResult]") -> AccountingFileReadResult:
        try:
            return open_.result()
        except ThreadNotStarted as error:
            return AccountingFileReadResult(cursor=self.cursor, trouble=str(error))

    def look(self) -> AccountingFileReadResult:
        """Read the accounting file's new lines; the result holds an error, if any."""
        try:
            return self._look(self.cursor)
        except GridbridgeError as error:
            return AccountingFileReadResult(cursor=self.cursor, trouble=str(error))
        except Exception as error:  # a fault in one cluster's file must not stop the poller
            _reader_log.exception("event=fault cluster=%s", self.cursor.cluster)
            return AccountingFileReadResult(cursor=self.cursor, trouble=f"{type(error).__name__}: {error}")

    def _look(self, before: ClusterAccountingProgress) -> AccountingFileReadResult:
        step = followed_file.read_appended_lines(before.path, before.place, self._clock.now_s())
        records, skipped = self.accounts.read_accounting_lines(step.lines, self._prefix)
        return AccountingFileReadResult(
            cursor=replace(before, place=step.place, skipped=before.skipped + skipped),
            records=tuple(remote_job_usage_records(records, self.cursor.cluster, self._cluster)),
            is_more=step.is_more,
            lost=step.lost,
        )

    def dismiss(self) -> None:
        """Stop the reader's thread, and cancel a reading that has not begun."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def remote_job_usage_records(
    lines: tuple[tuple[str, JobRunAccounting], ...], name: str, cluster: ClusterSection
) -> Iterator[RemoteJobRunAccounting]:
    """Yield the usage records of transfers' remote jobs from parsed accounting lines."""
    for line, record in lines:
        if is_transfer_name(record.account):  # a user's own account name may begin with gb, too
            yield _remote_record(line, record, name, cluster)


def _remote_record(line: str, record: JobRunAccounting, name: str, cluster: ClusterSection) -> RemoteJobRunAccounting:
    """Convert an accounting record to its stored form, with the owner's home account."""
    owner = cluster.users.person_of(record.owner, name) if cluster.ssh else record.owner
    return RemoteJobRunAccounting(
        transfer=record.account,
        cluster=name,
        source=RemoteUsageSource.ACCOUNTING,
        mark=followed_file.blake2b_hex_digest(line.encode("utf-8", "replace")),
        job_id=record.job_id,
        owner=owner,
        queue=record.queue,
        host=record.host,
        pe_task=record.pe_task,
        submitted_at=record.submitted_at,
        started_at=record.started_at,
        ended_at=record.ended_at,
        failed=record.failed,
        exit_status=record.exit_status,
        wallclock_s=record.wallclock_s,
        user_s=record.user_s,
        system_s=record.system_s,
        max_rss_kb=record.max_rss_kb,
    )
