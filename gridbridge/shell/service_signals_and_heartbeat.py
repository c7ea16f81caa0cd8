"""The signals that a service gets, and the heartbeats that it sends by its lock file and to systemd's watchdog."""

import os
import select
import signal
import socket
import time
from collections.abc import Mapping
from contextlib import suppress

from gridbridge.shell import program_lock_file


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


BEAT_S = 2.0
BEGIN_S = 600.0  # the service may take this long to start, with an upgrade of the state file


class ServiceHeartbeat:
    """Sends a service's heartbeats; systemd or the load sensor kills a service without heartbeats."""

    def __init__(self, path: str, environment: Mapping[str, str] = os.environ) -> None:
        self._path = path
        self._manager = environment.get("NOTIFY_SOCKET", "")
        self._limit_us = environment.get("WATCHDOG_USEC", "")  # time limit of the watchdog after the start
        self._beaten_at = -BEAT_S

    def announce_long_step(self, longest_s: float = BEGIN_S) -> None:
        """Announce that a step, such as the start, may last `longest_s` seconds without a heartbeat."""
        self._beaten_at = -BEAT_S
        program_lock_file.renew_lock_file_heartbeat(self._path, longest_s)
        long_us = f"{longest_s * 1e6:.0f}"
        self._notify_systemd(f"EXTEND_TIMEOUT_USEC={long_us}\nWATCHDOG=1{self._watchdog_limit_line(long_us)}")

    def send_heartbeat(self) -> None:
        """Report that the service is ready and alive, at most every BEAT_S seconds (sd_notify(3))."""
        if time.monotonic() - self._beaten_at < BEAT_S:
            return
        self._beaten_at = time.monotonic()
        program_lock_file.renew_lock_file_heartbeat(self._path)
        self._notify_systemd(f"READY=1\nWATCHDOG=1{self._watchdog_limit_line(self._limit_us)}")

    def _watchdog_limit_line(self, silence_us: str) -> str:
        return f"\nWATCHDOG_USEC={silence_us}" if self._limit_us else ""

    def _notify_systemd(self, words: str) -> None:
        if not self._manager.startswith(("/", "@")):
            return
        address = self._manager.replace("@", "\0", 1) if self._manager[0] == "@" else self._manager
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as end:
                end.setblocking(False)
                end.sendto(words.encode(), address)
        except OSError:
            return
