"""Reconcile guards, recalls, moves, suspensions and leftovers after each answer."""

from dataclasses import dataclass

from gridbridge.model.policy import Policy
from gridbridge.program.watch.cluster_observer import ClusterQueryResult
from gridbridge.transfer.poller.breakers import ClusterBreakers
from gridbridge.transfer.poller.claims import TransferClaims
from gridbridge.transfer.poller.cleaner import OrphanCleaner
from gridbridge.transfer.poller.copied_guards import CopiedGuardRemover
from gridbridge.transfer.poller.guard_restorer import GuardRestorer
from gridbridge.transfer.poller.published_views import PublishedViews
from gridbridge.transfer.poller.recalls import RecallService
from gridbridge.transfer.poller.round.situations import TransferSituations
from gridbridge.transfer.poller.suspensions import SuspensionReconciler
from gridbridge.transfer.poller.task_moves import TaskMoveService
from gridbridge.transfer.poller.transfer_ledger import TransferLedger
from gridbridge.transfer.poller.unverified_quota import UnverifiedQuota


@dataclass(slots=True, kw_only=True)
class TransferReconcilers:
    """The reconcilers of guards, recalls, moves, suspensions and leftovers."""

    policy: Policy
    ledger: TransferLedger
    unproved: UnverifiedQuota
    situations: TransferSituations
    guards: GuardRestorer
    copies: CopiedGuardRemover
    cleaner: OrphanCleaner
    claims: TransferClaims
    recalls: RecallService
    moves: TaskMoveService
    suspensions: SuspensionReconciler
    views: PublishedViews
    breakers: ClusterBreakers

    def follow(self, policy: Policy) -> None:
        """Apply a changed configuration."""
        self.policy = policy

    def take_answers(self, came: tuple[ClusterQueryResult, ...]) -> None:
        """Run all reconcilers, once the ledger has the transfers' new states."""
        self.guards.take_answers(came, self.policy.site.cluster)
        self.copies.take_answers(came)
        self.cleaner.clean(self.situations.gather(()), self.unproved.names())
        everything = self.situations.gather(self.ledger.all())
        self.claims.decide(everything)
        self.recalls.decide(everything, self.views.troubles(self.breakers.why()))
        self.moves.decide(everything)
        self.suspensions.decide(everything, self.recalls.out())

    def send(self) -> None:
        """Send the grants and restore the guards that the state file has recorded."""
        self.claims.send()
        self.guards.send()
