"""Store the results of a cycle: job ratios, ends of tasks, and missing tasks."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import datetime

from gridbridge.campaigns.store.campaign_event_rows import EventAndSuccessRecordRows
from gridbridge.campaigns.store.campaign_rows import CampaignRows
from gridbridge.campaigns.store.campaign_statistics_rows import CampaignStatisticsRows
from gridbridge.campaigns.store.deleted_and_missing_task_rows import TaskDeletionMarkRows, TaskMissingAtClusterRows
from gridbridge.campaigns.store.speculative_attempts import SpeculativeAttemptRows
from gridbridge.decisions.campaigns.attempt_ends import NO_CANCELLATION_MARKS, close_attempts_without_end
from gridbridge.decisions.campaigns.competing_attempts import (
    AttemptsByTask,
    group_attempts_by_task,
    mark_ended_attempts_as_copies,
    select_final_task_ends,
)
from gridbridge.decisions.campaigns.cycle_plan_transactions import split_cycle_plan_by_transaction
from gridbridge.model.campaigns.campaign import (
    PRIORITY_AT_ONCE,
    PRIORITY_LAST,
    PRIORITY_USUAL,
    ArraySubmissionState,
    CampaignArray,
    CampaignState,
    TaskAttempt,
    TaskAttemptOutcome,
    WaitingTaskRange,
    is_task_cancelled_by_owner,
    map_arrays_to_clusters,
)
from gridbridge.model.campaigns.cycle_plan import CampaignCyclePlan, TaskRetry
from gridbridge.model.campaigns.task_attempt_ranges import is_prologue_or_epilogue_task
from gridbridge.shell.clock import Clock
from gridbridge.state.database import StateFile


class CycleStatisticsRecorder:
    """Writes a cycle's statistics and missing tasks into the state file."""

    def __init__(self, database: StateFile) -> None:
        self._predictions = CampaignStatisticsRows(database)
        self._marks = TaskDeletionMarkRows(database)
        self._missing = TaskMissingAtClusterRows(database)

    def keep(self, plan: CampaignCyclePlan, now: datetime) -> None:
        """Count ended tasks by cluster, within the transaction that stores their ends."""
        clusters = map_arrays_to_clusters(plan.arrays)
        counted = Counter(
            (attempt.campaign, clusters[attempt.campaign, attempt.array])
            for attempt in select_final_task_ends(plan.ended, plan.again)
            if (attempt.campaign, attempt.array) in clusters
        )
        for (campaign, cluster), tasks in counted.items():
            self._predictions.tasks_ended(campaign, cluster, tasks, now)
        for number in plan.finished:
            self._predictions.has_ended(number, now)

    def keep_in_portions(self, plan: CampaignCyclePlan) -> None:
        """Store job ratios and missing tasks in small transactions.

        Other programs can write the state file between the transactions. After a kill, the next
        cycle recomputes the lost rows; a lost job ratio keeps its old value.
        """
        self._predictions.keep(plan.predicted)
        self._missing.note(plan.missed)
        self._marks.tidy()


PRIORITIES = {TaskAttemptOutcome.RESUBMIT: PRIORITY_AT_ONCE, TaskAttemptOutcome.RESUBMIT_LAST: PRIORITY_LAST}


