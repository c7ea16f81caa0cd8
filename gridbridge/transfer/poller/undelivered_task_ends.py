"""Watch closed transfers whose local tasks the home cluster may still list."""

from datetime import datetime, timedelta

from gridbridge.decisions.transfer.local_task_ownership import prove_ended_transfer_owner
from gridbridge.decisions.transfer.transfer_decisions import is_home_job_id_reused
from gridbridge.decisions.transfer.undelivered_ends_and_guards import (
    does_ended_task_wait_at_home,
    is_ended_task_gone_from_home,
    may_home_have_missed_task_end,
)
from gridbridge.model.cluster_snapshot import ClusterSnapshot
from gridbridge.model.transfer.transfer_row import Transfer, TransferKey
from gridbridge.model.transfer_name import parse_transfer_name
from gridbridge.shell.clock import Clock
from gridbridge.state.database import StateFile
from gridbridge.transfer.store.transfer_rows import TransferRows

RECENT = timedelta(hours=1)  # longest time after which a qmaster gives up a silent execd


class UndeliveredTaskEndTracker:
    """The closed transfers whose end the qmaster at home may have missed."""

    def __init__(self, database: StateFile, clock: Clock) -> None:
        self._ended: dict[TransferKey, Transfer] = clock.dated(Transfer.moved)
        # closed transfers whose tasks the home cluster was not yet queried about
        self._unproved: dict[TransferKey, Transfer] = clock.dated(Transfer.moved)
        self._transfers = TransferRows(database)

    def load(self, now: datetime) -> None:
        """Load the transfers that an earlier process has closed recently."""
        for transfer in self._transfers.closed_since(now - RECENT):
            self.remember(transfer.not_after(now))

    def remember(self, closed: Transfer) -> None:
        """Watch a closed transfer until the home cluster no longer lists its task."""
        if may_home_have_missed_task_end(closed):
            self._ended[closed.key] = closed
        if not closed.listed:
            self._unproved[closed.key] = closed

    def jobs(self) -> set[int]:
        """Return the local job ids that the home cluster's next snapshot must keep."""
        watched = (*self._ended.values(), *self._unproved.values())
        return {parse_transfer_name(transfer.name).job for transfer in watched}

    def prove(self, local: ClusterSnapshot) -> tuple[Transfer, ...]:
        """Return closed transfers whose owner a home snapshot confirms or denies."""
        due = [transfer for transfer in self._unproved.values() if transfer.is_older_than(local.taken_at)]
        for transfer in due:
            del self._unproved[transfer.key]
        proved = (transfer.but(listed=prove_ended_transfer_owner(transfer, local)) for transfer in due)
        return tuple(transfer for transfer in proved if transfer.listed)

    def awaits(self, closed: Transfer) -> bool:
        """Return whether home has listed a task ever since its transfer closed."""
        return closed.key in self._ended

    def take_answer(self, local: ClusterSnapshot, queues: frozenset[str] = frozenset()) -> tuple[Transfer, ...]:
        """Return closed transfers whose end the qmaster missed, so the task waits again.

        A transfer is forgotten if its job number now belongs to another job, which began outside
        the transfer `queues`: the qmaster may requeue that job, and its starter may ask.
        """
        unheard = tuple(transfer for transfer in self._ended.values() if does_ended_task_wait_at_home(transfer, local))
        for key, transfer in tuple(self._ended.items()):
            if (
                transfer in unheard
                or is_ended_task_gone_from_home(transfer, local)
                or is_home_job_id_reused(transfer, local, queues)
            ):
                del self._ended[key]
        return unheard
