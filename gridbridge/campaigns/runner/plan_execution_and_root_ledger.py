"""Carries out a cycle's plan, and keeps root's ledger consistent with the state file."""

import logging
from collections.abc import Callable, Container, Iterable
from dataclasses import replace
from functools import partial

from gridbridge.campaigns.runner import array_commands_as_owner
from gridbridge.campaigns.runner.array_submitter import (
    CampaignArrayCommands,
    CampaignArraySubmitter,
    CampaignOwnerUids,
    OwnerCallPostponement,
    OwnerCallTimeBudget,
)
from gridbridge.campaigns.runner.background_checkpoint_carries import BackgroundCheckpointCarries
from gridbridge.campaigns.runner.background_input_carries import BackgroundInputCarries
from gridbridge.campaigns.runner.background_output_carries import BackgroundOutputCarries
from gridbridge.campaigns.runner.background_readings import BackgroundPrograms, UsageOfEndedAttempts
from gridbridge.campaigns.runner.cycle_result_recorders import CampaignStatisticsRecorder, TaskAndCampaignEndRecorder
from gridbridge.campaigns.runner.submission_failure_events import (
    ArrayFailureEventRecorder,
    ArraySubmissionResultRecorder,
    log_array_failure,
)
from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.campaigns.store.campaign_task_rows import TaskDeletionMarkRows
from gridbridge.campaigns.store.event_and_subscription_rows import EventAndSuccessRecordRows
from gridbridge.campaigns.store.task_attempt_rows import SpeculativeAttemptRows, TaskAttemptRows
from gridbridge.decisions.campaigns.ledger_recovery_rules import is_ledger_ahead_of_state_file
from gridbridge.decisions.campaigns.task_retries_and_deciding_attempts import is_unreleased_array_unwanted
from gridbridge.errors import CampaignFileUnreadable, GridbridgeError, OwnerAccountGone, RootLedgerUnreadable
from gridbridge.model.campaigns.campaign import (
    ArraySubmissionState,
    Campaign,
    CampaignArray,
    CampaignState,
    RootLedgerArray,
    TaskAttempt,
    TaskAttemptOutcome,
    pair_attempts_with_clusters,
)
from gridbridge.model.campaigns.campaign_configuration_sections import CampaignFailuresSection
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCyclePlan
from gridbridge.model.campaigns.campaign_events import ROOT_EVENTS, CampaignEvent, CampaignEventCode
from gridbridge.model.campaigns.speculative_attempts import SupersededAttempts
from gridbridge.model.campaigns.task_deletions_and_preemptions import ArrayTaskDeletion, NikitaDeletionReason
from gridbridge.model.campaigns.task_index_and_attempt_texts import MAX_ARRAY_TASKS
from gridbridge.shell.clock import Clock
from gridbridge.state.state_file import StateFile

AT_ONCE = 20  # at most this many campaigns are closed in one cycle, because each needs a call of root's helper
_log = logging.getLogger(__name__)


class RootLedgerCampaignCloser:
    """Closes ended campaigns in root's ledger, so that root submits no more tasks of these campaigns."""

    def __init__(self, campaigns: CampaignRows, array_commands: CampaignArrayCommands) -> None:
        self._campaigns = campaigns
        self._acts = array_commands
        self._last = 0  # number of the campaign that was closed last; the next cycle continues after it

    def close_ended_campaigns(self) -> None:
        """Close some ended campaigns; the next cycle closes others, and repeats failed calls."""
        campaigns = self._campaigns.ended_campaigns_not_in_ledger(self._last, AT_ONCE)
        for campaign in campaigns:
            try:
                self._acts.close_campaign_in_root_ledger(campaign)
            except RootLedgerUnreadable:
                pass  # nothing to close, because root submits no task without a ledger
            except GridbridgeError as error:
                _log.warning("event=end_not_noted campaign=%d why=%r", campaign, str(error))
                if isinstance(error, CampaignFileUnreadable):
                    continue
                return
            self._campaigns.record_ledger_has_campaign_end(campaign)
        self._last = campaigns[-1] if len(campaigns) == AT_ONCE else 0


