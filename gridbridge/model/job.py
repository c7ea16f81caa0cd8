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
