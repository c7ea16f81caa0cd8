"""What this host is: its name, its accounts and groups, files, processes."""

import grp
import os
import pwd
import socket
import stat
import time
from collections import Counter
from dataclasses import replace
from math import inf

from gridbridge.errors import StateError
from gridbridge.model.elastic.elastic_nodes import is_same_host
from gridbridge.model.site.host_facts import FolderFreeSpace, PathFacts
from gridbridge.model.site.setup_findings import RunningExecd
from gridbridge.shell import files

UNIT = ".service"
LINE_BYTES = 4096
TRIED = bytes(4096)  # as much as a message may have


def name() -> str:
    """Return this host's name."""
    return socket.gethostname()


def is_here(host_name: str) -> bool:
    """Say whether a name is this host's, or leads to an address of it: hosts may have several."""
    if is_same_host(host_name, name()):
        return True
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as tried:
            tried.bind((socket.gethostbyname(host_name), 0))
    except OSError:
        return False
    return True


def uid_of(account: str) -> int:
    """Return an account's uid, 0 when there is none."""
    try:
        return pwd.getpwnam(account).pw_uid
    except KeyError:
        return 0


def groups_of(account: str) -> tuple[str, ...]:
    """Return an account's groups, the primary one first; none when there is no such account."""
    try:
        primary = pwd.getpwnam(account).pw_gid
    except KeyError:
        return ()
    other_groups = (gid for gid in os.getgrouplist(account, primary) if gid != primary)
    return tuple(_group_name(gid) for gid in (primary, *other_groups))


def _group_name(gid: int) -> str:
    """Return a group's name; one without a name goes by its number."""
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def boot(path: str = "/proc/sys/kernel/random/boot_id") -> str:
    """Return which start of this machine this is; empty where the kernel does not tell."""
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def gids() -> frozenset[int]:
    """Return the ids of all groups."""
    return frozenset(group.gr_gid for group in grp.getgrall())


def path_facts(path: str, follow: bool = False) -> PathFacts | None:
    """Return what a path is, None when it isn't there."""
    try:
        status = os.stat(path, follow_symlinks=follow)
    except OSError:
        return None
    return PathFacts(
        owner=status.st_uid,
        owner_name=_account(status.st_uid),
        mode=stat.S_IMODE(status.st_mode),
        is_folder=stat.S_ISDIR(status.st_mode),
    )


def is_hidden(path: str) -> bool:
    """Say whether this user may not look at a path, so that nothing is known of it."""
    try:
        os.stat(path, follow_symlinks=False)
    except OSError as error:
        return isinstance(error, PermissionError)
    return False


def is_unreadable(path: str) -> bool:
    """Say whether a path is there, but its text not for this user."""
    return os.path.exists(path) and not os.access(path, os.R_OK)


def closed_folder(path: str) -> str:
    """Return the first folder above a path that others can't pass, empty when there is none."""
    parts = path.split("/")[1:-1]
    above = ("/" + "/".join(parts[:n]) for n in range(1, len(parts) + 1))
    return next((folder for folder in above if not _passable(folder)), "")


def _passable(folder: str) -> bool:
    facts = path_facts(folder, follow=True)
    return facts is None or bool(facts.mode & stat.S_IXOTH)


def _account(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def room(folder: str) -> FolderFreeSpace:
    """Return what a folder's filesystem still takes (statvfs(3))."""
    try:
        status = os.statvfs(folder)
    except OSError as error:
        return FolderFreeSpace(trouble=error.strerror or str(error))
    free_files = status.f_favail if status.f_files else None
    return FolderFreeSpace(free_bytes=status.f_bavail * status.f_frsize, free_files=free_files)


def folders_of_others(path: str) -> dict[str, int]:
    """Count, by their owners, the folders in one that are not its owner's; none if unreadable."""
    try:
        ours = os.stat(path).st_uid
        with os.scandir(path) as entries:
            folders = [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
        uids = Counter(entry.stat(follow_symlinks=False).st_uid for entry in folders)
    except OSError:  # unreadable, or removed meanwhile
        return {}
    return {_account(uid): count for uid, count in uids.items() if uid != ours}


def room_by_trying(folder: str) -> FolderFreeSpace:
    """Return the same, having written a file there: a quota is seen by that alone."""
    path = f"{folder}/{files.random_name(files.TEMPORARY)}"
    try:
        files.replace(path, TRIED, mode=0o600, durable=False)
        files.remove(path)
    except (StateError, OSError) as error:
        cause = error.__cause__ if isinstance(error, StateError) else error
        return replace(room(folder), trouble=getattr(cause, "strerror", "") or str(error))
    return room(folder)


def text(path: str) -> str:
    """Return a file's text, empty when it can't be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def last_line(path: str) -> str:
    """Return the last line of a log, empty when there is none; a FIFO in its place is none."""
    try:
        with open(path, "rb", opener=files.open_at_once) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - LINE_BYTES))
            lines = file.read(LINE_BYTES).decode("utf-8", "replace").split("\n")
    except OSError:
        return ""
    return next((line for line in reversed(lines) if line.strip()), "")


def daemon(program: str) -> RunningExecd | None:
    """Return the process of a daemon of root's, None when it doesn't run.

    Root may start its program again: a process that somebody else called so is not the daemon.
    """
    for pid in _pids():
        if text(f"/proc/{pid}/comm").strip() == program and _is_roots(pid):
            executable = _executable(pid) or program
            if executable.rpartition("/")[2] == program:
                return RunningExecd(pid=pid, program=executable, unit=_unit(pid), age_s=_age_s(pid))
    return None


def _is_roots(pid: int) -> bool:
    """Say whether root started a process: by its real uid, which a daemon keeps.

    The owner of /proc/PID would not tell: it is root for any process that is not dumpable.
    """
    lines = text(f"/proc/{pid}/status").split("\n")  # it escapes these in the process's name
    return any(line.split()[:2] == ["Uid:", "0"] for line in lines)


def pid_with(words: str, uid: int) -> int:
    """Return the account's process whose command line has these words, 0 when none has."""
    owned = (pid for pid in _pids() if _owner(pid) == uid)
    return next((pid for pid in owned if words in text(f"/proc/{pid}/cmdline")), 0)


def _owner(pid: int) -> int:
    facts = path_facts(f"/proc/{pid}")
    return facts.owner if facts else 0


def _pids() -> list[int]:
    return sorted(int(name) for name in os.listdir("/proc") if name.isdigit())


def _age_s(pid: int) -> float:
    """Return how long a process runs, infinity when that can't be seen (proc_pid_stat(5))."""
    behind_name = text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    if len(behind_name) < 20:
        return inf
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(behind_name[19]) / os.sysconf("SC_CLK_TCK")


def _executable(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)")
    except OSError:
        return ""


def _unit(pid: int) -> str:
    """Return the systemd unit that a process belongs to, empty without one."""
    group = text(f"/proc/{pid}/cgroup").strip().rpartition("/")[2]
    return group if group.endswith(UNIT) and os.path.isdir("/run/systemd/system") else ""
