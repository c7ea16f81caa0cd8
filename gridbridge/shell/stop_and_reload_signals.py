"""Handles the signals that stop a service or make it reload its configuration."""

import os
import select
import signal
from contextlib import suppress


class StopAndReloadSignals:
    """Records SIGTERM, SIGINT and SIGHUP; a program makes one instance, in the main thread.

    A signal handler only sets a flag, because the interrupted code may hold a lock.
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
            signal.signal(number, self._record_stop_signal)
        signal.signal(signal.SIGHUP, self._record_sighup)

    def wait_for_signal(self, limit_s: float) -> bool:
        """Sleep until a signal comes or the limit is over; say whether a signal came."""
        woken, _, _ = select.select([self._woken], [], [], limit_s)
        with suppress(BlockingIOError):
            os.read(self._woken, 4096)
        return bool(woken)

    def has_sighup_come(self) -> bool:
        """Say whether SIGHUP came since the last call."""
        before, self._told = self._told, self._hangups
        return before != self._told

    def _record_stop_signal(self, *_: object) -> None:
        self.is_stopped = True

    def _record_sighup(self, *_: object) -> None:
        self._hangups += 1
