"""What decisions about transfers look at, as it is known at a moment."""

import operator
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from gridbridge.decisions.transfer import plan as rules
from gridbridge.decisions.transfer.world import World
from gridbridge.model.policy import Policy
from gridbridge.model.transfer.transfer import Transfer
from gridbridge.services.transfer.ledger import Ledger
from gridbridge.services.transfer.mail.mail import Mail
from gridbridge.services.transfer.strangers import Strangers
from gridbridge.services.watch.answers import Answers
from gridbridge.shell.clock import Clock
from gridbridge.state import spool

PAUSE_S = 10.0  # between two rounds, which come twice a second


@dataclass(slots=True, kw_only=True)
class Worlds:
    """Puts together what is known; remembers since when we listen, and what home wants no more."""

    policy: Policy
    ledger: Ledger
    answers: Answers
    mail: Mail
    strangers: Strangers
    spool: str
    clock: Clock
    since_s: float = field(init=False)  # asking without a pause
    looked_at_s: float = field(init=False)
    unwanted: dict[str, datetime] = field(init=False)  # at home, since when

    def __post_init__(self) -> None:
        self.since_s = self.looked_at_s = self.clock.steady_s()
        self.unwanted = self.clock.dated(operator.add)

    def follow(self, policy: Policy) -> None:
        """Go on under another configuration."""
        self.policy = policy

    def listen_anew(self) -> None:
        """Count no silence from before: not everybody was asked without a pause."""
        self.since_s = self.clock.steady_s()

    def notice_pause(self) -> None:
        """Listen anew if we were stopped meanwhile, and have heard nobody."""
        now_s = self.clock.steady_s()
        if now_s - self.looked_at_s > PAUSE_S:
            self.since_s = now_s
        self.looked_at_s = now_s

    def of(self, concerned: Iterable[Transfer]) -> World:
        """Gather what a decision about these transfers may look at."""
        some = tuple(concerned)
        asleep = (one.wake for one in some if spool.is_asleep(one.wake, one.uid, self.spool))
        return World(
            home=self.policy.site.cluster,
            now=self.clock.now(),
            snapshots=dict(self.answers.good),
            asleep=frozenset(asleep),
            requeued_jobs=rules.requeued_jobs(self.ledger.all()),
            dropped=self.dropped(),
            queues=frozenset(self.policy.queues),
            asked=frozenset(self.mail.questions.asked),
            since=self.clock.moment(self.since_s),
            unwanted=self.unwanted,
            strangers=self.strangers.now(),
        )

    def dropped(self) -> frozenset[str]:
        """Return the clusters of open transfers that gridbridge.toml does not have."""
        return self.ledger.clusters() - self.policy.clusters.keys()

    def note_unwanted(self, transfers: Iterable[Transfer], world: World) -> None:
        """Note since when home deletes their tasks, or lists them no more."""
        for one in transfers:
            if rules.is_unwanted(one, world):
                self.unwanted.setdefault(one.name, world.now)
            else:
                self.unwanted.pop(one.name, None)
