"""What the clusters' answers tell the parts of the service, before anything is decided by them."""

from dataclasses import dataclass

from gridbridge.model.policy import Policy
from gridbridge.model.snapshot import ClusterSnapshot
from gridbridge.services.transfer.breakers import Breakers
from gridbridge.services.transfer.dispatch import Dispatcher
from gridbridge.services.transfer.guards.late import LateGuards
from gridbridge.services.transfer.ledger import Ledger
from gridbridge.services.transfer.mail.mail import Mail
from gridbridge.services.transfer.round.recovery import Recovery
from gridbridge.services.transfer.round.worlds import Worlds
from gridbridge.services.transfer.strangers import Strangers
from gridbridge.services.transfer.unheard import UnheardEnds
from gridbridge.services.watch.observer import Answer


@dataclass(slots=True, kw_only=True)
class Hearing:
    """Those who hear of an answer."""

    policy: Policy
    ledger: Ledger
    unheard_ends: UnheardEnds
    breakers: Breakers
    late_guards: LateGuards
    mail: Mail
    recovery: Recovery
    dispatcher: Dispatcher
    strangers: Strangers
    worlds: Worlds

    def follow(self, policy: Policy) -> None:
        """Go on under another configuration."""
        self.policy = policy

    def hear(self, came: tuple[Answer, ...]) -> None:
        """Take what the clusters answered, and what acts found out about whose jobs are whose."""
        self.strangers.believe(self.dispatcher.not_ours)
        for answer in came:
            if answer.snapshot and answer.cluster == self.policy.site.cluster:
                self._hear_home(answer.snapshot)
            if self.recovery.hear(answer, self.ledger.all()):
                self.dispatcher.recover()
        if came:
            self.strangers.see(came, self.policy, lambda: self.worlds.of(()))

    def _hear_home(self, seen: ClusterSnapshot) -> None:
        for one in self.unheard_ends.hear(seen, frozenset(self.policy.queues)):
            self.ledger.reopen(one)
        for one in self.unheard_ends.prove(seen):
            self.ledger.prove(one)
        self.breakers.prove(seen, self.ledger.all())
        self.late_guards.see(seen)
        self.mail.hear(seen, self.worlds.answers.good)
