"""What owners ask about their campaigns and events: each changes only their own, and root all."""

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime
from itertools import groupby

from gridbridge.campaigns.acts import array_submission
from gridbridge.campaigns.runner.observations import Observations
from gridbridge.campaigns.runner.sending.end_recorder import EndRecorder
from gridbridge.campaigns.store import campaign_files, published_task_files
from gridbridge.campaigns.store.campaign_attempts import CampaignTries
from gridbridge.campaigns.store.campaign_event_rows import CampaignEvents
from gridbridge.campaigns.store.campaign_register import CampaignRegister
from gridbridge.campaigns.store.campaign_rows import CampaignRows
from gridbridge.campaigns.store.campaign_task_rows import CampaignTasks
from gridbridge.campaigns.store.cancellation_marks import CancellationMarks
from gridbridge.decisions.campaigns.ending.write_batches import PORTION
from gridbridge.decisions.campaigns.failures.event_rules import CODES
from gridbridge.errors import GridbridgeError
from gridbridge.model.campaigns.campaign import (
    Attempt,
    Campaign,
    CampaignState,
    TaskOutcome,
    WaitingTasks,
)
from gridbridge.model.campaigns.campaign_events import (
    CampaignEvent,
    ClusterSuccessRecord,
    EventCode,
)
from gridbridge.model.campaigns.jdl import CampaignType
from gridbridge.model.campaigns.owner_request import OwnerReply, OwnerRequest, OwnerVerb
from gridbridge.model.places import CAMPAIGNS, PUBLISHED
from gridbridge.shell import runner
from gridbridge.shell.clock import Clock
from gridbridge.state.database import StateFile

AS_IT_IS = {
    CampaignState.IN_TREATMENT: OwnerReply.NOT_PAUSED,
    CampaignState.PAUSED: OwnerReply.PAUSED,
    CampaignState.TERMINATED: OwnerReply.TERMINATED,
    CampaignState.CANCELLED: OwnerReply.CANCELLED,
}
NEXT = {
    (CampaignState.IN_TREATMENT, OwnerVerb.PAUSE): CampaignState.PAUSED,
    (CampaignState.PAUSED, OwnerVerb.RESUME): CampaignState.IN_TREATMENT,
}
OF_EVENTS = (OwnerVerb.FIX, OwnerVerb.RESUBMIT)
TRUSTING = {
    EventCode.BLACKLIST: {"errors_in_row": 0, "error_host": ""},
    EventCode.SINK: {"is_trusted": True},
}
GIVEN_UP = (EventCode.DROPPED, EventCode.DISPUTED)  # nobody knows what became of those tasks
ROOT = 0
TAKEN_UP_AT_ONCE = 20  # campaigns of a request: each is a call of root's; gridevents names one
AT_ONCE = 200  # campaigns or events: a sixth of a second, for which others wait
AGAIN_S = 10.0  # of a look, in which tasks are tried again: a million of them takes minutes

_log = logging.getLogger(__name__)

Act = Callable[[OwnerRequest, int], OwnerReply]  # what is asked, about one campaign or event
Begin = Callable[[Iterable[int]], None]  # is told whose tasks are touched
Do = Callable[
    [OwnerRequest], Mapping[int, OwnerReply] | Mapping[str, object]
]  # a request; the answer


class NotYet(GridbridgeError):
    """A request is done in part; the next look goes on with it."""


def answer(one: OwnerRequest, does: Mapping[OwnerVerb, Do], folder: str, published: str) -> bool:
    """Do what is asked, by its verb; False where nobody here does that, or not yet: it is left."""
    if one.verb not in does:
        return False
    try:
        done = does[one.verb](one)
    except NotYet:
        return False
    campaign_files.answer(one.token, done, published)
    campaign_files.done(one.token, folder)
    return True


def untold(_: Iterable[int]) -> None:
    """Tell nobody whose tasks are touched."""


