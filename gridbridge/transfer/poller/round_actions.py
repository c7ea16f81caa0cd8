"""Do a round's quick acts at once, and begin slow acts in the owner's threads."""

from collections.abc import Callable, Container
from dataclasses import dataclass

from gridbridge.decisions.transfer import transfer_decisions as rules
from gridbridge.model.policy import Policy
from gridbridge.model.transfer.transfer_round_plan import WORDS, TransferAction, TransferActKind
from gridbridge.model.transfer.transfer_row import Transfer, TransferKey
from gridbridge.model.transfer_message import TransferMessage
from gridbridge.shell.clock import Clock
from gridbridge.transfer.acts.remote_jobs import disputed_end_verdict, untraceable_job_verdict
from gridbridge.transfer.acts.verdict_files import VerdictFilesAndStarterFifos
from gridbridge.transfer.poller.guard_reconcilers import StaleGuardRemover
from gridbridge.transfer.poller.remote_job_claim_granting import RemoteJobClaimService
from gridbridge.transfer.poller.transfer_act_dispatcher import TransferActDispatcher
from gridbridge.transfer.poller.transfer_ledger import TransferLedger
from gridbridge.transfer.poller.usage_records import RemoteUsageService


@dataclass(slots=True, kw_only=True)
class PollRoundActionRunner:
    """Does the planned acts of transfers; no act runs twice at the same time."""

    policy: Policy
    ledger: TransferLedger
    verdicts: VerdictFilesAndStarterFifos
    dispatcher: TransferActDispatcher
    usage_records: RemoteUsageService
    claims: RemoteJobClaimService
    late_guards: StaleGuardRemover
    asked: Container[str]  # names of the clusters that are queried
    over: Callable[[Transfer], None]  # function to call with each closed transfer
    clock: Clock

    def follow(self, policy: Policy) -> None:
        """Apply a changed configuration."""
        self.policy = policy

    def act(self, action: TransferAction) -> None:
        """Do a quick act at once; begin an act at a cluster in the owner's thread."""
        transfer = action.transfer
        if action.act is TransferActKind.CLOSE:
            self._close(action.transfer, action.why)
        elif action.act is TransferActKind.PUBLISH:
            self.usage_records.tell_end(transfer)
            self.verdicts.publish(action)
        elif transfer.remote in self.asked and self.dispatcher.may_begin(action):
            self.ledger.note(transfer, f"{WORDS[action.act]}: {action.why}")
            self.dispatcher.begin(action)

    def look_up(self, cluster: str, ids: frozenset[int]) -> None:
        """Look up job ends that a cluster has pushed, without the usual retry pause."""
        for action in rules.plan_pushed_end_lookups(self.ledger.all(), cluster, ids):
            self.dispatcher.forget(action.transfer.key)
            self.act(action)

    def take_results(self) -> list[TransferKey]:
        """Apply the results of finished acts; return the transfers that changed."""
        changed = []
        for action, verdict in self.dispatcher.take_done():
            transfer = self.ledger.find(action.transfer.key)
            if action.transfer.is_over and action.act is TransferActKind.RELEASE_LOCAL:
                self.late_guards.forget_released(action.transfer)
            elif transfer and not transfer.is_over and self._take_result(action, transfer, verdict):
                changed.append(transfer.key)
        self._tell_not_deleted()
        return changed

    def _tell_not_deleted(self) -> None:
        """Record in histories undeleted remote jobs of owners without an account."""
        for action_of, why in self.dispatcher.not_deleted:
            if (transfer := self.ledger.find(action_of.key)) and not transfer.is_over:
                self.ledger.keep(transfer.but(reason=why))
                self.ledger.note(transfer, why)
        self.dispatcher.not_deleted.clear()

    def _take_result(self, action: TransferAction, transfer: Transfer, verdict: TransferMessage | None) -> bool:
        """Record an act's result; return whether the transfer needs a new decision."""
        if action.act is TransferActKind.RELEASE_LOCAL:
            self._close(transfer, action.why)
            return False
        if action.act is TransferActKind.GUARD_LOCAL:
            return False
        if action.act in (TransferActKind.ADOPT_LOCAL, TransferActKind.UNPIN):
            self.ledger.keep(transfer.but(pinned=action.act is TransferActKind.ADOPT_LOCAL))
            return False
        verdict = self._end(action, transfer, verdict)
        if verdict:
            verdict = self.claims.limited(transfer, verdict)
            verdict = transfer.verdict or verdict
            now = self.clock.now()
            self.ledger.keep(transfer.but(verdict=verdict, cause=verdict.cause, updated_at=now))
        return verdict is not None

    def _end(
        self, action: TransferAction, transfer: Transfer, verdict: TransferMessage | None
    ) -> TransferMessage | None:
        """Return the job's end that a look-up found, or a substitute end for a lost job."""
        is_sought = action.act is TransferActKind.LOOK_UP_END
        if is_disputed := is_sought and transfer.key in self.dispatcher.disputed:
            self.ledger.note(transfer, disputed_end_verdict(action).reason)
        if (
            verdict is None
            and is_sought
            and rules.is_job_end_search_over(transfer, self.policy.poller, self.clock.now())
        ):
            return disputed_end_verdict(action) if is_disputed else untraceable_job_verdict(action)
        return verdict

    def _close(self, transfer: Transfer, why: str) -> None:
        """Close a transfer that no longer has a job."""
        now = self.clock.now()
        closed = transfer.but(closed_at=now, updated_at=now, reason=why)
        self.ledger.keep(closed)
        self.ledger.note(closed, why)
        self.forget(closed)

    def forget(self, closed: Transfer) -> None:
        """Remove a closed transfer's verdict and FIFO, but not yet its record."""
        self.over(closed)
        self.verdicts.tidy(closed)
