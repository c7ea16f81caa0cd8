"""Campaigns, clusters and tasks as every user may see them, and counts of ended tasks."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import datetime

from gridbridge.model.campaigns.campaign import CampaignState, TaskAttemptOutcome, is_task_cancelled_by_owner
from gridbridge.model.campaigns.jdl import CampaignType
from gridbridge.model.campaigns.speculation import ShownCompetingAttempt


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCampaignAtCluster:
    """A campaign's task counts and rates at one of its clusters."""

    cluster: str
    waiting: int = 0  # tasks that wait at the cluster
    running: int = 0
    ended: int | None = None  # finally ended tasks; None in lists of many campaigns
    failed: int | None = None  # failed tasks among the ended
    job_ratio: float | None = None  # tasks sent for each free slot
    ended_per_h: float | None = None  # ended tasks in the last hour; None: no task ended
    mean_s: float | None = None  # mean run time of a task at the cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownForecastErrors:
    """How accurate the halfway forecasts of ended campaigns were."""

    forecasts: int
    p90_held: int
    median_error: float  # median P50 error, as a share of the remaining time


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCampaign:
    """A campaign as every user may see it."""

    number: int
    name: str
    owner: str
    submitted_at: datetime
    type: CampaignType
    state: CampaignState
    clusters: tuple[str, ...]
    tasks: int
    ended: int  # finally ended tasks
    failed: int  # failed tasks among the ended
    cancelled: int = 0  # ended tasks that their owner cancelled
    waiting: int = 0  # tasks that wait to be sent, first or again
    ended_per_h: float | None = None  # ended tasks per hour; None: unknown
    mean_s: float | None = None  # mean run time of ended tasks
    p50_at: datetime | None = None  # time by which all tasks have ended, with a probability of 50 %
    p90_at: datetime | None = None
    forecast_error: float | None = None  # P50 error of the halfway forecast; None before the end
    at: tuple[ShownCampaignAtCluster, ...] = ()
    events: int = 0  # open events
    sinks: tuple[str, ...] = ()  # black-hole clusters that the owner has not confirmed
    ending_at: tuple[str, ...] = ()  # clusters where tasks of a cancelled campaign may still live

    @property
    def tasks_running(self) -> int:
        """The running tasks, as clusters list them; a task and its copies count once."""
        listed = sum(at.running for at in self.at)
        return min(listed, self.tasks - self.ended)

    @property
    def tasks_waiting(self) -> int:
        """The waiting tasks: unsent, being sent, or waiting at a cluster."""
        return self.tasks - self.ended - self.tasks_running if self.state.is_alive else 0

    @property
    def tasks_to_fix(self) -> int:
        """The failed tasks that may be retried; none in a cancelled campaign."""
        return 0 if self.state is CampaignState.CANCELLED else self.failed


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCampaigns:
    """All campaigns as every user may see them, by number."""

    at: datetime
    campaigns: tuple[ShownCampaign, ...] = ()
    errors: ShownForecastErrors | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCampaignCluster:
    """A cluster's slots and campaign tasks; None: no recent answer of the cluster."""

    name: str
    kind: str
    answered_at: datetime | None = None
    slots: int | None = None
    used: int | None = None
    free: int | None = None  # free slots for best-effort tasks
    # free slots for ordinary tasks, which preempt best-effort tasks
    free_for_normal: int | None = None
    waiting: int = 0  # waiting tasks of campaigns
    running: int = 0  # running tasks of campaigns
    used_by_campaigns: int = 0  # slots of campaigns' running tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCampaignClusters:
    """All clusters that campaigns may use, by name."""

    at: datetime
    clusters: tuple[ShownCampaignCluster, ...] = ()


