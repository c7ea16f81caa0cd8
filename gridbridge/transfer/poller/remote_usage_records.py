"""Read the remote clusters' accounting files, and store and publish the usage of transferred jobs.

One transaction stores the records and the position in the file, so a killed service loses no record.
"""

import logging
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from gridbridge.batch.batch_adapter_table import ADAPTERS
from gridbridge.decisions.transfer import transfers_in_job_lists
from gridbridge.decisions.transfer.remote_accounting_verdicts import format_shepherd_usage, usage_from_verdict
from gridbridge.errors import ConflictingRemoteJobEnds, GridbridgeError, StateError
from gridbridge.model.jobs_and_accounting import (
    ClusterAccountingProgress,
    JobEnd,
    JobRunAccounting,
    RemoteJobRunAccounting,
    RemoteUsageSource,
)
from gridbridge.model.published_status_and_reports import PublishedAccountingProgress
from gridbridge.model.site_configuration import ClusterSection, Policy
from gridbridge.model.transfer.transfers_and_actions import OwnerSeenInHomeJobList, Transfer
from gridbridge.model.transfer_name import PREFIX, is_transfer_name, parse_transfer_name
from gridbridge.program.threads_and_backoff import ThreadNotStarted, ThreadPool
from gridbridge.shell import appended_file_lines
from gridbridge.shell.clock import Clock
from gridbridge.state.state_file import StateFile
from gridbridge.transfer import remote_usage_and_cursor_rows
from gridbridge.transfer.poller.published_transfers import TransferStatePublisher
from gridbridge.transfer.remote_usage_and_cursor_rows import RemoteUsageAndCursorRows
from gridbridge.transfer.transfer_history_rows import TransferRows

if TYPE_CHECKING:
    from gridbridge.batch.optional_adapter_protocols import JobAccountingReader
    from gridbridge.model.transfer_route import AnyClusterAccessSettings

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountingFileReadResult:
    cursor: ClusterAccountingProgress
    records: tuple[RemoteJobRunAccounting, ...] = ()
    is_more: bool = False
    lost: str = ""
    trouble: str = ""


