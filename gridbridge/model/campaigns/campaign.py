"""Campaigns, their arrays and the attempts of their tasks, as stored in the state file."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Self

from gridbridge.errors import GridbridgeError
from gridbridge.model.campaigns.checkpoint_statistics import CheckpointTimes
from gridbridge.model.campaigns.jdl import Jdl
from gridbridge.model.campaigns.task_index_and_attempt_texts import Attempts

# CiGri's priorities of waiting tasks.
PRIORITY_AT_ONCE, PRIORITY_USUAL, PRIORITY_LAST = 20, 10, 0

CampaignCluster = tuple[int, str]  # campaign number, cluster name


class CampaignState(StrEnum):
    IN_TREATMENT = "in_treatment"
    PAUSED = "paused"
    TERMINATED = "terminated"
    CANCELLED = "cancelled"
    PURGED = "purged"  # the state file keeps only the number of the campaign

    @property
    def is_alive(self) -> bool:
        """Whether gridbridge may still send tasks of the campaign."""
        return self in (CampaignState.IN_TREATMENT, CampaignState.PAUSED)


class TaskAttemptOutcome(StrEnum):
    """The outcome of an attempt to run a task; all batch systems have the same outcomes."""

    PENDING = "pending"  # the task waited or ran when the cluster was last queried
    SUCCESS = "success"
    PROGRAM_ERROR = "program_error"
    RESUBMIT = "resubmit"  # exit status 66: the task requests another run, before other tasks
    RESUBMIT_LAST = "resubmit_last"  # exit status 67: the task requests another run, after other tasks
    SIGNAL = "signal"
    WALLTIME = "walltime"
    PREEMPTED = "preempted"
    SITE_FAULT = "site_fault"  # the task's host or accounting record was lost
    SETUP_ERROR = "setup_error"  # the cluster could not start the task
    INPUT_MISSING = "input_missing"  # an input file was missing at the cluster when the task started
    CANCELLED = "cancelled"  # the task was deleted with its campaign, or by a person at the cluster
    UNWANTED = "unwanted"  # the owner cancelled this task, but not the campaign
    WIPED = "wiped"  # nikita deleted the task before it started
    MOVED = "moved"  # rebalancing deleted the waiting task to send it to another cluster
    UNBEGUN = "unbegun"  # the job of the task's group ended before the task began, or for another task of the group
    COPY = "copy"  # another attempt of the task counts instead of this attempt


def is_task_cancelled_by_owner(outcome: TaskAttemptOutcome, state: "CampaignState | None") -> bool:
    """Say whether a task ended because its owner cancelled the task or the campaign in gridbridge."""
    is_with_campaign = state is CampaignState.CANCELLED and outcome is TaskAttemptOutcome.CANCELLED
    return is_with_campaign or outcome is TaskAttemptOutcome.UNWANTED


class ArraySubmissionState(StrEnum):
    """How far the submission of an array has come; the next state is stored before the next step begins."""

    INTENDED = "intended"
    SUBMITTED = "submitted"  # the array is held at the cluster, and has a job id
    RELEASED = "released"
    OVER = "over"


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    number: int
    uid: int
    owner: str
    state: CampaignState
    submitted_at: datetime
    tasks: int
    ended: int = 0  # number of tasks that have ended for good
    failed: int = 0
    cancelled: int = 0  # number of tasks that the owner cancelled; not counted in `failed`
    digest: str  # checksum of the submitted campaign file
    jdl: Jdl
    ended_at: datetime | None = None

    @property
    def succeeded(self) -> int:
        """The number of tasks that have succeeded."""
        return self.ended - self.failed - self.cancelled

    @property
    def awaits_epilogues_after_cancel(self) -> bool:
        return self.state is CampaignState.CANCELLED and self.ended_at is None


@dataclass(frozen=True, slots=True, kw_only=True)
class AdditionalCampaignTasks:
    campaign: int
    number: int  # number of the additional file, from 1
    tasks: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskGroupSize:
    """How many tasks one job runs, one after another."""

    tasks: int = 1
    begin_s: int = 0  # the job begins no task after this many seconds
    wait_s: int = 0  # how long the job waits for further tasks before it ends; 0: it gets no further tasks


ALONE = TaskGroupSize()


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignArray:
    """An array of jobs with campaign tasks at a cluster; the array indices are 1 to `size`."""

    campaign: int
    number: int
    cluster: str
    state: ArraySubmissionState
    size: int
    job_id: int = 0
    intended_at: datetime
    is_repeated: bool = False  # the array was submitted a second time, because the cluster's answer was lost
    copies_beyond_s: int | None = None  # run time after which tasks got speculative attempts; None: ordinary attempts
    # the array's jobs are ordinary, although the campaign's other tasks at the cluster are best-effort
    is_ordinary: bool = False
    checkpoint_s: int = 0  # interval between checkpoints; 0: none, or the JDL gives the interval
    # number of tasks that each job runs, all with the job's array index; the last job may run fewer
    group_tasks: int = 1
    group_s: int = 0  # a job of several tasks begins no task after this many seconds
    group_wait_s: int = 0  # how long such a job waits for further tasks; 0: it gets no further tasks
    added_tasks: int = 0  # number of tasks that running jobs got after the submission

    @property
    def campaign_and_array_number(self) -> tuple[int, int]:
        return self.campaign, self.number

    @property
    def group(self) -> TaskGroupSize:
        return TaskGroupSize(tasks=self.group_tasks, begin_s=self.group_s, wait_s=self.group_wait_s)

    @property
    def is_of_copies(self) -> bool:
        """Whether the array's tasks are speculative attempts."""
        return self.copies_beyond_s is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class RootLedgerArray:
    number: int
    cluster: str
    tasks: Attempts
    job_id: int = 0
    is_of_copies: bool = False
    is_ordinary: bool = False
    checkpoint_s: int = 0
    group: TaskGroupSize = ALONE
    added: tuple[tuple[int, Attempts], ...] = ()  # array indices of jobs, and tasks that these jobs got later

    @property
    def all_tasks(self) -> Attempts:
        return (*self.tasks, *(task for _, tasks in self.added for task in tasks))


