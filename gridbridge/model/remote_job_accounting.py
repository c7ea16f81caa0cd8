"""Accounting values of remote jobs, and the reading position in accounting files."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

PER_TRANSFER = 100  # records kept of each owner; anybody may use its account name
SKEW_S = 60  # clock skew: a start by a host's clock may precede the submission
RESCHEDULED = frozenset({24, 25})  # `failed` codes: migrating, rescheduling
LATEST_S = 253402300800  # the largest time that datetime can hold


def queue_wait_s(submitted_s: float, started_s: float, ended_s: float) -> float | None:
    """Return the seconds a task waited in its queue; None for impossible times."""
    if 0 < submitted_s <= started_s + SKEW_S and started_s <= ended_s < LATEST_S:
        return max(0.0, started_s - submitted_s)
    return None


class RemoteUsageSource(StrEnum):
    """The source of a remote job's usage."""

    ACCOUNTING = "accounting"  # the remote cluster's accounting file
    MESSAGE = "end message"  # the job's wrapper, a process of the owner


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRunAccounting:
    """One run of a job or task; a rescheduled job has several records."""

    job_id: int
    task: int  # 0 for a job that is no array
    name: str
    owner: str
    account: str
    queue: str  # without its host
    host: str
    submitted_at: datetime | None
    started_at: datetime | None  # None when it never started
    ended_at: datetime | None
    failed: int
    exit_status: int  # 128 + N when signal N ended it
    wallclock_s: float
    user_s: float
    system_s: float
    max_rss_kb: float
    pe: str = ""  # parallel environment, or NONE
    pe_task: str = ""  # set for a part of a parallel job; not in qacct
    deleted_by: str = ""  # printed only by Open Cluster Scheduler

    @property
    def has_usage(self) -> bool:
        """Whether the record has any measured usage.

        `qdel -f` leaves failed 0 and exit status 0 without usage: such a record is no success.
        """
        return bool(self.user_s or self.system_s or self.max_rss_kb)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteJobRunAccounting:
    """One run of a transfer's remote job; a rescheduled job has several records."""

    transfer: str  # gb.<cluster>.<job>.<task>.<attempt>, the job's account
    cluster: str
    source: RemoteUsageSource
    mark: str  # unique in the cluster: the line's digest, or the transfer's uid
    job_id: int
    owner: str  # account name at home
    pe_task: str = ""  # set for a part of a parallel job, whose end is not the job's end
    queue: str = ""
    host: str = ""
    submitted_at: datetime | None = None
    started_at: datetime | None = None  # None: never started, or unknown
    ended_at: datetime | None = None
    failed: int | None = None  # sge_status(5); None for a record from a message
    exit_status: int | None = None  # 128 + N when signal N ended it
    wallclock_s: float | None = None  # None: unknown; so for the usage below
    user_s: float | None = None
    system_s: float | None = None
    max_rss_kb: float | None = None

    @property
    def has_usage(self) -> bool:
        """Whether the record has measured usage; `qdel -f` leaves failed 0 without usage."""
        return bool(self.user_s or self.system_s or self.max_rss_kb)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountingFilePosition:
    """A reading position in a growing file; the default is an unread file's start."""

    device: int = 0
    inode: int = 0
    offset: int = 0  # bytes read so far, in whole lines
    tail: str = ""  # digest of the last bytes read: tells a new file of the same name


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccountingProgress:
    """The reading position in a cluster's accounting file."""

    cluster: str
    path: str
    place: AccountingFilePosition = AccountingFilePosition()
    skipped: int = 0  # unreadable lines under our accounts
