"""Moves a process into a systemd scope (systemd.scope(5)), which limits the processes and threads in the scope."""

import os
import time

from gridbridge.errors import CommandFailed
from gridbridge.shell import program_runs
from gridbridge.shell.program_runs import SIGKILL

MOST_TASKS = 128  # maximal number of processes and threads in a systemd scope
BUSCTL, BOOTED = "/usr/bin/busctl", "/run/systemd/system"  # paths that exist if systemd runs (sd_booted(3))
SYSTEMD_S, MOVE_S = 3.0, 1.0  # time limits of systemd's answer, and of the process's move into its scope
SPARE_S = 30  # systemd ends a scope this long after the scope's own time limit
CGROUPS = "/sys/fs/cgroup"


def systemd_scope_command(pid: int, limit_s: float) -> tuple[str, ...]:
    """Return the busctl command for a new systemd scope (org.freedesktop.systemd1(5), StartTransientUnit)."""
    name = f"gridbridge-people-{os.urandom(8).hex()}.scope"
    properties = (
        *("PIDs", "au", "1", str(pid)),
        *("Slice", "s", "gridbridge-people.slice"),
        *("TasksMax", "t", str(MOST_TASKS)),
        *("RuntimeMaxUSec", "t", str(round((limit_s + SPARE_S) * 1e6))),
        *("KillSignal", "i", str(SIGKILL)),
        *("CollectMode", "s", "inactive-or-failed"),
    )
    manager = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")
    call = ("call", *manager, "StartTransientUnit", "ssa(sv)a(sa(sv))")
    return (BUSCTL, "--quiet", *call, name, "fail", "6", *properties, "0")


def limit_processes_by_systemd(pid: int, limit_s: float) -> bool:
    """Move a process into a systemd scope; say whether the scope limits the number of processes."""
    if not os.path.isdir(BOOTED):
        return False
    argv = systemd_scope_command(pid, limit_s)
    name = next(word for word in argv if word.endswith(".scope"))
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}
    try:
        program_runs.run_program(argv, environment, SYSTEMD_S, most_bytes=program_runs.CHUNK_BYTES).require_success()
    except CommandFailed:  # D-Bus is missing or systemd is busy
        return False
    until = time.monotonic() + MOVE_S
    while name not in (groups := _cgroups_of_process(pid)) and time.monotonic() < until:
        time.sleep(0.002)
    return any(_does_scope_limit_processes(line, name) for line in groups.splitlines())


def _does_scope_limit_processes(line: str, name: str) -> bool:
    _, controllers, path = line.split(":", 2)
    counts_all = not controllers and os.path.exists(f"{CGROUPS}{path}/pids.max")
    return path.endswith(f"/{name}") and (counts_all or "pids" in controllers.split(","))


def _cgroups_of_process(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