class TaskAndCampaignEndRecorder:
    """Records the ends of tasks, arrays and campaigns in the state file."""

    def __init__(self, database: StateFile, observations: CycleStatisticsRecorder, clock: Clock) -> None:
        self._database = database
        self._campaigns = CampaignRows(database)
        self._copies = SpeculativeAttemptRows(database, self._campaigns)
        self._events = EventAndSuccessRecordRows(database)
        self._marks = TaskDeletionMarkRows(database)
        self._observations = observations
        self._clock = clock
        self.noted: list[TaskAttempt] = []  # the caller clears the list after reading it

    def all(self, plan: CampaignCyclePlan) -> None:
        """Record a cycle's ends in batches; other programs may write between two batches."""
        *first, last = split_cycle_plan_by_transaction(plan)
        for portion in first:
            with self._database.transaction():
                self.ends(portion)
        with self._database.transaction():
            self.ends(last)
            self._observations.keep(plan, self._clock.now())
        self._observations.keep_in_portions(plan)

    def ends(self, plan: CampaignCyclePlan) -> None:
        """Record how tasks, arrays and campaigns ended, and queue the tasks to retry."""
        over = select_final_task_ends(plan.ended, plan.again)
        self.noted += plan.ended
        self._campaigns.ended((*plan.ended, *plan.stepped))
        for campaign, retries in _by_campaign(plan.again).items():
            self._campaigns.wait_again(campaign, *map(_waiting, retries))
        for campaign, outcomes in _outcomes(over).items():
            self._count(campaign, outcomes)
        for array in plan.over:
            self._campaigns.array_is(array, ArraySubmissionState.OVER)
        for number in plan.finished:
            self._campaigns.is_now(number, CampaignState.TERMINATED, self._clock.now())
        for number in plan.wound_up:
            self._campaigns.is_now(number, CampaignState.CANCELLED, self._clock.now())
        self._events.put(plan.changes.events)
        self._events.put_records(plan.changes.records)

    def _count(self, campaign: int, outcomes: Counter[TaskAttemptOutcome]) -> None:
        """Add tasks with final outcomes to the counters of their campaign."""
        stored_campaign = self._campaigns.find(campaign)
        state = stored_campaign.state if stored_campaign else None
        cancelled = sum(outcomes[outcome] for outcome in outcomes if is_task_cancelled_by_owner(outcome, state))
        failed = outcomes.total() - outcomes[TaskAttemptOutcome.SUCCESS] - cancelled
        self._campaigns.count(campaign, outcomes.total(), failed, cancelled)

    def abandon(self, campaign: int) -> tuple[CampaignArray, ...]:
        """Mark all arrays of a campaign as over, even if tasks still run; return the arrays."""
        arrays = tuple(array for array in self._campaigns.open_arrays() if array.campaign == campaign)
        for array in arrays:
            self.close(array, TaskAttemptOutcome.CANCELLED)
        return arrays

    def close(self, array: CampaignArray, outcome: TaskAttemptOutcome) -> None:
        """Give all unfinished tasks of an array this outcome, and mark the array as over."""
        with self._database.transaction():
            self.ends(self.none_ran(array, outcome))

    def none_ran(self, array: CampaignArray, outcome: TaskAttemptOutcome) -> CampaignCyclePlan:
        """Return the outcomes of an array's unfinished attempts.

        An attempt counts as a speculative copy if another attempt of its task is still alive.
        """
        marks = self._marks.all().get((array.campaign, array.number), NO_CANCELLATION_MARKS)
        attempts = close_attempts_without_end(self._campaigns.pending(array), outcome, marks)
        ended = tuple(attempt for attempt in attempts if not is_prologue_or_epilogue_task(attempt.task))
        return CampaignCyclePlan(
            ended=mark_ended_attempts_as_copies(ended, self.rivals(array)),
            stepped=tuple(attempt for attempt in attempts if is_prologue_or_epilogue_task(attempt.task)),
            over=(array,),
        )

    def rivals(self, array: CampaignArray) -> AttemptsByTask:
        """Return the competing attempts of an array's campaign, grouped by task."""
        return group_attempts_by_task(self._copies.rivals([array.campaign]))


def _by_campaign(again: Iterable[TaskRetry]) -> dict[int, list[TaskRetry]]:
    retries: dict[int, list[TaskRetry]] = {}
    for retry in again:
        retries.setdefault(retry.campaign, []).append(retry)
    return retries


def _outcomes(over: Iterable[TaskAttempt]) -> dict[int, Counter[TaskAttemptOutcome]]:
    outcomes: dict[int, Counter[TaskAttemptOutcome]] = defaultdict(Counter)
    for attempt in over:
        outcomes[attempt.campaign][attempt.outcome] += 1
    return outcomes


def _waiting(ended: TaskRetry) -> WaitingTaskRange:
    """Return the queue entry of a task's next attempt."""
    return WaitingTaskRange(
        first=ended.task,
        last=ended.task,
        attempt=ended.attempt + 1,
        priority=PRIORITIES.get(ended.outcome, PRIORITY_USUAL),
        avoid=ended.avoid,
        never=ended.never,
    )
