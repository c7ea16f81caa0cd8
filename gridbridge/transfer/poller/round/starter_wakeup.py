"""Wakes starters that could not submit to a cluster as soon as it answers again."""

from collections.abc import Iterable

from gridbridge.model.message import StarterPhase
from gridbridge.model.transfer.transfer_row import Transfer
from gridbridge.program.watch.cluster_observer import ClusterAnswer
from gridbridge.state import spool


class StarterWakeup:
    """Remembers which clusters are silent; a starter's pauses grow as long as one is."""

    def __init__(self, folder: str) -> None:
        self._silent: set[str] = set()
        self._folder = folder

    def take_answer(self, answer: ClusterAnswer, transfers: Iterable[Transfer]) -> bool:
        """Take an answer; the first good one after silence wakes starters that wait to submit.

        Returns whether it is that answer.
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
                spool.wake(transfer.wake, self._folder, owner=transfer.uid)
