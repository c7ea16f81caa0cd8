"""Sends heartbeats of a service, by its lock file and to systemd's watchdog."""

import os
import socket
import time
from collections.abc import Mapping

from gridbridge.shell import program_lock_file

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
