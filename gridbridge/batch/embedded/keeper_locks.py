"""Which jobs have a living keeper: it locks the byte of its job's number (fcntl(2)).

The kernel releases such a lock when its process ends, however that ends, and no child inherits it.
It also releases the lock when the process closes the file once, so a process opens it once and
never closes it.
"""

import fcntl
import os


class KeeperLocks:
    """The file of locks, as one process sees it."""

    def __init__(self, path: str) -> None:
        self._end = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._ours: set[int] = set()

    def take(self, job: int) -> None:
        """Be the keeper of a job until we end or let go."""
        fcntl.lockf(self._end, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, job)
        self._ours.add(job)

    def let_go(self, job: int) -> None:
        """Be its keeper no more."""
        fcntl.lockf(self._end, fcntl.LOCK_UN, 1, job)
        self._ours.discard(job)

    def is_kept(self, job: int) -> bool:
        """Say whether a job has a keeper.

        Asked with a shared lock, so that two who ask at once don't take each other for one.
        """
        if job in self._ours:
            return True
        try:
            fcntl.lockf(self._end, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, job)
        except OSError:
            return True
        fcntl.lockf(self._end, fcntl.LOCK_UN, 1, job)
        return False
