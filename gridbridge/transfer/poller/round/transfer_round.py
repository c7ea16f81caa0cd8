"""Run a poll round: gather input, decide, act, reconcile and publish."""

from dataclasses import dataclass

from gridbridge.decisions.transfer import transfer_decisions as rules
from gridbridge.decisions.transfer.transfer_situation import TransferSituation
from gridbridge.model.message import FailureCause
from gridbridge.model.policy import Policy
from gridbridge.model.transfer.transfer_plan import TransferPlan
from gridbridge.model.transfer.transfer_row import Transfer
from gridbridge.program.journal import DecisionJournal, JournalEntry
from gridbridge.program.watch.cluster_observer import ClusterQueryResult
from gridbridge.transfer.poller.plan_journal import PlanJournal
from gridbridge.transfer.poller.round.reconcilers import TransferReconcilers
from gridbridge.transfer.poller.round.round_actions import RoundActions
from gridbridge.transfer.poller.round.round_intake import RoundIntake
from gridbridge.transfer.poller.round.round_publication import RoundPublication
from gridbridge.transfer.poller.round.situations import TransferSituations
from gridbridge.transfer.poller.transfer_ledger import TransferLedger


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundInput:
    """A round's input: new cluster answers, and the transfers to decide about."""

    came: tuple[ClusterQueryResult, ...]
    is_news: bool  # there is an answer or a changed transfer
    concerned: tuple[Transfer, ...]
    situation: TransferSituation | None  # None without concerned transfers


@dataclass(slots=True, kw_only=True)
class TransferProgram:
    """A poll round, as the steps that a cycle calls."""

    policy: Policy
    journal: DecisionJournal
    ledger: TransferLedger
    intake: RoundIntake
    situations: TransferSituations
    plan_journal: PlanJournal
    actions: RoundActions
    upkeep: TransferReconcilers
    publication: RoundPublication

    def follow(self, policy: Policy) -> None:
        """Apply a changed configuration."""
        self.policy = policy

    def gather(self) -> RoundInput:
        """Gather a round's input; any cluster answer concerns all open transfers."""
        came, changed = self.intake.take()
        concerned = tuple(self.ledger.all()) if came else self.ledger.among(changed)
        return RoundInput(
            came=came,
            is_news=bool(came or changed),
            concerned=concerned,
            situation=self.situations.gather(concerned) if concerned else None,
        )

    def decide(self, round_input: RoundInput) -> TransferPlan:
        """Plan the actions for the transfers that a round's input concerns."""
        if round_input.situation is None:
            return TransferPlan()
        return rules.plan_transfers(
            round_input.concerned, round_input.situation, self.policy.poller
        )

    def entry(self, round_input: RoundInput, plan: TransferPlan) -> JournalEntry | None:
        """Return a journal entry of the round's new decisions; None without any."""
        if round_input.situation is None:
            return None
        return self.plan_journal.entry(
            round_input.concerned, round_input.situation, self.policy.poller, plan
        )

    def apply(self, round_input: RoundInput, plan: TransferPlan) -> None:
        """Store changed transfers, do the planned actions, reconcile and publish."""
        if round_input.situation:
            self._note(round_input.concerned, plan, round_input.situation)
        for action in plan.actions:
            self.actions.act(action)
        if round_input.came:
            self.upkeep.take_answers(round_input.came)
        self.publication.publish(round_input.is_news)

    def _note(
        self, concerned: tuple[Transfer, ...], plan: TransferPlan, situation: TransferSituation
    ) -> None:
        self.situations.note_deleted(plan.transfers, situation)
        for before, transfer in zip(concerned, plan.transfers, strict=True):
            if before != transfer:
                self.ledger.keep(transfer)
            if before.cause != transfer.cause == FailureCause.DROPPED:
                self.ledger.note(transfer, transfer.reason)
