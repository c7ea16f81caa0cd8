"""The signals that steer a service: heard between its rounds, and at once while it waits."""

import os
import select
import signal
from contextlib import suppress


class ProcessSignals:
    """What SIGTERM, SIGINT and SIGHUP have asked for; one a process, made in its main thread.

    A handler only notes: a lock that it took might be held by what it interrupts. Each signal
    wakes `wait` by a byte in a pipe (signal.set_wakeup_fd), also when it comes right before it.
    """

    def __init__(self) -> None:
        self.is_stopped = False
        self._hangups = 0
        self._told = 0
        self._woken, waker = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(waker, False)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        signal.signal(signal.SIGHUP, self._hang_up)

    def wait(self, limit_s: float) -> bool:
        """Sleep until the time is over or a signal comes; say whether one came."""
        woken, _, _ = select.select([self._woken], [], [], limit_s)
        with suppress(BlockingIOError):
            os.read(self._woken, 4096)
        return bool(woken)

    def hung_up(self) -> bool:
        """Say once whether SIGHUP has come; several since the last call are one."""
        before, self._told = self._told, self._hangups
        return before != self._told

    def _stop(self, *_: object) -> None:
        self.is_stopped = True

    def _hang_up(self, *_: object) -> None:
        self._hangups += 1
