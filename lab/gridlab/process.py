"""Processes that the lab started, known by pid and start time so that a reused pid is never hit."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from gridlab.errors import LabError


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process of the machine; the boot id makes a record from before a reboot stale."""

    pid: int
    started: str  # clock ticks after boot, field 22 of /proc/PID/stat (proc(5))
    boot: str

    def is_alive(self) -> bool:
        """Say whether exactly this process still runs; a zombie does not."""
        return self.boot == _boot_id() and self.started == _start_time(self.pid)

    def send(self, number: signal.Signals) -> None:
        """Signal exactly this process; a process that has ended is no error."""
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            if self.is_alive():
                signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            return
        finally:
            os.close(handle)

    def wait_gone(self, limit_s: float) -> None:
        """Wait until the process has ended; raise LabError after the limit."""
        deadline = time.monotonic() + limit_s
        while self.is_alive():
            if time.monotonic() > deadline:
                raise LabError(f"process {self.pid} is still there after {limit_s:.0f} s")
            time.sleep(0.01)


def record_self(path: Path) -> None:
    """Record the calling process as the machine sees it, for `recorded` to find.

    Needs the machine's own /proc: inside a PID namespace os.getpid() is another number.
    """
    pid = int(os.readlink("/proc/self"))
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(f"{pid} {_start_time(pid)} {_boot_id()}\n")
    beside.rename(path)


def recorded(path: Path) -> Process | None:
    """Return the living process of a record."""
    try:
        pid, started, boot = path.read_text().split()
    except (FileNotFoundError, ValueError):
        return None
    process = Process(pid=int(pid), started=started, boot=boot)
    return process if process.is_alive() else None


def _start_time(pid: int) -> str:
    """Return a process's start time; empty for a missing process or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
