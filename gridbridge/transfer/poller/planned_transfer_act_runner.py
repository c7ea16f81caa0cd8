"""Do the acts that a round of the poller has planned for transfers, and record the results."""

from collections.abc import Callable, Container
from dataclasses import dataclass

from gridbridge.decisions.transfer import transfer_act_decisions
from gridbridge.model.site_configuration import Policy
from gridbridge.model.transfer import transfers_and_actions
from gridbridge.model.transfer.transfers_and_actions import Transfer, TransferAction, TransferActKind, TransferKey
from gridbridge.model.transfer_messages_in_spool import TransferFailureCause, TransferMessage, TransferOutcome
from gridbridge.shell.clock import Clock
from gridbridge.transfer.local_task_acts import ReloadablePollerComponent
from gridbridge.transfer.poller.answers_to_starters import VerdictFilesAndStarterFifos
from gridbridge.transfer.poller.home_start_guard_and_suspension_repair import ClosedTransferHomeTaskReleaser
from gridbridge.transfer.poller.remote_job_claims import RemoteJobClaimService
from gridbridge.transfer.poller.remote_usage_records import RemoteUsageService
from gridbridge.transfer.poller.transfer_acts import TransferActDispatcher
from gridbridge.transfer.poller.transfer_ledger import TransferLedger


@dataclass(slots=True)
class PlannedTransferActRunner(ReloadablePollerComponent):
    """Does the acts that a round has planned; no act runs twice at the same time."""

    policy: Policy
    ledger: TransferLedger
    verdicts: VerdictFilesAndStarterFifos
    dispatcher: TransferActDispatcher
    usage_records: RemoteUsageService
    claims: RemoteJobClaimService
    home_task_releaser: ClosedTransferHomeTaskReleaser
    asked: Container[str]
    over: Callable[[Transfer], None]  # is called with each closed transfer
    clock: Clock

    def do_or_begin_act(self, action: TransferAction) -> None:
        """Do a quick act at once; run an act with a command in a thread of the job's owner."""
        transfer = action.transfer
        if action.act is TransferActKind.CLOSE:
            self._close_transfer(action.transfer, action.why)
        elif action.act is TransferActKind.PUBLISH:
            self.usage_records.store_usage_of_end_message(transfer)
            self.verdicts.publish_verdict_and_wake(action)
        elif transfer.remote in self.asked and self.dispatcher.may_begin_act(action):
            words = transfers_and_actions.TRANSFER_ACT_WORDS[action.act]
            self.ledger.add_history_line(transfer, f"{words}: {action.why}")
            self.dispatcher.begin_act(action)

    def look_up_pushed_job_ends(self, cluster: str, ids: frozenset[int]) -> None:
        """Look up the ends of jobs at once, because the cluster has announced these ends."""
        for action in transfer_act_decisions.plan_pushed_end_lookups(self.ledger.open_transfers(), cluster, ids):
            self.dispatcher.forget_pauses_of_transfer(action.transfer.transfer_key)
            self.do_or_begin_act(action)

    def record_finished_acts(self) -> list[TransferKey]:
        """Record the results of finished acts; return the transfers that changed."""
        changed = []
        for action, verdict in self.dispatcher.take_finished_acts():
            transfer = self.ledger.find_transfer(action.transfer.transfer_key)
            if action.transfer.is_over and action.act is TransferActKind.RELEASE_LOCAL:
                self.home_task_releaser.forget_guard_of_transfer(action.transfer)
            elif transfer and not transfer.is_over and self._record_act_result(action, transfer, verdict):
                changed.append(transfer.transfer_key)
        for action_of, why in self.dispatcher.not_deleted:
            if (transfer := self.ledger.find_transfer(action_of.transfer_key)) and not transfer.is_over:
                self.ledger.store_transfer(transfer.with_changes(reason=why))
                self.ledger.add_history_line(transfer, why)
        self.dispatcher.not_deleted.clear()
        return changed

    def _record_act_result(self, action: TransferAction, transfer: Transfer, verdict: TransferMessage | None) -> bool:
        """Record the result of an act; return whether the transfer needs a new decision."""
        if action.act is TransferActKind.RELEASE_LOCAL:
            self._close_transfer(transfer, action.why)
            return False
        if action.act is TransferActKind.GUARD_LOCAL:
            return False
        if action.act in (TransferActKind.ADOPT_LOCAL, TransferActKind.UNPIN):
            self.ledger.store_transfer(transfer.with_changes(pinned=action.act is TransferActKind.ADOPT_LOCAL))
            return False
        if end := self._remote_job_end_or_search_error(action, transfer, verdict):
            limited = self.claims.limit_fenced_attempts(transfer, end)
            end = transfer.verdict or limited
            self.ledger.store_transfer(transfer.with_changes(verdict=end, cause=end.cause, updated_at=self.clock.now()))
        return end is not None

    def _remote_job_end_or_search_error(
        self, action: TransferAction, transfer: Transfer, verdict: TransferMessage | None
    ) -> TransferMessage | None:
        """Return a job's result if a look-up found it, an error if look-ups failed for too long, otherwise None."""
        is_sought = action.act is TransferActKind.LOOK_UP_END
        job, remote = action.transfer.remote_id, action.transfer.remote
        cause, reason = TransferFailureCause.VANISHED, f"{remote} has no trace of job {job}"
        if is_sought and transfer.transfer_key in self.dispatcher.disputed:
            cause, reason = TransferFailureCause.DISPUTED, f"two records of job {job} at {remote} disagree on its end"
            self.ledger.add_history_line(transfer, reason)
        now, policy = self.clock.now(), self.policy.poller
        if verdict or not is_sought or not transfer_act_decisions.is_job_end_search_over(transfer, policy, now):
            return verdict
        return TransferMessage(transfer=transfer.name, outcome=TransferOutcome.ERROR, cause=cause, reason=reason)

    def _close_transfer(self, transfer: Transfer, why: str) -> None:
        now = self.clock.now()
        closed = transfer.with_changes(closed_at=now, updated_at=now, reason=why)
        self.ledger.store_transfer(closed)
        self.ledger.add_history_line(closed, why)
        self.forget_closed_transfer(closed)

    def forget_closed_transfer(self, closed: Transfer) -> None:
        self.over(closed)
        self.verdicts.remove_files_of_closed_transfer(closed)
