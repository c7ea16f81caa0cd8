"""Remove old data from spool, published files and state file once an hour."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from gridbridge.model.policy import Policy
from gridbridge.program.journal import DecisionJournal
from gridbridge.shell.clock import Clock
from gridbridge.state.database import StateFile
from gridbridge.state.database.snapshots import ClusterQueryLogRows
from gridbridge.state.inbox import SpoolInbox
from gridbridge.transfer.acts.verdict_files import VerdictFiles
from gridbridge.transfer.poller.claims import TransferClaims
from gridbridge.transfer.poller.cleaner import OrphanCleaner
from gridbridge.transfer.poller.history_publication import JobHistoryPublisher
from gridbridge.transfer.poller.transfer_ledger import TransferLedger
from gridbridge.transfer.poller.usage_records import RemoteUsageService
from gridbridge.transfer.store.transfer_rows import TransferRows

SWEEP_S = 3600.0
PORTION_S = 5.0  # between two portions of a long folder sweep
UNFETCHED_S = 86400.0  # age at which unfetched verdicts and replies are removed


@dataclass(slots=True)
class OldDataSweeper:
    """Removes old data once an hour from all parts of the service that store data."""

    policy: Policy
    database: StateFile
    inbox: SpoolInbox
    verdicts: VerdictFiles
    ledger: TransferLedger
    job_history: JobHistoryPublisher
    cleaner: OrphanCleaner
    claims: TransferClaims
    usage_records: RemoteUsageService
    clock: Clock
    swept_at: float = 0.0
    portion_at: float = 0.0

    def follow(self, policy: Policy) -> None:
        """Apply the retention times of a changed configuration."""
        self.policy = policy

    def sweep_if_due(self) -> None:
        """Remove old data once an hour; continue an unfinished folder sweep every 5 s."""
        now_s = self.clock.steady_s()
        if now_s - self.portion_at > PORTION_S:
            self.portion_at = now_s
            self._sweep_names(is_new=False)
        if now_s - self.swept_at > SWEEP_S:
            self.swept_at = now_s
            now = self.clock.now()
            self._sweep(now - timedelta(hours=self.policy.retention.closed_h))
            decided = now - timedelta(hours=self.policy.site.keep_decisions_h)
            DecisionJournal(self.database).forget(decided)

    def _sweep(self, before: datetime) -> None:
        living = tuple(self.ledger.all())
        self._sweep_names(is_new=True)
        self.verdicts.sweep(
            frozenset(transfer.name for transfer in living), self.clock.now_s() - UNFETCHED_S
        )
        self.cleaner.let_go(before)
        TransferRows(self.database).forget(before)
        ClusterQueryLogRows(self.database).forget(before)
        self.job_history.sweep(before, tuple(self.ledger.all()))
        self.usage_records.sweep()

    def _sweep_names(self, *, is_new: bool) -> None:
        """Begin a sweep of the spool's folders, or continue an unfinished sweep."""
        if is_new or self.inbox.is_amid_sweep:
            self.inbox.sweep(frozenset(transfer.wake for transfer in self.ledger.all()))
        if is_new or self.claims.is_amid_sweep:
            self.claims.sweep()
