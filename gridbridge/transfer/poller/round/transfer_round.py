"""A round as a program of the cycle: take what came, decide, act, and look after the rest."""

from dataclasses import dataclass

from gridbridge.decisions.transfer import transfer_policy as rules
from gridbridge.decisions.transfer.situation import TransferSituation
from gridbridge.model.message import FailureCause
from gridbridge.model.policy import Policy
from gridbridge.model.transfer.transfer_plan import TransferPlan
from gridbridge.model.transfer.transfer_row import Transfer
from gridbridge.program.journal import DecisionJournal, JournalEntry
from gridbridge.program.watch.cluster_observer import ClusterAnswer
from gridbridge.transfer.poller.plan_journal import PlanJournal
from gridbridge.transfer.poller.round.reconcilers import Reconcilers
from gridbridge.transfer.poller.round.round_actions import RoundActions
from gridbridge.transfer.poller.round.round_intake import RoundIntake
from gridbridge.transfer.poller.round.round_publication import RoundPublication
from gridbridge.transfer.poller.round.situations import TransferSituations
from gridbridge.transfer.poller.transfer_ledger import TransferLedger


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundInput:
    """What a round has gathered: the answers that came, and the transfers that they concern."""

    came: tuple[ClusterAnswer, ...]
    is_news: bool  # an answer, or a transfer that changed
    concerned: tuple[Transfer, ...]
    situation: TransferSituation | None  # none where nothing is concerned


@dataclass(slots=True, kw_only=True)
class TransferProgram:
    """A round, in the verbs that the cycle calls."""

    policy: Policy
    journal: DecisionJournal
    ledger: TransferLedger
    intake: RoundIntake
    situations: TransferSituations
    plan_journal: PlanJournal
    actions: RoundActions
    upkeep: Reconcilers
    publication: RoundPublication

    def follow(self, policy: Policy) -> None:
        """Decide by a changed configuration."""
        self.policy = policy

    def gather(self) -> RoundInput:
        """Take what came; an answer concerns all transfers, other news only its own transfer."""
        came, changed = self.intake.take()
        concerned = tuple(self.ledger.all()) if came else self.ledger.among(changed)
        return RoundInput(
            came=came,
            is_news=bool(came or changed),
            concerned=concerned,
            situation=self.situations.gather(concerned) if concerned else None,
        )

    def decide(self, round_input: RoundInput) -> TransferPlan:
        """Decide about the transfers that are concerned."""
        if round_input.situation is None:
            return TransferPlan()
        return rules.plan(round_input.concerned, round_input.situation, self.policy.poller)

    def entry(self, round_input: RoundInput, plan: TransferPlan) -> JournalEntry | None:
        """Return an entry with the new decisions."""
        if round_input.situation is None:
            return None
        return self.plan_journal.entry(
            round_input.concerned, round_input.situation, self.policy.poller, plan
        )

    def apply(self, round_input: RoundInput, plan: TransferPlan) -> None:
        """Keep the transfers as now known, act, look after the rest, and publish it."""
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
