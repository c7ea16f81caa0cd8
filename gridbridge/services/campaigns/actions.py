"""Does what a cycle decided: it notes each step before the next, so that each may be repeated."""

import logging
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from gridbridge.apply.campaigns import arrays
from gridbridge.apply.campaigns.arrays import ArrayRefused, CampaignEnded, CampaignRefused
from gridbridge.decisions.campaigns.adoption import adopt
from gridbridge.decisions.campaigns.copies import (
    ByTask,
    by_task,
    is_dropped,
    last_ends,
    numbered,
    settled,
)
from gridbridge.decisions.campaigns.ending.judge import NO_MARKS, without_end
from gridbridge.decisions.campaigns.ending.portions import portions
from gridbridge.decisions.campaigns.failures.blacklist import opened_now
from gridbridge.decisions.campaigns.failures.book import Book
from gridbridge.decisions.campaigns.failures.events import CODES, note_tasks
from gridbridge.decisions.campaigns.failures.retries import to_run_again
from gridbridge.errors import AlreadySubmitted, GridbridgeError, StateError
from gridbridge.model.campaigns.campaign import (
    AT_ONCE,
    LAST,
    USUAL,
    Array,
    ArrayState,
    Attempt,
    CampaignState,
    Outcome,
    Sent,
    Waiting,
)
from gridbridge.model.campaigns.copies import Losers
from gridbridge.model.campaigns.events import ROOTS, Changes, Code, Kind
from gridbridge.model.campaigns.jdl import Type
from gridbridge.model.campaigns.numbers import MOST
from gridbridge.model.campaigns.plan import Again, Plan, Tried
from gridbridge.model.campaigns.sections import Failures
from gridbridge.model.campaigns.steps import is_step
from gridbridge.services.campaigns.array_commands import ArrayCommands
from gridbridge.services.campaigns.observations import Observations
from gridbridge.services.campaigns.sending.ends import Ends
from gridbridge.services.campaigns.sending.submissions import Submissions
from gridbridge.services.campaigns.sending.troubles import (
    OF_SUBMISSION,
    Troubles,
    code_of,
    in_short,
)
from gridbridge.services.campaigns.sending.turns import HeldUp, NotAsked, Turns
from gridbridge.shell.clock import Clock
from gridbridge.state.database import Database
from gridbridge.state.database.campaign_copies import CampaignCopies
from gridbridge.state.database.campaign_events import CampaignEvents
from gridbridge.state.database.campaign_tries import CampaignTries
from gridbridge.state.database.campaigns import Campaigns
from gridbridge.state.database.marks import Marks

PRIORITIES = {Outcome.RESUBMIT: AT_ONCE, Outcome.RESUBMIT_LAST: LAST}

_log = logging.getLogger(__name__)