@dataclass(eq=False)
class RemoteAccountingFileReader:
    """Reads new lines of a cluster's accounting file in a thread, because the disk may hang."""

    cursor: ClusterAccountingProgress
    _cluster: ClusterSection
    accounts: "JobAccountingReader[AnyClusterAccessSettings]"
    _prefix: str
    _clock: Clock

    def __post_init__(self) -> None:
        self._due = self._clock.steady_s()
        self._threads = ThreadPool(1, f"accounting-{self.cursor.cluster}")
        self._open: Future[AccountingFileReadResult] | None = None

    def reads_configured_accounting_file(self, cluster: ClusterSection) -> bool:
        """Say whether a cluster's configuration still names the file that this reader reads."""
        ours, theirs = (
            (section.kind, section.accounting, section.users, bool(section.ssh)) for section in (self._cluster, cluster)
        )
        return ours == theirs

    def begin_reading_if_due(self, interval_s: float) -> None:
        """Begin to read the accounting file, if `interval_s` has passed and no reading runs."""
        if self._open is None and self._clock.steady_s() >= self._due:
            self._due = self._clock.steady_s() + interval_s
            self._open = self._threads.submit(self.read_new_lines)

    def make_reading_due(self) -> None:
        self._due = self._clock.steady_s()

    def take_read_result(self) -> AccountingFileReadResult | None:
        """Return the result of a finished reading; each result is returned only once, otherwise None."""
        if self._open is None or not self._open.done():
            return None
        try:
            look = self._open.result()
        except ThreadNotStarted as error:
            look = AccountingFileReadResult(cursor=self.cursor, trouble=str(error))
        self._open = None
        self.cursor = look.cursor
        if look.is_more:
            self.make_reading_due()
        return look

    def read_new_lines(self) -> AccountingFileReadResult:
        """Read the new lines of the accounting file; an error is part of the result."""
        before = self.cursor
        try:
            step = appended_file_lines.read_appended_lines(before.path, before.place, self._clock.now_s())
            records, skipped = self.accounts.parse_records_by_account_prefix(step.lines, self._prefix)
            return AccountingFileReadResult(
                cursor=replace(before, place=step.place, skipped=before.skipped + skipped),
                records=tuple(remote_job_usage_records(records, before.cluster, self._cluster)),
                is_more=step.is_more,
                lost=step.lost,
            )
        except GridbridgeError as error:
            return AccountingFileReadResult(cursor=before, trouble=str(error))
        except Exception as error:  # a fault in one cluster's file must not stop the poller
            _log.exception("event=fault cluster=%s", before.cluster)
            return AccountingFileReadResult(cursor=before, trouble=f"{type(error).__name__}: {error}")

    def shut_down_threads(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


COPIED_KEYS = (
    *("job_id", "queue", "host", "pe_task", "submitted_at", "started_at", "ended_at"),
    *("failed", "exit_status", "wallclock_s", "user_s", "system_s", "max_rss_kb"),
)


def remote_job_usage_records(
    lines: tuple[tuple[str, JobRunAccounting], ...], name: str, cluster: ClusterSection
) -> Iterator[RemoteJobRunAccounting]:
    for line, record in lines:
        if is_transfer_name(record.account):  # any user may give a job an account (qsub -A) that looks like gb.X
            yield RemoteJobRunAccounting(
                **{key: getattr(record, key) for key in COPIED_KEYS},
                transfer=record.account,
                cluster=name,
                source=RemoteUsageSource.ACCOUNTING,
                mark=appended_file_lines.blake2b_hex_digest(line.encode("utf-8", "replace")),
                owner=cluster.users.user_of_remote_account(record.owner, name) if cluster.ssh else record.owner,
            )


# largest number of a person's jobs whose end is stored although no home job list has shown the job
MOST_UNPROVED_ENDS_AN_HOUR = 1000
LONGEST_ANSWER_INTERVAL = timedelta(minutes=1)  # two answers of a cluster are usually closer than this
POSITION_REPUBLISH_INTERVAL = timedelta(seconds=20)


@dataclass(slots=True, kw_only=True)
class RemoteUsageService:
    """Stores and publishes the usage of remote jobs, from clusters whose accounting file is readable."""

    policy: Policy
    database: StateFile
    views: TransferStatePublisher
    clock: Clock
    readers: dict[str, RemoteAccountingFileReader] = field(default_factory=dict)
    # how far each cluster's accounting file was read: as published, and as stored in the state file
    readings: dict[str, PublishedAccountingProgress] = field(default_factory=dict)
    cursors: dict[str, ClusterAccountingProgress] = field(default_factory=dict)
    accounting: RemoteUsageAndCursorRows = field(init=False)
    told: dict[int, int] = field(default_factory=dict)  # number of job ends without a proved owner, by uid

    def __post_init__(self) -> None:
        self.accounting = RemoteUsageAndCursorRows(self.database)

    def load_accounting_file_positions(self) -> None:
        """Continue reading each accounting file at the position that is stored in the state file."""
        self.cursors = {cursor.cluster: cursor for cursor in self.accounting.accounting_cursors()}
        self.use_changed_configuration(self.policy)

    def use_changed_configuration(self, policy: Policy) -> None:
        """Read the accounting files that a changed configuration names, each from its last position."""
        self.policy = policy
        configured = policy.clusters.items()
        clusters = {name: of for name, of in configured if of.accounting and name != policy.site.cluster}
        for name, reader in tuple(self.readers.items()):
            if name not in clusters or not reader.reads_configured_accounting_file(clusters[name]):
                self.readers.pop(name).shut_down_threads()
                del self.readings[name]
        for name, cluster in clusters.items():
            accounts = ADAPTERS[cluster.kind].accounts
            if name not in self.readers and accounts:
                self._add_accounting_reader(name, cluster, accounts)
        self.views.publish_accounting_progress(self.readings.values())

    def _add_accounting_reader(
        self, name: str, cluster: ClusterSection, accounts: "JobAccountingReader[AnyClusterAccessSettings]"
    ) -> None:
        cursor = self.cursors.get(name) or ClusterAccountingProgress(cluster=name, path="")
        cursor = replace(cursor, path=cluster.accounting)
        prefix = f"{PREFIX}.{self.policy.site.cluster}."
        self.readers[name] = RemoteAccountingFileReader(cursor, cluster, accounts, prefix, self.clock)
        self.readings[name] = PublishedAccountingProgress(cluster=name, path=cluster.accounting)

    def begin_accounting_readings_if_due(self) -> None:
        for reader in self.readers.values():
            reader.begin_reading_if_due(self.policy.poller.interval_s)

    def store_accounting_readings(self) -> None:
        for reader in self.readers.values():
            if look := reader.take_read_result():
                self.store_accounting_reading(look)

    def store_accounting_reading(self, look: AccountingFileReadResult) -> None:
        """Store and publish the usage records of one reading, and store its position."""
        changed: dict[str, tuple[RemoteJobRunAccounting, ...]] = {}
        for record in look.records:
            changed[parse_transfer_name(record.transfer).local_job_or_task_id] = self.accounting.store_usage_record(
                record, self.clock.now()
            )
        if look.cursor != self.cursors.get(look.cursor.cluster):
            self.accounting.store_accounting_cursor(look.cursor)
            self.cursors[look.cursor.cluster] = look.cursor
        for local, records in changed.items():
            self._publish_task_usage(local, records)
        self._publish_accounting_reading_progress(look)

    def _publish_task_usage(self, local: str, records: tuple[RemoteJobRunAccounting, ...]) -> None:
        """Publish the usage records of a task, without records of jobs of other owners."""
        if len({(record.owner, record.job_id) for record in records}) > 1:
            name = parse_transfer_name(records[0].transfer)
            transfers = TransferRows(self.database).transfers_of_task(name.cluster, name.job, name.task)
            records = tuple(transfers_in_job_lists.usage_records_of_proved_owner(records, transfers))
        self.views.publish_usage(local, records)

    def _publish_accounting_reading_progress(self, look: AccountingFileReadResult) -> None:
        name = look.cursor.cluster
        before = self.readings[name]
        if look.lost:
            _log.warning("event=accounting_lost cluster=%s why=%r", name, look.lost)
        if look.trouble and look.trouble != before.trouble:
            _log.warning("event=no_accounting cluster=%s why=%r", name, look.trouble)
        after = replace(
            before,
            read_at=before.read_at if look.trouble else self.clock.now(),
            is_behind=look.is_more,
            trouble=look.trouble,
            skipped=look.cursor.skipped,
        )
        is_changed = replace(before, read_at=after.read_at) != after or (before.read_at is None and after.read_at)
        is_old = before.read_at and after.read_at and after.read_at - before.read_at > POSITION_REPUBLISH_INTERVAL
        if is_changed or is_old:
            self.readings[name] = after
            self.views.publish_accounting_progress(self.readings.values())

    def will_accounting_file_show_end(self, transfer: Transfer) -> bool:
        """Say whether the accounting file will show how the job ended, which saves a call of qacct."""
        reading = self.readings.get(transfer.remote)
        return bool(reading and reading.read_at and not reading.trouble and not reading.is_behind)

    def find_job_end(self, transfer: Transfer) -> JobEnd | None:
        """Return a job's end by its accounting record; raise ConflictingRemoteJobEnds if records contradict."""
        if transfer.remote not in self.readers:
            return None
        accounts = self.readers[transfer.remote].accounts
        end, is_disputed = accounts.decide_job_end(self._records_since_last_job_list(transfer), self.clock.now())
        if end is None:
            self.readers[transfer.remote].make_reading_due()
        if is_disputed:
            raise ConflictingRemoteJobEnds(f"two records of {transfer.remote} disagree on how {transfer.name} ended")
        return end

    def _records_since_last_job_list(self, transfer: Transfer) -> list[RemoteJobRunAccounting]:
        """Return a job's accounting records that are newer than the last job list that shows the job."""
        name = parse_transfer_name(transfer.name)
        records = self.accounting.usage_records_of_task(
            name.cluster, name.job, name.task, remote_job_last_listed_at(transfer)
        )
        is_its = (transfer.name, transfer.remote_id, transfer.owner, transfer.remote)
        return [
            record
            for record in records
            if (record.transfer, record.job_id, record.owner, record.cluster) == is_its
            and record.source == RemoteUsageSource.ACCOUNTING
        ]

    def store_usage_of_end_message(self, transfer: Transfer) -> None:
        """Publish the usage in an end message for home's epilog; store the usage if no accounting file will show it."""
        queue = self.policy.queues.get(transfer.queue)
        has_epilog = bool(queue and queue.remote_usage)
        is_accounted = self.will_accounting_file_show_end(transfer)
        if is_accounted and not has_epilog:
            return
        record = usage_from_verdict(transfer)
        if record is None or not self._may_store_usage_of_end_message(transfer):
            return
        local = parse_transfer_name(transfer.name).local_job_or_task_id
        if not is_accounted:
            self._publish_task_usage(local, self.accounting.store_usage_record(record, self.clock.now()))
        if has_epilog:
            try:
                self.views.publish_epilog_usage(local, record.owner, format_shepherd_usage(record))
            except StateError as error:
                _log.warning("event=no_epilog_usage name=%s why=%r", record.transfer, str(error))

    def _may_store_usage_of_end_message(self, transfer: Transfer) -> bool:
        """Say whether an end message's usage is stored; if the owner is not proved, an hourly limit per uid holds."""
        if transfer.listed:
            return transfer.listed == OwnerSeenInHomeJobList.YES
        self.told[transfer.uid] = self.told.get(transfer.uid, 0) + 1
        return self.told[transfer.uid] <= MOST_UNPROVED_ENDS_AN_HOUR

    def sweep_usage(self) -> None:
        """Delete old usage records, and begin to count job ends without a proved owner anew."""
        self.told.clear()
        before = self.clock.now() - timedelta(days=self.policy.retention.accounting_d)
        self.accounting.delete_old_usage_records(before)
        remote_usage_and_cursor_rows.sweep_old_usage_files(self.views.folder, before)

    def shut_down_threads(self) -> None:
        for reader in self.readers.values():
            reader.shut_down_threads()


def remote_job_last_listed_at(transfer: Transfer) -> datetime | None:
    """Return when a remote job list last showed a transfer's job; None if no list showed the job.

    A qmaster writes the accounting record when the job leaves the list, so an older record belongs to another job.
    """
    if not transfer.remote_state.is_listed:
        return None
    if transfer.missing_since:
        return transfer.missing_since - LONGEST_ANSWER_INTERVAL
    return transfer.seen_at