class RootLedgerStateComparison:
    """Compares root's ledger of submitted tasks with the state file, once for each campaign and cycle."""

    def __init__(self, campaigns: CampaignRows, ledger_arrays: Callable[[int], tuple[RootLedgerArray, ...]]) -> None:
        self._campaigns = campaigns
        self._ledger_arrays = ledger_arrays
        self._waits: dict[int, bool] = {}  # {campaign: whether its task ends are recorded only in a later cycle}
        self.behind: list[int] = []  # campaigns of which the state file lacks arrays in root's ledger

    def forget_ledger_comparisons(self) -> None:
        """Start a new cycle, in which each campaign's state is compared with root's ledger again."""
        self._waits, self.behind = {}, []

    def may_record_task_ends(self, campaign: int) -> bool:
        """Return whether task ends may be recorded: only if the state file has all arrays of the campaign."""
        if campaign not in self._waits:
            self._waits[campaign] = self._is_state_file_behind_ledger(campaign)
        return not self._waits[campaign]

    def campaigns_behind_root_ledger(
        self, campaigns: Iterable[Campaign], events: Iterable[CampaignEvent]
    ) -> tuple[int, ...]:
        restored = {event.campaign for event in events if event.code is CampaignEventCode.RESTORED}
        for campaign in campaigns:
            is_sending = campaign.number in restored and campaign.state is CampaignState.IN_TREATMENT
            if is_sending and not self._campaigns.arrays_of_campaign(campaign.number):
                self.may_record_task_ends(campaign.number)
        return tuple(self.behind)

    def _is_state_file_behind_ledger(self, campaign: int) -> bool:
        try:
            ledger_arrays = self._ledger_arrays(campaign)
        except RootLedgerUnreadable:
            return False
        except GridbridgeError as error:
            _log.warning("event=ledger_unread campaign=%d why=%r", campaign, str(error))
            return True
        if is_behind := is_ledger_ahead_of_state_file(self._campaigns.arrays_of_campaign(campaign), ledger_arrays):
            self.behind.append(campaign)
        return is_behind


