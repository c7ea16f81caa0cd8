"""One job as its cluster shows it to a question about that job: what it is, and how it ended."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from gridbridge.model.request import JobRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetail:
    """What is not in the lists: a job's account, and what is wrong with it."""

    job_id: int
    name: str
    owner: str
    account: str
    errors: tuple[str, ...] = ()  # why it is in error state, one a failed task
    messages: tuple[str, ...] = ()  # why the scheduler did not start it
    begun: tuple[int, ...] = ()  # its tasks that have, as far as that is told


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedJob:
    """A job as it was submitted, or as it would be: what it asks for, and how."""

    request: JobRequest
    account: str
    pe: str  # its parallel environment; empty: it is serial
    slots: int  # the most that it asks for
    fewest: int  # slots with which it would start
    cwd: str  # empty: its owner's home
    is_interactive: bool  # interactive


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayEndQuery:
    """An array about whose tasks a cluster is asked how they ended."""

    job_id: int
    account: str
    places: Sequence[int]  # where those tasks are, from 1
    looks_since: datetime | None = None  # it is searched for in all that is kept of later


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayLimits:
    """What a cluster lets arrays be; 0: it has no such limit."""

    tasks: int = 0  # of one array, all of which can run at once
    of_person: int = 0  # arrays and other jobs of one account that have not ended
    of_all: int = 0  # the same, of everybody
    told_within_s: float = 0.0  # so long after a task's end its record may be written


class KillReason(StrEnum):
    """Why a cluster killed a job, where it tells."""

    UNKNOWN = ""
    WALLTIME = "walltime"
    PLACE = "place"  # another job needed its resources
    DELETION = "deletion"  # somebody deleted it


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueAdmission:
    """Whose jobs a queue takes, and what kinds; None where it does not tell, or takes any."""

    slots: int | None = None
    environments: tuple[str, ...] | None = None  # parallel ones
    people: tuple[str, ...] | None = None  # and groups, @GROUP


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnd:
    """How a job ended for good, as its cluster's accounting tells it.

    If it has neither an exit status nor a signal, nobody saw its end: its host was lost, or it was
    removed by force. It may have done its work or not.
    """

    exit_status: int | None = None
    signal: int | None = None
    is_preempted: bool = False  # nobody saw its end: the cluster needed its place
    is_unstarted: bool = False  # nobody saw its end, and its cluster never launched it
    killed_for: KillReason = KillReason.UNKNOWN
    reason: str = ""  # the cluster's own words, unless it just exited
    host: str = ""
    user_s: float | None = None  # None, as below: not accounted for
    system_s: float | None = None
    wallclock_s: float | None = None
    max_rss_kb: float | None = None

    @property
    def is_unseen(self) -> bool:
        """Whether nobody saw it."""
        return self.exit_status is None and self.signal is None


@dataclass(frozen=True, slots=True, kw_only=True)
class FutureJobEnd:
    """An end that is told for a time which has not come: some clock is wrong, or it is forged.

    It is known and not judged yet.
    """

    ended_at: datetime
    host: str  # whose clock that would be
    end: JobEnd | None  # as which it will count; None: another end is told beside it
