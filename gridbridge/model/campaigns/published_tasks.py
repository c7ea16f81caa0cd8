"""What everybody may see of a task, and when tasks of a campaign ended."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import datetime

from gridbridge.model.campaigns.campaign import CampaignState, TaskOutcome, is_cancelled
from gridbridge.model.campaigns.speculation import ShownCopy

WAITING, SENT, DROPPED = "waiting", "sent", "dropped"  # of tasks that have not ended
WORDS = {
    outcome: outcome.value for outcome in TaskOutcome
}  # of what has ended: pages show 100,000 at once
WORDS |= {TaskOutcome.PENDING: SENT, TaskOutcome.UNWANTED: TaskOutcome.CANCELLED.value}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPreemption:
    """An attempt ended because a local job lacked what it held."""

    attempt: int
    cluster: str
    job: int
    lacked: tuple[str, ...]  # resources


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMove:
    """An attempt waited where others could not start it, and was deleted to start elsewhere."""

    attempt: int
    cluster: str
    to: str = ""  # where the next attempt was sent; empty: none was yet


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTask:
    """One task, by its last attempt."""

    number: int
    attempt: int = 0  # 0: it was never sent
    outcome: TaskOutcome = TaskOutcome.PENDING
    is_waiting: bool = True  # to be sent, or sent again
    cluster: str = ""
    job_id: int = 0  # of its array there; 0: not known
    place: int = 0  # in that array, from 1
    exit_status: int | None = None
    wallclock_s: int | None = None
    beyond_s: int | None = None  # this is a copy, made when the task had run for longer
    copies: tuple[ShownCopy, ...] = ()  # its other attempts that ran, or run, beside this one
    made_way: tuple[TaskPreemption, ...] = ()  # its attempts that ended for local jobs
    moved: tuple[TaskMove, ...] = ()  # its attempts that rebalancing ended before they began
    is_suspect: bool = False  # it succeeded at a sink (decisions/campaigns/failures/black_hole.py)

    @property
    def word(self) -> str:
        """Its state in a word: waiting, sent, or how it ended."""
        if self.is_waiting:
            return WAITING
        if not self.attempt:
            return DROPPED
        return WORDS[self.outcome]

    @property
    def has_ended(self) -> bool:
        """Whether it ended for good."""
        return not self.is_waiting and self.outcome is not TaskOutcome.PENDING

    @property
    def has_failed(self) -> bool:
        """Whether it ended for good, without success."""
        return self.has_ended and self.outcome is not TaskOutcome.SUCCESS


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEndTimes:
    """How many tasks of a campaign a cycle found ended for good at one cluster."""

    at: datetime
    cluster: str
    tasks: int
    failed: int  # of those
    timed: int = 0  # tasks with known run times
    wallclock_s: int = 0  # the sum of these run times
    cancelled: int = 0  # of `tasks`, by their owner: none of them failed or has a run time

    def taken_back(self) -> "TaskEndTimes":
        """Return the negative count, for tasks that are to run again."""
        return TaskEndTimes(
            at=self.at,
            cluster=self.cluster,
            **{name: -getattr(self, name) for name in COUNTS},
        )

    @property
    def mean_s(self) -> float | None:
        """The mean run time of these tasks; None without a known run time."""
        return self.wallclock_s / self.timed if self.timed > 0 else None


COUNTS = tuple(
    outcome.name for outcome in fields(TaskEndTimes) if outcome.name not in ("at", "cluster")
)


def end_of(task: PublishedTask, at: datetime, state: CampaignState | None = None) -> TaskEndTimes:
    """Count one task that ended for good, of a campaign in this state."""
    if task.has_ended and is_cancelled(task.outcome, state):
        return TaskEndTimes(at=at, cluster=task.cluster, tasks=1, failed=0, cancelled=1)
    return TaskEndTimes(
        at=at,
        cluster=task.cluster,
        tasks=1,
        failed=int(task.has_failed),
        timed=int(task.wallclock_s is not None),
        wallclock_s=task.wallclock_s or 0,
    )


def added_up(ends: Iterable[TaskEndTimes], at: datetime) -> tuple[TaskEndTimes, ...]:
    """Add counts up by cluster, in the order of names; clusters with a sum of 0 are left out.

    `at` is the moment of the sums.
    """
    sums: dict[str, dict[str, int]] = {}
    for end in ends:
        of_cluster = sums.setdefault(end.cluster, dict.fromkeys(COUNTS, 0))
        for name in COUNTS:
            of_cluster[name] += getattr(end, name)
    return tuple(
        TaskEndTimes(at=at, cluster=cluster, **counts)
        for cluster, counts in sorted(sums.items())
        if any(counts.values())
    )
