"""Finds the jobs with a living keeper; each keeper locks the byte of its job's id (fcntl(2)).

The kernel releases the lock when the keeper's process ends, and children don't inherit it. Closing
the file releases the lock as well, so a process opens the file once and never closes it.
"""

import fcntl
import os


class EmbeddedJobKeeperLocks:
    """The file of keeper locks, as one process sees it."""

    def __init__(self, path: str) -> None:
        self._end = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._ours: set[int] = set()

    def take(self, job: int) -> None:
        """Lock a job, as its keeper."""
        fcntl.lockf(self._end, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, job)
        self._ours.add(job)

    def let_go(self, job: int) -> None:
        """Unlock a job, as its keeper."""
        fcntl.lockf(self._end, fcntl.LOCK_UN, 1, job)
        self._ours.discard(job)

    def is_kept(self, job: int) -> bool:
        """Say whether a job has a keeper.

        The test takes a shared lock, so that two concurrent tests don't take each other for a
        keeper.
        """
        if job in self._ours:
            return True
        try:
            fcntl.lockf(self._end, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, job)
        except OSError:
            return True
        fcntl.lockf(self._end, fcntl.LOCK_UN, 1, job)
        return False
