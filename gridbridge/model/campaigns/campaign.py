"""A campaign as the state file has it, and what became of its tasks."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from gridbridge.errors import GridbridgeError
from gridbridge.model.campaigns.attempt_numbers import Attempts
from gridbridge.model.campaigns.jdl import Jdl

AT_ONCE, USUAL, LAST = 20, 10, 0  # priorities of tasks, as in CiGri


class CampaignState(StrEnum):
    """Where a campaign is."""

    IN_TREATMENT = "in_treatment"
    PAUSED = "paused"
    TERMINATED = "terminated"
    CANCELLED = "cancelled"
    PURGED = "purged"  # nothing is known of it but that its number was given

    @property
    def is_alive(self) -> bool:
        """Whether tasks of it may still be sent."""
        return self in (CampaignState.IN_TREATMENT, CampaignState.PAUSED)


class TaskOutcome(StrEnum):
    """What one attempt to run a task came to; a closed set for both batch systems."""

    PENDING = "pending"  # it waits or runs, as far as is known
    SUCCESS = "success"
    PROGRAM_ERROR = "program_error"  # the program's own exit status
    RESUBMIT = "resubmit"  # it asked to run again at once: exit status 66
    RESUBMIT_LAST = "resubmit_last"  # it asked to run again after all others: 67
    SIGNAL = "signal"
    WALLTIME = "walltime"
    PREEMPTED = "preempted"
    SITE_FAULT = "site_fault"  # its host was lost, its cluster lost it, or nobody saw its end
    SETUP_ERROR = "setup_error"  # the cluster could not start it
    CANCELLED = "cancelled"  # with its campaign; or somebody deleted it at its cluster
    UNWANTED = "unwanted"  # its owner cancelled this task
    WIPED = "wiped"  # nikita deleted it before it started
    MOVED = "moved"  # it was taken from where it waited, to start elsewhere
    COPY = "copy"  # it decided nothing: another attempt of its task went on, or had succeeded


def is_cancelled(outcome: TaskOutcome, state: "CampaignState | None") -> bool:
    """Say whether a task was cancelled by its owner, alone or with its campaign.

    A cancelled task of a campaign that is not cancelled was deleted at its cluster: it failed.
    """
    is_with_campaign = state is CampaignState.CANCELLED and outcome is TaskOutcome.CANCELLED
    return is_with_campaign or outcome is TaskOutcome.UNWANTED


class ArrayState(StrEnum):
    """How far an array has come; each step is written down before the next is taken."""

    INTENDED = "intended"
    SUBMITTED = "submitted"  # held, and its number is known
    RELEASED = "released"
    OVER = "over"


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """One campaign."""

    number: int
    uid: int
    owner: str
    state: CampaignState
    submitted_at: datetime
    tasks: int
    ended: int = 0  # for good
    failed: int = 0  # of those
    cancelled: int = 0  # of those that ended, by their owner: none of them failed
    digest: str  # of its file, as it was taken in
    jdl: Jdl
    ended_at: datetime | None = None

    @property
    def is_winding_up(self) -> bool:
        """Whether it was cancelled, and its epilogues are still to run."""
        return self.state is CampaignState.CANCELLED and self.ended_at is None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskBatch:
    """Tasks that an owner added to a campaign, by a file of their own."""

    campaign: int
    number: int  # from 1, in the order in which their tasks are numbered
    tasks: int
    digest: str  # of the file, as it was taken in


@dataclass(frozen=True, slots=True, kw_only=True)
class Array:
    """One array at one cluster; its tasks have the places 1 to `size`."""

    campaign: int
    number: int
    cluster: str
    state: ArrayState
    size: int
    job_id: int = 0
    intended_at: datetime
    is_repeated: bool = False  # its submission: an answer may have been lost
    copies_beyond_s: int | None = None  # its tasks are copies: those had run for longer; None: not

    @property
    def is_of_copies(self) -> bool:
        """Whether earlier attempts of its tasks were left alone when it was made."""
        return self.copies_beyond_s is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerArray:
    """One array as root's ledger has it."""

    number: int
    cluster: str
    tasks: Attempts
    job_id: int = 0  # 0: not known
    is_of_copies: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SentTask:
    """How far an array came that was to be submitted and released."""

    job_id: int = 0  # 0: not known
    error: GridbridgeError | None = None  # None: its tasks may start


def clusters_of(arrays: Iterable[Array]) -> dict[tuple[int, int], str]:
    """Return at which cluster each array is, by its campaign and number."""
    return {(array.campaign, array.number): array.cluster for array in arrays}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt to run one task."""

    campaign: int
    task: int  # from 0, the line of its parameters
    attempt: int  # from 1
    array: int
    place: int  # in its array, from 1
    outcome: TaskOutcome = TaskOutcome.PENDING
    exit_status: int | None = None
    wallclock_s: int | None = None
    host: str = ""  # where it ended, in the cycle that learns it; not kept
    forgotten_job: int = 0  # in which it ran, where its cluster has lost that; not kept either
    is_past: bool = False  # its owner closed its event, or had the task tried again
    is_overrun: bool = False  # it came to a copy, by overrunning its walltime


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingTasks:
    """Tasks that wait to be sent: those of these numbers, which have the same attempt next."""

    first: int
    last: int
    attempt: int = 1
    priority: int = USUAL  # higher goes first
    avoid: tuple[str, ...] = ()  # clusters, as long as one that did not fail it is open
    never: tuple[str, ...] = ()  # clusters, whatever is open: it overran its walltime there
