"""Answer starters: publish the results of remote jobs, wake starters, and tell restarted tasks their transfer."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from gridbridge.decisions.transfer.home_and_remote_mismatches import (
    does_ended_task_wait_at_home,
    ended_transfer_of_requeued_job,
    is_ended_task_gone_from_home,
    may_home_have_missed_task_end,
)
from gridbridge.decisions.transfer.starter_message_acceptance import (
    describe_invalid_message_value,
    has_home_reused_job_number,
    is_new_starter_of_dying_task,
    transfer_for_restarted_task,
)
from gridbridge.decisions.transfer.transfer_act_decisions import NUMBER_REUSED, is_home_job_id_reused
from gridbridge.decisions.transfer.transfers_in_job_lists import prove_ended_transfer_owner
from gridbridge.model.cluster_snapshot import ClusterSnapshot
from gridbridge.model.fixed_paths import PUBLISHED, SPOOL
from gridbridge.model.site_configuration import Policy
from gridbridge.model.transfer.transfers_and_actions import (
    RejectedStarterMessage,
    Transfer,
    TransferAction,
    TransferKey,
)
from gridbridge.model.transfer_messages_in_spool import (
    DesiredLocalJobState,
    StarterPhase,
    TransferMessage,
    encode_transfer_message,
)
from gridbridge.model.transfer_name import parse_transfer_name
from gridbridge.program.cluster_observer import ClusterQueryResult
from gridbridge.shell import safe_files
from gridbridge.shell.clock import Clock
from gridbridge.state import published_file_formats, spool
from gridbridge.state.published_files import UNLISTED, publish_file
from gridbridge.state.spool_inbox import StarterMessageInbox
from gridbridge.state.spool_reader import MessageWithAuthorUid
from gridbridge.state.state_file import StateFile
from gridbridge.transfer.local_task_acts import ReloadablePollerComponent
from gridbridge.transfer.poller.transfer_ledger import TransferLedger
from gridbridge.transfer.transfer_history_rows import TransferRows


class VerdictFilesAndStarterFifos(ReloadablePollerComponent):
    """Writes the files in which starters read the service's answers, and wakes sleeping starters."""

    def __init__(self, policy: Policy, folder: str = PUBLISHED, spool: str = SPOOL) -> None:
        super().__init__(policy)
        self._folder, self._spool = folder, spool

    def publish_verdict_and_wake(self, action: TransferAction) -> None:
        """Publish the result of a remote job, if known, and wake the starter."""
        transfer = action.transfer
        if action.verdict:
            path = published_file_formats.transfer_verdict_path(transfer.name, transfer.uid, self._folder)
            publish_file(path, encode_transfer_message(action.verdict), UNLISTED)
        spool.wake_starter(transfer.wake, self._spool, owner=transfer.uid)

    def publish_answer_and_wake(self, wake: str, uid: int, answer: TransferMessage) -> None:
        """Answer and wake the starter of a restarted task, unless user `uid` has too many unread answers."""
        count = published_file_formats.count_verdicts_and_replies(uid, self._folder)
        if count < self.policy.poller.spool_files_per_uid:
            path = published_file_formats.answer_path_for_starter(wake, uid, self._folder)
            publish_file(path, encode_transfer_message(answer), UNLISTED)
            spool.wake_starter(wake, self._spool, owner=uid)

    def hide_verdict_file_names(self) -> None:
        """Make the folders of answers to starters unlistable, because their file names reveal the names of FIFOs."""
        published_file_formats.set_verdict_folder_modes(UNLISTED, self._folder)

    def is_starter_asleep(self, transfer: Transfer) -> bool:
        return spool.is_starter_asleep(transfer.wake, transfer.uid, self._spool)

    def remove_verdict_file(self, name: str, uid: int) -> None:
        """Remove the published result of a remote job, or the published request to a starter."""
        safe_files.remove_file(published_file_formats.transfer_verdict_path(name, uid, self._folder))

    def remove_files_of_closed_transfer(self, closed: Transfer) -> None:
        """Remove the published result and the FIFO of a closed transfer; safe to repeat."""
        self.remove_verdict_file(closed.name, closed.uid)
        spool.remove_starter_wake_fifo(closed.wake, self._spool)

    def sweep_unread_verdicts(self, open_transfers: frozenset[str], until: float) -> None:
        """Remove answers about closed transfers, and incomplete files, if both are older than `until`."""
        published_file_formats.remove_unfetched_published_files(open_transfers, until, self._folder)


RECENT = timedelta(hours=1)  # a qmaster declares a silent execd lost within this time


