"""Tasks of campaigns as every user may see them, and counts of ended tasks."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import datetime

from gridbridge.model.campaigns.campaign import CampaignState, TaskAttemptOutcome, is_task_cancelled_by_owner
from gridbridge.model.campaigns.speculation import ShownCompetingAttempt

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
    # whether the task succeeded at a black hole (decisions/campaigns/cluster_success_records.py)
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
