"""Query a cluster about many jobs in a thread, one query at a time."""

import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from gridbridge.errors import GridbridgeError, describe_error
from gridbridge.program.work.workers import OwnerThreadPools

AT_ONCE = 100  # jobs in one query

Subject = TypeVar("Subject")
Told = TypeVar("Told")

_log = logging.getLogger(__name__)


class BackgroundQuery(Generic[Subject, Told]):
    """A repeated query that runs in a thread, with a pause between two queries."""

    def __init__(
        self,
        workers: OwnerThreadPools,
        cluster: str,
        name: str,
        ask: Callable[[Subject], Told],
        clock: Callable[[], float],
        pause_s: float = 0.0,
        first_s: float = 0.0,
    ) -> None:
        self._workers = workers
        self._cluster = cluster
        self._name = name
        self._ask = ask
        self._clock = clock
        self._pause_s = pause_s
        self._due_s = clock() + first_s
        self._asked: tuple[Subject, Future[Told]] | None = None

    def may_ask(self) -> bool:
        """Return whether no query runs and the pause is over; start a new pause if so."""
        if self._asked is not None or self._clock() < self._due_s:
            return False
        self._due_s = self._clock() + self._pause_s
        return True

    def ask(self, subject: Subject) -> None:
        """Start a query in a thread; a later round gets its result."""
        future = self._workers.do(f"cluster {self._cluster}", self._ask, subject)
        self._asked = subject, future

    def answer(self) -> tuple[Subject, Told] | None:
        """Return a finished query's subject and result once; None if there is none."""
        if self._asked is None or not self._asked[1].done():
            return None
        (subject, future), self._asked = self._asked, None
        try:
            return subject, future.result()
        except (GridbridgeError, OSError) as error:
            where = f"act={self._name} cluster={self._cluster}"
            _log.warning("event=failed %s why=%r", where, describe_error(error))
            return None
