"""One job as its cluster shows it: request, state, limits and end."""

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
    begun: tuple[int, ...] = ()  # tasks known to have started


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedJob:
    """A job as it was or would be submitted: its request and submission options."""

    request: JobRequest
    account: str
    pe: str  # parallel environment; empty: a serial job
    slots: int  # the most slots requested
    fewest: int  # the fewest slots with which the job starts
    cwd: str  # empty: the owner's home
    is_interactive: bool  # the job needs a terminal


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayEndQuery:
    """An array whose task ends are queried at a cluster."""

    job_id: int
    account: str
    places: Sequence[int]  # positions of the tasks in the array, from 1
    looks_since: datetime | None = None  # the accounting is searched from this time on


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayLimits:
    """A cluster's limits on arrays; 0 means no limit."""

    tasks: int = 0  # tasks of one array, all of which can run at once
    of_person: int = 0  # arrays and other jobs of one account that have not ended
    of_all: int = 0  # arrays and other jobs of all accounts that have not ended
    told_within_s: float = 0.0  # longest delay of a task's accounting record


class JobKillReason(StrEnum):
    """The reason for which a cluster killed a job, if the cluster tells."""

    UNKNOWN = ""
    WALLTIME = "walltime"
    PLACE = "place"  # another job needed its resources
    DELETION = "deletion"  # somebody deleted it


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueAdmission:
    """The jobs and people that a queue admits; None: unknown, or no restriction."""

    slots: int | None = None
    environments: tuple[str, ...] | None = None  # parallel environments
    people: tuple[str, ...] | None = None  # people, and groups as @GROUP


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnd:
    """The final end of a job from its cluster's accounting.

    Without an exit status and a signal nobody saw the end: the host was lost, or the job was
    removed by force. The job may have finished its work or not.
    """

    exit_status: int | None = None
    signal: int | None = None
    is_preempted: bool = False  # nobody saw the end: the cluster preempted the job
    is_unstarted: bool = False  # nobody saw the end, and the cluster never launched the job
    killed_for: JobKillReason = JobKillReason.UNKNOWN
    reason: str = ""  # the cluster's own words; empty after a plain exit
    host: str = ""
    user_s: float | None = None  # None: not in the accounting; so for the usage below
    system_s: float | None = None
    wallclock_s: float | None = None
    max_rss_kb: float | None = None

    @property
    def is_unseen(self) -> bool:
        """Whether nobody saw the job's end."""
        return self.exit_status is None and self.signal is None


@dataclass(frozen=True, slots=True, kw_only=True)
class FutureDatedJobEnd:
    """A job end with a time in the future, from a wrong clock or a forged record.

    A future end is recorded but not judged yet.
    """

    ended_at: datetime
    host: str  # the host whose clock gave the time
    end: JobEnd | None  # the end once its time has come; None: a second end contradicts it
