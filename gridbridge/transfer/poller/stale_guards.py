"""Removes guards that we put back too late: after their starters had released the tasks.

Such a task would wait for ever. So once its transfer is over its guard is removed, with retries
even in a later process: the state file knows that it was guarded.
"""

from datetime import datetime

from gridbridge.decisions.transfer import guard_restoration
from gridbridge.decisions.transfer.undelivered_end_rules import is_gone, is_news
from gridbridge.model.ids import parse_transfer
from gridbridge.model.snapshot import ClusterSnapshot
from gridbridge.model.transfer.transfer_plan import TransferAct, TransferAction
from gridbridge.model.transfer.transfer_row import Key, Transfer
from gridbridge.shell.clock import Clock
from gridbridge.state.database import StateFile
from gridbridge.transfer.poller.dispatcher import Dispatcher
from gridbridge.transfer.poller.transfer_ledger import TransferLedger
from gridbridge.transfer.store.transfer_rows import TransferRows

WHY = "its guard may have come too late"


class StaleGuards:
    """The transfers that are over but whose tasks may be guarded."""

    def __init__(
        self, database: StateFile, ledger: TransferLedger, dispatcher: Dispatcher, clock: Clock
    ) -> None:
        self._transfers = TransferRows(database)
        self._ledger = ledger
        self._dispatcher = dispatcher
        self._left: dict[Key, Transfer] = clock.dated(Transfer.moved)

    def load(self, now: datetime) -> None:
        """Load the transfers that an earlier process may have left."""
        for transfer in self._transfers.reguarded():
            self.remember(transfer.not_after(now))

    def remember(self, closed: Transfer) -> None:
        """Remember a transfer that is over."""
        if guard_restoration.may_be_late(closed):
            self._left[closed.key] = closed

    def jobs(self) -> set[int]:
        """Return the local jobs that home's next answer has to show."""
        return {parse_transfer(transfer.name).job for transfer in self._left.values()}

    def take_answer(self, local: ClusterSnapshot) -> None:
        """Release the tasks that home still lists, except those that were sent again."""
        for transfer in tuple(self._left.values()):
            if is_gone(transfer, local) or self._is_sent_anew(transfer):
                self.forget_released(transfer)
            elif is_news(transfer, local):
                self._let_go(transfer)

    def forget_released(self, transfer: Transfer) -> None:
        """Note that a task was released, or that it is gone."""
        if self._left.pop(transfer.key, None):
            self._ledger.release(transfer)

    def _let_go(self, transfer: Transfer) -> None:
        """Release a task once no thread is about to guard it."""
        action = TransferAction(act=TransferAct.RELEASE_LOCAL, transfer=transfer, why=WHY)
        guarding = TransferAction(act=TransferAct.GUARD_LOCAL, transfer=transfer, why=WHY)
        if self._dispatcher.may_begin(action) and self._dispatcher.may_begin(guarding):
            self._dispatcher.begin(action)

    def _is_sent_anew(self, transfer: Transfer) -> bool:
        return self._ledger.attempts(transfer.name, transfer.uid)[-1].name != transfer.name
