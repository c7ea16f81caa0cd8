"""What the service does after each answer besides the plan: guards, recalls, leftovers."""

from dataclasses import dataclass

from gridbridge.model.policy import Policy
from gridbridge.services.transfer.breakers import Breakers
from gridbridge.services.transfer.claims import Claims
from gridbridge.services.transfer.cleaner import Cleaner
from gridbridge.services.transfer.guards.copied import Copies
from gridbridge.services.transfer.guards.missing import Guards
from gridbridge.services.transfer.ledger import Ledger
from gridbridge.services.transfer.mail.unproved import Unproved
from gridbridge.services.transfer.moves import Moves
from gridbridge.services.transfer.published.views import Views
from gridbridge.services.transfer.recalls import Recalls
from gridbridge.services.transfer.round.situations import Situations
from gridbridge.services.transfer.suspensions import Suspensions
from gridbridge.services.watch.observer import Answer


@dataclass(slots=True, kw_only=True)
class Upkeep:
    """The parts that look after jobs that are away, and after what transfers leave behind."""

    policy: Policy
    ledger: Ledger
    unproved: Unproved
    situations: Situations
    guards: Guards
    copies: Copies
    cleaner: Cleaner
    claims: Claims
    recalls: Recalls
    moves: Moves
    suspensions: Suspensions
    views: Views
    breakers: Breakers

    def follow(self, policy: Policy) -> None:
        """Go on under another configuration."""
        self.policy = policy

    def take_answers(self, came: tuple[Answer, ...]) -> None:
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
