"""Stores the results of the runner's cycles: ends of tasks, arrays and campaigns, events and statistics."""

from collections import Counter, defaultdict
from collections.abc import Container, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.campaigns.store.campaign_statistics_rows import CampaignStatisticsRows, FileServerLimitRows
from gridbridge.campaigns.store.campaign_task_rows import (
    TaskDeletionMarkRows,
    TaskMissingAtClusterRows,
    UnbroughtOutputRows,
)
from gridbridge.campaigns.store.checkpoint_statistics_rows import CheckpointCarryRows, CheckpointStatisticsRows
from gridbridge.campaigns.store.event_and_subscription_rows import EventAndSuccessRecordRows
from gridbridge.campaigns.store.predecessor_rows import PredecessorRows
from gridbridge.campaigns.store.task_attempt_rows import SpeculativeAttemptRows
from gridbridge.decisions.campaigns.campaign_cycle_planning import split_cycle_plan_by_transaction
from gridbridge.decisions.campaigns.task_attempt_outcomes import close_attempts_without_end
from gridbridge.decisions.campaigns.task_retries_and_deciding_attempts import (
    AttemptsByTask,
    group_attempts_by_task,
    mark_ended_attempts_as_copies,
    select_final_task_ends,
)
from gridbridge.model.campaigns import campaign as campaign_model
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCyclePlan
from gridbridge.model.campaigns.task_index_and_attempt_texts import is_prologue_or_epilogue_task
from gridbridge.shell.clock import Clock
from gridbridge.state.state_file import StateFile


class CampaignStatisticsRecorder:
    def __init__(self, database: StateFile) -> None:
        self._predictions = CampaignStatisticsRows(database)
        self._server_limits = FileServerLimitRows(database)
        self._marks = TaskDeletionMarkRows(database)
        self._missing = TaskMissingAtClusterRows(database)
        self._checkpoints = CheckpointStatisticsRows(database)
        self._campaigns = CampaignRows(database)

    def count_ended_tasks(self, plan: CampaignCyclePlan, now: datetime) -> None:
        """Count the ended tasks of each cluster, in the transaction that stores the tasks' ends."""
        ended = campaign_model.pair_attempts_with_clusters(select_final_task_ends(plan.ended, plan.again), plan.arrays)
        counted = Counter((attempt.campaign, cluster) for attempt, cluster in ended if cluster)
        for (campaign, cluster), tasks in counted.items():
            self._predictions.add_count_of_ended_tasks(campaign, cluster, tasks, now)
        for number in plan.finished:
            self._predictions.store_campaign_end_with_forecast(number, now)
        campaigns = map(self._campaigns.find_campaign, sorted({attempt.campaign for attempt in plan.ended}))
        placed = campaign_model.pair_attempts_with_clusters(plan.ended, plan.arrays)
        self._checkpoints.add_ended_attempts(placed, filter(None, campaigns), now)

    def store_limits_and_missing_tasks(self, plan: CampaignCyclePlan) -> None:
        """Store job ratios, limits of file servers and missing tasks in small transactions.

        Other programs can write between the transactions.
        """
        self._predictions.store_job_ratios(plan.predicted)
        self._server_limits.store_file_server_limits(plan.server_limits)
        self._missing.store_missing_tasks(plan.missed)
        self._marks.remove_marks_of_ended_attempts()


PRIORITIES = {
    campaign_model.TaskAttemptOutcome.RESUBMIT: campaign_model.PRIORITY_AT_ONCE,
    campaign_model.TaskAttemptOutcome.RESUBMIT_LAST: campaign_model.PRIORITY_LAST,
}


