"""Facts about one job at a cluster: request, errors, limits, accounting and end."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from gridbridge.model.job_request import JobRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAccountAndErrors:
    """A job's account, errors and scheduler messages, which are queried apart from the job list."""

    job_id: int
    name: str
    owner: str
    account: str
    errors: tuple[str, ...] = ()  # one cause of the error state for each failed task
    messages: tuple[str, ...] = ()  # the scheduler's reasons why the job waits
    begun: tuple[int, ...] = ()  # numbers of tasks that have started


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequestAndSubmitOptions:
    """What a job requests, and the options of its submission."""

    request: JobRequest
    account: str
    pe: str  # parallel environment; empty: a serial job
    slots: int  # largest requested number of slots
    fewest: int  # smallest requested number of slots
    cwd: str  # working directory; empty: the owner's home directory
    is_interactive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayEndQuery:
    """A query for the ends of an array's tasks at a cluster."""

    job_id: int
    account: str
    places: Sequence[int]  # array indices, from 1
    looks_since: datetime | None = None  # earlier accounting records are not searched


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterArrayLimits:
    """A cluster's limits for arrays; 0 means no limit."""

    tasks: int = 0  # tasks of one array, which can all run at once
    of_person: int = 0  # unfinished jobs and arrays of one account
    of_all: int = 0  # unfinished jobs and arrays of all accounts
    told_within_s: float = 0.0  # longest delay of an accounting record


class JobKillReason(StrEnum):
    """The reason that a cluster gives for killing a job."""

    UNKNOWN = ""
    WALLTIME = "walltime"
    PLACE = "place"  # another job needed the job's resources
    DELETION = "deletion"  # a person deleted the job


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueJobAndUserRestrictions:
    """The jobs and users that a queue admits; None: no restriction, or unknown."""

    slots: int | None = None
    environments: tuple[str, ...] | None = None  # admitted parallel environments
    people: tuple[str, ...] | None = None  # admitted users, and groups as @GROUP


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnd:
    """The end of a job, by the accounting of the job's cluster.

    An end without an exit status and without a signal is unknown: the host was lost, or the job was
    removed by force. The job may have done its work.
    """

    exit_status: int | None = None
    signal: int | None = None
    is_preempted: bool = False  # the end is unknown, because the cluster preempted the job
    is_unstarted: bool = False  # the cluster never started the job
    killed_for: JobKillReason = JobKillReason.UNKNOWN
    reason: str = ""  # the reason that the cluster gives; empty after a plain exit
    host: str = ""
    user_s: float | None = None  # CPU time in user mode; None: unknown
    system_s: float | None = None
    wallclock_s: float | None = None
    max_rss_kb: float | None = None

    @property
    def is_unseen(self) -> bool:
        """Whether the job's end is unknown, because the accounting has no exit status and no signal."""
        return self.exit_status is None and self.signal is None


@dataclass(frozen=True, slots=True, kw_only=True)
class FutureDatedJobEnd:
    """A job's end with a time in the future, from a wrong clock or a forged record.

    gridbridge stores the end, and ignores the end until this time has come.
    """

    ended_at: datetime
    host: str
    end: JobEnd | None  # None: contradicting ends


PER_TRANSFER = 100  # stored accounting records of one owner for a transfer
SKEW_S = 60  # largest difference between the clocks of a host and the qmaster
RESCHEDULED = frozenset({24, 25})  # values of `failed` after a migration or a reschedule
LATEST_S = 253402300800  # the latest time of Python's datetime


def queue_wait_s(submitted_s: float, started_s: float, ended_s: float) -> float | None:
    """Return how many seconds a task waited for its start; None if the times contradict each other."""
    if 0 < submitted_s <= started_s + SKEW_S and started_s <= ended_s < LATEST_S:
        return max(0.0, started_s - submitted_s)
    return None


class RemoteUsageSource(StrEnum):
    """Where the usage of a remote job comes from."""

    ACCOUNTING = "accounting"  # accounting file of the remote cluster
    MESSAGE = "end message"  # message of the job's wrapper, which runs under the owner's account


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRunAccounting:
    """The accounting record of one run of a job or task; a rescheduled job has several runs."""

    job_id: int
    task: int  # task number; 0 for a job that is no array
    name: str
    owner: str
    account: str
    queue: str  # name of the queue without the host
    host: str
    submitted_at: datetime | None
    started_at: datetime | None  # None: the job never started
    ended_at: datetime | None
    failed: int
    exit_status: int  # exit status of the job, 128 + N after signal N
    wallclock_s: float
    user_s: float
    system_s: float
    max_rss_kb: float
    pe: str = ""  # parallel environment, or NONE
    pe_task: str = ""  # id of a part of a parallel job; not printed by qacct
    deleted_by: str = ""  # account that deleted the job; only Open Cluster Scheduler records it

    @property
    def has_usage(self) -> bool:
        """Whether an accounting record has measured usage; after `qdel -f` the record has no usage."""
        return bool(self.user_s or self.system_s or self.max_rss_kb)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteJobRunAccounting:
    """The accounting record of one run of a remote job; a rescheduled job has several runs."""

    transfer: str  # name of the transfer, as in the job's account
    cluster: str
    source: RemoteUsageSource
    mark: str  # digest of the accounting line; uid of the owner for an end message
    job_id: int
    owner: str  # the owner's account at home
    pe_task: str = ""  # id of a part of a parallel job
    queue: str = ""
    host: str = ""
    submitted_at: datetime | None = None
    started_at: datetime | None = None  # None: never started, or unknown
    ended_at: datetime | None = None
    failed: int | None = None  # code `failed` (sge_status(5)); None: no accounting record
    exit_status: int | None = None  # exit status of the job, 128 + N after signal N
    wallclock_s: float | None = None  # None: unknown
    user_s: float | None = None
    system_s: float | None = None
    max_rss_kb: float | None = None

    @property
    def has_usage(self) -> bool:
        """Whether an accounting record has measured usage; after `qdel -f` the record has no usage."""
        return bool(self.user_s or self.system_s or self.max_rss_kb)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountingFilePosition:
    """The position up to which a growing file was read; by default the start of a file."""

    device: int = 0
    inode: int = 0
    offset: int = 0  # bytes read, up to the end of a line
    tail: str = ""  # digest of the last bytes read; a replaced file has another digest


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccountingProgress:
    """The position up to which a cluster's accounting file was read."""

    cluster: str
    path: str
    place: AccountingFilePosition = AccountingFilePosition()
    skipped: int = 0  # number of unreadable lines that name a transfer
