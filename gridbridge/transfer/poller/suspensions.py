"""Make starters correct a remote job whose suspension differs from the local job.

The service publishes the local job's state in the verdict's file until the starter reports that
the remote job follows. Only the starter acts on the remote job. A verdict or recall has priority.
"""

from collections import Counter
from collections.abc import Callable, Container

from gridbridge.batch.batch_adapter_table import ADAPTERS
from gridbridge.decisions.transfer.suspension_mismatch import SuspensionMismatch, find_suspension_mismatch
from gridbridge.decisions.transfer.transfer_decision_inputs import TransferDecisionInputs
from gridbridge.model.policy import Policy
from gridbridge.model.transfer.transfer_round_plan import TransferAction, TransferActKind
from gridbridge.model.transfer.transfer_row import Transfer, TransferKey
from gridbridge.model.transfer_message import TransferMessage, TransferOutcome
from gridbridge.program.work.backoff import BackoffBySubject
from gridbridge.transfer.acts.verdict_files import VerdictFilesAndStarterFifos
from gridbridge.transfer.poller.transfer_ledger import TransferLedger

AGAIN_S = 60.0  # first pause between requests to a starter
SELDOM_S = 3600.0  # longest pause between requests to a starter that does nothing
FEW = 3  # number of requests after which the history says that the starter does nothing
WHAT_FOLLOWS = (
    "its starter does not act on suspension requests, which now come less often, at last hourly;"
    " qdel of the local job still deletes the remote job, after half a minute"
)


class SuspensionReconciler:
    """Finds suspension mismatches in snapshots, and requests starters' corrections."""

    def __init__(
        self, policy: Policy, ledger: TransferLedger, verdicts: VerdictFilesAndStarterFifos, clock: Callable[[], float]
    ) -> None:
        self._policy = policy
        self._ledger = ledger
        self._verdicts = verdicts
        self._seen: dict[TransferKey, SuspensionMismatch] = {}
        self._out: dict[TransferKey, SuspensionMismatch] = {}
        self._backoff = BackoffBySubject(clock, AGAIN_S, SELDOM_S)
        self._times: Counter[TransferKey] = Counter()

    def follow(self, policy: Policy) -> None:
        """Apply a changed configuration."""
        self._policy = policy

    def forget(self) -> None:
        """Forget the suspension mismatches in earlier snapshots after a clock change."""
        self._seen.clear()

    def decide(self, situation: TransferDecisionInputs, busy: Container[TransferKey]) -> None:
        """Request corrections after two snapshots with a mismatch; withdraw old requests.

        Transfers in `busy` are being recalled, and their recall requests use the same files.
        """
        shows = frozenset(
            name for name, cluster in self._policy.clusters.items() if ADAPTERS[cluster.kind].shows_suspension
        )
        mismatches = {
            transfer.key: shown
            for transfer in self._ledger.all()
            if transfer.key not in busy and (shown := find_suspension_mismatch(transfer, situation, shows))
        }
        for key in self._out.keys() - mismatches.keys():
            self._take_back(key, busy)
        before, self._seen = self._seen, mismatches
        for key, shown in mismatches.items():
            if key in before and shown.follows(before[key]):
                self._publish_mismatch(key, shown)
            elif key in before and shown.is_like(before[key]):
                self._seen[key] = before[key]  # only one of the two clusters has answered since

    def _publish_mismatch(self, key: TransferKey, shown: SuspensionMismatch) -> None:
        """Publish a suspension request to the starter, again after growing pauses."""
        last = self._out.get(key)
        if last and last.desired != shown.desired:
            self._forget(key)
        if not self._backoff.may_try(key):
            return
        transfer = self._ledger.open[key]
        self._out[key] = shown
        self._times[key] += 1
        if self._times[key] <= FEW:
            self._ledger.note(transfer, f"suspension request to its starter: {shown.why}")
        elif self._times[key] == FEW + 1:
            self._ledger.note(transfer, WHAT_FOLLOWS)
        self._verdicts.publish(
            TransferAction(
                act=TransferActKind.PUBLISH, transfer=transfer, why=shown.why, verdict=_agreement(transfer, shown)
            )
        )

    def _take_back(self, key: TransferKey, busy: Container[TransferKey]) -> None:
        """Withdraw a suspension request, unless a verdict or recall replaced the request."""
        del self._out[key]
        self._forget(key)
        transfer = self._ledger.open.get(key)
        if transfer and not transfer.verdict and key not in busy:
            self._verdicts.retract(transfer.name, transfer.uid)

    def _forget(self, key: TransferKey) -> None:
        """Forget the pauses and the number of a transfer's requests."""
        self._backoff.forget(key)
        self._times.pop(key, None)


def _agreement(transfer: Transfer, shown: SuspensionMismatch) -> TransferMessage:
    at = f"{shown.at[0].timestamp():.3f}"
    return TransferMessage(
        transfer=transfer.name, outcome=TransferOutcome.AGREE, desired=shown.desired, at=at, reason=shown.why
    )
