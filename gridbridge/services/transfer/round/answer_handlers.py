"""Gives the clusters' answers to the parts of the service, before anything is decided by them."""

from dataclasses import dataclass

from gridbridge.model.policy import Policy
from gridbridge.model.snapshot import ClusterSnapshot
from gridbridge.services.transfer.breakers import Breakers
from gridbridge.services.transfer.dispatch import Dispatcher
from gridbridge.services.transfer.guards.late import StaleGuards
from gridbridge.services.transfer.ledger import TransferLedger
from gridbridge.services.transfer.mail.mail import InboxReader
from gridbridge.services.transfer.reused_ids import ReusedIds
from gridbridge.services.transfer.round.recovery import StarterWakeup
from gridbridge.services.transfer.round.situations import TransferSituations
from gridbridge.services.transfer.unheard import UndeliveredEnds
from gridbridge.services.watch.answers import LastClusterAnswers
from gridbridge.services.watch.observer import ClusterAnswer


@dataclass(slots=True, kw_only=True)
class AnswerHandlers:
    """All parts that take an answer."""

    policy: Policy
    answers: LastClusterAnswers
    ledger: TransferLedger
    unheard_ends: UndeliveredEnds
    breakers: Breakers
    late_guards: StaleGuards
    mail: InboxReader
    recovery: StarterWakeup
    dispatcher: Dispatcher
    reused_ids: ReusedIds
    situations: TransferSituations

    def follow(self, policy: Policy) -> None:
        """Go on under another configuration."""
        self.policy = policy

    def take(self, came: tuple[ClusterAnswer, ...]) -> None:
        """Take what the clusters answered, and the reused ids that acts have found."""
        self.reused_ids.note_found(self.dispatcher.not_ours)
        for answer in came:
            if answer.snapshot and answer.cluster == self.policy.site.cluster:
                self._take_home(answer.snapshot)
            if self.recovery.take_answer(answer, self.ledger.all()):
                self.dispatcher.recover()
        if came:
            self.reused_ids.take_answers(came, self.policy, lambda: self.situations.gather(()))

    def _take_home(self, seen: ClusterSnapshot) -> None:
        for one in self.unheard_ends.take_answer(seen, frozenset(self.policy.queues)):
            self.ledger.reopen(one)
        for one in self.unheard_ends.prove(seen):
            self.ledger.prove(one)
        self.breakers.prove(seen, self.ledger.all())
        self.late_guards.take_answer(seen)
        self.mail.take_answer(seen, self.answers.good)
