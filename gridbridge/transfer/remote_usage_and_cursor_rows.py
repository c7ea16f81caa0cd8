"""Store the usage of remote jobs and the positions in accounting files, and read the published usage."""

import os
import re
from collections.abc import Iterator
from dataclasses import asdict, fields
from datetime import UTC, datetime

from sqlalchemy import BigInteger, Column, Float, Index, RowMapping, Table, Text, bindparam, delete, select

from gridbridge.model.jobs_and_accounting import (
    PER_TRANSFER,
    AccountingFilePosition,
    ClusterAccountingProgress,
    RemoteJobRunAccounting,
    RemoteUsageSource,
)
from gridbridge.model.published_status_and_reports import (
    PublishedAccountingPositions,
    PublishedAccountingProgress,
    PublishedRemoteUsage,
)
from gridbridge.model.transfer_name import parse_transfer_name
from gridbridge.shell import safe_files
from gridbridge.state import published_file_formats, published_json
from gridbridge.state.column_types import METADATA, PrintableTextColumn, UtcTimeColumn
from gridbridge.state.state_file import StateFile

EARLIEST_STORED_TIME = datetime(1, 1, 2, tzinfo=UTC)  # before all records, and valid in every time zone

CURSORS = Table(
    "cursors",
    METADATA,
    Column("cluster", PrintableTextColumn, primary_key=True),
    Column("path", PrintableTextColumn, nullable=False),
    Column("device", Text, nullable=False),  # text, because SQL has no unsigned 64-bit integers
    Column("inode", Text, nullable=False),
    Column("offset", BigInteger, nullable=False),
    Column("tail", Text, nullable=False),
    Column("skipped", BigInteger, nullable=False),
)

REMOTE_RECORDS = Table(
    "remote_records",
    METADATA,
    Column("cluster", PrintableTextColumn, primary_key=True),
    Column("mark", PrintableTextColumn, primary_key=True),
    Column("transfer", PrintableTextColumn, primary_key=True),
    Column("source", PrintableTextColumn, nullable=False),
    *(Column(name, PrintableTextColumn, nullable=False) for name in ("home", "owner", "queue", "host")),
    *(Column(name, BigInteger, nullable=False) for name in ("job", "task", "job_id")),
    Column("pe_task", PrintableTextColumn, nullable=False),
    Column("kept_at", UtcTimeColumn, nullable=False),
    *(Column(name, UtcTimeColumn) for name in ("submitted_at", "started_at", "ended_at")),
    *(Column(name, BigInteger) for name in ("failed", "exit_status")),
    *(Column(name, Float) for name in ("wallclock_s", "user_s", "system_s", "max_rss_kb")),
    Index("remote_records_task", "home", "job", "task"),
    Index("remote_records_kept_at", "kept_at"),
)

_RECORD = tuple(REMOTE_RECORDS.c[field.name] for field in fields(RemoteJobRunAccounting))
_RECORDS_OF = (
    select(*_RECORD)
    .where(
        REMOTE_RECORDS.c.home == bindparam("home"),
        REMOTE_RECORDS.c.job == bindparam("job"),
        REMOTE_RECORDS.c.task == bindparam("task"),
        REMOTE_RECORDS.c.kept_at >= bindparam("since"),
    )
    .order_by(REMOTE_RECORDS.c.ended_at, REMOTE_RECORDS.c.mark)
)
ACCOUNTING_PROGRESS_FILE = "readings.json"
_TASK = re.compile(r"(\d{1,9})(?:\.(\d{1,9}))?\.json")


