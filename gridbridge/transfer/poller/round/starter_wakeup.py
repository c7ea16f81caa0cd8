"""Wake starters that failed to submit to a cluster once the cluster answers."""

from collections.abc import Iterable

from gridbridge.model.message import StarterPhase
from gridbridge.model.transfer.transfer_row import Transfer
from gridbridge.program.watch.cluster_observer import ClusterQueryResult
from gridbridge.state import spool


class StarterWakeup:
    """Remembers silent clusters, for which starters pause ever longer between tries."""

    def __init__(self, folder: str) -> None:
        self._silent: set[str] = set()
        self._folder = folder

    def take_answer(self, answer: ClusterQueryResult, transfers: Iterable[Transfer]) -> bool:
        """Wake starters that wait to submit when a silent cluster answers again.

        Return whether the answer ended a cluster's silence.
        """
        if answer.snapshot is None:
            self._silent.add(answer.cluster)
        elif answer.cluster in self._silent:
            self._silent.discard(answer.cluster)
            self._wake(transfer for transfer in transfers if transfer.remote == answer.cluster)
            return True
        return False

    def _wake(self, transfers: Iterable[Transfer]) -> None:
        for transfer in transfers:
            if transfer.phase == StarterPhase.SUBMITTING:
                spool.wake_starter(transfer.wake, self._folder, owner=transfer.uid)
