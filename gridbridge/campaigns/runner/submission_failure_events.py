"""Records failed submissions and deletions of arrays as events of a campaign at a cluster."""

import logging
import re
from collections.abc import Iterable
from dataclasses import replace

from gridbridge.campaigns.runner.array_commands_as_owner import (
    EndedCampaignRefusal,
    PermanentArrayRefusal,
    RootCampaignRefusal,
)
from gridbridge.campaigns.runner.array_submitter import (
    CampaignArrayCommands,
    OwnerCallPostponement,
    PauseAfterHungOwnerCall,
)
from gridbridge.campaigns.runner.cycle_results_and_forecasts import TaskAndCampaignEndRecorder
from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.campaigns.store.event_and_subscription_rows import EventAndSuccessRecordRows
from gridbridge.campaigns.store.task_attempt_rows import TaskAttemptRows
from gridbridge.decisions.campaigns.campaign_event_rules import EVENT_OF_OUTCOME, record_failed_task_events
from gridbridge.decisions.campaigns.cluster_blacklist_and_successes import (
    OpenCampaignEventsInCycle,
    new_campaign_event,
    repeat_event_with_longer_pause,
)
from gridbridge.decisions.campaigns.ledger_recovery_rules import plan_recovery_from_root_ledger
from gridbridge.decisions.campaigns.task_retries_and_copies import (
    assign_retry_numbers_above_attempts,
    plan_task_retries,
)
from gridbridge.errors import (
    ArrayTasksAlreadyInLedger,
    CampaignFileUnreadable,
    GridbridgeError,
    OwnerAccountGone,
    RootLedgerUnreadable,
    StateError,
)
from gridbridge.model.campaigns.campaign import (
    ArraySubmissionResult,
    ArraySubmissionState,
    AttemptOutcomeAtCluster,
    CampaignArray,
    CampaignState,
    TaskAttempt,
    TaskAttemptOutcome,
)
from gridbridge.model.campaigns.campaign_events import (
    ROOT_EVENTS,
    SUBMISSION_EVENTS,
    CampaignEvent,
    CampaignEventCode,
    CampaignEventSubject,
    EventsChangedInCycle,
)
from gridbridge.model.campaigns.campaign_sections import CampaignFailuresSection
from gridbridge.model.campaigns.cycle_plan import TaskRetry
from gridbridge.model.campaigns.jdl import CampaignType
from gridbridge.model.published_status_and_reports import replace_control_characters
from gridbridge.shell.clock import Clock
from gridbridge.state.state_file import StateFile

MOST_WORDS = 200  # at most this many characters of an event's error message
WHO = re.compile(r"gridbridge-as-user: (c\.\d+: )?")  # prefix that is left out of events' messages


class ArrayFailureEventRecorder:
    """Records failed submissions and deletions of arrays as campaign events."""

    def __init__(self, events: EventAndSuccessRecordRows, clock: Clock, failures: CampaignFailuresSection) -> None:
        self._events = events
        self._clock = clock
        self._failures = failures

    def note(self, array: CampaignArray, code: CampaignEventCode, error: GridbridgeError) -> None:
        """Record an array's failure at its cluster as an event, which delays the next attempt."""
        pair = array.campaign, array.cluster
        event = repeat_event_with_longer_pause(
            self._open_event(array, code), code, pair, self._clock.now(), self._failures
        )
        tasks = event.tasks + array.size
        self._events.put([replace(event, tasks=tasks, why=one_line_error_message(error))])

    def note_undeleted(self, array: CampaignArray, error: GridbridgeError) -> None:
        """Record a failed deletion of an array once, if root has to repair the cause.

        A failure with another cause is already counted as a failure of the cluster.
        """
        code = event_code_of_array_error(error)
        if code in ROOT_EVENTS and not self._open_event(array, code):
            self.note(array, code, error)

    def close(self, codes: Iterable[CampaignEventCode], array: CampaignArray) -> None:
        """Close the open events with these codes for an array's campaign and cluster."""
        for code in codes:
            if event := self._open_event(array, code):
                self._events.put([replace(event, closed_at=self._clock.now())])

    def _open_event(self, array: CampaignArray, code: CampaignEventCode) -> CampaignEvent | None:
        return self._events.find_open(code, array.campaign, array.cluster)


