"""Notes in the state file how tasks ended, in portions that hold up nobody else who writes it."""

from collections import Counter, defaultdict
from collections.abc import Iterable

from gridbridge.campaigns.runner.observations import Observations
from gridbridge.campaigns.store.campaign_event_rows import CampaignEvents
from gridbridge.campaigns.store.campaign_rows import CampaignRows
from gridbridge.campaigns.store.cancellation_marks import CancellationMarks
from gridbridge.campaigns.store.speculative_attempts import CampaignCopies
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
    is_cancelled,
)
from gridbridge.model.campaigns.cycle_plan import CyclePlan, Retry
from gridbridge.model.campaigns.prologues import is_step
from gridbridge.shell.clock import Clock
from gridbridge.state.database import StateFile

PRIORITIES = {TaskOutcome.RESUBMIT: AT_ONCE, TaskOutcome.RESUBMIT_LAST: LAST}


class EndRecorder:
    """What notes it."""

    def __init__(self, database: StateFile, observations: Observations, clock: Clock) -> None:
        self._database = database
        self._campaigns = CampaignRows(database)
        self._copies = CampaignCopies(database, self._campaigns)
        self._events = CampaignEvents(database)
        self._marks = CancellationMarks(database)
        self._observations = observations
        self._clock = clock
        self.noted: list[Attempt] = []  # whoever reads it clears it

    def all(self, plan: CyclePlan) -> None:
        """Note what ended and what was learnt; others write the state file between portions."""
        *first, last = portions(plan)
        for portion in first:
            with self._database.transaction():
                self.ends(portion)
        with self._database.transaction():
            self.ends(last)
            self._observations.keep(plan, self._clock.now())
        self._observations.keep_in_portions(plan)

    def ends(self, plan: CyclePlan) -> None:
        """Note how tasks, arrays and campaigns ended, and which tasks wait anew."""
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
        """Count how tasks of a campaign ended for good."""
        stored_campaign = self._campaigns.find(campaign)
        state = stored_campaign.state if stored_campaign else None
        cancelled = sum(outcomes[outcome] for outcome in outcomes if is_cancelled(outcome, state))
        failed = outcomes.total() - outcomes[TaskOutcome.SUCCESS] - cancelled
        self._campaigns.count(campaign, outcomes.total(), failed, cancelled)

    def abandon(self, campaign: int) -> tuple[Array, ...]:
        """Note that all arrays of a campaign are over, whatever lives there; return them."""
        arrays = tuple(
            array for array in self._campaigns.open_arrays() if array.campaign == campaign
        )
        for array in arrays:
            self.close(array, TaskOutcome.CANCELLED)
        return arrays

    def close(self, array: Array, outcome: TaskOutcome) -> None:
        """Note that none of an array's tasks ran, or will run again."""
        with self._database.transaction():
            self.ends(self.none_ran(array, outcome))

    def none_ran(self, array: Array, outcome: TaskOutcome) -> CyclePlan:
        """Return what an array's attempts came to; those whose tasks live otherwise are copies."""
        marks = self._marks.all().get((array.campaign, array.number), NO_MARKS)
        attempts = without_end(self._campaigns.pending(array), outcome, marks)
        ended = tuple(attempt for attempt in attempts if not is_step(attempt.task))
        return CyclePlan(
            ended=settled(ended, self.rivals(array)),
            stepped=tuple(attempt for attempt in attempts if is_step(attempt.task)),
            over=(array,),
        )

    def rivals(self, array: Array) -> ByTask:
        """Return the attempts of which only one of each task counts, of an array's campaign."""
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
    """Return a task as it waits for its next attempt."""
    return WaitingTasks(
        first=ended.task,
        last=ended.task,
        attempt=ended.attempt + 1,
        priority=PRIORITIES.get(ended.outcome, USUAL),
        avoid=ended.avoid,
        never=ended.never,
    )
