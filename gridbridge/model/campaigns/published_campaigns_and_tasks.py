"""Campaigns, clusters and tasks as published for all users, and counts of ended tasks."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime

from gridbridge.model.campaigns.campaign import CampaignState, TaskAttemptOutcome, is_task_cancelled_by_owner
from gridbridge.model.campaigns.campaign_predecessors import AwaitedPredecessor
from gridbridge.model.campaigns.checkpoint_statistics import CheckpointCarryState
from gridbridge.model.campaigns.jdl import CampaignType
from gridbridge.model.campaigns.speculative_attempts import PublishedCompetingAttempt
from gridbridge.model.campaigns.task_resource_usage import TaskUsageAtCluster


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignProgressAtCluster:
    cluster: str
    waiting: int = 0
    running: int = 0
    ended: int | None = None  # number of tasks that have ended for good; None in lists of many campaigns
    failed: int | None = None
    job_ratio: float | None = None
    ended_per_h: float | None = None
    mean_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedForecastErrors:
    forecasts: int
    p90_held: int
    median_error: float  # median of abs(end - P50) / (end - time of the forecast)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedCampaign:
    number: int
    name: str
    owner: str
    submitted_at: datetime
    type: CampaignType
    state: CampaignState
    clusters: tuple[str, ...]
    tasks: int
    ended: int  # number of tasks that have ended for good
    failed: int
    cancelled: int = 0
    waiting: int = 0  # number of unsent tasks
    ended_per_h: float | None = None
    mean_s: float | None = None
    p50_at: datetime | None = None  # with a probability of 50 %, all tasks have ended by this time
    p90_at: datetime | None = None
    forecast_error: float | None = None  # (end - P50) / (end - time of the forecast); None: not ended
    at: tuple[CampaignProgressAtCluster, ...] = ()
    events: int = 0
    sinks: tuple[str, ...] = ()  # clusters that look like black holes, unless the owner confirmed the results
    unmet: tuple[AwaitedPredecessor, ...] = ()  # predecessors for which the campaign, or some of its tasks, waits
    usage: tuple[TaskUsageAtCluster, ...] = ()
    ending_at: tuple[str, ...] = ()  # clusters at which tasks of a cancelled campaign may still run

    @property
    def is_held_back(self) -> bool:
        """Whether no task may be sent, because the campaign waits for a predecessor."""
        return any(predecessor.holds_whole_campaign for predecessor in self.unmet)

    @property
    def tasks_running(self) -> int:
        """The number of running tasks; a task with speculative attempts counts once."""
        listed = sum(at.running for at in self.at)
        return min(listed, self.tasks - self.ended)

    @property
    def tasks_waiting(self) -> int:
        """The number of waiting tasks, unsent or at a cluster."""
        return self.tasks - self.ended - self.tasks_running if self.state.is_alive else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedCampaignList:
    """All campaigns, sorted by number, as published for all users."""

    at: datetime
    campaigns: tuple[PublishedCampaign, ...] = ()
    errors: PublishedForecastErrors | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedClusterSlots:
    """The numbers of slots and campaign tasks at a cluster; slots are None without a recent answer."""

    name: str
    kind: str
    answered_at: datetime | None = None
    slots: int | None = None
    used: int | None = None
    free: int | None = None  # free slots for best-effort tasks
    free_for_normal: int | None = None  # slots that ordinary tasks can get: free slots and slots of best-effort tasks
    waiting: int = 0
    running: int = 0
    used_by_campaigns: int = 0
    carry_rates: Mapping[int, float] = field(default_factory=dict)  # bytes of input files per second, by owner's uid


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedClusterSlotsList:
    """All clusters that campaigns may use, sorted by name, as published for all users."""

    at: datetime
    clusters: tuple[PublishedClusterSlots, ...] = ()


WAITING, SENT, DROPPED = "waiting", "sent", "dropped"  # words for the states of tasks that have no outcome
OUTCOME_WORDS = {outcome: outcome.value for outcome in TaskAttemptOutcome}  # makes 100,000 look-ups fast
OUTCOME_WORDS |= {TaskAttemptOutcome.PENDING: SENT, TaskAttemptOutcome.UNWANTED: TaskAttemptOutcome.CANCELLED.value}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPreemption:
    """The preemption of an attempt, because a local job lacked resources."""

    attempt: int
    cluster: str
    job: int
    lacked: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalancedTaskAttempt:
    """A waiting attempt that rebalancing deleted, so that the task starts at another cluster."""

    attempt: int
    cluster: str
    to: str = ""  # cluster of the next attempt; empty: not sent yet


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCheckpoint:
    """The checkpoint that a lost or preempted attempt left at its cluster."""

    attempt: int
    cluster: str
    to: str = ""  # the cluster of the last carry; empty: no carry was allowed
    carry_s: int = 0  # expected seconds of the carry
    lost_s: int = 0  # expected seconds that are lost without the carry
    state: CheckpointCarryState = CheckpointCarryState.ALLOWED


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedCampaignTask:
    number: int
    attempt: int = 0  # number of the last attempt; 0: never sent
    outcome: TaskAttemptOutcome = TaskAttemptOutcome.PENDING
    is_waiting: bool = True  # the task waits to be sent
    cluster: str = ""
    job_id: int = 0
    place: int = 0
    exit_status: int | None = None
    wallclock_s: int | None = None
    max_rss_kb: int | None = None  # largest resident set of a process
    written_kb: int | None = None
    beyond_s: int | None = None  # run time after which the task got this attempt; None: not speculative
    copies: tuple[PublishedCompetingAttempt, ...] = ()  # attempts that ran beside the last attempt
    made_way: tuple[TaskPreemption, ...] = ()
    moved: tuple[RebalancedTaskAttempt, ...] = ()
    checkpoint: TaskCheckpoint | None = None  # the last checkpoint of a lost or preempted attempt
    is_suspect: bool = False  # whether the task succeeded at a cluster that looks like a black hole

    @property
    def state_word(self) -> str:
        """The task's state in one word: waiting, sent, dropped, or the outcome."""
        if self.is_waiting:
            return WAITING
        if not self.attempt:
            return DROPPED
        return OUTCOME_WORDS[self.outcome]

    @property
    def has_ended(self) -> bool:
        """Whether the task has ended and does not run again."""
        return not self.is_waiting and self.outcome is not TaskAttemptOutcome.PENDING

    @property
    def has_failed(self) -> bool:
        """Whether the task has ended without success and does not run again."""
        return self.has_ended and self.outcome is not TaskAttemptOutcome.SUCCESS


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignTaskEndCounts:
    """How many tasks of a campaign one cycle found ended at one cluster."""

    at: datetime
    cluster: str
    tasks: int
    failed: int
    timed: int = 0  # number of tasks with known run times
    wallclock_s: int = 0
    cancelled: int = 0  # number of cancelled tasks, which do not count in `failed` and `timed`

    def with_opposite_signs(self) -> "CampaignTaskEndCounts":
        """Return the counts with opposite sign, to subtract ended tasks that run again from a sum."""
        return CampaignTaskEndCounts(
            at=self.at, cluster=self.cluster, **{name: -getattr(self, name) for name in COUNTS}
        )

    @property
    def mean_run_time_s(self) -> float | None:
        return self.wallclock_s / self.timed if self.timed > 0 else None


