"""Facts about jobs at a cluster: requests, errors, limits, accounting records and ends."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from gridbridge.model.job_request import JobRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAccountAndErrors:
    """Facts about a job that its cluster reports only on a separate query, such as errors."""

    job_id: int
    name: str
    owner: str
    account: str
    errors: tuple[str, ...] = ()  # the cause for each task in error state
    messages: tuple[str, ...] = ()  # the scheduler's reasons why the job waits
    begun: tuple[int, ...] = ()  # task numbers of the tasks that have started


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequestAndSubmitOptions:
    request: JobRequest
    account: str
    pe: str  # parallel environment; empty: a serial job
    slots: int  # largest requested number of slots
    fewest: int  # smallest requested number of slots
    cwd: str  # working directory; empty: the owner's home directory
    is_interactive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayEndQuery:
    job_id: int
    account: str
    places: Sequence[int]  # array indices, from 1
    looks_since: datetime | None = None  # older accounting records are not searched


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterArrayLimits:
    """The limits of a cluster on arrays and jobs; 0 means no limit."""

    tasks: int = 0  # tasks of one array, all of which can run at once
    of_person: int = 0  # unfinished jobs and arrays of one user
    of_all: int = 0  # unfinished jobs and arrays of all users
    told_within_s: float = 0.0  # longest time from the end of a task to its accounting record


class JobKillReason(StrEnum):
    UNKNOWN = ""
    WALLTIME = "walltime"
    PLACE = "place"  # another job needed the job's resources
    DELETION = "deletion"  # a person deleted the job


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueJobAndUserRestrictions:
    """The jobs and users that a queue admits; None means unrestricted or unknown."""

    slots: int | None = None
    environments: tuple[str, ...] | None = None  # parallel environments whose jobs the queue admits
    people: tuple[str, ...] | None = None  # users that the queue admits, and groups as @GROUP


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnd:
    """How a job ended, according to the accounting of its cluster.

    If exit status and signal are missing, the end is unknown; the job may still have done its work.
    """

    exit_status: int | None = None
    signal: int | None = None
    is_preempted: bool = False  # whether the end is unknown because the cluster preempted the job
    is_unstarted: bool = False
    killed_for: JobKillReason = JobKillReason.UNKNOWN
    reason: str = ""  # why the job ended, in the cluster's words; empty after a normal exit
    host: str = ""
    user_s: float | None = None  # CPU time in user mode; None: unknown
    system_s: float | None = None
    wallclock_s: float | None = None
    max_rss_kb: float | None = None  # largest resident set of a process
    max_vmem_kb: float | None = None  # largest virtual memory of all processes together
    written_kb: float | None = None  # kB written to filesystems by the job

    @property
    def is_end_unknown(self) -> bool:
        """Whether the job's end is unknown, because the accounting has no exit status and no signal."""
        return self.exit_status is None and self.signal is None


@dataclass(frozen=True, slots=True, kw_only=True)
class FutureDatedJobEnd:
    """A job's end dated in the future (wrong clock or forged record); ignored until that time."""

    ended_at: datetime
    host: str
    end: JobEnd | None  # None: the accounting records contradict each other


PER_TRANSFER = 100  # limit of stored accounting records per owner and transfer
SKEW_S = 60  # a host's clock and the qmaster's clock may differ this much
RESCHEDULED = frozenset({24, 25})  # values of the accounting field `failed` after a migration or a reschedule
LATEST_S = 253402300800  # the latest time, in epoch seconds, that Python's datetime can represent


def queue_wait_s(submitted_s: float, started_s: float, ended_s: float) -> float | None:
    """Return how many seconds a task waited for its start; None if the times contradict each other."""
    if 0 < submitted_s <= started_s + SKEW_S and started_s <= ended_s < LATEST_S:
        return max(0.0, started_s - submitted_s)
    return None


class RemoteUsageSource(StrEnum):
    ACCOUNTING = "accounting"  # from the accounting file of the remote cluster
    MESSAGE = "end message"  # from a message of the job's wrapper, which the owner could forge


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
    exit_status: int  # exit status of the job; 128 + N if signal N killed the job
    wallclock_s: float
    user_s: float
    system_s: float
    max_rss_kb: float
    max_vmem_kb: float = 0.0  # 0: not measured, because the job was too short
    written_kb: float = 0.0
    pe: str = ""  # parallel environment, or NONE
    pe_task: str = ""  # id of one part of a parallel job; qacct does not print it
    deleted_by: str = ""  # who deleted the job; known only from Open Cluster Scheduler

    @property
    def has_usage(self) -> bool:
        """Whether an accounting record has measured usage; after `qdel -f` the record has no usage."""
        return bool(self.user_s or self.system_s or self.max_rss_kb)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteJobRunAccounting:
    """The accounting record of one run of a remote job; a rescheduled job has several runs."""

    transfer: str  # the transfer's name, which is the job's account
    cluster: str
    source: RemoteUsageSource
    mark: str  # digest of the accounting line; for an end message, the owner's uid
    job_id: int
    owner: str  # the owner's account at home
    pe_task: str = ""
    queue: str = ""
    host: str = ""
    submitted_at: datetime | None = None
    started_at: datetime | None = None  # None: the job never started, or unknown
    ended_at: datetime | None = None
    failed: int | None = None  # accounting field `failed` (sge_status(5)); None: not from the accounting
    exit_status: int | None = None  # exit status of the job; 128 + N if signal N killed the job
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
    """The position up to which a growing file was read; by default nothing was read."""

    device: int = 0
    inode: int = 0
    offset: int = 0  # number of bytes read, up to the end of a line
    tail: str = ""  # digest of the last bytes read, to notice that the file was replaced


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccountingProgress:
    cluster: str
    path: str
    place: AccountingFilePosition = AccountingFilePosition()
    skipped: int = 0  # number of lines that name a transfer but can't be parsed
