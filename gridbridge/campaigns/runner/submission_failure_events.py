"""Records failed submissions and deletions of arrays as events of a campaign at a cluster."""

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from gridbridge import errors
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
from gridbridge.campaigns.runner.background_input_carries import TasksWithoutFiles, TasksWithoutInputs
from gridbridge.campaigns.runner.cycle_result_recorders import TaskAndCampaignEndRecorder
from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.campaigns.store.campaign_statistics_rows import InputCarryRows
from gridbridge.campaigns.store.checkpoint_statistics_rows import CheckpointCarryRows
from gridbridge.campaigns.store.event_and_subscription_rows import EventAndSuccessRecordRows
from gridbridge.campaigns.store.task_attempt_rows import TaskAttemptRows
from gridbridge.decisions.campaigns.campaign_event_rules import EVENT_OF_OUTCOME, record_failed_task_events
from gridbridge.decisions.campaigns.cluster_closing_and_black_holes import (
    OpenCampaignEventsInCycle,
    new_campaign_event,
    repeat_event_with_longer_pause,
)
from gridbridge.decisions.campaigns.ledger_recovery_rules import plan_recovery_from_root_ledger
from gridbridge.decisions.campaigns.task_retries_and_deciding_attempts import (
    assign_retry_numbers_above_attempts,
    plan_task_retries,
)
from gridbridge.model.campaigns import campaign as campaign_model
from gridbridge.model.campaigns.campaign_configuration_sections import CampaignFailuresSection
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCyclePlan, TaskRetry
from gridbridge.model.campaigns.campaign_events import (
    ROOT_EVENTS,
    SUBMISSION_EVENTS,
    CampaignEvent,
    CampaignEventCode,
    CampaignEventSubject,
    FailureEventsChangedInCycle,
)
from gridbridge.model.campaigns.checkpoint_statistics import CheckpointCarryState
from gridbridge.model.campaigns.jdl import CampaignType
from gridbridge.model.published_status_and_reports import replace_control_characters
from gridbridge.shell.clock import Clock
from gridbridge.state.state_file import StateFile

NO_REASONS: Mapping[CampaignEventCode, str] = {}
MOST_WORDS = 200  # at most this many characters of an event's error message


class ArrayFailureEventRecorder:
    def __init__(self, events: EventAndSuccessRecordRows, clock: Clock, failures: CampaignFailuresSection) -> None:
        self._events = events
        self._clock = clock
        self._failures = failures

    def record_array_failure(
        self, array: campaign_model.CampaignArray, code: CampaignEventCode, error: errors.GridbridgeError
    ) -> None:
        """Record an array's failure at its cluster as an event, which delays the next submission."""
        pair, now = (array.campaign, array.cluster), self._clock.now()
        event = repeat_event_with_longer_pause(self._open_event_of_array(array, code), code, pair, now, self._failures)
        self._events.store_events([replace(event, tasks=event.tasks + array.size, why=one_line_error_message(error))])

    def record_undeleted_array(self, array: campaign_model.CampaignArray, error: errors.GridbridgeError) -> None:
        """Record once that an array could not be deleted, if root has to repair the cause."""
        code = event_code_of_array_error(error)
        if code in ROOT_EVENTS and not self._open_event_of_array(array, code):
            self.record_array_failure(array, code, error)

    def close_array_events(self, codes: Iterable[CampaignEventCode], array: campaign_model.CampaignArray) -> None:
        for code in codes:
            if event := self._open_event_of_array(array, code):
                self._events.store_events([replace(event, closed_at=self._clock.now())])

    def _open_event_of_array(
        self, array: campaign_model.CampaignArray, code: CampaignEventCode
    ) -> CampaignEvent | None:
        return self._events.find_open_event(code, array.campaign, array.cluster)


def one_line_error_message(error: errors.GridbridgeError | str) -> str:
    """Return an error message as one printable line of limited length."""
    line = replace_control_characters(re.sub(r"gridbridge-as-user: (c\.\d+: )?", "", " ".join(str(error).split())))
    return line if len(line) <= MOST_WORDS else f"{line[: MOST_WORDS - 3]}..."


