"""Have starters put right what is suspended at one side alone.

What the local job is lies where the verdict would, until its owner's starter has told that it
follows: it alone acts on the remote job. A verdict or a recall that comes takes its place.
"""

from collections.abc import Container
from datetime import timedelta

from gridbridge.apply.adapters import ADAPTERS
from gridbridge.apply.transfer.acts import Hands
from gridbridge.decisions.transfer.agreement import Disagreement, disagreement
from gridbridge.decisions.transfer.plan import World
from gridbridge.model.message import Message, Outcome
from gridbridge.model.policy import Policy
from gridbridge.model.transfer.plan import Act, Action
from gridbridge.model.transfer.transfer import Transfer
from gridbridge.services.transfer.ledger import Key, Ledger, key

AGAIN = timedelta(seconds=60)  # a starter's word may have been lost


class Agreements:
    """What the last answers showed, and what starters are told to follow."""

    def __init__(self, policy: Policy, ledger: Ledger, hands: Hands) -> None:
        self._policy = policy
        self._ledger = ledger
        self._hands = hands
        self._seen: dict[Key, Disagreement] = {}
        self._out: dict[Key, Disagreement] = {}

    def follow(self, policy: Policy) -> None:
        """Go on under another configuration."""
        self._policy = policy

    def forget(self) -> None:
        """Count answers anew: the clock was set."""
        self._seen.clear()

    def decide(self, world: World, taken: Container[Key]) -> None:
        """Tell starters what two answers showed, and take back what is done.

        Those in `taken` are being recalled, and have that wish at the same place.
        """
        shows = frozenset(
            name
            for name, cluster in self._policy.clusters.items()
            if ADAPTERS[cluster.kind].shows_suspension
        )
        found = {
            key(one): shown
            for one in self._ledger.all()
            if key(one) not in taken and (shown := disagreement(one, world, shows))
        }
        for each in self._out.keys() - found.keys():
            self._take_back(each, taken)
        before, self._seen = self._seen, found
        for each, shown in found.items():
            if each in before and shown.follows(before[each]):
                self._tell(each, shown)
            elif each in before and shown.is_like(before[each]):
                self._seen[each] = before[each]  # another cluster has answered

    def _tell(self, each: Key, shown: Disagreement) -> None:
        """Show it to the starter; once more when it has led to nothing for long."""
        last = self._out.get(each)
        if last and last.desired == shown.desired and shown.at[0] - last.at[0] < AGAIN:
            return
        one = self._ledger.open[each]
        self._out[each] = shown
        self._ledger.note(one, f"its starter is told: {shown.why}")
        self._hands.publish(
            Action(act=Act.PUBLISH, transfer=one, why=shown.why, verdict=_wish(one, shown))
        )

    def _take_back(self, each: Key, taken: Container[Key]) -> None:
        """Take it back, unless something else lies there by now."""
        del self._out[each]
        one = self._ledger.open.get(each)
        if one and not one.verdict and each not in taken:
            self._hands.retract(one.name, one.uid)


def _wish(one: Transfer, shown: Disagreement) -> Message:
    at = f"{shown.at[0].timestamp():.3f}"
    return Message(
        transfer=one.name, outcome=Outcome.AGREE, desired=shown.desired, at=at, reason=shown.why
    )
