"""Run a round of the poller: gather answers and messages, decide about transfers, act and publish."""

from dataclasses import dataclass

from gridbridge.decisions.transfer import transfer_act_decisions
from gridbridge.decisions.transfer.transfers_in_job_lists import TransferDecisionInputs
from gridbridge.model.cluster_snapshot import ClusterSnapshot
from gridbridge.model.transfer.transfers_and_actions import Transfer, TransferRoundPlan
from gridbridge.model.transfer_messages_in_spool import TransferFailureCause
from gridbridge.program.cluster_observer import ClusterQueryResult
from gridbridge.state.decision_journal import DecisionJournal, DecisionJournalEntry
from gridbridge.transfer.poller.poller_components import PollerComponents


@dataclass(frozen=True, slots=True, kw_only=True)
class PollRoundInput:
    """A round's input: new answers of clusters, and the transfers to decide about."""

    came: tuple[ClusterQueryResult, ...]
    is_news: bool  # whether a cluster has answered or a transfer has changed
    concerned: tuple[Transfer, ...]
    situation: TransferDecisionInputs | None  # None: nothing to decide


class PollRoundSteps:
    """The steps of a round of the poller: gather, decide, store the decision, and act."""

    def __init__(self, components: PollerComponents) -> None:
        self._parts = components

    @property
    def journal(self) -> DecisionJournal:
        """The journal of the service's decisions."""
        return self._parts.journal

    def gather(self) -> PollRoundInput:
        """Gather a round's input; after an answer of any cluster the round decides about all open transfers."""
        came = self._parts.answers.take()  # first, so that no answer is newer than the messages
        transfers = self._parts.mail.take(at_once=bool(came))
        for transfer in transfers:
            if transfer.is_over:
                self._parts.actions.forget(transfer)
        changed = [*(transfer.key for transfer in transfers), *self._parts.actions.take_results()]
        self._parts.usage_records.take()
        for cluster, push in self._parts.resources.pushes.items():
            if ids := push.ended():
                self._parts.actions.look_up(cluster, ids)
        self._take_answers(came)
        concerned = tuple(self._parts.ledger.all()) if came else self._parts.ledger.among(changed)
        situation = self._parts.situations.gather(concerned) if concerned else None
        return PollRoundInput(came=came, is_news=bool(came or changed), concerned=concerned, situation=situation)

    def _take_answers(self, came: tuple[ClusterQueryResult, ...]) -> None:
        parts = self._parts
        parts.reused_ids.note_found(parts.dispatcher.not_ours)
        for answer in came:
            if answer.snapshot and answer.cluster == parts.policy.site.cluster:
                self._take_home(answer.snapshot)
            if parts.waker.take_answer(answer, parts.ledger.all()):
                parts.dispatcher.recover()
        if came:
            parts.reused_ids.take_answers(came, parts.policy, lambda: parts.situations.gather(()))

    def _take_home(self, snapshot: ClusterSnapshot) -> None:
        parts = self._parts
        for transfer in parts.unheard_ends.take_answer(snapshot, frozenset(parts.policy.queues)):
            parts.ledger.reopen(transfer)
        for transfer in parts.unheard_ends.prove(snapshot):
            parts.ledger.prove(transfer)
        parts.breakers.prove(snapshot, parts.ledger.all())
        parts.late_guards.take_answer(snapshot)
        parts.mail.take_answer(snapshot, parts.answers.good)

    def decide(self, round_input: PollRoundInput) -> TransferRoundPlan:
        """Plan the acts for the transfers that a round's input concerns."""
        if round_input.situation is None:
            return TransferRoundPlan()
        poller = self._parts.policy.poller
        return transfer_act_decisions.update_and_plan_transfers(round_input.concerned, round_input.situation, poller)

    def entry(self, round_input: PollRoundInput, plan: TransferRoundPlan) -> DecisionJournalEntry | None:
        """Return a journal entry of the round's new decisions; None if nothing new was decided."""
        if round_input.situation is None:
            return None
        poller = self._parts.policy.poller
        return self._parts.plan_journal.entry(round_input.concerned, round_input.situation, poller, plan)

    def apply(self, round_input: PollRoundInput, plan: TransferRoundPlan) -> None:
        """Store changed transfers, do the planned acts, compare tasks with remote jobs, and publish."""
        if round_input.situation:
            self._parts.situations.note_deleted(plan.transfers, round_input.situation)
            self._keep_changed(round_input.concerned, plan.transfers)
        for action in plan.actions:
            self._parts.actions.act(action)
        if round_input.came:
            self._compare_tasks_with_remote_jobs(round_input.came)
        self._publish(round_input.is_news)

    def _keep_changed(self, concerned: tuple[Transfer, ...], planned: tuple[Transfer, ...]) -> None:
        for before, transfer in zip(concerned, planned, strict=True):
            if before != transfer:
                self._parts.ledger.keep(transfer)
            if before.cause != transfer.cause == TransferFailureCause.DROPPED:
                self._parts.ledger.note(transfer, transfer.reason)

    def _compare_tasks_with_remote_jobs(self, came: tuple[ClusterQueryResult, ...]) -> None:
        parts = self._parts
        parts.guards.take_answers(came, parts.policy.site.cluster)
        parts.copies.take_answers(came)
        parts.cleaner.clean(parts.situations.gather(()), parts.mail.unproved.names())
        everything = parts.situations.gather(parts.ledger.all())
        parts.claims.decide(everything)
        parts.recalls.decide(everything, parts.resources.views.troubles(parts.breakers.why()))
        parts.moves.decide(everything)
        parts.suspensions.decide(everything, parts.recalls.out())

    def _publish(self, is_news: bool) -> None:
        parts, views = self._parts, self._parts.resources.views
        closed = parts.breakers.closed(parts.ledger.all()) | parts.answers.silent()
        views.load(parts.answers.good, parts.resources.observers, closed, parts.room.lacks())
        parts.job_history.publish()
        if is_news:
            views.transfers(parts.ledger.all(), parts.answers.good)
        parts.sweeper.sweep_if_due()
