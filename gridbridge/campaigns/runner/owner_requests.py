"""Executes owners' requests about their campaigns, tasks and events, for example to cancel or retry."""

import logging
import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime
from itertools import groupby

from gridbridge.campaigns.runner import array_commands_as_owner
from gridbridge.campaigns.runner.cycle_result_recorders import CampaignStatisticsRecorder, TaskAndCampaignEndRecorder
from gridbridge.campaigns.store import campaign_files_of_owners, published_campaign_files
from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.campaigns.store.campaign_file_verification import CampaignFileRegister
from gridbridge.campaigns.store.campaign_files_of_owners import HIGHEST
from gridbridge.campaigns.store.campaign_statistics_rows import InputCarryRows
from gridbridge.campaigns.store.campaign_task_rows import CampaignTaskRows, TaskDeletionMarkRows
from gridbridge.campaigns.store.event_and_subscription_rows import EventAndSuccessRecordRows
from gridbridge.campaigns.store.predecessor_rows import PredecessorRows
from gridbridge.campaigns.store.task_attempt_rows import TaskAttemptRows
from gridbridge.decisions.campaigns.campaign_cycle_planning import ENDS_PER_TRANSACTION
from gridbridge.decisions.campaigns.campaign_event_rules import EVENT_OF_OUTCOME
from gridbridge.errors import GridbridgeError
from gridbridge.model.campaigns.campaign import (
    Campaign,
    CampaignState,
    TaskAttempt,
    TaskAttemptOutcome,
    WaitingTaskRange,
)
from gridbridge.model.campaigns.campaign_events import CampaignEvent, CampaignEventCode, CampaignSuccessAtCluster
from gridbridge.model.campaigns.campaign_owner_request import (
    CampaignOwnerRequest,
    CampaignOwnerRequestReply,
    CampaignOwnerRequestVerb,
)
from gridbridge.model.campaigns.jdl import CampaignType
from gridbridge.model.fixed_paths import CAMPAIGNS, PUBLISHED
from gridbridge.shell import program_runs
from gridbridge.shell.clock import Clock
from gridbridge.state.state_file import StateFile

AS_IT_IS = {
    CampaignState.IN_TREATMENT: CampaignOwnerRequestReply.NOT_PAUSED,
    CampaignState.PAUSED: CampaignOwnerRequestReply.PAUSED,
    CampaignState.TERMINATED: CampaignOwnerRequestReply.TERMINATED,
    CampaignState.CANCELLED: CampaignOwnerRequestReply.CANCELLED,
}
OF_EVENTS = (CampaignOwnerRequestVerb.FIX, CampaignOwnerRequestVerb.RESUBMIT)
TRUSTING = {
    CampaignEventCode.BLACKLIST: {"errors_in_row": 0, "error_host": ""},
    CampaignEventCode.SINK: {"is_trusted": True},
}
ROOT = 0
TAKEN_UP_AT_ONCE = 20  # a request reopens at most this many ended campaigns, because each needs a call of root's helper
AT_ONCE = 200  # at most this many campaigns or events in a transaction; 200 take 1/6 s
AGAIN_S = 10.0  # time limit of retries in a cycle: retries of a million tasks take minutes

_log = logging.getLogger(__name__)

Begin = Callable[[Iterable[int]], None]  # called with the numbers of the campaigns that will change
# executes a request for all campaigns or events that the request names, and returns the answer
Do = Callable[[CampaignOwnerRequest], Mapping[int, CampaignOwnerRequestReply] | Mapping[str, object]]


class PartlyDoneOwnerRequest(GridbridgeError):
    """The request is partly executed; the next cycle continues the request."""


def execute_owner_request(
    request: CampaignOwnerRequest, does: Mapping[CampaignOwnerRequestVerb, Do], folder: str, published: str
) -> bool:
    """Execute a request and publish the answer; return False for an unfinished or unsupported request."""
    if request.verb not in does:
        return False
    try:
        reply = does[request.verb](request)
    except PartlyDoneOwnerRequest:
        return False
    campaign_files_of_owners.publish_answer_to_sender(request.token, reply, published)
    campaign_files_of_owners.remove_answered_request_file(request.token, folder)
    return True


