"""Store what a cycle learnt: job ratios, ended tasks by cluster, and missing tasks."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import datetime

from gridbridge.campaigns.store.campaign_event_rows import CampaignEventRows
from gridbridge.campaigns.store.campaign_rows import CampaignRows
from gridbridge.campaigns.store.cancellation_marks import CancellationMarkRows
from gridbridge.campaigns.store.missing_tasks import MissingTaskRows
from gridbridge.campaigns.store.predictions import CampaignStatisticsRows
from gridbridge.campaigns.store.speculative_attempts import SpeculativeAttemptRows
from gridbridge.decisions.campaigns.ending.ended_attempts import NO_MARKS, without_end
from gridbridge.decisions.campaigns.ending.write_batches import portions
from gridbridge.decisions.campaigns.speculation_rules import ByTask, by_task, last_ends, settled
from gridbridge.model.campaigns.campaign import (
    AT_ONCE,
    LAST,
    USUAL,
    Array,
    ArrayState,
    Attempt,
    CampaignState,
    TaskOutcome,
    WaitingTasks,
    clusters_of,
    is_cancelled,
)
from gridbridge.model.campaigns.cycle_plan import CyclePlan, Retry
from gridbridge.model.campaigns.prologues import is_step
from gridbridge.shell.clock import Clock
from gridbridge.state.database import StateFile


class CycleStatisticsRecorder:
    """Writes a cycle's statistics and missing tasks into the state file."""

    def __init__(self, database: StateFile) -> None:
        self._predictions = CampaignStatisticsRows(database)
        self._marks = CancellationMarkRows(database)
        self._missing = MissingTaskRows(database)

    def keep(self, plan: CyclePlan, now: datetime) -> None:
        """Count ended tasks by cluster, within the transaction that stores their ends."""
        clusters = clusters_of(plan.arrays)
        counted = Counter(
            (attempt.campaign, clusters[attempt.campaign, attempt.array])
            for attempt in last_ends(plan.ended, plan.again)
            if (attempt.campaign, attempt.array) in clusters
        )
        for (campaign, cluster), tasks in counted.items():
            self._predictions.tasks_ended(campaign, cluster, tasks, now)
        for number in plan.finished:
            self._predictions.has_ended(number, now)

    def keep_in_portions(self, plan: CyclePlan) -> None:
        """Store job ratios and missing tasks in small transactions.

        Other programs can write the state file between the transactions. After a kill, the next
        cycle computes the lost rows again, and a job ratio keeps its old value.
        """
        self._predictions.keep(plan.predicted)
        self._missing.note(plan.missed)
        self._marks.tidy()


PRIORITIES = {TaskOutcome.RESUBMIT: AT_ONCE, TaskOutcome.RESUBMIT_LAST: LAST}


class TaskEndRecorder:
    """Records the ends of tasks, arrays and campaigns in the state file."""

    def __init__(
        self, database: StateFile, observations: CycleStatisticsRecorder, clock: Clock
    ) -> None:
        self._database = database
        self._campaigns = CampaignRows(database)
        self._copies = SpeculativeAttemptRows(database, self._campaigns)
        self._events = CampaignEventRows(database)
        self._marks = CancellationMarkRows(database)
        self._observations = observations
        self._clock = clock
        self.noted: list[Attempt] = []  # the caller clears the list after reading it

    def all(self, plan: CyclePlan) -> None:
        """Record a cycle's ends in batches; other programs may write between two batches."""
        *first, last = portions(plan)
        for portion in first:
            with self._database.transaction():
                self.ends(portion)
        with self._database.transaction():
            self.ends(last)
            self._observations.keep(plan, self._clock.now())
        self._observations.keep_in_portions(plan)

    def ends(self, plan: CyclePlan) -> None:
        """Record how tasks, arrays and campaigns ended, and queue the tasks to retry."""
        over = last_ends(plan.ended, plan.again)
        self.noted += plan.ended
        self._campaigns.ended((*plan.ended, *plan.stepped))
        for campaign, retries in _by_campaign(plan.again).items():
            self._campaigns.wait_again(campaign, *map(_waiting, retries))
        for campaign, outcomes in _outcomes(over).items():
            self._count(campaign, outcomes)
        for array in plan.over:
            self._campaigns.array_is(array, ArrayState.OVER)
        for number in plan.finished:
            self._campaigns.is_now(number, CampaignState.TERMINATED, self._clock.now())
        for number in plan.wound_up:
            self._campaigns.is_now(number, CampaignState.CANCELLED, self._clock.now())
        self._events.put(plan.changes.events)
        self._events.put_records(plan.changes.records)

    def _count(self, campaign: int, outcomes: Counter[TaskOutcome]) -> None:
        """Add tasks with final outcomes to the counters of their campaign."""
        stored_campaign = self._campaigns.find(campaign)
        state = stored_campaign.state if stored_campaign else None
        cancelled = sum(outcomes[outcome] for outcome in outcomes if is_cancelled(outcome, state))
        failed = outcomes.total() - outcomes[TaskOutcome.SUCCESS] - cancelled
        self._campaigns.count(campaign, outcomes.total(), failed, cancelled)

    def abandon(self, campaign: int) -> tuple[Array, ...]:
        """Mark all arrays of a campaign as over, even if tasks still run; return the arrays."""
        arrays = tuple(
            array for array in self._campaigns.open_arrays() if array.campaign == campaign
        )
        for array in arrays:
            self.close(array, TaskOutcome.CANCELLED)
        return arrays

    def close(self, array: Array, outcome: TaskOutcome) -> None:
        """Give all unfinished tasks of an array this outcome, and mark the array as over."""
        with self._database.transaction():
            self.ends(self.none_ran(array, outcome))

    def none_ran(self, array: Array, outcome: TaskOutcome) -> CyclePlan:
        """Return the outcomes of an array's unfinished attempts.

        An attempt counts as a speculative copy if another attempt of its task is still alive.
        """
        marks = self._marks.all().get((array.campaign, array.number), NO_MARKS)
        attempts = without_end(self._campaigns.pending(array), outcome, marks)
        ended = tuple(attempt for attempt in attempts if not is_step(attempt.task))
        return CyclePlan(
            ended=settled(ended, self.rivals(array)),
            stepped=tuple(attempt for attempt in attempts if is_step(attempt.task)),
            over=(array,),
        )

    def rivals(self, array: Array) -> ByTask:
        """Return the competing attempts of an array's campaign, grouped by task."""
        return by_task(self._copies.rivals([array.campaign]))


def _by_campaign(again: Iterable[Retry]) -> dict[int, list[Retry]]:
    retries: dict[int, list[Retry]] = {}
    for retry in again:
        retries.setdefault(retry.campaign, []).append(retry)
    return retries


def _outcomes(over: Iterable[Attempt]) -> dict[int, Counter[TaskOutcome]]:
    outcomes: dict[int, Counter[TaskOutcome]] = defaultdict(Counter)
    for attempt in over:
        outcomes[attempt.campaign][attempt.outcome] += 1
    return outcomes


def _waiting(ended: Retry) -> WaitingTasks:
    """Return the queue entry of a task's next attempt."""
    return WaitingTasks(
        first=ended.task,
        last=ended.task,
        attempt=ended.attempt + 1,
        priority=PRIORITIES.get(ended.outcome, USUAL),
        avoid=ended.avoid,
        never=ended.never,
    )