def one_line_error_message(error: GridbridgeError | str) -> str:
    """Return an error message as one printable line of limited length."""
    line = replace_control_characters(WHO.sub("", " ".join(str(error).split())))
    return line if len(line) <= MOST_WORDS else f"{line[: MOST_WORDS - 3]}..."


def event_code_of_array_error(error: GridbridgeError) -> CampaignEventCode:
    """Return the event code for an error of a submission or deletion."""
    match error:
        case RootLedgerUnreadable():
            return CampaignEventCode.NO_LEDGER
        case OwnerAccountGone():
            return CampaignEventCode.OWNER_UNKNOWN
        case CampaignFileUnreadable():
            return CampaignEventCode.NO_FILE
    return CampaignEventCode.SUBMIT_JOB


_log = logging.getLogger(__name__)


class ArraySubmissionResultRecorder:
    """Records the results of array submissions, and handles refused arrays."""

    def __init__(
        self,
        database: StateFile,
        acts: CampaignArrayCommands,
        clock: Clock,
        failures: CampaignFailuresSection,
        noting: TaskAndCampaignEndRecorder,
        troubles: ArrayFailureEventRecorder,
    ) -> None:
        self._database = database
        self._campaigns = CampaignRows(database)
        self._tries = TaskAttemptRows(database, self._campaigns)
        self._events = EventAndSuccessRecordRows(database)
        self._acts = acts
        self._clock = clock
        self._failures = failures
        self._noting = noting
        self._troubles = troubles

    def settle(self, array: CampaignArray, sent: ArraySubmissionResult) -> None:
        """Record the result of an array's submission; the next cycle continues from the recorded result.

        If root's ledger of submitted tasks has other tasks under the array's number, the reported job id is not used.
        """
        try:
            if sent.job_id and not isinstance(sent.error, ArrayTasksAlreadyInLedger):
                self._campaigns.array_is(array, ArraySubmissionState.SUBMITTED, sent.job_id)
                array = replace(array, state=ArraySubmissionState.SUBMITTED, job_id=sent.job_id)
            if not sent.error:
                self._is_released(array)
        except StateError as error:  # the cause is the state file, not the cluster
            log_array_failure("event=not_noted", array, error)
            return
        if sent.error:
            self._is_not_released(array, sent.error)

    def _is_not_released(self, array: CampaignArray, error: GridbridgeError) -> None:
        match error:
            case RootCampaignRefusal():
                log_array_failure("event=campaign_refused", array, error)
                (self._try_elsewhere if array.is_of_copies else self._refuse_everywhere)(array, error)
            case EndedCampaignRefusal():
                log_array_failure("event=ended_before", array, error)
                self._end_as_before(array)
            case PermanentArrayRefusal():
                log_array_failure("event=array_refused", array, error)
                self._try_elsewhere(array, error)
            case ArrayTasksAlreadyInLedger():
                log_array_failure("event=state_is_older", array, error)
                self.take_over(array.campaign, array)
            case PauseAfterHungOwnerCall():
                self._troubles.note(array, CampaignEventCode.SUBMIT_JOB, error)
            case OwnerCallPostponement():
                pass  # the next cycle submits the array
            case _:
                log_array_failure("event=not_sent", array, error)
                self._troubles.note(array, event_code_of_array_error(error), error)

    def _is_released(self, array: CampaignArray) -> None:
        with self._database.transaction():
            self._campaigns.array_is(array, ArraySubmissionState.RELEASED)
            self._troubles.close(SUBMISSION_EVENTS, array)

    def _try_elsewhere(self, array: CampaignArray, error: GridbridgeError) -> None:
        with self._database.transaction():
            if not array.is_of_copies:
                self._troubles.note(array, CampaignEventCode.RUNNER_SUBMIT_ERROR, error)
            none = self._noting.none_ran(array, TaskAttemptOutcome.SETUP_ERROR)
            again, book = self._again(array, none.ended), OpenCampaignEventsInCycle(self._events.open())
            ended, runs = ([(attempt, array.cluster) for attempt in none.ended], set(map(_task, again)))
            record_failed_task_events(book, ended, runs, self._clock.now())
            changes = EventsChangedInCycle(events=book.changed)
            self._noting.ends(replace(none, again=again, changes=changes))

    def _again(self, array: CampaignArray, ended: tuple[TaskAttempt, ...]) -> tuple[TaskRetry, ...]:
        tried = [AttemptOutcomeAtCluster.of(attempt, array.cluster) for attempt in ended]
        campaign = self._campaigns.find(array.campaign)
        assert campaign  # campaigns with arrays are never deleted
        clusters = {} if campaign.jdl.type is CampaignType.TEST else {campaign.number: campaign.jdl.clusters.keys()}
        rivals = self._noting.rivals(array)
        earlier = self._tries.earlier(ended, rivals)
        return assign_retry_numbers_above_attempts(plan_task_retries(tried, earlier, clusters, self._failures), rivals)

    def _refuse_everywhere(self, array: CampaignArray, error: GridbridgeError) -> None:
        """Mark a campaign and its unsent tasks as failed, because root refuses the campaign's file.

        A task that waits for a retry gets back the outcome of its last attempt.
        """
        with self._database.transaction():
            retried = self._tries.take_back(array, EVENT_OF_OUTCOME)
            self._noting.noted += retried
            self._noting.close(array, TaskAttemptOutcome.SETUP_ERROR)
            failed = self._campaigns.waiting().get(array.campaign, 0) + len(retried)
            self._tries.judge_as_before(array.campaign)
            self._campaigns.drop_waiting(array.campaign)
            self._campaigns.count(array.campaign, failed, failed)
            self._open_once(CampaignEventCode.FILE_REFUSED, array, one_line_error_message(error))

    def _end_as_before(self, array: CampaignArray) -> None:
        """End a campaign that has ended according to root's ledger of submitted tasks but goes on in an old state file.

        A campaign that has ended in the state file keeps its state.
        """
        with self._database.transaction():
            campaign = self._campaigns.find(array.campaign)
            if not campaign or campaign.state is not CampaignState.TERMINATED:
                self._campaigns.is_now(array.campaign, CampaignState.CANCELLED, self._clock.now())
            self._noting.close(array, TaskAttemptOutcome.CANCELLED)
            if campaign and campaign.state is CampaignState.TERMINATED:
                return
            self._campaigns.drop_waiting(array.campaign)
            self._open_once(CampaignEventCode.RESTORED, array)

    def _open_once(self, code: CampaignEventCode, array: CampaignArray, why: str = "") -> None:
        now = self._clock.now()
        event = new_campaign_event(CampaignEventSubject.CAMPAIGN, code, array.campaign, "", now)
        self._events.open_once(replace(event, why=why))

    def take_over(self, campaign: int, refused: CampaignArray | None = None) -> None:
        """Import the arrays of a campaign from root's ledger of submitted tasks into the state file.

        The import takes several transactions. After a kill between two transactions, the next cycle finds arrays
        missing and repeats the import.
        """
        try:
            ledger_arrays = self._acts.ledger_arrays(campaign)
        except GridbridgeError as error:
            of = f"{campaign}.{refused.number}" if refused else str(campaign)
            _log.warning("event=no_ledger of=%s why=%r", of, str(error))
            return
        now = self._clock.now()
        event = new_campaign_event(CampaignEventSubject.CAMPAIGN, CampaignEventCode.RESTORED, campaign, "", now)
        steps = plan_recovery_from_root_ledger(
            campaign, self._tries.stored_campaign(campaign), ledger_arrays, now, refused=refused
        )
        for step in steps[:-1]:
            self._tries.adopt(step)
        with self._database.transaction():
            for step in steps[-1:]:
                self._tries.adopt(step)
            self._events.put([event])
        self._noting.noted += (attempt for step in steps for attempt in step.attempts)
        arrays = sum(len(step.arrays) for step in steps)
        tasks = sum(len(step.attempts) for step in steps)
        words = "event=taken_over campaign=%d arrays=%d tasks=%d why='root had submitted these arrays'"
        _log.warning(words, campaign, arrays, tasks)


def log_array_failure(event: str, array: CampaignArray, error: Exception) -> None:
    """Log why an operation on an array failed."""
    name = f"{array.campaign}.{array.number}"
    _log.warning("%s array=%s at=%s why=%r", event, name, array.cluster, str(error))


def _task(retry: TaskRetry) -> tuple[int, int]:
    return retry.campaign, retry.task