WAITING, SENT, DROPPED = "waiting", "sent", "dropped"  # states of tasks without an outcome
OUTCOME_WORDS = {
    outcome: outcome.value for outcome in TaskAttemptOutcome
}  # a precomputed table, since lists show 100,000 tasks at once
OUTCOME_WORDS |= {TaskAttemptOutcome.PENDING: SENT, TaskAttemptOutcome.UNWANTED: TaskAttemptOutcome.CANCELLED.value}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPreemption:
    """A preempted attempt, which held resources that a local job lacked."""

    attempt: int
    cluster: str
    job: int
    lacked: tuple[str, ...]  # resources that the local job lacked


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalancedTaskAttempt:
    """A waiting attempt that rebalancing deleted, to start the task at another cluster."""

    attempt: int
    cluster: str
    to: str = ""  # cluster of the next attempt; empty: not sent yet


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedCampaignTask:
    """A task as every user may see it, by its last attempt."""

    number: int
    attempt: int = 0  # number of the last attempt; 0: never sent
    outcome: TaskAttemptOutcome = TaskAttemptOutcome.PENDING
    is_waiting: bool = True  # whether the task waits to be sent
    cluster: str = ""
    job_id: int = 0  # job id of its array; 0: unknown
    place: int = 0  # index in the array, from 1
    exit_status: int | None = None
    wallclock_s: int | None = None
    beyond_s: int | None = None  # run time that caused this speculative attempt
    copies: tuple[ShownCompetingAttempt, ...] = ()  # other attempts that ran beside this attempt
    made_way: tuple[TaskPreemption, ...] = ()  # attempts that were preempted for local jobs
    moved: tuple[RebalancedTaskAttempt, ...] = ()  # attempts that rebalancing deleted before their start
    # whether the task succeeded at a black hole (decisions/campaigns/cluster_blacklist_and_successes.py)
    is_suspect: bool = False

    @property
    def word(self) -> str:
        """The task's state in one word: waiting, sent, or its outcome."""
        if self.is_waiting:
            return WAITING
        if not self.attempt:
            return DROPPED
        return OUTCOME_WORDS[self.outcome]

    @property
    def has_ended(self) -> bool:
        """Whether the task has ended and will not run again."""
        return not self.is_waiting and self.outcome is not TaskAttemptOutcome.PENDING

    @property
    def has_failed(self) -> bool:
        """Whether the task has ended without success and will not run again."""
        return self.has_ended and self.outcome is not TaskAttemptOutcome.SUCCESS


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignTaskEndCounts:
    """Counts of a campaign's tasks that one cycle found ended at one cluster."""

    at: datetime
    cluster: str
    tasks: int
    failed: int  # failed tasks
    timed: int = 0  # number of tasks with known run times
    wallclock_s: int = 0  # sum of the known run times
    cancelled: int = 0  # tasks cancelled by their owner: neither failed nor timed

    def taken_back(self) -> "CampaignTaskEndCounts":
        """Return the negative counts, for ended tasks that are to run again."""
        return CampaignTaskEndCounts(
            at=self.at, cluster=self.cluster, **{name: -getattr(self, name) for name in COUNTS}
        )

    @property
    def mean_s(self) -> float | None:
        """The mean run time of these tasks; None without a known run time."""
        return self.wallclock_s / self.timed if self.timed > 0 else None


COUNTS = tuple(outcome.name for outcome in fields(CampaignTaskEndCounts) if outcome.name not in ("at", "cluster"))


def counts_of_one_ended_task(
    task: PublishedCampaignTask, at: datetime, state: CampaignState | None = None
) -> CampaignTaskEndCounts:
    """Return the counts of one ended task of a campaign in this state."""
    if task.has_ended and is_task_cancelled_by_owner(task.outcome, state):
        return CampaignTaskEndCounts(at=at, cluster=task.cluster, tasks=1, failed=0, cancelled=1)
    return CampaignTaskEndCounts(
        at=at,
        cluster=task.cluster,
        tasks=1,
        failed=int(task.has_failed),
        timed=int(task.wallclock_s is not None),
        wallclock_s=task.wallclock_s or 0,
    )


def sum_task_end_counts_by_cluster(
    ends: Iterable[CampaignTaskEndCounts], at: datetime
) -> tuple[CampaignTaskEndCounts, ...]:
    """Add up counts by cluster, sorted by name; clusters with a sum of 0 are left out.

    `at` is the time of the sums.
    """
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
