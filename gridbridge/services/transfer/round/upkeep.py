"""What the service does after each answer besides the plan: guards, recalls, leftovers."""

from dataclasses import dataclass

from gridbridge.model.policy import Policy
from gridbridge.services.transfer.breakers import Breakers
from gridbridge.services.transfer.claims import Claims
from gridbridge.services.transfer.cleaner import Cleaner
from gridbridge.services.transfer.guards.copied import CopiedGuards
from gridbridge.services.transfer.guards.missing import GuardRestorer
from gridbridge.services.transfer.ledger import TransferLedger
from gridbridge.services.transfer.mail.unproved import UnverifiedQuota
from gridbridge.services.transfer.moves import TaskMoves
from gridbridge.services.transfer.published.views import PublishedViews
from gridbridge.services.transfer.recalls import RecallService
from gridbridge.services.transfer.round.situations import TransferSituations
from gridbridge.services.transfer.suspensions import Suspensions
from gridbridge.services.watch.observer import ClusterAnswer


@dataclass(slots=True, kw_only=True)
class Reconcilers:
    """The parts that look after jobs that are away, and after what transfers leave behind."""

    policy: Policy
    ledger: TransferLedger
    unproved: UnverifiedQuota
    situations: TransferSituations
    guards: GuardRestorer
    copies: CopiedGuards
    cleaner: Cleaner
    claims: Claims
    recalls: RecallService
    moves: TaskMoves
    suspensions: Suspensions
    views: PublishedViews
    breakers: Breakers

    def follow(self, policy: Policy) -> None:
        """Go on under another configuration."""
        self.policy = policy

    def take_answers(self, came: tuple[ClusterAnswer, ...]) -> None:
        """Look after all of it, once the ledger has what the answers show of transfers."""
        self.guards.take_answers(came, self.policy.site.cluster)
        self.copies.take_answers(came)
        self.cleaner.clean(self.situations.gather(()), self.unproved.names())
        everything = self.situations.gather(self.ledger.all())
        self.claims.decide(everything)
        self.recalls.decide(everything, self.views.troubles(self.breakers.why()))
        self.moves.decide(everything)
        self.suspensions.decide(everything, self.recalls.out())

    def send(self) -> None:
        """Send what the state file now has."""
        self.claims.send()
        self.guards.send()