class TaskAndCampaignEndRecorder:
    def __init__(
        self,
        database: StateFile,
        observations: CampaignStatisticsRecorder,
        clock: Clock,
        remote_clusters: Container[str] = (),
    ) -> None:
        """`remote_clusters` are reached by ssh, so input files are carried to them."""
        self._database = database
        self._remote_clusters = remote_clusters
        self._campaigns = CampaignRows(database)
        self._copies = SpeculativeAttemptRows(database, self._campaigns)
        self._events = EventAndSuccessRecordRows(database)
        self._marks = TaskDeletionMarkRows(database)
        self._statistics = CampaignStatisticsRows(database)
        self._outputs = UnbroughtOutputRows(database)
        self._carries = CheckpointCarryRows(database)
        self._predecessors = PredecessorRows(database, self._campaigns)
        self._observations = observations
        self._clock = clock
        # recorded ends of attempts, which the caller clears
        self.noted: list[campaign_model.TaskAttempt] = []

    def record_ends_of_cycle(self, plan: CampaignCyclePlan) -> None:
        """Record which tasks ended, in several transactions between which other programs can write."""
        *first, last = split_cycle_plan_by_transaction(plan)
        for portion in first:
            with self._database.transaction():
                self.record_planned_ends(portion)
        with self._database.transaction():
            self.record_planned_ends(last)
            self._observations.count_ended_tasks(plan, self._clock.now())
        self._campaigns.release_tasks_from_checkpoints(self._clock.now())
        self._observations.store_limits_and_missing_tasks(plan)

    def record_planned_ends(self, plan: CampaignCyclePlan) -> None:
        """Record which tasks, arrays and campaigns have ended, and queue the tasks to retry."""
        self.noted += plan.ended
        self._campaigns.record_attempt_ends((*plan.ended, *plan.stepped))
        again = defaultdict[int, list[campaign_model.WaitingTaskRange]](list)
        for retry in plan.again:
            batch = campaign_model.WaitingTaskRange(
                first=retry.task,
                last=retry.task,
                attempt=retry.attempt + 1,
                priority=PRIORITIES.get(retry.outcome, campaign_model.PRIORITY_USUAL),
                avoid=retry.avoid,
                never=retry.never,
            )
            if retry.checkpoint_wait_s:
                batch = replace(
                    batch,
                    priority=campaign_model.PRIORITY_AT_ONCE,
                    never=retry.others,
                    never_later=retry.never,
                    holds_until=self._clock.now() + timedelta(seconds=retry.checkpoint_wait_s),
                )
            again[retry.campaign].append(batch)
        for campaign, batches in again.items():
            self._campaigns.add_unsent_tasks(campaign, *batches)
        self._count_task_outcomes(select_final_task_ends(plan.ended, plan.again))
        for array in plan.over:
            self._campaigns.set_array_state(array, campaign_model.ArraySubmissionState.OVER)
        for number in plan.finished:
            self._campaigns.set_campaign_state(number, campaign_model.CampaignState.TERMINATED, self._clock.now())
        for number in plan.cancelled:
            self.cancel_campaign(number)
        for number in plan.wound_up:
            self._campaigns.set_campaign_state(number, campaign_model.CampaignState.CANCELLED, self._clock.now())
        self._events.store_events(plan.changes.events)
        self._events.store_success_records(plan.changes.records)
        self._statistics.store_task_usages(plan.changes.usages)
        self._campaigns.record_measured_attempts(plan.measured)
        self._carries.store_carries(plan.carries)
        self._campaigns.allow_clusters_of_carries(plan.carries)

    def _count_task_outcomes(self, ended_attempts: Sequence[campaign_model.TaskAttempt]) -> None:
        by_campaign = defaultdict[int, list[campaign_model.TaskAttempt]](list)
        for attempt in ended_attempts:
            by_campaign[attempt.campaign].append(attempt)
        for campaign, attempts in by_campaign.items():
            stored_campaign = self._campaigns.find_campaign(campaign)
            state = stored_campaign.state if stored_campaign else None
            is_cancelled = campaign_model.is_task_cancelled_by_owner
            cancelled = sum(is_cancelled(attempt.outcome, state) for attempt in attempts)
            success = campaign_model.TaskAttemptOutcome.SUCCESS
            succeeded = [attempt for attempt in attempts if attempt.outcome is success]
            if stored_campaign and stored_campaign.jdl.outputs_to:
                self._outputs.add_outputs_of_attempts(succeeded)
                self._predecessors.release_tasks_with_carried_inputs(
                    campaign, [attempt.task for attempt in succeeded], self._remote_clusters
                )
            else:
                self._predecessors.release_dependent_tasks(campaign, [attempt.task for attempt in succeeded])
            failed = len(attempts) - len(succeeded) - cancelled
            self._campaigns.add_to_task_counts(campaign, len(attempts), failed, cancelled)

    def cancel_campaign(self, number: int) -> None:
        """Cancel a campaign and drop its unsent tasks; epilogues still run until a second cancellation."""
        campaign, now = self._campaigns.find_campaign(number), self._clock.now()
        assert campaign
        is_over = campaign.awaits_epilogues_after_cancel or not campaign.jdl.has_epilogue
        cancelled = campaign_model.CampaignState.CANCELLED
        self._campaigns.set_campaign_state(number, cancelled, now if is_over else None)
        self._campaigns.remove_all_unsent_tasks(number)
        self._events.close_events_of_campaign(number, now)

    def abandon_arrays_of_campaign(self, campaign: int) -> tuple[campaign_model.CampaignArray, ...]:
        """Mark all arrays of a campaign as ended, even if tasks still run; return the arrays."""
        arrays = tuple(array for array in self._campaigns.query_open_arrays() if array.campaign == campaign)
        for array in arrays:
            self.end_array_with_outcome(array, campaign_model.TaskAttemptOutcome.CANCELLED)
        return arrays

    def end_array_with_outcome(
        self, array: campaign_model.CampaignArray, outcome: campaign_model.TaskAttemptOutcome
    ) -> None:
        """Record this outcome for all unfinished tasks of an array, and mark the array as ended."""
        with self._database.transaction():
            self.record_planned_ends(self.plan_end_of_unfinished_attempts(array, outcome))

    def plan_end_of_unfinished_attempts(
        self, array: campaign_model.CampaignArray, outcome: campaign_model.TaskAttemptOutcome
    ) -> CampaignCyclePlan:
        """Return a plan that ends attempts with `outcome`, or with COPY if the task has another live attempt."""
        attempts = close_attempts_without_end(self._campaigns.unfinished_attempts(array), outcome)
        ended = tuple(attempt for attempt in attempts if not is_prologue_or_epilogue_task(attempt.task))
        return CampaignCyclePlan(
            ended=mark_ended_attempts_as_copies(ended, self.competing_attempts_by_task(array)),
            stepped=tuple(attempt for attempt in attempts if is_prologue_or_epilogue_task(attempt.task)),
            over=(array,),
        )

    def competing_attempts_by_task(self, array: campaign_model.CampaignArray) -> AttemptsByTask:
        return group_attempts_by_task(self._copies.competing_attempts([array.campaign]))