class Actions:
    """What changes the state file and the clusters."""

    def __init__(
        self,
        database: Database,
        observations: Observations,
        clock: Clock,
        failures: Failures,
        acts: ArrayCommands = arrays,
        most: int = MOST,
    ) -> None:
        self._database = database
        self._campaigns = Campaigns(database)
        self._tries = CampaignTries(database, self._campaigns)
        self._copies = CampaignCopies(database, self._campaigns)
        self._events = CampaignEvents(database)
        self._marks = Marks(database)
        self._observations = observations
        self._clock = clock
        self._failures = failures
        self._troubles = Troubles(self._events, clock, failures)
        self._acts = acts
        self._turns = turns = Turns(self._campaigns, clock, failures)
        self._submissions = Submissions(self._campaigns, acts, clock, self._settle, most, turns)
        self._ends = Ends(self._campaigns, acts)
        self._touched: list[Attempt] = []

    def touched(self) -> tuple[Attempt, ...]:
        """Return the attempts that were sent or noted since the last call."""
        found = (*self._touched, *self._submissions.begun)
        self._touched.clear()
        self._submissions.begun.clear()
        return found

    def do(self, plan: Plan) -> None:
        """Note what ended, then send what was begun, then what is new."""
        self._turns.begin()
        for array in plan.over:
            if array.is_repeated:
                self._leave_nothing(array)
        self._note_all(plan)
        for array in plan.deleted:
            self._delete(array)
        for lost in plan.losers:
            self._end(lost)
        self._submissions.resume(plan.resumed)
        self._send(plan)
        self._ends.tell()

    def _note_all(self, plan: Plan) -> None:
        """Note what ended and what was learnt; others write the state file between portions."""
        *first, last = portions(plan)
        for some in first:
            with self._database.transaction():
                self._note_ends(some)
        with self._database.transaction():
            self._note_ends(last)
            self._observations.keep(plan, self._clock.now())
        self._observations.keep_in_portions(plan)

    def _note_ends(self, plan: Plan) -> None:
        over = last_ends(plan.ended, plan.again)
        self._touched += plan.ended
        self._campaigns.ended((*plan.ended, *plan.stepped))
        for campaign, some in _by_campaign(plan.again).items():
            self._campaigns.wait_again(campaign, *map(_waiting, some))
        bad = Counter(one.campaign for one in over if one.outcome is not Outcome.SUCCESS)
        for campaign, tasks in Counter(one.campaign for one in over).items():
            self._campaigns.count(campaign, tasks, bad[campaign])
        for array in plan.over:
            self._campaigns.array_is(array, ArrayState.OVER)
        for number in plan.finished:
            self._campaigns.is_now(number, CampaignState.TERMINATED, self._clock.now())
        for number in plan.wound_up:
            self._campaigns.is_now(number, CampaignState.CANCELLED, self._clock.now())
        self._events.put(plan.changes.events)
        self._events.put_records(plan.changes.records)

    def _send(self, plan: Plan) -> None:
        for step in plan.steps:
            self._submissions.begin([self._tries.intend_step(step, self._clock.now())])
        for send in plan.sends:
            self._submissions.send(send)
        for copies in plan.copies:
            self._submissions.begin([self._copies.intend(copies, self._clock.now())])

    def _end(self, lost: Losers) -> None:
        """End attempts whose tasks have succeeded; those that fail to end are named again."""
        if is_dropped(lost):
            self._delete(lost.array)
            return
        try:
            self._turns.take(lost.array, lambda: self._acts.delete_places(lost.array, lost.places))
        except NotAsked:
            pass  # it is named again in the next cycle
        except GridbridgeError as error:
            name, at = f"{lost.array.campaign}.{lost.array.number}", lost.array.cluster
            _log.warning("event=not_ended array=%s at=%s why=%r", name, at, str(error))

    def _delete(self, array: Array) -> None:
        """End an array; one that was never submitted has no ends that a cluster could tell.

        Root may have submitted and released one of which we know no more than that we meant to:
        its tasks may have run to their ends, so the next cycle asks for those.
        """
        try:
            leave = partial(self._leave_nothing, array)
            job_id = self._turns.take(array, leave, lambda found: found is None)
        except NotAsked:
            return  # it is deleted in a later cycle
        if job_id is None or array.state is ArrayState.RELEASED:
            return
        if job_id:
            self._campaigns.array_is(array, ArrayState.RELEASED, job_id)
        else:
            self._close(array, Outcome.CANCELLED)

    def _leave_nothing(self, array: Array) -> int | None:
        """Delete what bears an array's name: a cluster may take a submission late.

        Returns its id there, 0 for one that was never submitted, None when it can't be deleted.
        """
        try:
            job_id = self._acts.delete(array)
        except GridbridgeError as error:
            self._tell("event=not_deleted", array, error)
            self._troubles.note_undeleted(array, error)
            return None
        self._troubles.close(ROOTS, array)
        return job_id

    def _settle(self, array: Array, sent: Sent) -> None:
        """Note how far an array came; the next cycle does the rest."""
        try:
            if sent.job_id:
                self._campaigns.array_is(array, ArrayState.SUBMITTED, sent.job_id)
                array = replace(array, state=ArrayState.SUBMITTED, job_id=sent.job_id)
            if not sent.error:
                self._is_released(array)
        except StateError as error:  # no cluster is to blame
            self._tell("event=not_noted", array, error)
            return
        if sent.error:
            self._is_not_released(array, sent.error)

    def _is_not_released(self, array: Array, error: GridbridgeError) -> None:
        """Do what follows from what kept an array from starting."""
        match error:
            case CampaignRefused():
                self._tell("event=campaign_refused", array, error)
                (self._try_elsewhere if array.is_of_copies else self._refuse_everywhere)(
                    array, error
                )
            case CampaignEnded():
                self._tell("event=ended_before", array, error)
                self._end_as_before(array)
            case ArrayRefused():
                self._tell("event=array_refused", array, error)
                self._try_elsewhere(array, error)
            case AlreadySubmitted():
                self._tell("event=state_is_older", array, error)
                self._adopt(array)
            case HeldUp():
                self._troubles.note(array, Code.SUBMIT_JOB, error)
            case NotAsked():
                pass  # the next cycle resumes it
            case _:
                self._tell("event=not_sent", array, error)
                self._troubles.note(array, code_of(error), error)

    def _is_released(self, array: Array) -> None:
        """Note that an array's tasks may start: what kept its cluster from taking it is over."""
        with self._database.transaction():
            self._campaigns.array_is(array, ArrayState.RELEASED)
            self._troubles.close(OF_SUBMISSION, array)

    def _try_elsewhere(self, array: Array, error: GridbridgeError) -> None:
        """Note that none of an array's tasks ran, because its cluster refuses them."""
        with self._database.transaction():
            if not array.is_of_copies:
                self._troubles.note(array, Code.RUNNER_SUBMIT_ERROR, error)
            none = self._none_ran(array, Outcome.SETUP_ERROR)
            again, book = self._again(array, none.ended), Book(self._events.open())
            ended, runs = [(one, array.cluster) for one in none.ended], set(map(_task, again))
            note_tasks(book, ended, runs, self._clock.now())
            changes = Changes(events=book.changed)
            self._note_ends(replace(none, again=again, changes=changes))

    def _again(self, array: Array, ended: tuple[Attempt, ...]) -> tuple[Again, ...]:
        """Return which of these tasks run again."""
        tried = [Tried.of(one, array.cluster) for one in ended]
        found = self._campaigns.find(array.campaign)
        assert found  # a campaign that has arrays is kept
        clusters = {} if found.jdl.type is Type.TEST else {found.number: found.jdl.clusters.keys()}
        rivals = self._rivals(array)
        earlier = self._tries.earlier(ended, rivals)
        return numbered(to_run_again(tried, earlier, clusters, self._failures), rivals)

    def _refuse_everywhere(self, array: Array, error: GridbridgeError) -> None:
        """Note that root submits nothing more of a campaign: what waits has failed too.

        A task that was to run once more is what it came to before.
        """
        with self._database.transaction():
            retried = self._tries.take_back(array, CODES)
            self._touched += retried
            self._close(array, Outcome.SETUP_ERROR)
            failed = self._campaigns.waiting().get(array.campaign, 0) + len(retried)
            self._tries.judge_as_before(array.campaign)
            self._campaigns.drop_waiting(array.campaign)
            self._campaigns.count(array.campaign, failed, failed)
            self._open_once(Code.FILE_REFUSED, array, in_short(error))

    def _end_as_before(self, array: Array) -> None:
        """End a campaign that had ended before our state file was replaced by an older one."""
        with self._database.transaction():
            self._close(array, Outcome.CANCELLED)
            self._campaigns.drop_waiting(array.campaign)
            self._campaigns.is_now(array.campaign, CampaignState.CANCELLED, self._clock.now())
            self._open_once(Code.RESTORED, array)

    def _open_once(self, code: Code, array: Array, why: str = "") -> None:
        """Open an event of an array's campaign, unless one is open."""
        now = self._clock.now()
        event = opened_now(Kind.CAMPAIGN, code, array.campaign, "", now)
        self._events.open_once(replace(event, why=why))

    def _adopt(self, array: Array) -> None:
        """Take over what root's ledger knows of a campaign; the next cycle goes on from there.

        A kill between two portions leaves some of it lost, which is refused and taken over again.
        """
        try:
            noted = self._acts.noted(array.campaign)
        except GridbridgeError as error:
            self._tell("event=no_ledger", array, error)
            return
        now = self._clock.now()
        event = opened_now(Kind.CAMPAIGN, Code.RESTORED, array.campaign, "", now)
        *first, last = adopt(self._tries.kept(array.campaign), noted, array, now)
        for some in first:
            self._tries.adopt(some)
        with self._database.transaction():
            self._tries.adopt(last)
            self._events.put([event])
        self._touched += (each for some in (*first, last) for each in some.attempts)

    def _close(self, array: Array, outcome: Outcome) -> None:
        """Note that none of an array's tasks ran, or will run again."""
        with self._database.transaction():
            self._note_ends(self._none_ran(array, outcome))

    def _none_ran(self, array: Array, outcome: Outcome) -> Plan:
        """Return what an array's attempts came to; those whose tasks live otherwise are copies."""
        marks = self._marks.all().get((array.campaign, array.number), NO_MARKS)
        every = without_end(self._campaigns.pending(array), outcome, marks)
        ended = tuple(one for one in every if not is_step(one.task))
        return Plan(
            ended=settled(ended, self._rivals(array)),
            stepped=tuple(one for one in every if is_step(one.task)),
            over=(array,),
        )

    def _rivals(self, array: Array) -> ByTask:
        return by_task(self._copies.rivals([array.campaign]))

    @staticmethod
    def _tell(event: str, array: Array, error: Exception) -> None:
        name = f"{array.campaign}.{array.number}"
        _log.warning("%s array=%s at=%s why=%r", event, name, array.cluster, str(error))


def _by_campaign(again: Iterable[Again]) -> dict[int, list[Again]]:
    found: dict[int, list[Again]] = {}
    for one in again:
        found.setdefault(one.campaign, []).append(one)
    return found


def _task(one: Again) -> tuple[int, int]:
    return one.campaign, one.task


def _waiting(ended: Again) -> Waiting:
    """Return a task as it waits for its next attempt."""
    return Waiting(
        first=ended.task,
        last=ended.task,
        attempt=ended.attempt + 1,
        priority=PRIORITIES.get(ended.outcome, USUAL),
        avoid=ended.avoid,
        never=ended.never,
    )
