"""Accounting values of remote jobs, and the reading position in accounting files."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

PER_TRANSFER = 100  # largest number of a transfer's stored records of one owner
SKEW_S = 60  # largest difference between the clocks of a host and its qmaster
RESCHEDULED = frozenset({24, 25})  # `failed` codes of a migrated and a rescheduled run
LATEST_S = 253402300800  # the largest time that datetime can hold


def queue_wait_s(submitted_s: float, started_s: float, ended_s: float) -> float | None:
    """Return the seconds a task waited in its queue; None for impossible times."""
    if 0 < submitted_s <= started_s + SKEW_S and started_s <= ended_s < LATEST_S:
        return max(0.0, started_s - submitted_s)
    return None


class RemoteUsageSource(StrEnum):
    """The source of a remote job's usage."""

    ACCOUNTING = "accounting"  # usage from the remote cluster's accounting file
    MESSAGE = "end message"  # usage from the job's wrapper, a process of the owner


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRunAccounting:
    """The accounting record of one run of a job or task; a rescheduled job has several."""

    job_id: int
    task: int  # task number; 0 for a job that is no array
    name: str
    owner: str
    account: str
    queue: str  # name of the queue, without the host
    host: str
    submitted_at: datetime | None
    started_at: datetime | None  # start time; None: the job never started
    ended_at: datetime | None
    failed: int
    exit_status: int  # exit status of the job, 128 + N after signal N
    wallclock_s: float
    user_s: float
    system_s: float
    max_rss_kb: float
    pe: str = ""  # parallel environment, or NONE
    pe_task: str = ""  # id of a part of a parallel job; not in qacct
    deleted_by: str = ""  # account that deleted the job, known only at Open Cluster Scheduler

    @property
    def has_usage(self) -> bool:
        """Whether the record has any measured usage.

        The record of a job that `qdel -f` removed has failed 0 and exit status 0, but no usage.
        """
        return bool(self.user_s or self.system_s or self.max_rss_kb)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteJobRunAccounting:
    """The accounting record of one run of a remote job; a rescheduled job has several."""

    transfer: str  # the job's account: gb.<cluster>.<job>.<task>.<attempt>
    cluster: str
    source: RemoteUsageSource
    mark: str  # key of the record: digest of the accounting line, or the transfer's uid
    job_id: int
    owner: str  # the owner's account name at home
    pe_task: str = ""  # id of a part of a parallel job; the part's end is not the job's end
    queue: str = ""
    host: str = ""
    submitted_at: datetime | None = None
    started_at: datetime | None = None  # start time; None: never started, or unknown
    ended_at: datetime | None = None
    failed: int | None = None  # `failed` code (sge_status(5)); None: no accounting record
    exit_status: int | None = None  # exit status of the job, 128 + N after signal N
    wallclock_s: float | None = None  # run time; None: unknown
    user_s: float | None = None
    system_s: float | None = None
    max_rss_kb: float | None = None

    @property
    def has_usage(self) -> bool:
        """Whether the record has measured usage, unlike that of a job removed by `qdel -f`."""
        return bool(self.user_s or self.system_s or self.max_rss_kb)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountingFilePosition:
    """A reading position in a growing file; the default is an unread file's start."""

    device: int = 0
    inode: int = 0
    offset: int = 0  # number of bytes read so far, up to the end of a line
    tail: str = ""  # digest of the last bytes read, by which a replaced file is recognised


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccountingProgress:
    """The reading position in a cluster's accounting file."""

    cluster: str
    path: str
    place: AccountingFilePosition = AccountingFilePosition()
    skipped: int = 0  # number of unreadable lines that name a transfer