COUNTS = tuple(outcome.name for outcome in fields(CampaignTaskEndCounts) if outcome.name not in ("at", "cluster"))


def counts_of_one_ended_task(
    task: PublishedCampaignTask, at: datetime, state: CampaignState | None = None
) -> CampaignTaskEndCounts:
    if task.has_ended and is_task_cancelled_by_owner(task.outcome, state):
        return CampaignTaskEndCounts(at=at, cluster=task.cluster, tasks=1, failed=0, cancelled=1)
    timed, seconds = int(task.wallclock_s is not None), task.wallclock_s or 0
    failed = int(task.has_failed)
    return CampaignTaskEndCounts(at=at, cluster=task.cluster, tasks=1, failed=failed, timed=timed, wallclock_s=seconds)


def sum_task_end_counts_by_cluster(
    ends: Iterable[CampaignTaskEndCounts], at: datetime
) -> tuple[CampaignTaskEndCounts, ...]:
    """Add up the counts of ended tasks for each cluster; a cluster with only zeros is left out."""
    sums: dict[str, dict[str, int]] = {}
    for end in ends:
        of_cluster = sums.setdefault(end.cluster, dict.fromkeys(COUNTS, 0))
        for name in COUNTS:
            of_cluster[name] += getattr(end, name)
    return tuple(
        CampaignTaskEndCounts(at=at, cluster=cluster, **counts)
        for cluster, counts in sorted(sums.items())
        if any(counts.values())
    )
