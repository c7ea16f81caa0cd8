"""Remove guards that the service restored after a starter had released the task.

A task with such a guard would wait for ever, so the service releases the task once its transfer is
over. A later process retries: the state file records each restored guard.
"""

from datetime import datetime

from gridbridge.decisions.transfer import local_guards
from gridbridge.decisions.transfer.local_guards import is_ended_task_gone, is_newer_than_end
from gridbridge.model.ids import parse_transfer
from gridbridge.model.snapshot import ClusterSnapshot
from gridbridge.model.transfer.transfer_plan import TransferAct, TransferAction
from gridbridge.model.transfer.transfer_row import Transfer, TransferKey
from gridbridge.shell.clock import Clock
from gridbridge.state.database import StateFile
from gridbridge.transfer.poller.dispatcher import ActDispatcher
from gridbridge.transfer.poller.transfer_ledger import TransferLedger
from gridbridge.transfer.store.transfer_rows import TransferRows

WHY = "its guard may have been restored after its release"


class StaleGuardRemover:
    """The closed transfers whose local tasks may still be guarded."""

    def __init__(
        self, database: StateFile, ledger: TransferLedger, dispatcher: ActDispatcher, clock: Clock
    ) -> None:
        self._transfers = TransferRows(database)
        self._ledger = ledger
        self._dispatcher = dispatcher
        self._left: dict[TransferKey, Transfer] = clock.dated(Transfer.moved)

    def load(self, now: datetime) -> None:
        """Load the closed transfers whose tasks an earlier process may have left guarded."""
        for transfer in self._transfers.reguarded():
            self.remember(transfer.not_after(now))

    def remember(self, closed: Transfer) -> None:
        """Remember a closed transfer if its task may still be guarded."""
        if local_guards.may_guard_be_late(closed):
            self._left[closed.key] = closed

    def jobs(self) -> set[int]:
        """Return the local job ids that the home cluster's next snapshot must keep."""
        return {parse_transfer(transfer.name).job for transfer in self._left.values()}

    def take_answer(self, local: ClusterSnapshot) -> None:
        """Release closed transfers' tasks that home lists, except tasks sent again."""
        for transfer in tuple(self._left.values()):
            if is_ended_task_gone(transfer, local) or self._is_sent_anew(transfer):
                self.forget_released(transfer)
            elif is_newer_than_end(transfer, local):
                self._let_go(transfer)

    def forget_released(self, transfer: Transfer) -> None:
        """Record that a closed transfer's task was released or is gone."""
        if self._left.pop(transfer.key, None):
            self._ledger.release(transfer)

    def _let_go(self, transfer: Transfer) -> None:
        """Release a task, unless a thread is about to restore the task's guard."""
        action = TransferAction(act=TransferAct.RELEASE_LOCAL, transfer=transfer, why=WHY)
        guarding = TransferAction(act=TransferAct.GUARD_LOCAL, transfer=transfer, why=WHY)
        if self._dispatcher.may_begin(action) and self._dispatcher.may_begin(guarding):
            self._dispatcher.begin(action)

    def _is_sent_anew(self, transfer: Transfer) -> bool:
        return self._ledger.attempts(transfer.name, transfer.uid)[-1].name != transfer.name
