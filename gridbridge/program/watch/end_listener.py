"""Receive job ends that an OAR cluster pushes over the connection of its queries.

A push only triggers a look-up. The next poll finds ends that a cut connection lost.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from queue import Empty, Full, Queue

from gridbridge.errors import GridbridgeError, describe_error
from gridbridge.program.watch.pushed_ends import AGAIN_S, PushedEndRateLimit
from gridbridge.shell.retry import repeat_until_stopped

ROOM = 1000  # buffered job ids; further writers block

_log = logging.getLogger(__name__)


class OarJobEndListener:
    """Receives pushed job ends of one cluster in a thread."""

    def __init__(
        self,
        cluster: str,
        listen: Callable[[], Iterator[list[int]]],
        limit_per_s: float,
        clock: Callable[[], float],
    ) -> None:
        self._cluster = cluster
        self._ends = listen
        self._rate = PushedEndRateLimit(limit_per_s, clock)
        self._heard: Queue[int] = Queue(ROOM)
        self._stopped = threading.Event()
        self._told = ""
        self._thread = threading.Thread()
        self._listen_on()

    def ended(self) -> frozenset[int]:
        """Return the ids of jobs that ended since the last call; none above the rate limit."""
        self._listen_on()
        return self._rate.within(self._take())

    def stop(self) -> None:
        """Stop listening; the thread ends within seconds."""
        self._stopped.set()

    def _listen_on(self) -> None:
        """Start the listening thread unless it runs; the next call retries a failure."""
        if self._thread.ident:
            return
        name = f"{self._cluster}-ends"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            self._tell(describe_error(error))

    def _take(self) -> list[int]:
        ids = []
        try:
            while True:
                ids.append(self._heard.get_nowait())
        except Empty:
            return ids

    def _run(self) -> None:
        repeat_until_stopped(self._listen, AGAIN_S, self._stopped)

    def _listen(self) -> None:
        try:
            self._hear()
        except (GridbridgeError, OSError) as error:
            self._tell(describe_error(error))

    def _hear(self) -> None:
        for ids in self._ends():
            for job_id in ids:
                self._keep(job_id)
            if self._stopped.is_set():
                return

    def _keep(self, job_id: int) -> None:
        """Buffer a job id; while the buffer is full, nothing more is read from the cluster."""
        while not self._stopped.is_set():
            try:
                self._heard.put(job_id, timeout=AGAIN_S)
            except Full:
                continue
            return

    def _tell(self, why: str) -> None:
        """Log a lost connection once for each reason."""
        if why != self._told:
            _log.warning("event=push_lost cluster=%s why=%r", self._cluster, why)
        self._told = why