@dataclass(frozen=True, slots=True, kw_only=True)
class ArraySubmissionResult:
    job_id: int = 0
    error: GridbridgeError | None = None  # None: the array's tasks may start


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAttempt:
    campaign: int
    task: int  # numbered from 0
    attempt: int  # numbered from 1
    array: int
    place: int  # array index of the job that runs the task, from 1
    outcome: TaskAttemptOutcome = TaskAttemptOutcome.PENDING
    exit_status: int | None = None
    wallclock_s: int | None = None
    host: str = ""  # set only in the cycle that finds the attempt's end
    forgotten_job: int = 0  # id of a lost job, set only in the cycle that finds the loss
    is_past: bool = False  # the owner closed the event about this attempt, or retried the task
    is_overrun: bool = False  # whether an attempt with outcome COPY overran its walltime
    has_progressed: bool = False  # whether a lost or preempted attempt left a newer checkpoint
    is_unwanted: bool = False  # whether the owner cancelled the task during the attempt
    checkpoint_times: CheckpointTimes | None = None  # set only in the cycle that finds the attempt's end
    checkpoint_bytes: int | None = None  # size of the last checkpoint; None: unknown, or without a checkpoint
    max_rss_kb: int | None = None  # largest resident set of a process; None: not measured
    written_kb: int | None = None  # kB written to filesystems
    max_vmem_kb: int | None = None  # virtual memory, set only in the cycle that finds the attempt's end


def pair_attempts_with_clusters(
    attempts: Iterable[TaskAttempt], arrays: Iterable[CampaignArray]
) -> list[tuple[TaskAttempt, str]]:
    """Return each attempt with its array's cluster; the cluster is "" if `arrays` lacks the array."""
    clusters = {array.campaign_and_array_number: array.cluster for array in arrays}
    return [(attempt, clusters.get((attempt.campaign, attempt.array), "")) for attempt in attempts]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingTaskRange:
    """A range of tasks that wait to be sent, with equal attempt numbers and priorities."""

    first: int
    last: int
    attempt: int = 1
    priority: int = PRIORITY_USUAL  # tasks with a higher priority are sent first
    avoid: tuple[str, ...] = ()  # clusters that the tasks avoid while another cluster is open
    never: tuple[str, ...] = ()  # clusters that never get the tasks, because of an overrun walltime
    awaits: tuple[int, ...] = ()  # campaigns whose tasks of the same numbers must succeed first
    # tasks with a checkpoint avoid the clusters in `never` until this time; None: no checkpoint
    holds_until: datetime | None = None
    never_later: tuple[str, ...] = ()  # value of `never` after that time


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptOutcomeAtCluster:
    campaign: int
    task: int
    attempt: int
    cluster: str
    outcome: TaskAttemptOutcome
    is_overrun: bool = False
    has_progressed: bool = False
    wallclock_s: int | None = None
    carried_to: tuple[str, ...] = ()  # clusters to which the attempt's checkpoint was carried

    @classmethod
    def from_attempt(cls, attempt: TaskAttempt, cluster: str) -> Self:
        return cls(
            campaign=attempt.campaign,
            task=attempt.task,
            attempt=attempt.attempt,
            cluster=cluster,
            outcome=attempt.outcome,
            is_overrun=attempt.is_overrun,
            has_progressed=attempt.has_progressed,
            wallclock_s=attempt.wallclock_s,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCampaignTasks:
    waiting: tuple[WaitingTaskRange, ...]
    arrays: tuple[CampaignArray, ...]
    attempts: tuple[TaskAttempt, ...]  # sorted by array and array index
    earlier: tuple[AttemptOutcomeAtCluster, ...] = ()
    clusters: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRecoveryStep:
    """Changes of the state file that restore arrays from root's ledger, for one transaction."""

    campaign: int
    undone: tuple[int, ...] = ()  # numbers of arrays to remove, because they were never submitted
    arrays: tuple[CampaignArray, ...] = ()
    grown: tuple[CampaignArray, ...] = ()  # stored arrays whose jobs got further tasks
    attempts: tuple[TaskAttempt, ...] = ()
    superseded: tuple[TaskAttempt, ...] = ()  # attempts that a later attempt has replaced
    no_longer: tuple[WaitingTaskRange, ...] = ()  # ranges of waiting tasks to remove
    waiting: tuple[WaitingTaskRange, ...] = ()  # ranges of waiting tasks to add
    again: tuple[WaitingTaskRange, ...] = ()  # tasks to send again, because their arrays are given up
