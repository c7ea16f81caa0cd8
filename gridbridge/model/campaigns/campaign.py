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

    PENDING = "pending"  # the task waits or runs, by its cluster's last answer
    SUCCESS = "success"
    PROGRAM_ERROR = "program_error"  # the task's program ended with a failure status
    RESUBMIT = "resubmit"  # exit status 66: the task asks to run again at once
    RESUBMIT_LAST = "resubmit_last"  # exit status 67: the task asks to run again last
    SIGNAL = "signal"
    WALLTIME = "walltime"
    PREEMPTED = "preempted"
    SITE_FAULT = "site_fault"  # the task's host or accounting record was lost
    SETUP_ERROR = "setup_error"  # the cluster could not start the task
    CANCELLED = "cancelled"  # deleted with the campaign, or by a user at the cluster
    UNWANTED = "unwanted"  # the owner cancelled this task, not its campaign
    WIPED = "wiped"  # nikita deleted the task before it started
    MOVED = "moved"  # rebalancing deleted the waiting task to send it elsewhere
    COPY = "copy"  # another attempt gave the task's outcome


def is_task_cancelled_by_owner(outcome: TaskAttemptOutcome, state: "CampaignState | None") -> bool:
    """Say whether the owner cancelled a task, alone or with its campaign.

    A task with outcome CANCELLED in a campaign that was not cancelled was deleted at its cluster.
    Such a task counts as failed.
    """
    is_with_campaign = state is CampaignState.CANCELLED and outcome is TaskAttemptOutcome.CANCELLED
    return is_with_campaign or outcome is TaskAttemptOutcome.UNWANTED


class ArraySubmissionState(StrEnum):
    """The progress of an array's submission, stored before each further step."""

    INTENDED = "intended"
    SUBMITTED = "submitted"  # held at the cluster, with a known job id
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
    failed: int = 0  # failed tasks among the ended tasks
    cancelled: int = 0  # cancelled tasks among the ended tasks; not counted as failed
    digest: str  # checksum of the campaign file at its submission
    jdl: Jdl
    ended_at: datetime | None = None

    @property
    def is_winding_up(self) -> bool:
        """Whether the campaign was cancelled and its epilogues have not all ended."""
        return self.state is CampaignState.CANCELLED and self.ended_at is None


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksAddedToCampaign:
    """Tasks that an owner added to an existing campaign by a further file."""

    campaign: int
    number: int  # number of the addition, from 1
    tasks: int
    digest: str  # checksum of the file of added tasks at its submission


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
    is_repeated: bool = False  # whether the array was submitted again after a lost answer
    # run time beyond which these speculative attempts were made; None: not speculative
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
    job_id: int = 0  # job id at the cluster; 0: unknown
    is_of_copies: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ArraySubmissionResult:
    """The result of submitting and releasing an array: its job id, or the error."""

    job_id: int = 0  # job id at the cluster; 0: unknown
    error: GridbridgeError | None = None  # error of submission or release; None: tasks may start


def map_arrays_to_clusters(arrays: Iterable[CampaignArray]) -> dict[tuple[int, int], str]:
    """Map each array, by its campaign and number, to its cluster."""
    return {(array.campaign, array.number): array.cluster for array in arrays}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAttempt:
    """An attempt to run one task of a campaign, with its outcome."""

    campaign: int
    task: int  # task number from 0: its line of parameters in the campaign's file
    attempt: int  # attempt number from 1
    array: int
    place: int  # array index of the attempt, from 1
    outcome: TaskAttemptOutcome = TaskAttemptOutcome.PENDING
    exit_status: int | None = None
    wallclock_s: int | None = None
    host: str = ""  # host where the attempt ended; set in the current cycle only
    forgotten_job: int = 0  # job id that the cluster has lost; set in this cycle only
    is_past: bool = False  # whether the owner closed the attempt's event or retried the task
    is_overrun: bool = False  # whether an attempt with outcome COPY overran its walltime


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
    is_overrun: bool = False  # whether an attempt with outcome COPY overran its walltime

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
class StoredCampaignTasks:
    """A campaign's waiting tasks, arrays and live attempts in the state file."""

    waiting: tuple[WaitingTaskRange, ...]
    arrays: tuple[CampaignArray, ...]
    attempts: tuple[TaskAttempt, ...]  # sorted by array and index
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
    waiting: tuple[WaitingTaskRange, ...] = ()  # ranges that replace `no_longer`
    again: tuple[WaitingTaskRange, ...] = ()  # further waiting tasks, from arrays that never ran
