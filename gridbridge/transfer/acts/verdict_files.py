"""The service's answers to starters: verdict files, and FIFOs that wake a starter."""

from gridbridge.model.fixed_paths import PUBLISHED, SPOOL
from gridbridge.model.policy import Policy
from gridbridge.model.transfer.transfer_round_plan import TransferAction
from gridbridge.model.transfer.transfer_row import Transfer
from gridbridge.model.transfer_message import TransferMessage, encode_transfer_message
from gridbridge.shell import safe_files
from gridbridge.state import published_file_formats, spool
from gridbridge.state.published_files import UNLISTED, publish_file


class VerdictFilesAndStarterFifos:
    """The verdict files that starters read, and the FIFOs on which starters sleep."""

    def __init__(self, policy: Policy, folder: str = PUBLISHED, spool: str = SPOOL) -> None:
        self._policy = policy
        self._folder = folder
        self._spool = spool

    def follow(self, policy: Policy) -> None:
        """Apply a changed gridbridge.toml to later verdicts and answers."""
        self._policy = policy

    def publish(self, action: TransferAction) -> None:
        """Publish a transfer's verdict and wake the starter."""
        transfer = action.transfer
        if action.verdict:
            path = published_file_formats.transfer_verdict_path(transfer.name, transfer.uid, self._folder)
            publish_file(path, encode_transfer_message(action.verdict), UNLISTED)
        spool.wake_starter(transfer.wake, self._spool, owner=transfer.uid)

    def reply(self, wake: str, uid: int, answer: TransferMessage) -> None:
        """Answer a restarted task's starter and wake the starter, within the uid's limit."""
        if (
            published_file_formats.count_verdicts_and_replies(uid, self._folder)
            < self._policy.poller.spool_files_per_uid
        ):
            publish_file(
                published_file_formats.answer_path_for_starter(wake, uid, self._folder),
                encode_transfer_message(answer),
                UNLISTED,
            )
            spool.wake_starter(wake, self._spool, owner=uid)

    def hide_names(self) -> None:
        """Make the verdict folders unlistable: their file names are names of FIFOs."""
        published_file_formats.set_verdict_folder_modes(UNLISTED, self._folder)

    def is_asleep(self, transfer: Transfer) -> bool:
        """Say whether a transfer's starter sleeps on its FIFO."""
        return spool.is_starter_asleep(transfer.wake, transfer.uid, self._spool)

    def retract(self, name: str, uid: int) -> None:
        """Remove the published verdict of a closed transfer."""
        safe_files.remove_file(published_file_formats.transfer_verdict_path(name, uid, self._folder))

    def tidy(self, closed: Transfer) -> None:
        """Remove the verdict and the FIFO of a closed transfer; safe to repeat."""
        self.retract(closed.name, closed.uid)
        spool.remove_starter_wake_fifo(closed.wake, self._spool)

    def sweep(self, open_transfers: frozenset[str], until: float) -> None:
        """Remove unfetched answers to starters, and unfinished files, older than `until`."""
        published_file_formats.remove_unfetched_published_files(open_transfers, until, self._folder)
