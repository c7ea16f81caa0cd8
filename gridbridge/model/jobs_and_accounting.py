"""Values about one job in a cluster: request, errors, limits and end."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from gridbridge.model.job_request import JobRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAccountAndErrors:
    """Job details that job lists lack: account, errors and scheduler messages."""

    job_id: int
    name: str
    owner: str
    account: str
    errors: tuple[str, ...] = ()  # causes of the error state, one for each failed task
    messages: tuple[str, ...] = ()  # the scheduler's reasons why the job waits
    begun: tuple[int, ...] = ()  # numbers of tasks that are known to have started


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequestAndSubmitOptions:
    """The request and submission options of a submitted job, or of a job to submit."""

    request: JobRequest
    account: str
    pe: str  # name of the parallel environment; empty: a serial job
    slots: int  # largest number of slots requested
    fewest: int  # smallest number of slots with which the job starts
    cwd: str  # working directory; empty: the owner's home directory
    is_interactive: bool  # whether the job needs a terminal


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayEndQuery:
    """A query about the ends of an array's tasks at a cluster."""

    job_id: int
    account: str
    places: Sequence[int]  # positions of the tasks in the array, from 1
    looks_since: datetime | None = None  # begin of the accounting search


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterArrayLimits:
    """A cluster's limits on arrays; 0 means no limit."""

    tasks: int = 0  # largest number of tasks in one array, which can all run at once
    of_person: int = 0  # largest number of one account's unfinished jobs, an array counting once
    of_all: int = 0  # largest number of all unfinished jobs, an array counting once
    told_within_s: float = 0.0  # longest delay of a task's accounting record


class JobKillReason(StrEnum):
    """The reason for which a cluster killed a job, if the cluster tells."""

    UNKNOWN = ""
    WALLTIME = "walltime"
    PLACE = "place"  # another job needed the job's resources
    DELETION = "deletion"  # a person deleted the job


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueJobAndUserRestrictions:
    """Restrictions of a queue on jobs and people; None: no restriction, or unknown."""

    slots: int | None = None
    environments: tuple[str, ...] | None = None  # names of admitted parallel environments
    people: tuple[str, ...] | None = None  # admitted people, and groups as @GROUP


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnd:
    """The final end of a job from its cluster's accounting.

    An end without an exit status and a signal is unknown: the host was lost, or the job was
    removed by force. The job may have finished its work or not.
    """

    exit_status: int | None = None
    signal: int | None = None
    is_preempted: bool = False  # whether the cluster preempted a job whose end is unknown
    is_unstarted: bool = False  # whether the cluster never launched the job
    killed_for: JobKillReason = JobKillReason.UNKNOWN
    reason: str = ""  # the cluster's reason for the end; empty after a plain exit
    host: str = ""
    user_s: float | None = None  # user CPU time; None: not in the accounting
    system_s: float | None = None
    wallclock_s: float | None = None
    max_rss_kb: float | None = None

    @property
    def is_unseen(self) -> bool:
        """Whether the job's end is unknown: neither an exit status nor a signal."""
        return self.exit_status is None and self.signal is None


@dataclass(frozen=True, slots=True, kw_only=True)
class FutureDatedJobEnd:
    """A job end with a time in the future, from a wrong clock or a forged record.

    The service records a future end but judges the end only at its time.
    """

    ended_at: datetime
    host: str  # the host whose clock gave the time
    end: JobEnd | None  # the end to be judged at its time; None after contradicting ends


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