def event_code_of_array_error(error: errors.GridbridgeError) -> CampaignEventCode:
    match error:
        case errors.RootLedgerUnreadable():
            return CampaignEventCode.NO_LEDGER
        case errors.OwnerAccountGone():
            return CampaignEventCode.OWNER_UNKNOWN
        case errors.CampaignFileUnreadable():
            return CampaignEventCode.NO_FILE
    return CampaignEventCode.SUBMIT_JOB


_log = logging.getLogger(__name__)


@dataclass(eq=False)
class ArraySubmissionResultRecorder:
    _database: StateFile
    _acts: CampaignArrayCommands
    _clock: Clock
    _failures: CampaignFailuresSection
    _noting: TaskAndCampaignEndRecorder
    _troubles: ArrayFailureEventRecorder

    def __post_init__(self) -> None:
        self._campaigns = CampaignRows(self._database)
        self._tries = TaskAttemptRows(self._database, self._campaigns)
        self._events = EventAndSuccessRecordRows(self._database)

    def record_submission_result(
        self, array: campaign_model.CampaignArray, result: campaign_model.ArraySubmissionResult
    ) -> None:
        """Record the result of an array's submission; the next cycle continues from the recorded result."""
        try:
            if result.job_id and not isinstance(result.error, errors.ArrayTasksAlreadyInLedger):
                self._campaigns.set_array_state(array, campaign_model.ArraySubmissionState.SUBMITTED, result.job_id)
                array = replace(array, state=campaign_model.ArraySubmissionState.SUBMITTED, job_id=result.job_id)
            if not result.error:
                with self._database.transaction():
                    self._campaigns.set_array_state(array, campaign_model.ArraySubmissionState.RELEASED)
                    self._troubles.close_array_events(SUBMISSION_EVENTS, array)
        except errors.StateError as error:  # the cause is the state file, not the cluster
            log_array_failure("event=not_noted", array, error)
            return
        if result.error:
            self._handle_submission_error(array, result.error)

    def _handle_submission_error(self, array: campaign_model.CampaignArray, error: errors.GridbridgeError) -> None:
        match error:
            case RootCampaignRefusal():
                log_array_failure("event=campaign_refused", array, error)
                (self._retry_refused_array if array.is_of_copies else self._fail_refused_campaign)(array, error)
            case EndedCampaignRefusal():
                log_array_failure("event=ended_before", array, error)
                self._end_campaign_as_in_ledger(array)
            case PermanentArrayRefusal():
                log_array_failure("event=array_refused", array, error)
                self._retry_refused_array(array, error)
            case errors.ArrayTasksAlreadyInLedger():
                log_array_failure("event=state_is_older", array, error)
                self.import_root_ledger_arrays(array.campaign, array)
            case TasksWithoutFiles():
                self._return_array_without_files(array, error)
            case PauseAfterHungOwnerCall():
                self._troubles.record_array_failure(array, CampaignEventCode.SUBMIT_JOB, error)
            case OwnerCallPostponement():
                pass  # a later cycle submits the array
            case _:
                log_array_failure("event=not_sent", array, error)
                self._troubles.record_array_failure(array, event_code_of_array_error(error), error)

    def _retry_refused_array(self, array: campaign_model.CampaignArray, error: errors.GridbridgeError) -> None:
        with self._database.transaction():
            if not array.is_of_copies:
                self._troubles.record_array_failure(array, CampaignEventCode.RUNNER_SUBMIT_ERROR, error)
            end = self._noting.plan_end_of_unfinished_attempts(array, campaign_model.TaskAttemptOutcome.SETUP_ERROR)
            self._record_ends_and_retries(array, end)

    def _return_array_without_files(self, array: campaign_model.CampaignArray, error: TasksWithoutFiles) -> None:
        if isinstance(error, TasksWithoutInputs):
            log_array_failure("event=inputs_missing", array, error)
            self._return_array_without_inputs(array, error.missing)
        else:
            log_array_failure("event=checkpoints_not_carried", array, error)
            self._return_array_without_checkpoints(array, error)

    def _return_array_without_inputs(self, array: campaign_model.CampaignArray, missing: Mapping[int, str]) -> None:
        """End an unsubmitted array: tasks in `missing` lack input files, all other tasks are sent in another array."""
        with self._database.transaction():
            end = self._noting.plan_end_of_unfinished_attempts(array, campaign_model.TaskAttemptOutcome.WIPED)
            lacking = campaign_model.TaskAttemptOutcome.INPUT_MISSING
            ended = tuple(
                replace(attempt, outcome=lacking) if attempt.task in missing else attempt for attempt in end.ended
            )
            why = one_line_error_message(next(iter(missing.values())))
            self._record_ends_and_retries(array, replace(end, ended=ended), {CampaignEventCode.INPUT_ERROR: why})

    def _return_array_without_checkpoints(self, array: campaign_model.CampaignArray, error: TasksWithoutFiles) -> None:
        """End an unsubmitted array, whose tasks are sent in another array, and not again for the same carries."""
        code, pair = CampaignEventCode.CHECKPOINT_ERROR, (array.campaign, array.cluster)
        failed = CheckpointCarryState.FAILED
        with self._database.transaction():
            CheckpointCarryRows(self._database).record_carry_states(*pair, error.missing, failed)
            end = self._noting.plan_end_of_unfinished_attempts(array, campaign_model.TaskAttemptOutcome.WIPED)
            self._record_ends_and_retries(array, end)
            earlier, now = self._events.find_open_event(code, *pair), self._clock.now()
            event = repeat_event_with_longer_pause(earlier, code, pair, now, self._failures)
            tasks = event.tasks + len(error.missing)
            self._events.store_events([replace(event, tasks=tasks, why=one_line_error_message(error))])

    def _record_ends_and_retries(
        self,
        array: campaign_model.CampaignArray,
        end: CampaignCyclePlan,
        reasons: Mapping[CampaignEventCode, str] = NO_REASONS,
    ) -> None:
        """Record the ends of an array's attempts, which tasks run again, and the events of the failed tasks."""
        again = self._plan_attempt_retries(array, end.ended)
        book = OpenCampaignEventsInCycle(self._events.query_open_events())
        retried = {(retry.campaign, retry.task) for retry in again}
        ended = [(attempt, array.cluster) for attempt in end.ended]
        record_failed_task_events(book, ended, retried, self._clock.now())
        events = (replace(event, why=reasons.get(event.code, event.why)) for event in book.changed_events)
        self._noting.record_planned_ends(
            replace(end, again=again, changes=FailureEventsChangedInCycle(events=tuple(events)))
        )

    def _plan_attempt_retries(
        self, array: campaign_model.CampaignArray, ended_attempts: tuple[campaign_model.TaskAttempt, ...]
    ) -> tuple[TaskRetry, ...]:
        tried = [
            campaign_model.AttemptOutcomeAtCluster.from_attempt(attempt, array.cluster) for attempt in ended_attempts
        ]
        campaign = self._campaigns.find_campaign(array.campaign)
        assert campaign  # campaigns with arrays are never deleted
        clusters = {} if campaign.jdl.type is CampaignType.TEST else {campaign.number: campaign.jdl.clusters.keys()}
        rivals = self._noting.competing_attempts_by_task(array)
        retries = plan_task_retries(
            tried, self._tries.earlier_outcomes(ended_attempts, rivals), clusters, self._failures
        )
        return assign_retry_numbers_above_attempts(retries, rivals)

    def _fail_refused_campaign(self, array: campaign_model.CampaignArray, error: errors.GridbridgeError) -> None:
        """Mark a campaign and its unsent tasks as failed, because root refuses the campaign's file."""
        with self._database.transaction():
            retried = self._tries.delete_unfinished_retries(array, EVENT_OF_OUTCOME)
            self._noting.noted += retried
            self._noting.end_array_with_outcome(array, campaign_model.TaskAttemptOutcome.SETUP_ERROR)
            failed = self._campaigns.count_unsent_tasks().get(array.campaign, 0) + len(retried)
            self._tries.unmark_past_attempts(array.campaign)
            self._campaigns.remove_all_unsent_tasks(array.campaign)
            self._campaigns.add_to_task_counts(array.campaign, failed, failed)
            refusal = self._campaign_event(
                CampaignEventCode.FILE_REFUSED, array.campaign, one_line_error_message(error)
            )
            self._events.open_event_once(refusal)

    def _end_campaign_as_in_ledger(self, array: campaign_model.CampaignArray) -> None:
        """Mark a campaign as cancelled if it has ended in root's ledger, but not in a restored state file."""
        with self._database.transaction():
            campaign = self._campaigns.find_campaign(array.campaign)
            has_ended = campaign is not None and campaign.state is campaign_model.CampaignState.TERMINATED
            if not has_ended:
                cancelled = campaign_model.CampaignState.CANCELLED
                self._campaigns.set_campaign_state(array.campaign, cancelled, self._clock.now())
            self._noting.end_array_with_outcome(array, campaign_model.TaskAttemptOutcome.CANCELLED)
            if not has_ended:
                self._campaigns.remove_all_unsent_tasks(array.campaign)
                self._events.open_event_once(self._campaign_event(CampaignEventCode.RESTORED, array.campaign))

    def _campaign_event(self, code: CampaignEventCode, campaign: int, why: str = "") -> CampaignEvent:
        event = new_campaign_event(CampaignEventSubject.CAMPAIGN, code, campaign, "", self._clock.now())
        return replace(event, why=why)

    def import_root_ledger_arrays(self, campaign: int, refused: campaign_model.CampaignArray | None = None) -> None:
        """Import a campaign's arrays from root's ledger step by step; after a kill the import starts again."""
        try:
            ledger_arrays = self._acts.list_root_ledger_arrays(campaign)
        except errors.GridbridgeError as error:
            of = f"{campaign}.{refused.number}" if refused else str(campaign)
            _log.warning("event=no_ledger of=%s why=%r", of, str(error))
            return
        event = self._campaign_event(CampaignEventCode.RESTORED, campaign)
        stored_campaign = self._tries.query_campaign_for_ledger_recovery(campaign)
        steps = plan_recovery_from_root_ledger(
            campaign, stored_campaign, ledger_arrays, event.opened_at, refused=refused
        )
        for step in steps[:-1]:
            self._tries.import_arrays_from_root_ledger(step)
        with self._database.transaction():
            for step in steps[-1:]:
                self._tries.import_arrays_from_root_ledger(step)
            self._events.store_events([event])
            self._record_copies_of_inputs(campaign, {array.cluster for step in steps for array in step.arrays})
        self._noting.noted += (attempt for step in steps for attempt in step.attempts)
        arrays, tasks = (sum(len(step.arrays) for step in steps), sum(len(step.attempts) for step in steps))
        words = "event=taken_over campaign=%d arrays=%d tasks=%d why='root had submitted these arrays'"
        _log.warning(words, campaign, arrays, tasks)

    def _record_copies_of_inputs(self, number: int, clusters: Iterable[str]) -> None:
        """Record the clusters that may have copies of a restored campaign's files, for the removal after its end."""
        campaign = self._campaigns.find_campaign(number)
        for cluster in clusters if campaign and campaign.jdl.inputs else ():
            InputCarryRows(self._database).record_begun_carry(number, cluster)


def log_array_failure(event: str, array: campaign_model.CampaignArray, error: Exception) -> None:
    name = f"{array.campaign}.{array.number}"
    _log.warning("%s array=%s at=%s why=%r", event, name, array.cluster, str(error))