class RemoteUsageAndCursorRows:
    def __init__(self, database: StateFile) -> None:
        self._database = database
        self._upsert_cursor = database.upsert(CURSORS)
        self._upsert_record = database.upsert(REMOTE_RECORDS)

    def store_accounting_cursor(self, cursor: ClusterAccountingProgress) -> None:
        position = asdict(cursor.place)
        values = position | {"device": str(position["device"]), "inode": str(position["inode"])}
        values |= {"cluster": cursor.cluster, "path": cursor.path, "skipped": cursor.skipped}
        self._database.execute(self._upsert_cursor, values)

    def accounting_cursors(self) -> tuple[ClusterAccountingProgress, ...]:
        return tuple(map(_accounting_progress_of_row, self._database.rows(select(CURSORS))))

    def store_usage_record(self, record: RemoteJobRunAccounting, at: datetime) -> tuple[RemoteJobRunAccounting, ...]:
        """Store a usage record; return all records of the task.

        An owner may store at most PER_TRANSFER records of one transfer; further records are dropped. Raises ParseError
        for an invalid transfer name.
        """
        name = parse_transfer_name(record.transfer)
        records = self.usage_records_of_task(name.cluster, name.job, name.task)
        other_records = [row for row in records if _usage_record_key(row) != _usage_record_key(record)]
        theirs = [row for row in other_records if row.owner == record.owner]
        if [row.transfer for row in theirs].count(record.transfer) >= PER_TRANSFER:
            return records
        values = {column.name: getattr(record, column.name) for column in _RECORD}
        values |= {"home": name.cluster, "job": name.job, "task": name.task, "kept_at": at}
        self._database.execute(self._upsert_record, values)
        return (*other_records, record)

    def usage_records_of_task(
        self, home: str, job: int, task: int, since: datetime | None = None
    ) -> tuple[RemoteJobRunAccounting, ...]:
        """Return a task's usage records, earliest end first; `since` selects the records that were added after it."""
        rows = self._database.rows(_RECORDS_OF, home=home, job=job, task=task, since=since or EARLIEST_STORED_TIME)
        return tuple(RemoteJobRunAccounting(**{**row, "source": RemoteUsageSource(row["source"])}) for row in rows)

    def delete_old_usage_records(self, before: datetime) -> None:
        self._database.execute(delete(REMOTE_RECORDS).where(REMOTE_RECORDS.c.kept_at < before))


def _usage_record_key(record: RemoteJobRunAccounting) -> tuple[str, str, str]:
    return record.cluster, record.mark, record.transfer


def _accounting_progress_of_row(row: RowMapping) -> ClusterAccountingProgress:
    position = AccountingFilePosition(
        device=int(row["device"]), inode=int(row["inode"]), offset=row["offset"], tail=row["tail"]
    )
    return ClusterAccountingProgress(cluster=row["cluster"], path=row["path"], place=position, skipped=row["skipped"])


def read_published_task_usage(folder: str, job: int, task: int) -> PublishedRemoteUsage | None:
    path = published_file_formats.remote_usage_path(job, task, folder)
    return published_json.read_published_value(path, PublishedRemoteUsage)


def read_published_job_usage(folder: str, job: int) -> tuple[PublishedRemoteUsage, ...]:
    """Read the published usage of a job, or of each task of an array, in order of task numbers."""
    around = os.path.dirname(published_file_formats.remote_usage_path(job, 0, folder))
    tasks = sorted(task for number, task, _ in _published_usage_files(around) if number == job)
    usages = (read_published_task_usage(folder, job, task) for task in tasks)
    return tuple(usage for usage in usages if usage)


def read_usage_published_since(folder: str, since: datetime | None) -> Iterator[PublishedRemoteUsage]:
    """Read the usage published since a time; `since` None: all published usage."""
    for around in _published_usage_folders(folder):
        for job, task, changed_s in _published_usage_files(around):
            is_new = since is None or changed_s >= since.timestamp()
            if is_new and (usage := read_published_task_usage(folder, job, task)):
                yield usage


def read_accounting_file_states(folder: str) -> tuple[PublishedAccountingProgress, ...]:
    """Read how far the service has read each cluster's accounting file."""
    path = f"{folder}/{ACCOUNTING_PROGRESS_FILE}"
    published = published_json.read_published_value(path, PublishedAccountingPositions)
    return published.readings if published else ()


def sweep_old_usage_files(folder: str, before: datetime) -> None:
    for around in _published_usage_folders(folder):
        for name in os.listdir(around):
            if os.lstat(f"{around}/{name}").st_mtime < before.timestamp():
                safe_files.remove_file(f"{around}/{name}")


def _published_usage_folders(folder: str) -> Iterator[str]:
    base = f"{folder}/{published_file_formats.ACCOUNTING}"
    if os.path.isdir(base):
        yield from (f"{base}/{name}" for name in sorted(os.listdir(base)))


def _published_usage_files(around: str) -> Iterator[tuple[int, int, float]]:
    if not os.path.isdir(around):
        return
    for entry in os.scandir(around):
        if match := _TASK.fullmatch(entry.name):
            yield int(match[1]), int(match[2] or 0), entry.stat().st_mtime
