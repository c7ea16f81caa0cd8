"""Run a round of the poller: gather answers and messages, decide about transfers, act and publish."""

from dataclasses import dataclass

from gridbridge.decisions.transfer import transfer_act_decisions
from gridbridge.decisions.transfer.transfers_in_job_lists import TransferSituation
from gridbridge.model.cluster_snapshot import ClusterSnapshot
from gridbridge.model.transfer.transfers_and_actions import PollerRoundPlan, Transfer
from gridbridge.model.transfer_messages_in_spool import TransferFailureCause
from gridbridge.program.cluster_observer import ClusterQueryResult
from gridbridge.state.decision_journal import DecisionJournal, DecisionJournalEntry
from gridbridge.transfer.poller.poller_components import PollerComponents


@dataclass(frozen=True, slots=True, kw_only=True)
class PollerRoundSituation:
    came: tuple[ClusterQueryResult, ...]
    is_news: bool
    concerned: tuple[Transfer, ...]
    situation: TransferSituation | None  # None: nothing to decide


class PollerRoundSteps:
    def __init__(self, components: PollerComponents) -> None:
        self._parts = components

    @property
    def journal(self) -> DecisionJournal:
        return self._parts.journal

    def gather(self) -> PollerRoundSituation:
        """Gather a round's input; after an answer of any cluster the round decides about all open transfers."""
        came = self._parts.answers.collect_results()  # collected first, so that no answer is newer than the messages
        transfers = self._parts.mail.apply_new_messages(at_once=bool(came))
        for transfer in transfers:
            if transfer.is_over:
                self._parts.actions.forget_closed_transfer(transfer)
        changed = [*(transfer.transfer_key for transfer in transfers), *self._parts.actions.record_finished_acts()]
        self._parts.usage_records.store_accounting_readings()
        for cluster, push in self._parts.resources.pushes.items():
            if ids := push.take_ended_job_ids():
                self._parts.actions.look_up_pushed_job_ends(cluster, ids)
        self._handle_cluster_answers(came)
        ledger = self._parts.ledger
        concerned = tuple(ledger.open_transfers()) if came else ledger.open_transfers_with_keys(changed)
        situation = self._parts.situations.gather_inputs(concerned) if concerned else None
        return PollerRoundSituation(came=came, is_news=bool(came or changed), concerned=concerned, situation=situation)

    def _handle_cluster_answers(self, came: tuple[ClusterQueryResult, ...]) -> None:
        parts = self._parts
        parts.reused_ids.record_reused_job_ids(parts.dispatcher.not_ours)
        for answer in came:
            if answer.snapshot and answer.cluster == parts.policy.site.cluster:
                self._handle_home_job_list(answer.snapshot)
            if parts.waker.wake_starters_after_silence(answer, parts.ledger.open_transfers()):
                parts.dispatcher.forget_all_pauses()
        if came:
            parts.reused_ids.detect_reused_ids(came, parts.policy, lambda: parts.situations.gather_inputs(()))

    def _handle_home_job_list(self, snapshot: ClusterSnapshot) -> None:
        parts = self._parts
        for transfer in parts.unheard_ends.take_requeued_transfers(snapshot, frozenset(parts.policy.queues)):
            parts.ledger.reopen_transfer(transfer)
        for transfer in parts.unheard_ends.take_transfers_with_checked_owner(snapshot):
            parts.ledger.store_owner_proof(transfer)
        parts.breakers.count_proved_job_results(snapshot, parts.ledger.open_transfers())
        parts.home_task_releaser.release_home_tasks_of_closed_transfers(snapshot)
        parts.mail.judge_waiting_transfers(snapshot, parts.answers.good)

    def decide(self, round_input: PollerRoundSituation) -> PollerRoundPlan:
        if round_input.situation is None:
            return PollerRoundPlan()
        poller = self._parts.policy.poller
        return transfer_act_decisions.update_and_plan_transfers(round_input.concerned, round_input.situation, poller)

    def journal_entry(self, round_input: PollerRoundSituation, plan: PollerRoundPlan) -> DecisionJournalEntry | None:
        if round_input.situation is None:
            return None
        poller = self._parts.policy.poller
        concerned, journal = round_input.concerned, self._parts.plan_journal
        return journal.entry_of_new_decisions(concerned, round_input.situation, poller, plan)

    def apply(self, round_input: PollerRoundSituation, plan: PollerRoundPlan) -> None:
        """Store changed transfers, do the planned acts, compare tasks with remote jobs, and publish."""
        if round_input.situation:
            self._parts.situations.record_home_deletions(plan.transfers, round_input.situation)
            self._store_changed_transfers(round_input.concerned, plan.transfers)
        for action in plan.actions:
            self._parts.actions.do_or_begin_act(action)
        if round_input.came:
            self._compare_tasks_with_remote_jobs(round_input.came)
        self._publish_load_values_and_transfers(round_input.is_news)

    def _store_changed_transfers(self, concerned: tuple[Transfer, ...], planned: tuple[Transfer, ...]) -> None:
        for before, transfer in zip(concerned, planned, strict=True):
            if before != transfer:
                self._parts.ledger.store_transfer(transfer)
            if before.cause != transfer.cause == TransferFailureCause.DROPPED:
                self._parts.ledger.add_history_line(transfer, transfer.reason)

    def _compare_tasks_with_remote_jobs(self, came: tuple[ClusterQueryResult, ...]) -> None:
        parts = self._parts
        parts.guards.find_missing_guards(came, parts.policy.site.cluster)
        parts.copies.remove_copied_guards_if_due(came)
        waiting = parts.mail.unproved.names_and_owners_of_waiting_transfers()
        parts.cleaner.delete_leftover_jobs(parts.situations.gather_inputs(()), waiting)
        everything = parts.situations.gather_inputs(parts.ledger.open_transfers())
        parts.claims.record_due_grants(everything)
        parts.recalls.recall_due_tasks(
            everything, parts.resources.views.clusters_without_new_jobs(parts.breakers.reasons_of_failing_clusters())
        )
        parts.moves.continue_task_moves(everything)
        parts.suspensions.request_suspension_changes(everything, parts.recalls.transfers_being_recalled())

    def _publish_load_values_and_transfers(self, is_news: bool) -> None:
        parts, views = self._parts, self._parts.resources.views
        closed = parts.breakers.clusters_with_closed_queues(parts.ledger.open_transfers())
        closed |= parts.answers.silent_clusters()
        views.publish_load_values(parts.answers.good, parts.resources.observers, closed, parts.room.full_folder())
        parts.job_history.publish_marked_histories()
        if is_news:
            views.publish_open_transfers(parts.ledger.open_transfers(), parts.answers.good)
        parts.sweeper.sweep_old_data_if_due()
