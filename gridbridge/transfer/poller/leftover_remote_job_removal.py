"""Delete remote jobs that outlive their transfer or belong to no transfer, and old files and database rows."""

import logging
from collections.abc import Callable, Container
from concurrent.futures import Future
from dataclasses import InitVar, dataclass
from datetime import datetime, timedelta

from gridbridge.decisions.transfer import home_and_remote_mismatches
from gridbridge.decisions.transfer.transfers_in_job_lists import TransferSituation
from gridbridge.model.site_configuration import Policy
from gridbridge.model.transfer.transfers_and_actions import OrphanRemoteJob, Transfer, TransferAction, TransferKey
from gridbridge.program.threads_and_backoff import BackoffBySubject, OwnerThreadPools
from gridbridge.shell.clock import Clock
from gridbridge.state.cluster_query_tables import ClusterQueryLog
from gridbridge.state.decision_journal import DecisionJournal
from gridbridge.state.spool_inbox import StarterMessageInbox
from gridbridge.state.state_file import StateFile
from gridbridge.transfer.local_task_acts import ReloadablePollerComponent
from gridbridge.transfer.poller.answers_to_starters import VerdictFilesAndStarterFifos
from gridbridge.transfer.poller.remote_job_claims import RemoteJobClaimService
from gridbridge.transfer.poller.remote_usage_records import RemoteUsageService
from gridbridge.transfer.poller.transfer_acts import RemoteJobActs
from gridbridge.transfer.poller.transfer_ledger import TaskHistoryPublisher, TransferLedger
from gridbridge.transfer.transfer_history_rows import TransferRows

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class OrphanRemoteJobCleaner:
    """Deletes leftover remote jobs, and the files of ended transfers."""

    _ledger: TransferLedger
    _inbox: StarterMessageInbox
    _remote: RemoteJobActs
    _workers: OwnerThreadPools
    _claims: RemoteJobClaimService
    _act: Callable[[TransferAction], None]
    clock: InitVar[Callable[[], float]]

    def __post_init__(self, clock: Callable[[], float]) -> None:
        self._backoff = BackoffBySubject(clock)
        self._unstaging: dict[TransferKey, Future[None]] = {}
        self._deleting: dict[tuple[str, int], Future[None]] = {}

    def delete_leftover_jobs(self, situation: TransferSituation, waiting: Container[tuple[str, str]] = ()) -> None:
        """Delete remote jobs that outlive their reported end, and jobs of no transfer unless they are in `waiting`."""
        for orphan in home_and_remote_mismatches.find_orphan_jobs(self._ledger.open_transfers(), situation):
            if (orphan.name, orphan.owner) not in waiting:
                self._begin_orphan_deletion(orphan)
        closed = tuple(self._ledger.ended.values())
        ended = (transfer for transfer in self._ledger.open_transfers() if transfer.verdict)
        for action in home_and_remote_mismatches.plan_outliving_job_deletions((*ended, *closed), situation):
            self._act(action)
        for transfer in closed:
            if home_and_remote_mismatches.is_remote_job_unlisted(transfer, situation):
                is_unstaged = self._is_remote_folder_removed(transfer)
                if self._claims.are_claim_files_removed(transfer) and is_unstaged:
                    self._stop_watching_ended_transfer(transfer)

    def stop_watching_old_transfers(self, before: datetime) -> None:
        """Stop watching transfers that closed before a time; log the files that remain at remote clusters."""
        for transfer in tuple(self._ledger.ended.values()):
            if transfer.closed_at and transfer.closed_at < before:
                of = f"cluster={transfer.remote} owner={transfer.owner}"
                if folder := self._inbox.staged_folder_of_record(transfer.record):
                    held = home_and_remote_mismatches.may_remote_folder_have_outputs(transfer)
                    why = "the outputs may be missing at home" if held else "the folder could not be removed"
                    _log.error("event=left_behind %s folder=%s why=%r", of, folder, why)
                if transfer.claimed:
                    why = "the remote job may still start"
                    _log.error("event=left_behind %s claim=%s why=%r", of, transfer.claim, why)
                self._stop_watching_ended_transfer(transfer)

    def _is_remote_folder_removed(self, ended_transfer: Transfer) -> bool:
        """Say whether a transfer's remote folder is gone; if not, begin to remove the folder."""
        name = ended_transfer.transfer_key
        if name in self._unstaging and self._unstaging[name].done():
            removal = self._unstaging.pop(name)
            if not removal.exception():
                self._backoff.forget_failed_tries(name)
                return True
            _log.warning("event=failed act=unstage name=%s why=%r", name[0], str(removal.exception()))
        if name in self._unstaging:
            return False
        if not (folder := self._inbox.staged_folder_of_record(ended_transfer.record)):
            return True
        if home_and_remote_mismatches.may_remote_folder_have_outputs(ended_transfer):
            self._ledger.add_history_line(
                ended_transfer, f"outputs may be missing at home: kept at {ended_transfer.remote}, {folder}"
            )
            return False
        if self._backoff.may_try(name):
            self._unstaging[name] = self._workers.run_call_in_thread(
                ended_transfer.owner, self._remote.remove_staged_files, ended_transfer
            )
        return False

    def _stop_watching_ended_transfer(self, ended_transfer: Transfer) -> None:
        """Remove a transfer's message file and then its row: a message without a row would look new."""
        self._inbox.remove_stored_message(ended_transfer.record)
        self._ledger.stop_watching_remote_job(ended_transfer)

    def _begin_orphan_deletion(self, orphan: OrphanRemoteJob) -> None:
        for finished in [finished for finished, deletion in self._deleting.items() if deletion.done()]:
            # at a cluster reached by ssh, the service may lack the rights of an operator
            if error := self._deleting.pop(finished).exception():
                _log.warning("event=failed act=delete_orphan cluster=%s job=%d why=%r", *finished, str(error))
        job = orphan.cluster, orphan.job_id
        if job in self._deleting or not self._backoff.may_try(job):
            return
        where = f"cluster={orphan.cluster} name={orphan.name} job={orphan.job_id}"
        _log.warning("event=orphan %s why=%r", where, orphan.why)
        self._deleting[job] = self._workers.run_call_in_thread(orphan.owner, self._remote.delete_orphan_job, orphan)


