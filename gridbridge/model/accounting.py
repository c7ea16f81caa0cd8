"""What remote jobs used, as it is kept and shown, and how far an accounting file was read."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

PER_TRANSFER = 100  # records kept of each owner: anybody may give any number of jobs its account
SKEW_S = 60  # a start is told by its host's clock: it may be so much before the submission
RESCHEDULED = frozenset({24, 25})  # migrating, rescheduling: the job runs again
LATEST_S = 253402300800  # datetime ends there


def queue_wait_s(submitted_s: float, started_s: float, ended_s: float) -> float | None:
    """Return how long a task waited; None where these can't be the times of one that ran."""
    if 0 < submitted_s <= started_s + SKEW_S and started_s <= ended_s < LATEST_S:
        return max(0.0, started_s - submitted_s)
    return None


class UsageSource(StrEnum):
    """Who tells what a remote job used."""

    ACCOUNTING = "accounting"  # its cluster
    MESSAGE = "end message"  # its wrapper: the owner's own process


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountingRecord:
    """One run of one job or task; a rescheduled one has several."""

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
    pe: str = ""  # parallel environment; NONE without one
    pe_task: str = ""  # set of a part of a parallel job; qacct does not print it
    deleted_by: str = ""  # only Open Cluster Scheduler prints it

    @property
    def has_usage(self) -> bool:
        """Whether anything was measured.

        `qdel -f` leaves failed 0 and exit status 0 without any usage: that is no success.
        """
        return bool(self.user_s or self.system_s or self.max_rss_kb)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteRecord:
    """One run of the remote job of a transfer; a rescheduled one has several."""

    transfer: str  # gb.<cluster>.<job>.<task>.<attempt>, the account that it ran under
    cluster: str
    source: UsageSource
    mark: str  # unique in its cluster: the line's digest, or the transfer's uid
    job_id: int
    owner: str  # by the name here
    pe_task: str = ""  # set of a part of a parallel job: its end is not the job's
    queue: str = ""
    host: str = ""
    submitted_at: datetime | None = None
    started_at: datetime | None = None  # None when it never started, or is not known
    ended_at: datetime | None = None
    failed: int | None = None  # sge_status(5); None where only a message tells
    exit_status: int | None = None  # 128 + N when signal N ended it
    wallclock_s: float | None = None  # None, as below: not known
    user_s: float | None = None
    system_s: float | None = None
    max_rss_kb: float | None = None

    @property
    def has_usage(self) -> bool:
        """Whether anything was measured; `qdel -f` leaves a record of failed 0 without any."""
        return bool(self.user_s or self.system_s or self.max_rss_kb)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountingFilePosition:
    """A place in a growing file; the default is the beginning of one that was never seen."""

    device: int = 0
    inode: int = 0
    offset: int = 0  # bytes that were read, whole lines
    tail: str = ""  # digest of the last of them: a new file of the same name has another


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountingCursor:
    """How far a cluster's accounting file was read."""

    cluster: str
    path: str
    place: AccountingFilePosition = AccountingFilePosition()
    skipped: int = 0  # lines under our accounts that could not be read
