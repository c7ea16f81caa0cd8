"""One cycle of nikita: decides which campaign tasks to delete, and deletes the tasks as their owners.

Only the runner submits tasks again; two submitting programs could run a task twice (CiGri, 2014).
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any

from gridbridge.batch.configured_cluster_access_and_routes import keep_ssh_connections_open
from gridbridge.campaigns.nikita.nikita_queries import (
    TO_GO,
    BlockedLocalJobFinder,
    campaign_tasks_in_snapshots,
    execute_cancel_requests,
)
from gridbridge.campaigns.runner import array_commands_as_owner
from gridbridge.campaigns.runner.array_submitter import (
    CampaignArrayCommands,
    CampaignOwnerUids,
    OwnerCallPostponement,
    OwnerCallTimeBudget,
)
from gridbridge.campaigns.runner.campaign_master_lead import CampaignMasterLead
from gridbridge.campaigns.runner.cluster_queries_and_capacities import (
    ClusterSnapshotFetcher,
    count_usable_slots,
    next_nights_by_cluster,
)
from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.campaigns.store.campaign_task_rows import LocalJobPreemptionRows, TaskDeletionMarkRows
from gridbridge.campaigns.store.host_clock_jumps import HostClockJumpDetector
from gridbridge.campaigns.store.task_attempt_rows import TaskAttemptRows
from gridbridge.decisions.campaigns import nikita_deletion_planning
from gridbridge.decisions.campaigns.nightly_task_starts import campaigns_waiting_for_night
from gridbridge.decisions.campaigns.preemption_for_local_jobs import (
    is_preemption_of_request,
    preemption_deletions_by_array,
)
from gridbridge.decisions.campaigns.remaining_cluster_capacity import max_waiting_tasks
from gridbridge.errors import GridbridgeError
from gridbridge.model.campaigns.campaign import ArraySubmissionState, CampaignArray, CampaignState
from gridbridge.model.campaigns.campaign_configuration_sections import ClusterCampaignsSection
from gridbridge.model.campaigns.task_deletions_and_preemptions import (
    REASONS_OF_MOVES,
    REASONS_ONLY_WAITING,
    ArrayTaskDeletion,
    NikitaDeletionPlan,
    NikitaDeletionReason,
    NikitaSituation,
    NikitaTimeouts,
    TasksPreemptedForRequest,
)
from gridbridge.model.campaigns.task_index_and_attempt_texts import EPILOGUE, group_into_ranges
from gridbridge.model.cluster_snapshot import ClusterSnapshot
from gridbridge.model.fixed_paths import NIKITA_CLOCKS
from gridbridge.model.site_configuration import Policy
from gridbridge.program.model_values_as_json import model_value_from_json, model_value_to_json
from gridbridge.shell.clock import Clock
from gridbridge.state.decision_journal import DecisionJournal, DecisionJournalEntry, make_journal_entry
from gridbridge.state.state_file import StateFile

NIKITA_PROGRAM = "nikita"
USUAL = ClusterCampaignsSection()
_log = logging.getLogger(__name__)


class NikitaDeletionCycle:
    def __init__(
        self,
        policy: Policy,
        clock: Clock,
        array_commands: CampaignArrayCommands = array_commands_as_owner,
        watched: str = NIKITA_CLOCKS,
        *,
        is_dry: bool = False,
        lead: CampaignMasterLead | None = None,
    ) -> None:
        """Open the state file, read-only in a dry run; raises StateError if the file cannot be opened."""
        keep_ssh_connections_open(policy)
        self._policy = policy
        self._clock = clock
        self._acts = array_commands
        self.database = lead.open_state() if lead else StateFile.open(policy.site.state, is_unchanged=is_dry)
        self.journal = DecisionJournal(self.database)
        self._asking = ClusterSnapshotFetcher(policy, self.database, clock, is_dry=is_dry)
        self._campaigns = CampaignRows(self.database)
        self._tries = TaskAttemptRows(self.database, self._campaigns)
        self._marks = TaskDeletionMarkRows(self.database)
        self._arrays: dict[tuple[int, int], CampaignArray] = {}
        self._answers: dict[str, ClusterSnapshot] = {}
        self._cancelled: set[int] = set()
        self._watch = HostClockJumpDetector(clock, watched)
        self._turns = OwnerCallTimeBudget(CampaignOwnerUids(self._campaigns), clock, policy.failures)
        self._ways = LocalJobPreemptionRows(self.database)
        self._crowds = BlockedLocalJobFinder(policy, self._ways, clock)

    def gather(self) -> NikitaSituation:
        """Read the clusters' last snapshots; query the clusters again if tasks are to be deleted."""
        situation = self._query_clusters_for_situation(self._policy.runner.interval_s)
        plan = nikita_deletion_planning.plan_nikita_deletions
        if self._asking.has_read and plan(situation) != NikitaDeletionPlan():
            situation = self._query_clusters_for_situation(0.0)
        arrays, marks = self._arrays.values(), self._marks.deletion_marks()
        contests = self._crowds.find_blocked_jobs(arrays, self._answers, marks, self._cancelled)
        return replace(situation, contests=contests)

    def _query_clusters_for_situation(self, limit_s: float) -> NikitaSituation:
        released = [
            array for array in self._campaigns.query_open_arrays() if array.state is ArraySubmissionState.RELEASED
        ]
        clusters = {array.cluster for array in released}
        self._answers = self._asking.fetch_snapshots(clusters, released, limit_s)
        return self.situation_from_snapshots(released, self._answers)

    def situation_from_snapshots(
        self, released: list[CampaignArray], answers: dict[str, ClusterSnapshot]
    ) -> NikitaSituation:
        slots = {name: count_usable_slots(snapshot) for name, snapshot in answers.items()}
        campaigns = {campaign.number: campaign for campaign in self._campaigns.unfinished_campaigns()}
        self._cancelled = killed = {n for n, campaign in campaigns.items() if campaign.state is CampaignState.CANCELLED}
        marks, leaps = self._marks.deletion_marks(), self._watch.detect_clock_jumps()
        going = (
            campaign for n, campaign in campaigns.items() if n not in killed or campaign.awaits_epilogues_after_cancel
        )
        steps = self._tries.last_prologues_and_epilogues(going)
        epilogues = {(step.campaign, step.array) for step in steps if step.campaign in killed and step.step == EPILOGUE}
        to_go = {key for key, of_array in marks.items() if any(mark.wiped_for in TO_GO for mark in of_array.values())}
        self._arrays = {
            array.campaign_and_array_number: array
            for array in released
            if array.cluster in slots
            and (slots[array.cluster] or array.campaign in killed or array.campaign_and_array_number in to_go)
            and array.campaign_and_array_number not in epilogues
        }
        kept_steps = {(step.campaign, step.array) for step in steps if step.campaign not in killed}
        now = self._clock.now()
        waiting_for_night = campaigns_waiting_for_night(
            campaigns.values(), next_nights_by_cluster(campaigns.values(), self._policy.campaigns, now), now
        )
        parts = campaign_tasks_in_snapshots(
            self._arrays.values(), answers, campaigns, marks, leaps, kept_steps, waiting_for_night
        )
        flood_rates = {name: self._policy.campaigns.get(name, USUAL).flood_rate for name in slots}
        limits = self._policy.nikita
        return NikitaSituation(
            now=now,
            # at a cluster without usable slots all tasks wait, so only cancelled and moved tasks are listed
            parts=tuple(part for part in parts if slots[part.cluster] or part.is_cancelled or part.marked in TO_GO),
            allowed={name: max_waiting_tasks(count, flood_rates[name]) for name, count in slots.items() if count},
            patience=NikitaTimeouts(
                grace_s=limits.grace_s, waiting_s=limits.waiting_s, over_walltime_s=limits.over_walltime_s
            ),
            to_wide=frozenset(name for name, rate in flood_rates.items() if rate),
        )

    def decide(self, situation: NikitaSituation) -> NikitaDeletionPlan:
        return nikita_deletion_planning.plan_nikita_deletions(situation)

    def journal_entry(self, situation: NikitaSituation, plan: NikitaDeletionPlan) -> DecisionJournalEntry | None:
        return nikita_journal_entry(situation, plan, self._clock.now())

    def apply(self, situation: NikitaSituation, plan: NikitaDeletionPlan) -> None:
        """Mark tasks before their deletion, because a deleted task without a mark counts as deleted by its owner."""
        del situation
        self._turns.reset_owner_call_times()
        self._watch.save_clock_readings()
        for wipe in plan.spared:
            self._marks.remove_deletion_marks(wipe)
        for wipe in (*plan.wipes, *plan.repeated):
            self._marks.mark_tasks_for_deletion(wipe)
        for wipe in (*plan.wipes, *plan.repeated, *plan.moved, *plan.cancelled):
            self._delete_tasks_of_array(wipe)
        for way in plan.ways:
            if now := self._crowds.recompute_preemption(way):
                self._preempt_tasks_for_local_job(now)

    def _preempt_tasks_for_local_job(self, way: TasksPreemptedForRequest) -> None:
        self._ways.record_preemption(way, self._clock.now())
        for wipe in preemption_deletions_by_array(way):
            self._marks.mark_tasks_for_deletion(wipe)
            self._delete_tasks_of_array(wipe)
        job = f"{way.job}.{way.task}" if way.task else way.job
        words = "event=made_way cluster=%s job=%s tasks=%s for=%s"
        _log.info(words, way.cluster, job, len(way.tasks), ",".join(way.lacked))

    def _delete_tasks_of_array(self, wipe: ArrayTaskDeletion) -> None:
        array = self._arrays[wipe.campaign, wipe.array]
        try:
            if wipe.wiped_for in REASONS_ONLY_WAITING:
                self._delete_waiting_tasks_of_array(array, wipe)
            else:
                self._turns.run_owner_call(array, lambda: self._acts.delete_array_tasks(array, wipe.places))
        except OwnerCallPostponement:
            pass  # OwnerCallTimeBudget has logged the hung call
        except GridbridgeError as error:
            name = f"{wipe.campaign}.{wipe.array}"
            _log.warning("event=not_wiped array=%s at=%s why=%r", name, wipe.cluster, str(error))

    def _delete_waiting_tasks_of_array(self, array: CampaignArray, wipe: ArrayTaskDeletion) -> None:
        """Delete tasks that have not started, and mark them; remove the marks of tasks that have started."""
        begun = self._turns.run_owner_call(array, lambda: self._acts.delete_waiting_array_tasks(array, wipe.places))
        if begun:
            self._marks.remove_deletion_marks(replace(wipe, places=begun))
        if waiting := _array_index_ranges_without(wipe.places, begun):
            held = NikitaDeletionReason.LEFT if wipe.wiped_for in REASONS_OF_MOVES else NikitaDeletionReason.NEVER_BEGAN
            self._marks.mark_tasks_for_deletion(replace(wipe, places=waiting, wiped_for=held))


