"""Identifies the processes of embedded jobs and their keepers, although pids are reused (proc(5))."""

import fcntl
import os
import sys

from gridbridge.errors import StateError
from gridbridge.model.transfer_route import BARE

ENDED = (b"Z", b"X")
START_TIME = 19  # index of the start time among the fields after the process name in /proc/PID/stat
PROGRAM = ("-I", "-m", "gridbridge.batch.embedded")


def boot_and_pid_namespace_id() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"


def unique_process_id(pid: int) -> str:
    """Return a process's boot id, PID namespace and start time; empty if the process has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if fields[0] in ENDED else f"{boot_and_pid_namespace_id()} {fields[START_TIME].decode()}"


def signal_job_process_group(pid: int, born: str, number: int) -> None:
    """Signal a job's group if its first process runs; raise StateError for another host or earlier boot."""
    if unique_process_id(pid) == born:
        os.killpg(pid, number)
    elif not born.startswith(boot_and_pid_namespace_id()):
        raise StateError(f"process {pid} was started on another host, or before a reboot")


def start_embedded_daemon(folder: str, verb: str) -> None:
    """Start the embedded cluster's program as a daemon, which writes errors to the folder's file `log`."""
    if child := os.fork():
        os.waitpid(child, 0)
        return
    try:
        os.chdir("/")
        log = os.open(f"{folder}/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        null = os.open("/dev/null", os.O_RDWR)
        streams = [(os.POSIX_SPAWN_DUP2, end, number) for number, end in enumerate((null, log, log))]
        argv = (sys.executable, *PROGRAM, folder, verb)
        os.posix_spawn(argv[0], argv, BARE, file_actions=streams, setsid=True)
    finally:
        os._exit(0)


class EmbeddedJobKeeperLocks:
    """A file in which keepers lock one byte per job; it stays open, because a close frees all locks (fcntl(2))."""

    def __init__(self, path: str) -> None:
        self._end = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._ours: set[int] = set()

    def lock_job(self, job: int) -> None:
        fcntl.lockf(self._end, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, job)
        self._ours.add(job)

    def unlock_job(self, job: int) -> None:
        fcntl.lockf(self._end, fcntl.LOCK_UN, 1, job)
        self._ours.discard(job)

    def is_job_locked(self, job: int) -> bool:
        """Say whether a keeper process has locked a job; simultaneous calls don't block each other."""
        if job in self._ours:
            return True
        try:
            fcntl.lockf(self._end, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, job)
        except OSError:
            return True
        fcntl.lockf(self._end, fcntl.LOCK_UN, 1, job)
        return False
