"""Does what a cycle decided: it notes each step before the next, so that each may be repeated."""

import logging
from dataclasses import replace
from typing import Protocol

from gridbridge.apply.campaigns import arrays
from gridbridge.apply.campaigns.arrays import ArrayRefused
from gridbridge.errors import GridbridgeError
from gridbridge.model.campaigns.campaign import (
    AT_ONCE,
    LAST,
    USUAL,
    Array,
    ArrayState,
    Attempt,
    CampaignState,
    Outcome,
    Waiting,
)
from gridbridge.model.campaigns.plan import Plan, Send
from gridbridge.services.campaigns.learnt import Learnt
from gridbridge.shell.clock import Clock
from gridbridge.state.database import Database
from gridbridge.state.database.campaigns import Campaigns

PRIORITIES = {Outcome.RESUBMIT: AT_ONCE, Outcome.RESUBMIT_LAST: LAST}

_log = logging.getLogger(__name__)


class Acts(Protocol):
    """What is done at the clusters (apply/campaigns/arrays); each may be repeated."""

    def submit(self, array: Array, attempts: tuple[Attempt, ...], /) -> int:
        """Submit an array held; return its id. Raises ArrayRefused for one that is never taken."""
        ...

    def release(self, array: Array, /) -> None:
        """Let its tasks start."""
        ...

    def delete(self, array: Array, /) -> None:
        """End all of its tasks."""
        ...


class Actions:
    """What changes the state file and the clusters."""

    def __init__(
        self,
        database: Database,
        campaigns: Campaigns,
        learnt: Learnt,
        clock: Clock,
        acts: Acts = arrays,
    ) -> None:
        self._database = database
        self._campaigns = campaigns
        self._learnt = learnt
        self._clock = clock
        self._acts = acts
        self._touched: list[Attempt] = []

    def touched(self) -> tuple[Attempt, ...]:
        """Return the attempts that were sent or noted since the last call."""
        found, self._touched = tuple(self._touched), []
        return found

    def do(self, plan: Plan) -> None:
        """Note what ended, then send what was begun, then what is new."""
        with self._database.transaction():
            self._note_ends(plan)
            self._learnt.keep(plan, self._clock.now())
        for array in plan.deleted:
            self._delete(array)
        for array in plan.resumed:
            self._go_on(array)
        for send in plan.sends:
            self._send(send)

    def _note_ends(self, plan: Plan) -> None:
        again = frozenset(plan.again)
        self._touched += plan.ended
        for one in plan.ended:
            self._campaigns.ended(one)
            if one in again:
                self._campaigns.wait_again(one.campaign, _waiting(one))
            else:
                self._campaigns.count(one.campaign, 1, int(one.outcome is not Outcome.SUCCESS))
        for array in plan.over:
            self._campaigns.array_is(array, ArrayState.OVER)
        for number in plan.finished:
            self._campaigns.is_now(number, CampaignState.TERMINATED)

    def _send(self, send: Send) -> None:
        now = self._clock.now()
        array = self._campaigns.intend(send.campaign, send.cluster, send.tasks, now)
        if array:
            self._touched += self._campaigns.pending(array)
            self._go_on(array)

    def _delete(self, array: Array) -> None:
        """End an array; one that was never released has no ends that a cluster could tell."""
        try:
            self._acts.delete(array)
        except GridbridgeError as error:
            self._tell("not_deleted", array, error)
            return
        if array.state is not ArrayState.RELEASED:
            self._close(array, Outcome.CANCELLED)

    def _go_on(self, array: Array) -> None:
        """Take the steps that are left of an array's submission; the next cycle does the rest."""
        try:
            if array.state is ArrayState.INTENDED:
                job_id = self._acts.submit(array, self._campaigns.pending(array))
                self._campaigns.array_is(array, ArrayState.SUBMITTED, job_id)
                array = replace(array, state=ArrayState.SUBMITTED, job_id=job_id)
            self._acts.release(array)
            self._campaigns.array_is(array, ArrayState.RELEASED)
        except ArrayRefused as error:
            self._tell("refused", array, error)
            self._close(array, Outcome.SETUP_ERROR)
        except GridbridgeError as error:
            self._tell("not_sent", array, error)

    def _close(self, array: Array, outcome: Outcome) -> None:
        """Note that none of an array's tasks ran."""
        ended = [replace(one, outcome=outcome) for one in self._campaigns.pending(array)]
        with self._database.transaction():
            self._note_ends(Plan(ended=tuple(ended), over=(array,)))

    @staticmethod
    def _tell(event: str, array: Array, error: Exception) -> None:
        name = f"{array.campaign}.{array.number}"
        _log.warning("event=%s array=%s at=%s why=%r", event, name, array.cluster, str(error))


def _waiting(ended: Attempt) -> Waiting:
    """Return a task as it waits for its next attempt."""
    priority = PRIORITIES.get(ended.outcome, USUAL)
    return Waiting(first=ended.task, last=ended.task, attempt=ended.attempt + 1, priority=priority)
