"""Restarts the programs of this host after an upgrade, so that all run the installed version."""

import os
import signal
from collections.abc import Mapping
from contextlib import suppress

from gridbridge.shell.hung_poller_kill import find_poller_lock_holder
from gridbridge.shell.program_runs import run_program
from gridbridge.site.storage_provider_and_runner_checks import LOCKS

SYSTEMD = "/run/systemd/system"  # exists if systemd runs (sd_booted(3))
UNITS = tuple(f"gridbridge-{name}" for name in ("poller", "runner", "nikita", "balance", "metrics"))
LIMIT_S = 300.0


def restart_running_programs(locks: Mapping[str, str] = LOCKS) -> list[str]:
    """Have systemd restart its units, and end each other running program; return the ended programs.

    The load sensor starts an ended poller again, and cron the programs of campaigns. Running jobs continue.
    """
    before = {program: find_poller_lock_holder(path) for program, path in locks.items()}
    if os.path.isdir(SYSTEMD):
        environment = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}
        for words in (("daemon-reload",), ("try-restart", *UNITS)):
            run_program(("systemctl", *words), environment, LIMIT_S).require_success()
    return [program for program, pid in before.items() if pid and _end_lock_holder(pid, locks[program])]


def _end_lock_holder(pid: int, lock: str) -> bool:
    """End a process that still holds a lock of its own account; return whether it was told to end."""
    with suppress(OSError):
        process = os.pidfd_open(pid)  # first, because a pid may be used again
        try:
            if os.stat(f"/proc/{pid}").st_uid == os.stat(lock).st_uid and find_poller_lock_holder(lock) == pid:
                signal.pidfd_send_signal(process, signal.SIGTERM)
                return True
        finally:
            os.close(process)
    return False
