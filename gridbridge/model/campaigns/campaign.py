"""A campaign, its arrays and the attempts of its tasks, as the state file keeps them."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Self

from gridbridge.errors import GridbridgeError
from gridbridge.model.campaigns.jdl import Jdl
from gridbridge.model.campaigns.task_attempt_ranges import Attempts

# priorities of waiting tasks, with CiGri's values
PRIORITY_AT_ONCE, PRIORITY_USUAL, PRIORITY_LAST = 20, 10, 0

CampaignCluster = tuple[int, str]  # number of a campaign, name of a cluster


class CampaignState(StrEnum):
    """The state of a campaign."""

    IN_TREATMENT = "in_treatment"
    PAUSED = "paused"
    TERMINATED = "terminated"
    CANCELLED = "cancelled"
    PURGED = "purged"  # only the number of the campaign is kept

    @property
    def is_alive(self) -> bool:
        """Whether tasks of the campaign may still be sent."""
        return self in (CampaignState.IN_TREATMENT, CampaignState.PAUSED)


class TaskAttemptOutcome(StrEnum):
    """The outcome of an attempt to run a task, the same for all batch systems."""

    PENDING = "pending"  # it waits or runs, by the last answer of its cluster
    SUCCESS = "success"
    PROGRAM_ERROR = "program_error"  # the program's own exit status
    RESUBMIT = "resubmit"  # exit status 66: the task asks to run again at once
    RESUBMIT_LAST = "resubmit_last"  # exit status 67: the task asks to run again last
    SIGNAL = "signal"
    WALLTIME = "walltime"
    PREEMPTED = "preempted"
    SITE_FAULT = "site_fault"  # its host or its record was lost
    SETUP_ERROR = "setup_error"  # the cluster could not start the task
    CANCELLED = "cancelled"  # deleted with its campaign, or by anybody at its cluster
    UNWANTED = "unwanted"  # its owner cancelled this task alone
    WIPED = "wiped"  # nikita deleted the task before it started
    MOVED = "moved"  # rebalancing deleted the waiting task to send it elsewhere
    COPY = "copy"  # another attempt of the task decided its end


def is_task_cancelled_by_owner(outcome: TaskAttemptOutcome, state: "CampaignState | None") -> bool:
    """Say whether the owner cancelled a task, alone or with its campaign.

    A cancelled task in a campaign that its owner did not cancel was deleted at its cluster: it
    failed.
    """
    is_with_campaign = state is CampaignState.CANCELLED and outcome is TaskAttemptOutcome.CANCELLED
    return is_with_campaign or outcome is TaskAttemptOutcome.UNWANTED


class ArraySubmissionState(StrEnum):
    """How far the submission of an array is; each state is stored before the next act."""

    INTENDED = "intended"
    SUBMITTED = "submitted"  # held, with a known job id
    RELEASED = "released"
    OVER = "over"


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """A campaign with its state, its owner, its task counts and its JDL."""

    number: int
    uid: int
    owner: str
    state: CampaignState
    submitted_at: datetime
    tasks: int
    ended: int = 0  # ended tasks that do not run again
    failed: int = 0  # of the ended tasks
    cancelled: int = 0  # ended tasks that their owner cancelled; these did not fail
    digest: str  # checksum of the campaign file at its submission
    jdl: Jdl
    ended_at: datetime | None = None

    @property
    def is_winding_up(self) -> bool:
        """Whether the campaign was cancelled and its epilogues have not all ended."""
        return self.state is CampaignState.CANCELLED and self.ended_at is None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedTasks:
    """Tasks that an owner added to a campaign later, with a file of their own."""

    campaign: int
    number: int  # from 1, in the order of their task numbers
    tasks: int
    digest: str  # checksum of the file at its submission


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignArray:
    """An array of a campaign's tasks at a cluster; its tasks have the indices 1 to `size`."""

    campaign: int
    number: int
    cluster: str
    state: ArraySubmissionState
    size: int
    job_id: int = 0
    intended_at: datetime
    is_repeated: bool = False  # the submission is repeated: its answer may have been lost
    # speculative attempts: the originals had run longer; else None
    copies_beyond_s: int | None = None

    @property
    def is_of_copies(self) -> bool:
        """Whether the array's tasks are speculative attempts beside earlier live ones."""
        return self.copies_beyond_s is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class RootLedgerArray:
    """An array of a campaign as root's ledger records it."""

    number: int
    cluster: str
    tasks: Attempts
    job_id: int = 0  # 0: unknown
    is_of_copies: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ArraySubmissionResult:
    """The result of submitting and releasing an array: its job id, or the error."""

    job_id: int = 0  # 0: unknown
    error: GridbridgeError | None = None  # None: the tasks may start