class OwnerRequests:
    """What does them."""

    VERBS = (
        *(
            OwnerVerb.CANCEL,
            OwnerVerb.CANCEL_TASK,
            OwnerVerb.ABANDON,
            OwnerVerb.PAUSE,
            OwnerVerb.RESUME,
            OwnerVerb.PURGE,
        ),
        *OF_EVENTS,
    )

    def __init__(
        self,
        database: StateFile,
        clock: Clock,
        folder: str = CAMPAIGNS,
        published: str = PUBLISHED,
        take_up: Callable[[int, str], None] = array_submission.take_up,
        begin: Begin = untold,
        register: CampaignRegister | None = None,
    ) -> None:
        self._begin = begin
        self._register = register or CampaignRegister(folder)
        self._take_up = take_up
        self._database = database
        self._folder = folder
        self._published = published
        self._tasks = CampaignTasks(database)
        self._touched: list[Attempt] = []
        self._campaigns = CampaignRows(database)
        self._tries = CampaignTries(database, self._campaigns)
        self._events = CampaignEvents(database)
        self._marks = CancellationMarks(database)
        self._clock = clock
        self._noting = EndRecorder(database, Observations(database), clock)
        self._rulers = (ROOT, os.geteuid())  # a site of embedded clusters is its one person's
        self._until_s = float("inf")
        self._reached: dict[tuple[str, int], int] = {}  # last tasks, by request and event

    def begin(self) -> None:
        """Begin a look: what takes longer goes on in the next one."""
        self._until_s = self._clock.steady_s() + AGAIN_S

    def do(self, asked: OwnerRequest) -> Mapping[int, OwnerReply]:
        """Do what is asked about each campaign or event, some by one change of the state file.

        Others write it meanwhile. Campaigns are purged one by one: their files can't be brought
        back, and it takes long. Tasks are tried again in portions; what was not done when we were
        killed is done when it comes up once more.
        """
        act = self._do_event if asked.verb in OF_EVENTS else self._do_campaign
        if asked.uid == ROOT:
            numbers = ",".join(map(str, asked.numbers))
            _log.info("event=by_root verb=%s numbers=%s", asked.verb, numbers)
        if asked.verb is OwnerVerb.RESUBMIT and not self._begin_again(asked):
            return dict.fromkeys(asked.numbers, OwnerReply.NOT_TAKEN_UP)
        is_whole = asked.verb not in (OwnerVerb.PURGE, OwnerVerb.RESUBMIT)
        done: dict[int, OwnerReply] = {}
        for begin in range(0, len(asked.numbers), AT_ONCE):
            some = asked.numbers[begin : begin + AT_ONCE]
            with self._database.transaction() if is_whole else nullcontext():
                done |= {number: self._in_turn(act, asked, number) for number in some}
        if asked.verb is OwnerVerb.RESUBMIT:
            self._note_again(asked.token, [one for one in done if done[one] is OwnerReply.DONE])
        return done

    @staticmethod
    def _in_turn(act: Act, asked: OwnerRequest, number: int) -> OwnerReply:
        """Do it for one of many; that it is over is a sign of life, for each may take long."""
        answer = act(asked, number)
        runner.is_over()
        return answer

    def _note_again(self, token: str, events: Iterable[int]) -> None:
        """Note of whose tasks this was; a state file that is restored does not know it."""
        now = self._clock.now()
        for campaign in sorted({one.campaign for one in map(self._events.find, events) if one}):
            if not self._campaigns.has_done(token, campaign):
                self._campaigns.note_done(token, campaign, now)
                self._register.note_again(campaign, token, int(now.timestamp()))

    def _begin_again(self, asked: OwnerRequest) -> bool:
        """Begin to try tasks again, where root lets those campaigns go on that have ended.

        Whose tasks are touched is noted first: when we are killed, all of them are shown anew.
        """
        found = {one.campaign for one in map(self._events.find, asked.numbers) if one}
        campaigns = [
            one
            for one in map(self._campaigns.find, sorted(found))
            if one
            and one.jdl.type is not CampaignType.TEST  # its tasks are not tried again
            and not self._is_refused(one.number)
        ]
        self._begin(one.number for one in campaigns)
        return self._are_taken_up(asked, campaigns)

    def _are_taken_up(self, asked: OwnerRequest, campaigns: Iterable[Campaign]) -> bool:
        """Have root let those go on that have ended; of very many none: all others would wait."""
        theirs = (one for one in campaigns if asked.uid in (one.uid, *self._rulers))
        ended = [one.number for one in theirs if one.state is CampaignState.TERMINATED]
        if len(ended) > TAKEN_UP_AT_ONCE:
            why = f"{len(ended)} campaigns; at most {TAKEN_UP_AT_ONCE} by one request"
            _tell_not_taken_up(ended[0], why)
            return False
        for number in ended:
            try:
                self._take_up(number, asked.token)
            except GridbridgeError as error:
                _tell_not_taken_up(number, str(error))
                return False
            self._campaigns.end_is_noted(number, is_noted=False)
        return True

    def touched(self) -> tuple[Attempt, ...]:
        """Return the attempts of tasks that owners changed since the last call."""
        found, self._touched = tuple(self._touched), []
        return found

    def _do_campaign(self, asked: OwnerRequest, number: int) -> OwnerReply:
        """Do it once: a request that was done when we were killed comes again."""
        if self._campaigns.has_done(asked.token, number):
            return OwnerReply.DONE
        found = self._campaigns.find(number)
        if not found or found.state is CampaignState.PURGED:
            return OwnerReply.UNKNOWN
        if asked.uid not in (found.uid, *self._rulers):
            return OwnerReply.NOT_THEIRS
        if asked.verb is OwnerVerb.PURGE:
            return self._purge(found, asked.token)
        answer = self._change(found, asked)
        if answer is OwnerReply.DONE:
            self._campaigns.note_done(asked.token, number, self._clock.now())
        return answer

    def _change(self, found: Campaign, asked: OwnerRequest) -> OwnerReply:
        if asked.verb is OwnerVerb.CANCEL_TASK:
            return self._cancel_task(found, asked.task)
        if asked.verb is OwnerVerb.ABANDON:
            return self._abandon(found, asked.uid)
        if asked.verb is OwnerVerb.CANCEL and (found.state.is_alive or found.is_winding_up):
            return self._cancel(found)
        state = NEXT.get((found.state, asked.verb))
        if not state:
            return AS_IT_IS[found.state]
        self._campaigns.is_now(found.number, state)
        return OwnerReply.DONE

    def _cancel(self, found: Campaign) -> OwnerReply:
        """Drop what waits; its epilogues are still to run, unless it is cancelled once more."""
        now = self._clock.now()
        is_over = found.is_winding_up or not found.jdl.has_epilogue
        self._campaigns.is_now(found.number, CampaignState.CANCELLED, now if is_over else None)
        self._campaigns.drop_waiting(found.number)
        self._events.close(found.number, now)
        return OwnerReply.DONE

    def _abandon(self, found: Campaign, uid: int) -> OwnerReply:
        """Count what nobody can delete of a cancelled campaign as over: root looks after it."""
        if uid not in self._rulers:
            return OwnerReply.NOT_ROOTS
        if found.state is not CampaignState.CANCELLED:
            return OwnerReply.NOT_CANCELLED
        if not self._campaigns.is_unfinished(found.number):
            return OwnerReply.CANCELLED
        now = self._clock.now()
        for array in self._noting.abandon(found.number):
            name = f"{array.campaign}.{array.number}"
            _log.warning("event=abandoned array=%s at=%s job=%d", name, array.cluster, array.job_id)
        self._touched += self._noting.noted
        self._noting.noted.clear()
        self._campaigns.is_now(found.number, CampaignState.CANCELLED, now)
        self._events.close(found.number, now)
        return OwnerReply.DONE

    def purge_ended(self, before: datetime, most: int) -> None:
        """Purge so many of the campaigns that ended before a time, the oldest first.

        Those of which something may live still take nobody's place.
        """
        purged = 0
        for number in self._campaigns.ended_before(before):
            if purged == most:
                return
            if found := self._campaigns.find(number):
                purged += self._purge(found) is OwnerReply.DONE
                runner.is_over()

    def _purge(self, found: Campaign, token: str = "") -> OwnerReply:
        """Remove what is there of a campaign that has ended, then forget it."""
        if self._campaigns.is_unfinished(found.number):
            return OwnerReply.NOT_ENDED
        campaign_files.purge(found.number, self._folder)
        published_task_files.remove(found.number, self._published)
        self._events.drop(found.number)
        self._tasks.drop_attempts(found.number)
        with self._database.transaction():
            self._tasks.purge(found.number)
            if token:
                self._campaigns.note_done(token, found.number, self._clock.now())
        return OwnerReply.DONE

    def _cancel_task(self, found: Campaign, task: int) -> OwnerReply:
        """End a task: at once where it waits to be sent, else nikita deletes it at its cluster."""
        if not found.state.is_alive:
            return AS_IT_IS[found.state]
        if not 0 <= task < found.tasks:
            return OwnerReply.NO_TASK
        ended = self._tasks.cancel(found.number, task)
        if ended:
            self._touched.append(ended)
        return (
            OwnerReply.DONE
            if ended or self._marks.cancel(found.number, task)
            else OwnerReply.TASK_ENDED
        )

    def _do_event(self, asked: OwnerRequest, number: int) -> OwnerReply:
        """Close an event; what it was about is judged anew from then on."""
        event = self._events.find(number)
        if not event:
            return OwnerReply.UNKNOWN
        campaign = self._campaigns.find(event.campaign)
        if asked.uid not in (campaign.uid if campaign else ROOT, *self._rulers):
            return OwnerReply.NOT_THEIRS
        if event.closed_at:
            return self._do_closed(asked, event)
        if asked.verb is OwnerVerb.RESUBMIT and event.code is EventCode.SINK:
            return OwnerReply.NOT_AGAIN
        if asked.verb is OwnerVerb.RESUBMIT and event.code in GIVEN_UP:
            self._events.put([replace(event, until=self._clock.now())])  # the next cycle obeys
            return OwnerReply.DONE
        if (
            asked.verb is OwnerVerb.RESUBMIT
            and campaign
            and (why := self._why_not(campaign, event))
        ):
            return why
        waits = asked.verb is OwnerVerb.RESUBMIT and self._try_again(event, asked.token)
        with self._database.transaction():
            if waits:
                self._goes_on(event.campaign)
            self._events.put([replace(event, closed_at=self._clock.now())])
            self._events.is_closed_by(number, asked.token)
            self._trust(event)
            self._tries.close(event, _outcomes_of(event))
        return OwnerReply.DONE

    def _do_closed(self, asked: OwnerRequest, event: CampaignEvent) -> OwnerReply:
        """Trust a sink that something else closed.

        A request that was done when we were killed comes again.
        """
        if self._events.closed_by(event.number) == asked.token:
            return OwnerReply.DONE
        is_suspect = (event.campaign, event.cluster) in self._events.sinks()
        if asked.verb is OwnerVerb.FIX and event.code is EventCode.SINK and is_suspect:
            self._trust(event)
            return OwnerReply.DONE
        return OwnerReply.CLOSED

    def _trust(self, event: CampaignEvent) -> None:
        """Begin anew to count what closed a cluster."""
        if event.code not in TRUSTING:
            return
        known = self._events.records([event.campaign])
        of = [one for one in known if one.cluster == event.cluster]
        record = (
            of[0] if of else ClusterSuccessRecord(campaign=event.campaign, cluster=event.cluster)
        )
        self._events.put_records([replace(record, **TRUSTING[event.code])])  # type: ignore[arg-type]

    def _why_not(self, campaign: Campaign, event: CampaignEvent) -> OwnerReply | None:
        """Say why the tasks that an event counts are not tried again; None where they may be."""
        if campaign.jdl.type is CampaignType.TEST and event.code in CODES.values():
            return OwnerReply.ONE_TRY
        if campaign.state is CampaignState.CANCELLED:
            return OwnerReply.CANCELLED
        return OwnerReply.FILE_REFUSED if self._is_refused(campaign.number) else None

    def _is_refused(self, campaign: int) -> bool:
        """Say whether root submits nothing more of a campaign, and nobody has said it is mended."""
        return self._events.find_open(EventCode.FILE_REFUSED, campaign, "") is not None

    def _try_again(self, event: CampaignEvent, token: str = "") -> bool:
        """Let the tasks wait once more that an event counts; say whether there are some.

        What they came to before counts for nothing: their owner has put right what was wrong.
        NotYet when the look's time is over.
        """
        outcomes = _outcomes_of(event)
        waiting = self._campaigns.waiting_of(event.campaign)
        waits = {task for one in waiting for task in range(one.first, one.last + 1)}
        after = self._reached.pop((token, event.number), -1)
        while found := self._tries.failed(event, outcomes, after, PORTION):
            after = found[-1].task
            failed = [one for one in found if one.task not in waits]
            last = self._tries.last(event.campaign, [one.task for one in failed])
            with self._database.transaction():
                self._tries.judge_anew(event.campaign, [*last])
                self._campaigns.wait_again(event.campaign, *_in_ranges(last))
                self._campaigns.count(event.campaign, -len(failed), -len(failed))
            self._touched += failed
            if self._clock.steady_s() > self._until_s:
                self._reached[token, event.number] = after
                raise NotYet(f"event {event.number}: tasks after {after} are still to wait again")
        return after >= 0

    def _goes_on(self, campaign: int) -> None:
        """Let a campaign go on that had ended."""
        found = self._campaigns.find(campaign)
        if found and found.state is CampaignState.TERMINATED:
            self._campaigns.is_now(campaign, CampaignState.IN_TREATMENT)


def _tell_not_taken_up(campaign: int, why: str) -> None:
    _log.warning("event=not_taken_up campaign=%d why=%r", campaign, why)


def _outcomes_of(event: CampaignEvent) -> list[TaskOutcome]:
    return [outcome for outcome, code in CODES.items() if code is event.code]


def _in_ranges(attempts: Mapping[int, int]) -> Iterator[WaitingTasks]:
    """Yield what waits once more after the last attempts of these tasks, neighbours together."""
    alike = groupby(
        enumerate(sorted(attempts.items())), key=lambda each: (each[1][0] - each[0], each[1][1])
    )
    for (_, attempt), some in alike:
        tasks = [task for _, (task, _) in some]
        yield WaitingTasks(first=tasks[0], last=tasks[-1], attempt=attempt + 1)