SWEEP_S = 3600.0
FOLDER_SWEEP_PAUSE_S = 5.0
UNREAD_RESULT_AGE_S = 86400.0


@dataclass(slots=True)
class OldTransferDataSweeper(ReloadablePollerComponent):
    """Removes old rows and files of all parts of the service once an hour."""

    policy: Policy
    database: StateFile
    inbox: StarterMessageInbox
    verdicts: VerdictFilesAndStarterFifos
    ledger: TransferLedger
    job_history: TaskHistoryPublisher
    cleaner: OrphanRemoteJobCleaner
    claims: RemoteJobClaimService
    usage_records: RemoteUsageService
    clock: Clock
    swept_at: float = 0.0
    portion_at: float = 0.0

    def sweep_old_data_if_due(self) -> None:
        """Remove old data once an hour; continue the clean-up of a large folder every 5 s."""
        now_s = self.clock.steady_s()
        if now_s - self.portion_at > FOLDER_SWEEP_PAUSE_S:
            self.portion_at = now_s
            self._sweep_spool_and_claim_folders(is_new=False)
        if now_s - self.swept_at > SWEEP_S:
            self.swept_at = now_s
            now = self.clock.now()
            self._remove_data_older_than(now - timedelta(hours=self.policy.retention.closed_h))
            oldest_kept = now - timedelta(hours=self.policy.site.keep_decisions_h)
            DecisionJournal(self.database).delete_old_decisions(oldest_kept)

    def _remove_data_older_than(self, before: datetime) -> None:
        living = tuple(self.ledger.open_transfers())
        self._sweep_spool_and_claim_folders(is_new=True)
        names, until_s = frozenset(transfer.name for transfer in living), self.clock.now_s() - UNREAD_RESULT_AGE_S
        self.verdicts.sweep_unread_verdicts(names, until_s)
        self.cleaner.stop_watching_old_transfers(before)
        TransferRows(self.database).delete_closed_transfers(before)
        ClusterQueryLog(self.database).delete_old_queries(before)
        self.job_history.sweep_histories(before, tuple(self.ledger.open_transfers()))
        self.usage_records.sweep_usage()

    def _sweep_spool_and_claim_folders(self, *, is_new: bool) -> None:
        if is_new or self.inbox.is_fifo_sweep_unfinished:
            self.inbox.remove_old_fifos(frozenset(transfer.wake for transfer in self.ledger.open_transfers()))
        if is_new or self.claims.is_claim_file_sweep_unfinished:
            self.claims.sweep_claim_files()