class UndeliveredTaskEndTracker:
    """Watches closed transfers whose end the qmaster at home may have missed."""

    def __init__(self, database: StateFile, clock: Clock) -> None:
        self._ended: dict[TransferKey, Transfer] = clock.make_clock_shifted_dictionary(Transfer.shift_times)
        # closed transfers whose owner no home job list has proved or refuted yet
        self._unproved: dict[TransferKey, Transfer] = clock.make_clock_shifted_dictionary(Transfer.shift_times)
        self._transfers = TransferRows(database)

    def load_closed_transfers(self, now: datetime) -> None:
        """Watch the transfers that an earlier poller process closed recently."""
        for transfer in self._transfers.transfers_closed_since(now - RECENT):
            self.watch_closed_transfer(transfer.limit_times(now))

    def watch_closed_transfer(self, closed: Transfer) -> None:
        """Watch a closed transfer until its task leaves the home job list."""
        if may_home_have_missed_task_end(closed):
            self._ended[closed.transfer_key] = closed
        if not closed.listed:
            self._unproved[closed.transfer_key] = closed

    def watched_local_jobs(self) -> set[int]:
        """Return the ids of the local jobs that the next home job list must show."""
        watched = (*self._ended.values(), *self._unproved.values())
        return {parse_transfer_name(transfer.name).job for transfer in watched}

    def take_transfers_with_checked_owner(self, local: ClusterSnapshot) -> tuple[Transfer, ...]:
        """Return the closed transfers whose owner is proved or refuted by a home job list."""
        due = [transfer for transfer in self._unproved.values() if transfer.is_unchanged_since_query(local.taken_at)]
        for transfer in due:
            del self._unproved[transfer.transfer_key]
        proved = (transfer.with_changes(listed=prove_ended_transfer_owner(transfer, local)) for transfer in due)
        return tuple(transfer for transfer in proved if transfer.listed)

    def is_closed_transfer_watched(self, closed: Transfer) -> bool:
        """Return whether the home job list has shown the task ever since its transfer closed."""
        return closed.transfer_key in self._ended

    def take_requeued_transfers(self, local: ClusterSnapshot, queues: frozenset[str]) -> tuple[Transfer, ...]:
        """Return closed transfers whose task waits at home again.

        Tasks that are gone from home, or whose job number is reused, are forgotten.
        """
        unheard = []
        for key, transfer in tuple(self._ended.items()):
            if does_ended_task_wait_at_home(transfer, local):
                unheard.append(self._ended.pop(key))
            elif is_ended_task_gone_from_home(transfer, local) or is_home_job_id_reused(transfer, local, queues):
                del self._ended[key]
        return tuple(unheard)


@dataclass(eq=False)
class RestartedTaskQuestionResponder:
    _ledger: TransferLedger
    _inbox: StarterMessageInbox
    _verdicts: VerdictFilesAndStarterFifos
    _unheard_ends: UndeliveredTaskEndTracker
    _clock: Clock

    def __post_init__(self) -> None:
        # transfers that are being deleted and whose tasks have new starters
        self.with_new_starter: set[TransferKey] = set()

    def answer_starter_of_restarted_task(self, spooled: MessageWithAuthorUid) -> RejectedStarterMessage | None:
        """Answer a starter that asks which transfer its restarted task has; reject an invalid question."""
        message = spooled.message
        if describe_invalid_message_value(message) or not message.wake:
            return RejectedStarterMessage(what="question", reason="invalid value, or no FIFO for the answer")
        found = self._transfers_of_task_with_last_reopened(spooled)
        attempts = tuple(self._delete_transfer_if_job_number_reused(transfer, message) for transfer in found)
        dying = (transfer.transfer_key for transfer in attempts if is_new_starter_of_dying_task(transfer, message))
        self.with_new_starter.update(dying)
        asleep = [transfer.wake for transfer in attempts if self._verdicts.is_starter_asleep(transfer)]
        if reply := transfer_for_restarted_task(attempts, message, asleep):
            replied = self._ledger.find_transfer((reply.transfer, spooled.uid))
            stage = self._inbox.staged_folder_of_record(replied.record) if replied else ""
            self._verdicts.publish_answer_and_wake(message.wake, spooled.uid, reply.with_changes(stage=stage))
        return None

    def _transfers_of_task_with_last_reopened(self, spooled: MessageWithAuthorUid) -> tuple[Transfer, ...]:
        """Return a task's transfers; reopen the last transfer if home may have missed its end."""
        message, uid = spooled.message, spooled.uid
        attempts = self._ledger.attempts_of_task(message.transfer, uid)
        ended = ended_transfer_of_requeued_job(attempts, message)
        if not ended or not self._unheard_ends.is_closed_transfer_watched(ended):
            return attempts
        self._ledger.reopen_transfer(ended)
        return self._ledger.attempts_of_task(message.transfer, uid)

    def _delete_transfer_if_job_number_reused(self, transfer: Transfer, message: TransferMessage) -> Transfer:
        """Begin to delete a transfer if home has reused the transfer's job number."""
        is_live = not transfer.is_over and transfer.desired != DesiredLocalJobState.DEAD
        if not is_live or transfer.wake == message.wake:
            return transfer
        if not has_home_reused_job_number(message, self._inbox.submission_time_of_record(transfer.record)):
            return transfer
        transfer = transfer.with_changes(
            desired=DesiredLocalJobState.DEAD, updated_at=self._clock.now(), reason=NUMBER_REUSED
        )
        self._ledger.store_transfer(transfer)
        self._ledger.add_history_line(transfer, NUMBER_REUSED)
        return transfer


class StarterWakerAfterClusterSilence:
    """Wakes starters that wait to submit to a silent cluster, once the cluster answers again."""

    def __init__(self, folder: str) -> None:
        self._silent: set[str] = set()
        self._folder = folder

    def wake_starters_after_silence(self, answer: ClusterQueryResult, transfers: Iterable[Transfer]) -> bool:
        """Wake starters if the answer ends the cluster's silence; return whether the silence ended."""
        if answer.snapshot is None:
            self._silent.add(answer.cluster)
        elif answer.cluster in self._silent:
            self._silent.discard(answer.cluster)
            for transfer in transfers:
                if transfer.remote == answer.cluster and transfer.phase == StarterPhase.SUBMITTING:
                    spool.wake_starter(transfer.wake, self._folder, owner=transfer.uid)
            return True
        return False