class CampaignPlanExecutor:
    def __init__(
        self,
        database: StateFile,
        observations: CampaignStatisticsRecorder,
        clock: Clock,
        failures: CampaignFailuresSection,
        array_commands: CampaignArrayCommands = array_commands_as_owner,
        most: int = MAX_ARRAY_TASKS,
        ownerless: Callable[[CampaignArray], int] | None = None,
        remote_clusters: Container[str] = (),
        programs: BackgroundPrograms | None = None,
        unmeasured: Container[str] = (),
    ) -> None:
        """Take the clusters that are reached by ssh, and those whose accounting lacks the memory of jobs."""
        programs = programs or BackgroundPrograms()
        self._campaigns = campaigns = CampaignRows(database)
        self._tries = TaskAttemptRows(database, campaigns)
        self._copies = SpeculativeAttemptRows(database, campaigns)
        self._clock = clock
        self._troubles = troubles = ArrayFailureEventRecorder(EventAndSuccessRecordRows(database), clock, failures)
        self._acts = array_commands
        self._ownerless = ownerless  # deletes an array whose owner no longer exists
        owners = CampaignOwnerUids(campaigns)
        self._turns = turns = OwnerCallTimeBudget(owners, clock, failures)
        self._noting = noting = TaskAndCampaignEndRecorder(database, observations, clock, remote_clusters)
        self._answers = answers = ArraySubmissionResultRecorder(
            database, array_commands, clock, failures, noting, troubles
        )
        record = answers.record_submission_result
        self.inputs = BackgroundInputCarries(campaigns, owners, array_commands, clock, remote_clusters, programs.inputs)
        self.checkpoints = BackgroundCheckpointCarries(
            database, owners, array_commands, clock, remote_clusters, programs.checkpoint_carries
        )
        self._submissions = CampaignArraySubmitter(
            campaigns, array_commands, clock, record, most, turns, self._require_files_at_cluster, remote_clusters
        )
        self.outputs = BackgroundOutputCarries(database, array_commands, clock, failures, programs.outputs)
        self.usages = UsageOfEndedAttempts(owners, unmeasured, clock, programs)
        self._ends = RootLedgerCampaignCloser(campaigns, array_commands)
        self._marks = TaskDeletionMarkRows(database)

    def take_changed_attempts(self) -> tuple[TaskAttempt, ...]:
        """Return the attempts that were submitted or ended since the last call."""
        attempts = (*self._noting.noted, *self._submissions.begun)
        self._noting.noted.clear()
        self._submissions.begun.clear()
        return attempts

    def execute_plan(self, plan: CampaignCyclePlan) -> None:
        """Record ends, delete arrays, resume interrupted submissions, then submit new tasks."""
        self._turns.reset_owner_call_times()
        plan = self._import_ledger_arrays(plan)
        for array in plan.over:
            if array.is_repeated:
                self._delete_jobs_of_array(array)
        self._noting.record_ends_of_cycle(plan)
        for array in plan.deleted:
            self._delete_array(array)
        for array in plan.unneeded:
            self._mark_array_unneeded(array)
        for array in plan.unsent:
            self._mark_array_unneeded(array)  # if the cluster had accepted a task, the mark explains the task's end
            self._delete_array(array, TaskAttemptOutcome.MOVED)
        for lost in plan.losers:
            self._delete_superseded_attempts(lost)
        self._submissions.resume_interrupted_arrays(plan.resumed)
        self._submit_planned_arrays(plan)
        self._ends.close_ended_campaigns()
        self.inputs.continue_input_removals()
        self.checkpoints.continue_removals()
        self.outputs.continue_output_carries()
        self.usages.start_readings(pair_attempts_with_clusters(plan.ended, plan.arrays))

    def _require_files_at_cluster(self, array: CampaignArray, attempts: tuple[TaskAttempt, ...]) -> None:
        self.inputs.require_inputs_at_cluster(array, attempts)
        self.checkpoints.start_carries_and_require_checkpoints(array, attempts)

    def _import_ledger_arrays(self, plan: CampaignCyclePlan) -> CampaignCyclePlan:
        """Import arrays from root's ledger, and drop the planned submissions of the imported campaigns."""
        for campaign in plan.behind:
            self._answers.import_root_ledger_arrays(campaign)
        return replace(
            plan,
            resumed=tuple(array for array in plan.resumed if array.campaign not in plan.behind),
            sends=tuple(send for send in plan.sends if send.campaign not in plan.behind),
            steps=tuple(step for step in plan.steps if step.campaign not in plan.behind),
            copies=tuple(copies for copies in plan.copies if copies.campaign not in plan.behind),
            added=tuple(tasks for tasks in plan.added if tasks.campaign not in plan.behind),
        )

    def _submit_planned_arrays(self, plan: CampaignCyclePlan) -> None:
        for step in plan.steps:
            self._submissions.submit_new_arrays([self._tries.create_prologue_or_epilogue(step, self._clock.now())])
        for send in plan.sends:
            self._submissions.submit_planned_tasks(send)
        for copies in plan.copies:
            self._submissions.submit_new_arrays([self._copies.create_speculative_array(copies, self._clock.now())])
        self._submissions.add_tasks_to_running_jobs(plan.added)

    def _mark_array_unneeded(self, array: CampaignArray) -> None:
        self._marks.mark_tasks_for_deletion(
            ArrayTaskDeletion(
                campaign=array.campaign,
                array=array.number,
                cluster=array.cluster,
                wiped_for=NikitaDeletionReason.UNNEEDED,
                places=(range(1, 2),),
            )
        )

    def _delete_superseded_attempts(self, superseded: SupersededAttempts) -> None:
        if is_unreleased_array_unwanted(superseded):
            self._delete_array(superseded.array)
            return
        try:
            self._turns.run_owner_call(
                superseded.array, lambda: self._acts.delete_array_tasks(superseded.array, superseded.places)
            )
        except OwnerCallPostponement:
            pass  # the next cycle plans the deletion again
        except GridbridgeError as error:
            log_array_failure("event=not_ended", superseded.array, error)

    def _delete_array(self, array: CampaignArray, unsent: TaskAttemptOutcome = TaskAttemptOutcome.CANCELLED) -> None:
        """Delete an array; if the array was never submitted, its tasks get the outcome `unsent`."""
        try:
            job_id = self._turns.run_owner_call(
                array, partial(self._delete_jobs_of_array, array), lambda deleted_id: deleted_id is None
            )
        except OwnerCallPostponement:
            return  # a later cycle deletes the array
        if job_id is None or array.state is ArraySubmissionState.RELEASED:
            return
        if job_id:  # root has submitted the array, so the next cycle queries the ends of the array's tasks
            self._campaigns.set_array_state(array, ArraySubmissionState.RELEASED, job_id)
        else:
            self._noting.end_array_with_outcome(array, unsent)

    def _delete_jobs_of_array(self, array: CampaignArray) -> int | None:
        """Delete all jobs with an array's name; return the job id, 0 if no job exists, None after a failure."""
        try:
            try:
                job_id = self._acts.delete_array(array)
            except OwnerAccountGone:
                if self._ownerless is None:
                    raise
                job_id = self._ownerless(array)
        except GridbridgeError as error:
            log_array_failure("event=not_deleted", array, error)
            self._troubles.record_undeleted_array(array, error)
            return None
        self._troubles.close_array_events(ROOT_EVENTS, array)
        return job_id
