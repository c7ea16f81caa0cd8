"""Pass cluster answers to the service's parts before decisions use the answers."""

from dataclasses import dataclass

from gridbridge.model.policy import Policy
from gridbridge.model.snapshot import ClusterSnapshot
from gridbridge.program.watch.cluster_observer import ClusterQueryResult
from gridbridge.program.watch.last_answers import LastClusterSnapshots
from gridbridge.transfer.poller.breakers import ClusterBreakers
from gridbridge.transfer.poller.dispatcher import ActDispatcher
from gridbridge.transfer.poller.inbox_reader import InboxReader
from gridbridge.transfer.poller.reused_ids import ReusedIdDetector
from gridbridge.transfer.poller.round.situations import TransferSituations
from gridbridge.transfer.poller.round.starter_wakeup import StarterWakeup
from gridbridge.transfer.poller.stale_guards import StaleGuardRemover
from gridbridge.transfer.poller.transfer_ledger import TransferLedger
from gridbridge.transfer.poller.undelivered_ends import UndeliveredEndTracker


@dataclass(slots=True, kw_only=True)
class AnswerHandlers:
    """The parts of the service that process clusters' answers."""

    policy: Policy
    answers: LastClusterSnapshots
    ledger: TransferLedger
    unheard_ends: UndeliveredEndTracker
    breakers: ClusterBreakers
    late_guards: StaleGuardRemover
    mail: InboxReader
    recovery: StarterWakeup
    dispatcher: ActDispatcher
    reused_ids: ReusedIdDetector
    situations: TransferSituations

    def follow(self, policy: Policy) -> None:
        """Apply a changed configuration."""
        self.policy = policy

    def take(self, came: tuple[ClusterQueryResult, ...]) -> None:
        """Process the clusters' answers, and the reused job ids that acts have found."""
        self.reused_ids.note_found(self.dispatcher.not_ours)
        for answer in came:
            if answer.snapshot and answer.cluster == self.policy.site.cluster:
                self._take_home(answer.snapshot)
            if self.recovery.take_answer(answer, self.ledger.all()):
                self.dispatcher.recover()
        if came:
            self.reused_ids.take_answers(came, self.policy, lambda: self.situations.gather(()))

    def _take_home(self, snapshot: ClusterSnapshot) -> None:
        for transfer in self.unheard_ends.take_answer(snapshot, frozenset(self.policy.queues)):
            self.ledger.reopen(transfer)
        for transfer in self.unheard_ends.prove(snapshot):
            self.ledger.prove(transfer)
        self.breakers.prove(snapshot, self.ledger.all())
        self.late_guards.take_answer(snapshot)
        self.mail.take_answer(snapshot, self.answers.good)