class CampaignOwnerRequestHandler:
    VERBS = (
        CampaignOwnerRequestVerb.CANCEL,
        CampaignOwnerRequestVerb.CANCEL_TASK,
        CampaignOwnerRequestVerb.ABANDON,
        CampaignOwnerRequestVerb.PAUSE,
        CampaignOwnerRequestVerb.RESUME,
        CampaignOwnerRequestVerb.PURGE,
        *OF_EVENTS,
    )

    def __init__(
        self,
        database: StateFile,
        clock: Clock,
        folder: str = CAMPAIGNS,
        published: str = PUBLISHED,
        take_up: Callable[[int, str], None] = array_commands_as_owner.reopen_campaign_in_root_ledger,
        begin: Begin = lambda _: None,
        register: CampaignFileRegister | None = None,
        clusters: frozenset[str] = frozenset(),
    ) -> None:
        """Take the configured clusters, from which copies of input files can be removed."""
        self._begin = begin
        self._clusters = clusters
        self._register = register or CampaignFileRegister(folder)
        self._take_up = take_up
        self._database = database
        self._folder = folder
        self._published = published
        self._tasks = CampaignTaskRows(database)
        self._copies = InputCarryRows(database)
        self._touched: list[TaskAttempt] = []
        self._campaigns = CampaignRows(database)
        self._predecessors = PredecessorRows(database, self._campaigns)
        self._tries = TaskAttemptRows(database, self._campaigns)
        self._events = EventAndSuccessRecordRows(database)
        self._marks = TaskDeletionMarkRows(database)
        self._clock = clock
        self._noting = TaskAndCampaignEndRecorder(database, CampaignStatisticsRecorder(database), clock)
        self._rulers = (ROOT, os.geteuid())  # uids that may change all campaigns
        self._until_s = float("inf")
        self._reached: dict[tuple[str, int], int] = {}  # {(request token, event): last retried task}

    def begin_request_time_limit(self) -> None:
        """Start the time limit of a cycle, after which unfinished requests wait for the next cycle."""
        self._until_s = self._clock.steady_s() + AGAIN_S

    def execute_request(self, request: CampaignOwnerRequest) -> Mapping[int, CampaignOwnerRequestReply]:
        """Execute a request for its campaigns or events, at most 200 of these in one transaction.

        A purge is slow and final, so each campaign's purge has its own transaction. If the runner is
        killed, its next start executes a retry request again.
        """
        act = self._execute_request_for_event if request.verb in OF_EVENTS else self._execute_request_for_campaign
        is_retry = request.verb is CampaignOwnerRequestVerb.RESUBMIT
        if request.uid == ROOT:
            _log.info("event=by_root verb=%s numbers=%s", request.verb, ",".join(map(str, request.numbers)))
        if is_retry and not self._reopen_campaigns_of_retry(request):
            return dict.fromkeys(request.numbers, CampaignOwnerRequestReply.NOT_TAKEN_UP)
        is_whole = not is_retry and request.verb is not CampaignOwnerRequestVerb.PURGE
        replies: dict[int, CampaignOwnerRequestReply] = {}
        for begin in range(0, len(request.numbers), AT_ONCE):
            with self._database.transaction() if is_whole else nullcontext():
                for number in request.numbers[begin : begin + AT_ONCE]:
                    replies[number] = act(request, number)
                    program_runs.run_program_end_callback()
        if is_retry:
            done = [number for number, reply in replies.items() if reply is CampaignOwnerRequestReply.DONE]
            self._record_retries_in_register(request.token, done)
        return replies

    def _record_retries_in_register(self, token: str, events: Iterable[int]) -> None:
        """Record a retry in the service's register, which stays if the state file is restored from a backup."""
        now = self._clock.now()
        for campaign in self._campaigns_of_events(events):
            if not self._campaigns.has_executed_request(token, campaign):
                self._campaigns.record_executed_request(token, campaign, now)
                self._register.record_retry_request(campaign, token, int(now.timestamp()))

    def _campaigns_of_events(self, events: Iterable[int]) -> list[int]:
        return sorted({event.campaign for event in map(self._events.find_event, events) if event})

    def _reopen_campaigns_of_retry(self, request: CampaignOwnerRequest) -> bool:
        """Have root reopen the ended campaigns of a retry; refuse more than 20 campaigns in one request."""
        campaigns = [
            campaign
            for campaign in map(self._campaigns.find_campaign, self._campaigns_of_events(request.numbers))
            if campaign
            and campaign.jdl.type is not CampaignType.TEST  # test campaigns have no retries
            and not self._is_campaign_file_refused(campaign.number)
        ]
        theirs = [campaign for campaign in campaigns if request.uid in (campaign.uid, *self._rulers)]
        # after a kill all tasks of these campaigns are published again
        self._begin(campaign.number for campaign in theirs)
        ended = [campaign.number for campaign in theirs if campaign.state is CampaignState.TERMINATED]
        for number in ended:
            try:
                if len(ended) > TAKEN_UP_AT_ONCE:
                    few = f"expected at most {TAKEN_UP_AT_ONCE} in one request"
                    raise GridbridgeError(f"{len(ended)} ended campaigns to reopen; {few}")
                self._take_up(number, request.token)
            except GridbridgeError as error:
                _log.warning("event=not_taken_up campaign=%d why=%r", number, str(error))
                return False
            self._campaigns.record_ledger_has_campaign_end(number, is_noted=False)
        return True

    def take_changed_attempts(self) -> tuple[TaskAttempt, ...]:
        """Return the attempts of tasks that owners changed since the last call."""
        attempts, self._touched = tuple(self._touched), []
        return attempts

    def _execute_request_for_campaign(self, request: CampaignOwnerRequest, number: int) -> CampaignOwnerRequestReply:
        """Execute a request for one campaign once, even if a kill repeats the request."""
        if self._campaigns.has_executed_request(request.token, number):
            return CampaignOwnerRequestReply.DONE
        campaign = self._campaigns.find_campaign(number)
        if not campaign or campaign.state is CampaignState.PURGED:
            return CampaignOwnerRequestReply.UNKNOWN
        if request.uid not in (campaign.uid, *self._rulers):
            return CampaignOwnerRequestReply.NOT_THEIRS
        if request.verb is CampaignOwnerRequestVerb.PURGE:
            return self._purge_campaign(campaign, request.token)
        reply = self._change_campaign_or_task(campaign, request)
        if reply is CampaignOwnerRequestReply.DONE:
            self._campaigns.record_executed_request(request.token, number, self._clock.now())
        return reply

    def _change_campaign_or_task(self, campaign: Campaign, request: CampaignOwnerRequest) -> CampaignOwnerRequestReply:
        if request.verb is CampaignOwnerRequestVerb.CANCEL_TASK:
            return self._cancel_task(campaign, request.task)
        if request.verb is CampaignOwnerRequestVerb.ABANDON:
            return self._mark_campaign_as_abandoned(campaign, request.uid)
        if request.verb is CampaignOwnerRequestVerb.CANCEL and (
            campaign.state.is_alive or campaign.awaits_epilogues_after_cancel
        ):
            self._noting.cancel_campaign(campaign.number)
            return CampaignOwnerRequestReply.DONE
        match campaign.state, request.verb:
            case CampaignState.IN_TREATMENT, CampaignOwnerRequestVerb.PAUSE:
                self._campaigns.set_campaign_state(campaign.number, CampaignState.PAUSED)
            case CampaignState.PAUSED, CampaignOwnerRequestVerb.RESUME:
                self._campaigns.set_campaign_state(campaign.number, CampaignState.IN_TREATMENT)
            case _:
                return AS_IT_IS[campaign.state]
        return CampaignOwnerRequestReply.DONE

    def _mark_campaign_as_abandoned(self, campaign: Campaign, uid: int) -> CampaignOwnerRequestReply:
        """Mark a cancelled campaign as ended, because root has requested it; root must delete the remaining tasks."""
        if uid not in self._rulers:
            return CampaignOwnerRequestReply.NOT_ROOTS
        if campaign.state is not CampaignState.CANCELLED:
            return CampaignOwnerRequestReply.NOT_CANCELLED
        if not self._campaigns.is_campaign_unfinished(campaign.number):
            return CampaignOwnerRequestReply.CANCELLED
        now = self._clock.now()
        for array in self._noting.abandon_arrays_of_campaign(campaign.number):
            name = f"{array.campaign}.{array.number}"
            _log.warning("event=abandoned array=%s at=%s job=%d", name, array.cluster, array.job_id)
        self._touched += self._noting.noted
        self._noting.noted.clear()
        self._campaigns.set_campaign_state(campaign.number, CampaignState.CANCELLED, now)
        self._events.close_events_of_campaign(campaign.number, now)
        return CampaignOwnerRequestReply.DONE

    def purge_ended_campaigns(self, before: datetime, most: int) -> None:
        """Purge up to `most` campaigns, oldest first, that ended before a time and have no task at a cluster."""
        purged = 0
        for number in self._campaigns.campaigns_ended_before(before):
            if purged == most:
                return
            if campaign := self._campaigns.find_campaign(number):
                purged += self._purge_campaign(campaign) is CampaignOwnerRequestReply.DONE
                program_runs.run_program_end_callback()

    def _purge_campaign(self, campaign: Campaign, token: str = "") -> CampaignOwnerRequestReply:
        if self._campaigns.is_campaign_unfinished(campaign.number):
            return CampaignOwnerRequestReply.NOT_ENDED
        if self._predecessors.has_unfinished_dependents(campaign.number):
            return CampaignOwnerRequestReply.NEEDED
        # the campaign's file is needed for the removal
        if self._clusters & self._copies.clusters_with_input_copies(campaign.number):
            return CampaignOwnerRequestReply.COPIES_LEFT
        campaign_files_of_owners.remove_campaign_files(campaign.number, self._folder)
        published_campaign_files.remove_published_campaign_tasks(campaign.number, self._published)
        self._events.delete_events_of_campaign(campaign.number)
        self._tasks.delete_attempts(campaign.number)
        with self._database.transaction():
            self._tasks.purge_campaign(campaign.number)
            if token:
                self._campaigns.record_executed_request(token, campaign.number, self._clock.now())
        return CampaignOwnerRequestReply.DONE

    def _cancel_task(self, campaign: Campaign, task: int) -> CampaignOwnerRequestReply:
        if not campaign.state.is_alive:
            return AS_IT_IS[campaign.state]
        if not 0 <= task < campaign.tasks:
            return CampaignOwnerRequestReply.NO_TASK
        if ended := self._tasks.cancel_waiting_task(campaign.number, task):
            self._touched.append(ended)
        is_done = ended or self._marks.mark_task_cancelled(campaign.number, task)
        return CampaignOwnerRequestReply.DONE if is_done else CampaignOwnerRequestReply.TASK_ENDED

    def _execute_request_for_event(self, request: CampaignOwnerRequest, number: int) -> CampaignOwnerRequestReply:
        event = self._events.find_event(number)
        if not event:
            return CampaignOwnerRequestReply.UNKNOWN
        campaign = self._campaigns.find_campaign(event.campaign)
        if request.uid not in (campaign.uid if campaign else ROOT, *self._rulers):
            return CampaignOwnerRequestReply.NOT_THEIRS
        if event.closed_at:
            return self._execute_request_for_closed_event(request, event)
        is_retry = request.verb is CampaignOwnerRequestVerb.RESUBMIT
        if is_retry and event.code is CampaignEventCode.SINK:
            return CampaignOwnerRequestReply.NOT_AGAIN
        if is_retry and event.code in (CampaignEventCode.DROPPED, CampaignEventCode.DISPUTED):
            # the next cycle retries these tasks, whose outcomes are unknown
            self._events.store_events([replace(event, until=self._clock.now())])
            return CampaignOwnerRequestReply.DONE
        if is_retry and campaign and (why := self._refusal_of_event_retry(campaign, event)):
            return why
        waits = is_retry and self._queue_failed_tasks_of_event(event, request.token)
        with self._database.transaction():
            stored_campaign = self._campaigns.find_campaign(event.campaign)
            if waits and stored_campaign and stored_campaign.state is CampaignState.TERMINATED:
                self._campaigns.set_campaign_state(event.campaign, CampaignState.IN_TREATMENT)
            self._events.store_events([replace(event, closed_at=self._clock.now())])
            self._events.record_closing_request(number, request.token)
            self._let_campaign_trust_cluster_again(event)
            self._tries.mark_event_failures_as_past(event, _attempt_outcomes_of_event(event))
        return CampaignOwnerRequestReply.DONE

    def _execute_request_for_closed_event(
        self, request: CampaignOwnerRequest, event: CampaignEvent
    ) -> CampaignOwnerRequestReply:
        """Let a campaign use a black-hole cluster again; the event about the cluster may be closed."""
        if self._events.token_of_closing_request(event.number) == request.token:
            return CampaignOwnerRequestReply.DONE  # the same request was executed before a kill
        is_suspect = (event.campaign, event.cluster) in self._events.list_black_holes()
        if request.verb is CampaignOwnerRequestVerb.FIX and event.code is CampaignEventCode.SINK and is_suspect:
            self._let_campaign_trust_cluster_again(event)
            return CampaignOwnerRequestReply.DONE
        return CampaignOwnerRequestReply.CLOSED

    def _let_campaign_trust_cluster_again(self, event: CampaignEvent) -> None:
        if event.code not in TRUSTING:
            return
        none = CampaignSuccessAtCluster(campaign=event.campaign, cluster=event.cluster)
        records = self._events.success_records([event.campaign])
        record = next((record for record in records if record.cluster == event.cluster), none)
        self._events.store_success_records([replace(record, **TRUSTING[event.code])])  # type: ignore[arg-type]

    def _refusal_of_event_retry(self, campaign: Campaign, event: CampaignEvent) -> CampaignOwnerRequestReply | None:
        if campaign.jdl.type is CampaignType.TEST and event.code in EVENT_OF_OUTCOME.values():
            return CampaignOwnerRequestReply.ONE_TRY
        if campaign.state is CampaignState.CANCELLED:
            return CampaignOwnerRequestReply.CANCELLED
        return CampaignOwnerRequestReply.FILE_REFUSED if self._is_campaign_file_refused(campaign.number) else None

    def _is_campaign_file_refused(self, campaign: int) -> bool:
        return self._events.find_open_event(CampaignEventCode.FILE_REFUSED, campaign, "") is not None

    def _queue_failed_tasks_of_event(self, event: CampaignEvent, token: str = "") -> bool:
        """Queue the failed tasks of an event for a retry; return whether the event has failed tasks."""
        outcomes = _attempt_outcomes_of_event(event)
        waiting = sorted((part.first, part.last) for part in self._campaigns.list_unsent_tasks(event.campaign))
        after = self._reached.pop((token, event.number), -1)
        while portion := self._tries.failed_attempts_of_event(event, outcomes, after, ENDS_PER_TRANSACTION):
            after = portion[-1].task
            failed = [attempt for attempt in portion if not _is_task_in_ranges(attempt.task, waiting)]
            last = self._tries.last_attempt_numbers(event.campaign, [attempt.task for attempt in failed])
            with self._database.transaction():
                self._tries.set_past_mark_of_attempts(event.campaign, [*last])
                self._campaigns.add_unsent_tasks(event.campaign, *_group_retries_into_ranges(last))
                self._campaigns.add_to_task_counts(event.campaign, -len(failed), -len(failed))
            self._touched += failed
            if self._clock.steady_s() > self._until_s:
                self._reached[token, event.number] = after
                raise PartlyDoneOwnerRequest(f"event {event.number}: tasks after {after} are not queued yet")
        return after >= 0


def _is_task_in_ranges(task: int, ranges: Sequence[tuple[int, int]]) -> bool:
    """Say whether a task is in one of the ascending ranges, each a pair of first and last task."""
    at = bisect_right(ranges, (task, HIGHEST))
    return at > 0 and task <= ranges[at - 1][1]


def _attempt_outcomes_of_event(event: CampaignEvent) -> list[TaskAttemptOutcome]:
    return [outcome for outcome, code in EVENT_OF_OUTCOME.items() if code is event.code]


def _group_retries_into_ranges(attempts: Mapping[int, int]) -> Iterator[WaitingTaskRange]:
    alike = groupby(enumerate(sorted(attempts.items())), key=lambda pair: (pair[1][0] - pair[0], pair[1][1]))
    for (_, attempt), pairs in alike:
        tasks = [task for _, (task, _) in pairs]
        yield WaitingTaskRange(first=tasks[0], last=tasks[-1], attempt=attempt + 1)
