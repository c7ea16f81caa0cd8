"""Receives reports of ended jobs (`qevent -trigger`, OAR's FIFO), which only trigger accounting reads."""

import logging
import os
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from queue import Empty, Full, Queue

from gridbridge.errors import GridbridgeError, StateError, describe_error
from gridbridge.model.transfer_name import job_ids_in_pushed_report
from gridbridge.shell.retry import repeat_until_stopped

ENDS = "ends"  # name of the FIFO to which sge-methods/ended writes
AGAIN_S = 30.0  # pause before qevent is started again
WINDOW_S = 10.0  # the rate of reported job ends is measured over this time
ROOM = 1000  # number of job ids that fit into the buffer
_log = logging.getLogger(__name__)


class PushedJobEndRateLimit:
    """Measures the rate of reported job ends, and drops reports while the rate is above a limit."""

    def __init__(self, limit_per_s: float, clock: Callable[[], float]) -> None:
        self._most = limit_per_s * WINDOW_S
        self._clock = clock
        self._times: deque[float] = deque()

    def job_ids_within_rate_limit(self, ids: list[int]) -> frozenset[int]:
        """Return the job ids; empty while the rate of reports is above the limit."""
        now = self._clock()
        self._times.extend(now for _ in ids)
        while self._times and self._times[0] < now - WINDOW_S:
            self._times.popleft()
        return frozenset(ids) if len(self._times) <= self._most else frozenset()


class QeventJobEndReceiver:
    """Runs qevent, which runs sge-methods/ended for each ended job, and reads the job ids from a FIFO."""

    def __init__(
        self,
        argv: tuple[str, ...],
        environment: dict[str, str],
        limit_per_s: float,
        folder: str,
        clock: Callable[[], float],
    ) -> None:
        self._argv = argv
        self._environment = environment
        self._rate = PushedJobEndRateLimit(limit_per_s, clock)
        self._folder = folder
        self._clock = clock
        self._child: ChildEndingWithParent | None = None
        self._started_at = -AGAIN_S
        self._fifo = _open_job_end_fifo(folder)

    def take_ended_job_ids(self) -> frozenset[int]:
        """Return the ids of jobs that have ended since the last call; empty above the rate limit."""
        if not (self._child and self._child.is_alive()) and self._clock() - self._started_at >= AGAIN_S:
            self._started_at = self._clock()
            self._child = ChildEndingWithParent(self._argv, self._environment, self._folder)
        try:
            return self._rate.job_ids_within_rate_limit(job_ids_in_pushed_report(os.read(self._fifo, 65536)))
        except BlockingIOError:
            return self._rate.job_ids_within_rate_limit([])

    def stop_receiving_job_ends(self) -> None:
        if self._child:
            self._child.terminate_child_process()
            self._child = None
        if self._fifo >= 0:
            os.close(self._fifo)
            self._fifo = -1


def _open_job_end_fifo(folder: str) -> int:
    path = f"{folder}/{ENDS}"
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        if not os.path.exists(path):
            os.mkfifo(path, 0o600)
        return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}") from error


class JobEndListener:
    """Receives the ids of ended jobs of an OAR cluster in a thread."""

    def __init__(
        self, cluster: str, listen: Callable[[], Iterator[list[int]]], limit_per_s: float, clock: Callable[[], float]
    ) -> None:
        self._cluster = cluster
        self._ends = listen
        self._rate = PushedJobEndRateLimit(limit_per_s, clock)
        self._heard: Queue[int] = Queue(ROOM)
        self._stopped = threading.Event()
        self._told = ""
        self._thread = threading.Thread()
        self._start_job_end_listener_thread()

    def take_ended_job_ids(self) -> frozenset[int]:
        """Return the ids of jobs that have ended since the last call; empty above the rate limit."""
        self._start_job_end_listener_thread()
        ids = []
        with suppress(Empty):
            while True:
                ids.append(self._heard.get_nowait())
        return self._rate.job_ids_within_rate_limit(ids)

    def stop_receiving_job_ends(self) -> None:
        """Stop listening; the thread ends within seconds."""
        self._stopped.set()

    def _start_job_end_listener_thread(self) -> None:
        if self._thread.ident:
            return
        name = f"{self._cluster}-ends"
        arguments = (self._listen_for_job_ends, AGAIN_S, self._stopped)
        self._thread = threading.Thread(target=repeat_until_stopped, args=arguments, name=name, daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            self._log_lost_push(describe_error(error))

    def _listen_for_job_ends(self) -> None:
        try:
            for ids in self._ends():
                for job_id in ids:
                    self._buffer_ended_job_id(job_id)
                if self._stopped.is_set():
                    return
        except (GridbridgeError, OSError) as error:
            self._log_lost_push(describe_error(error))

    def _buffer_ended_job_id(self, job_id: int) -> None:
        while not self._stopped.is_set():
            try:
                self._heard.put(job_id, timeout=AGAIN_S)
            except Full:
                continue
            return

    def _log_lost_push(self, why: str) -> None:
        if why != self._told:
            _log.warning("event=push_lost cluster=%s why=%r", self._cluster, why)
        self._told = why


DIE_WITH_US = ("/usr/bin/setpriv", "--pdeathsig", "TERM")


class ChildEndingWithParent:
    """A child process that the kernel terminates when the parent process dies."""

    def __init__(self, argv: tuple[str, ...], env: dict[str, str], folder: str) -> None:
        self._process = subprocess.Popen(
            (*DIE_WITH_US, *argv),
            env=env,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def terminate_child_process(self) -> None:
        """Terminate the child process, and wait for its end."""
        self._process.terminate()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
