"""Finds the holder of the poller's lock, and kills a poller that hangs.

The caller may be root, and account gridbridge owns the lock file: only processes of this account are killed.
"""

import fcntl
import os
import signal
import struct

from gridbridge.shell.program_lock_file import OPTIONS

FLOCK = "hhqqi4x"  # struct flock of 64-bit Linux: type, whence, start, length, pid
WATCHED = b"WATCHDOG_USEC="  # environment variable of a service with a watchdog of systemd


def find_poller_lock_holder(path: str) -> int:
    """Return the pid of the process that holds the poller's lock; 0 if no process is visible (fcntl(2))."""
    query = struct.pack(FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    try:
        end = os.open(path, os.O_RDONLY | OPTIONS)
    except OSError:
        return 0
    try:
        kind, *_, pid = struct.unpack(FLOCK, fcntl.fcntl(end, fcntl.F_GETLK, query))
    finally:
        os.close(end)
    return max(pid, 0) if kind != fcntl.F_UNLCK else 0


def kill_poller_lock_holder(path: str) -> int:
    """Kill the poller's lock holder unless systemd watches it; return its pid, or 0 if none was killed.

    Only a process of the folder's owner dies. A pid may be reused, so it is opened first (pidfd_open(2)).
    """
    try:
        uid = os.stat(os.path.dirname(path)).st_uid
        pid = find_poller_lock_holder(path)
        process = os.pidfd_open(pid) if pid else -1
    except OSError:
        return 0
    return _kill_verified_lock_holder(path, uid, pid, process) if pid else 0


def _kill_verified_lock_holder(path: str, uid: int, pid: int, process: int) -> int:
    try:
        if not (_runs_only_as_uid(pid, uid) and find_poller_lock_holder(path) == pid) or _has_systemd_watchdog(pid):
            return 0
        signal.pidfd_send_signal(process, signal.SIGKILL)
    except OSError:
        return 0
    finally:
        os.close(process)
    return pid


def _runs_only_as_uid(pid: int, uid: int) -> bool:
    """Say whether all four uids of a process are this uid; False for root's uid."""
    lines = _read_bytes_or_empty(f"/proc/{pid}/status").splitlines()
    ids = next((line.split()[1:] for line in lines if line.startswith(b"Uid:")), [])
    return uid != 0 and ids == [str(uid).encode()] * 4


def _has_systemd_watchdog(pid: int) -> bool:
    words = _read_bytes_or_empty(f"/proc/{pid}/environ").split(b"\0")
    return any(word.startswith(WATCHED) for word in words)


def _read_bytes_or_empty(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
