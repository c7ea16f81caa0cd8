"""Lets starters correct a transfer of which only one half is suspended.

The state of the local job is published in the place of the verdict until the owner's starter, which
alone acts on the remote job, has reported that it follows. A verdict or a recall replaces it.
"""

from collections import Counter
from collections.abc import Callable, Container

from gridbridge.batch.adapters import ADAPTERS
from gridbridge.decisions.transfer.situation import TransferSituation
from gridbridge.decisions.transfer.suspension import SuspensionMismatch, disagreement
from gridbridge.model.message import StarterMessage, TransferOutcome
from gridbridge.model.policy import Policy
from gridbridge.model.transfer.transfer_plan import TransferAct, TransferAction
from gridbridge.model.transfer.transfer_row import Key, Transfer
from gridbridge.program.work.backoff import Backoff
from gridbridge.transfer.acts.verdict_files import VerdictFiles
from gridbridge.transfer.poller.transfer_ledger import TransferLedger

AGAIN_S = 60.0  # a starter's message may have been lost
SELDOM_S = 3600.0  # between two wishes to a starter that does nothing; doubles up to this
FEW = 3  # wishes, after which the history says what follows
WHAT_FOLLOWS = (
    "its starter does not follow, and is told ever more seldom, in the end once an hour;"
    " a deletion here still deletes its remote job, after half a minute"
)


class Suspensions:
    """The disagreements in the last answers, and the wishes to starters."""

    def __init__(
        self,
        policy: Policy,
        ledger: TransferLedger,
        verdicts: VerdictFiles,
        clock: Callable[[], float],
    ) -> None:
        self._policy = policy
        self._ledger = ledger
        self._verdicts = verdicts
        self._seen: dict[Key, SuspensionMismatch] = {}
        self._out: dict[Key, SuspensionMismatch] = {}
        self._backoff = Backoff(clock, AGAIN_S, SELDOM_S)
        self._times: Counter[Key] = Counter()

    def follow(self, policy: Policy) -> None:
        """Go on under another configuration."""
        self._policy = policy

    def forget(self) -> None:
        """Count answers anew: the clock was set."""
        self._seen.clear()

    def decide(self, situation: TransferSituation, taken: Container[Key]) -> None:
        """Publish wishes for what two answers showed, and take back what is done.

        Transfers in `taken` are being recalled, and have that wish in the same place.
        """
        shows = frozenset(
            name
            for name, cluster in self._policy.clusters.items()
            if ADAPTERS[cluster.kind].shows_suspension
        )
        found = {
            one.key: shown
            for one in self._ledger.all()
            if one.key not in taken and (shown := disagreement(one, situation, shows))
        }
        for each in self._out.keys() - found.keys():
            self._take_back(each, taken)
        before, self._seen = self._seen, found
        for each, shown in found.items():
            if each in before and shown.follows(before[each]):
                self._tell(each, shown)
            elif each in before and shown.is_like(before[each]):
                self._seen[each] = before[each]  # another cluster has answered

    def _tell(self, each: Key, shown: SuspensionMismatch) -> None:
        """Publish the wish for the starter, after growing pauses if that changes nothing."""
        last = self._out.get(each)
        if last and last.desired != shown.desired:
            self._forget(each)
        if not self._backoff.may_try(each):
            return
        one = self._ledger.open[each]
        self._out[each] = shown
        self._times[each] += 1
        if self._times[each] <= FEW:
            self._ledger.note(one, f"its starter is told: {shown.why}")
        elif self._times[each] == FEW + 1:
            self._ledger.note(one, WHAT_FOLLOWS)
        self._verdicts.publish(
            TransferAction(
                act=TransferAct.PUBLISH, transfer=one, why=shown.why, verdict=_wish(one, shown)
            )
        )

    def _take_back(self, each: Key, taken: Container[Key]) -> None:
        """Take the wish back, unless something else lies there by now."""
        del self._out[each]
        self._forget(each)
        one = self._ledger.open.get(each)
        if one and not one.verdict and each not in taken:
            self._verdicts.retract(one.name, one.uid)

    def _forget(self, each: Key) -> None:
        """Forget disagreements that are over."""
        self._backoff.forget(each)
        self._times.pop(each, None)


def _wish(one: Transfer, shown: SuspensionMismatch) -> StarterMessage:
    at = f"{shown.at[0].timestamp():.3f}"
    return StarterMessage(
        transfer=one.name,
        outcome=TransferOutcome.AGREE,
        desired=shown.desired,
        at=at,
        reason=shown.why,
    )
