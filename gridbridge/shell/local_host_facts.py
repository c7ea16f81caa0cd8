"""Reads facts of this host: its name, accounts, groups, files, disk space and processes."""

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
from gridbridge.model.site.setup_findings_and_edits import RunningExecd
from gridbridge.model.site.site_check_facts import FolderFreeSpace, PathFacts
from gridbridge.shell import safe_files

UNIT = ".service"
LINE_BYTES = 4096
TRIED = bytes(4096)  # test data as large as the largest message


def this_host_name() -> str:
    """Return this host's name."""
    return socket.gethostname()


def is_this_host(host_name: str) -> bool:
    """Say whether a host name is this host's or resolves to one of its addresses."""
    if is_same_host(host_name, this_host_name()):
        return True
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as tried:
            tried.bind((socket.gethostbyname(host_name), 0))
    except OSError:
        return False
    return True


def uid_of_account(account: str) -> int:
    """Return an account's uid, 0 if the account does not exist."""
    try:
        return pwd.getpwnam(account).pw_uid
    except KeyError:
        return 0


def groups_of_account(account: str) -> tuple[str, ...]:
    """Return an account's groups, the primary group first; none for an unknown account."""
    try:
        primary = pwd.getpwnam(account).pw_gid
    except KeyError:
        return ()
    other_groups = (gid for gid in os.getgrouplist(account, primary) if gid != primary)
    return tuple(_group_name(gid) for gid in (primary, *other_groups))


def _group_name(gid: int) -> str:
    """Return a group's name, or its number if it has no name."""
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def boot_id(path: str = "/proc/sys/kernel/random/boot_id") -> str:
    """Return the kernel's id of the current boot, empty if it can't be read."""
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def all_group_ids() -> frozenset[int]:
    """Return the ids of all groups."""
    return frozenset(group.gr_gid for group in grp.getgrall())


def read_owner_mode_and_kind(path: str, follow: bool = False) -> PathFacts | None:
    """Return a path's owner, mode and kind, None if the path does not exist."""
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


def is_path_access_denied(path: str) -> bool:
    """Say whether permissions keep this user from examining a path."""
    try:
        os.stat(path, follow_symlinks=False)
    except OSError as error:
        return isinstance(error, PermissionError)
    return False


def is_file_unreadable(path: str) -> bool:
    """Say whether a file exists but this user may not read it."""
    return os.path.exists(path) and not os.access(path, os.R_OK)


def first_parent_closed_to_others(path: str) -> str:
    """Return the first parent folder that others can't enter, empty if all can."""
    parts = path.split("/")[1:-1]
    above = ("/" + "/".join(parts[:n]) for n in range(1, len(parts) + 1))
    return next((folder for folder in above if not _passable(folder)), "")


def _passable(folder: str) -> bool:
    facts = read_owner_mode_and_kind(folder, follow=True)
    return facts is None or bool(facts.mode & stat.S_IXOTH)


def _account(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def free_bytes_and_files_of_folder(folder: str) -> FolderFreeSpace:
    """Return the free bytes and files of a folder's filesystem (statvfs(3))."""
    try:
        status = os.statvfs(folder)
    except OSError as error:
        return FolderFreeSpace(trouble=error.strerror or str(error))
    free_files = status.f_favail if status.f_files else None
    return FolderFreeSpace(free_bytes=status.f_bavail * status.f_frsize, free_files=free_files)


def count_subfolders_by_owner(path: str) -> dict[str, int]:
    """Count a folder's subfolders by owner, without those of the folder's own owner.

    The result is empty if the folder can't be read.
    """
    try:
        ours = os.stat(path).st_uid
        with os.scandir(path) as entries:
            folders = [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
        uids = Counter(entry.stat(follow_symlinks=False).st_uid for entry in folders)
    except OSError:  # unreadable, or removed meanwhile
        return {}
    return {_account(uid): count for uid, count in uids.items() if uid != ours}


def free_space_by_test_write(folder: str) -> FolderFreeSpace:
    """Return a folder's free space after a test write; only writing reveals a quota."""
    path = f"{folder}/{safe_files.random_file_name(safe_files.TEMPORARY)}"
    try:
        safe_files.replace_file_atomically(path, TRIED, mode=0o600, durable=False)
        safe_files.remove_file(path)
    except (StateError, OSError) as error:
        cause = error.__cause__ if isinstance(error, StateError) else error
        return replace(free_bytes_and_files_of_folder(folder), trouble=getattr(cause, "strerror", "") or str(error))
    return free_bytes_and_files_of_folder(folder)


def read_text_or_empty(path: str) -> str:
    """Return a file's text, empty if it can't be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def last_log_line(path: str) -> str:
    """Return the last line of a log file; empty for an empty file, no file, or a FIFO."""
    try:
        with open(path, "rb", opener=safe_files.open_regular_without_blocking) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - LINE_BYTES))
            lines = file.read(LINE_BYTES).decode("utf-8", "replace").split("\n")
    except OSError:
        return ""
    return next((line for line in reversed(lines) if line.strip()), "")


def find_root_daemon(program: str) -> RunningExecd | None:
    """Find a daemon's process that root started; None if it does not run.

    The caller, as root, may restart this program. So another user's process of the same name must
    not be taken for the daemon.
    """
    for pid in _pids():
        if read_text_or_empty(f"/proc/{pid}/comm").strip() == program and _is_roots(pid):
            executable = _executable(pid) or program
            if executable.rpartition("/")[2] == program:
                return RunningExecd(pid=pid, program=executable, unit=_unit(pid), age_s=_age_s(pid))
    return None


def _is_roots(pid: int) -> bool:
    """Say whether a process's real uid is root's, which a daemon keeps.

    The owner of /proc/PID is no proof: root owns it for any process that is not dumpable.
    """
    # the kernel escapes newlines in the process's name
    lines = read_text_or_empty(f"/proc/{pid}/status").split("\n")
    return any(line.split()[:2] == ["Uid:", "0"] for line in lines)


def find_process_by_command_line(words: str, uid: int) -> int:
    """Return the pid of an account's process whose command line contains a text, else 0."""
    owned = (pid for pid in _pids() if _owner(pid) == uid)
    return next((pid for pid in owned if words in read_text_or_empty(f"/proc/{pid}/cmdline")), 0)


def _owner(pid: int) -> int:
    facts = read_owner_mode_and_kind(f"/proc/{pid}")
    return facts.owner if facts else 0


def _pids() -> list[int]:
    return sorted(int(name) for name in os.listdir("/proc") if name.isdigit())


def _age_s(pid: int) -> float:
    """Return how long a process has run, infinity if /proc does not tell (proc_pid_stat(5))."""
    behind_name = read_text_or_empty(f"/proc/{pid}/stat").rpartition(")")[2].split()
    if len(behind_name) < 20:
        return inf
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(behind_name[19]) / os.sysconf("SC_CLK_TCK")


def _executable(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)")
    except OSError:
        return ""


def _unit(pid: int) -> str:
    """Return the systemd service unit of a process, empty if it has none."""
    group = read_text_or_empty(f"/proc/{pid}/cgroup").strip().rpartition("/")[2]
    return group if group.endswith(UNIT) and os.path.isdir("/run/systemd/system") else ""