def map_arrays_to_clusters(arrays: Iterable[CampaignArray]) -> dict[tuple[int, int], str]:
    """Map each array, by its campaign and number, to its cluster."""
    return {(array.campaign, array.number): array.cluster for array in arrays}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAttempt:
    """An attempt to run one task of a campaign, with its outcome."""

    campaign: int
    task: int  # from 0, the line of its parameters in the file
    attempt: int  # from 1
    array: int
    place: int  # index in its array, from 1
    outcome: TaskAttemptOutcome = TaskAttemptOutcome.PENDING
    exit_status: int | None = None
    wallclock_s: int | None = None
    host: str = ""  # host of the end, known in the current cycle alone
    forgotten_job: int = 0  # job that the cluster has lost; known in this cycle alone
    is_past: bool = False  # its owner closed its event or had the task run again
    is_overrun: bool = False  # outcome COPY, since it overran its walltime


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingTaskRange:
    """A range of tasks that wait to be sent with the same attempt number and priority."""

    first: int
    last: int
    attempt: int = 1
    priority: int = PRIORITY_USUAL  # tasks of higher priority go first
    avoid: tuple[str, ...] = ()  # clusters to avoid while another cluster is open
    never: tuple[str, ...] = ()  # clusters where the task overran its walltime


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptOutcomeAtCluster:
    """The outcome of an ended attempt, with the cluster at which it ran."""

    campaign: int
    task: int
    attempt: int
    cluster: str
    outcome: TaskAttemptOutcome
    is_overrun: bool = False  # outcome COPY, since it overran its walltime

    @classmethod
    def of(cls, attempt: TaskAttempt, cluster: str) -> Self:
        """Return the outcome of an ended attempt at a cluster."""
        return cls(
            campaign=attempt.campaign,
            task=attempt.task,
            attempt=attempt.attempt,
            cluster=cluster,
            outcome=attempt.outcome,
            is_overrun=attempt.is_overrun,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCampaign:
    """What the state file has of a campaign: waiting tasks, arrays and live attempts."""

    waiting: tuple[WaitingTaskRange, ...]
    arrays: tuple[CampaignArray, ...]
    attempts: tuple[TaskAttempt, ...]  # by array and index
    earlier: tuple[AttemptOutcomeAtCluster, ...] = ()
    clusters: frozenset[str] = frozenset()  # clusters that the campaign names


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRecoveryStep:
    """Changes of the state file in one transaction while root's ledger is recovered."""

    campaign: int
    undone: tuple[int, ...] = ()  # arrays that were never submitted
    arrays: tuple[CampaignArray, ...] = ()
    attempts: tuple[TaskAttempt, ...] = ()
    superseded: tuple[TaskAttempt, ...] = ()  # attempts that later attempts replaced
    no_longer: tuple[WaitingTaskRange, ...] = ()  # removed from the waiting tasks
    waiting: tuple[WaitingTaskRange, ...] = ()  # what replaces `no_longer`
    again: tuple[WaitingTaskRange, ...] = ()  # added: tasks of an array that never ran