def _array_index_ranges_without(ranges: tuple[range, ...], excluded: tuple[range, ...]) -> tuple[range, ...]:
    listed = {index for indices in excluded for index in indices}
    return group_into_ranges(index for indices in ranges for index in indices if index not in listed)


class NikitaDaemon:
    has_background_work = False

    def __init__(
        self, policy: Policy, clock: Clock, *, is_dry: bool = False, lead: CampaignMasterLead | None = None
    ) -> None:
        self._policy = policy
        self._clock = clock
        self._is_dry = is_dry
        self._lead = lead
        self._nikita = NikitaDeletionCycle(policy, clock, is_dry=is_dry, lead=lead)

    @property
    def pause_s(self) -> float:
        return self._policy.nikita.interval_s

    @contextmanager
    def open_cycle(self) -> Iterator[NikitaDeletionCycle]:
        """Execute cancel requests, then yield a NikitaDeletionCycle for one cycle.

        If there are several masters, only the runner executes requests: another host starts a missing runner.
        """
        if not (self._is_dry or self._lead):
            execute_cancel_requests(self._nikita.database, self._clock)
        yield self._nikita

    def should_start_cycle_early(self) -> bool:
        """Return False, because nikita always pauses between two cycles."""
        return False

    def recover(self) -> None:
        """Open the state file again after a failed cycle."""
        self._nikita = NikitaDeletionCycle(self._policy, self._clock, lead=self._lead)

    def release(self) -> None:
        self._nikita.database.close()


def nikita_journal_entry(
    situation: NikitaSituation, plan: NikitaDeletionPlan, now: datetime
) -> DecisionJournalEntry | None:
    """Return nikita's entry for the journal of decisions; None if no task is deleted."""
    sentences = nikita_deletion_planning.describe_nikita_deletions(plan)
    if not sentences:
        return None
    decisive = tuple(
        request
        for request in situation.contests
        if any(request.cluster == way.cluster and is_preemption_of_request(request.asked, way) for way in plan.ways)
    )
    seen = model_value_to_json(replace(situation, contests=decisive))
    return make_journal_entry(NIKITA_PROGRAM, now, {"seen": seen}, sentences)


def replay_nikita_deletions(row: Mapping[str, Any]) -> list[str]:
    return nikita_deletion_planning.describe_nikita_deletions(
        nikita_deletion_planning.plan_nikita_deletions(model_value_from_json(row["seen"], NikitaSituation))
    )
