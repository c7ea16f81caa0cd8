"""Reads facts of this host: its name, accounts, groups, files, free space and processes."""

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
TRIED = bytes(4096)  # content of a test write, as long as the longest message in the spool


def this_host_name() -> str:
    return socket.gethostname()


def is_this_host(host_name: str) -> bool:
    """Say whether a host name belongs to this host, or resolves to an address of this host."""
    if is_same_host(host_name, this_host_name()):
        return True
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as tried:
            tried.bind((socket.gethostbyname(host_name), 0))
    except OSError:
        return False
    return True


def resolve_host_address(host: str) -> str:
    """Return the IP address to which this host resolves a host name; empty if there is no address."""
    try:
        return socket.gethostbyname(host)
    except OSError:
        return ""


def uid_of_account(account: str) -> int:
    """Return the uid of an account; 0 if the account does not exist."""
    try:
        return pwd.getpwnam(account).pw_uid
    except KeyError:
        return 0


def groups_of_account(account: str) -> tuple[str, ...]:
    """Return the groups of an account, the primary group first; empty if the account does not exist."""
    try:
        primary = pwd.getpwnam(account).pw_gid
    except KeyError:
        return ()
    other_groups = (gid for gid in os.getgrouplist(account, primary) if gid != primary)
    return tuple(_name_of_group_id(gid) for gid in (primary, *other_groups))


def _name_of_group_id(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def all_group_ids() -> frozenset[int]:
    return frozenset(group.gr_gid for group in grp.getgrall())


def read_owner_mode_and_kind(path: str, follow: bool = False) -> PathFacts | None:
    """Return the owner, mode and kind of a path; None if the path does not exist."""
    try:
        status = os.stat(path, follow_symlinks=follow)
    except OSError:
        return None
    return PathFacts(
        owner=status.st_uid,
        owner_name=_account_of_uid(status.st_uid),
        mode=stat.S_IMODE(status.st_mode),
        is_folder=stat.S_ISDIR(status.st_mode),
    )


def is_path_access_denied(path: str) -> bool:
    try:
        os.stat(path, follow_symlinks=False)
    except OSError as error:
        return isinstance(error, PermissionError)
    return False


def is_file_unreadable(path: str) -> bool:
    """Say whether a file exists but this process may not read the file."""
    return os.path.exists(path) and not os.access(path, os.R_OK)


def first_parent_closed_to_others(path: str) -> str:
    """Return the outermost parent folder that other users can't enter; empty if there is none."""
    parts = path.split("/")[1:-1]
    above = ("/" + "/".join(parts[:n]) for n in range(1, len(parts) + 1))
    return next((folder for folder in above if not _may_others_enter_folder(folder)), "")


def _may_others_enter_folder(folder: str) -> bool:
    facts = read_owner_mode_and_kind(folder, follow=True)
    return facts is None or bool(facts.mode & stat.S_IXOTH)


def _account_of_uid(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def free_bytes_and_files_of_folder(folder: str) -> FolderFreeSpace:
    """Return how many bytes and files the filesystem of a folder can still take (statvfs(3))."""
    try:
        status = os.statvfs(folder)
    except OSError as error:
        return FolderFreeSpace(trouble=error.strerror or str(error))
    free_files = status.f_favail if status.f_files else None
    return FolderFreeSpace(free_bytes=status.f_bavail * status.f_frsize, free_files=free_files)


def count_subfolders_by_owner(path: str) -> dict[str, int]:
    """Count the subfolders of each account except the folder's owner; empty if the folder is unreadable."""
    try:
        ours = os.stat(path).st_uid
        with os.scandir(path) as entries:
            folders = [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
        uids = Counter(entry.stat(follow_symlinks=False).st_uid for entry in folders)
    except OSError:  # the folder is unreadable, or an entry was just removed
        return {}
    return {_account_of_uid(uid): count for uid, count in uids.items() if uid != ours}


def free_space_by_test_write(folder: str) -> FolderFreeSpace:
    """Return a folder's free space, and the error of a test write, because only a write reveals a quota."""
    path = f"{folder}/{safe_files.random_file_name(safe_files.TEMPORARY)}"
    try:
        safe_files.replace_file_atomically(path, TRIED, mode=0o600, durable=False)
        safe_files.remove_file(path)
    except (StateError, OSError) as error:
        cause = error.__cause__ if isinstance(error, StateError) else error
        return replace(free_bytes_and_files_of_folder(folder), trouble=getattr(cause, "strerror", "") or str(error))
    return free_bytes_and_files_of_folder(folder)


def read_text_or_empty(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def last_log_line(path: str) -> str:
    """Return the last line of a log file; empty if the file is empty, missing or not regular."""
    try:
        with open(path, "rb", opener=safe_files.open_regular_without_blocking) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - LINE_BYTES))
            lines = file.read(LINE_BYTES).decode("utf-8", "replace").split("\n")
    except OSError:
        return ""
    return next((line for line in reversed(lines) if line.strip()), "")


def find_root_daemon(program: str) -> RunningExecd | None:
    """Return the process of a daemon if root started the daemon and may restart its program; else None."""
    for pid in _all_pids():
        if read_text_or_empty(f"/proc/{pid}/comm").strip() == program and _is_process_of_root(pid):
            executable = _executable_of_process(pid) or program
            if executable.rpartition("/")[2] == program:
                unit = _systemd_unit_of_process(pid)
                return RunningExecd(pid=pid, program=executable, unit=unit, age_s=_process_age_s(pid))
    return None


def _is_process_of_root(pid: int) -> bool:
    """Say whether a process has root's real uid; the owner of /proc/PID may be root for other users' processes too."""
    # the kernel escapes newlines in the name of the process
    lines = read_text_or_empty(f"/proc/{pid}/status").split("\n")
    return any(line.split()[:2] == ["Uid:", "0"] for line in lines)


def find_process_by_command_line(words: str, uid: int) -> int:
    """Return the pid of an account's process whose command line contains `words`; 0 if no process matches."""
    owned = (pid for pid in _all_pids() if (facts := read_owner_mode_and_kind(f"/proc/{pid}")) and facts.owner == uid)
    return next((pid for pid in owned if words in read_text_or_empty(f"/proc/{pid}/cmdline")), 0)


def _all_pids() -> list[int]:
    return sorted(int(name) for name in os.listdir("/proc") if name.isdigit())


def _process_age_s(pid: int) -> float:
    behind_name = read_text_or_empty(f"/proc/{pid}/stat").rpartition(")")[2].split()
    if len(behind_name) < 20:
        return inf
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(behind_name[19]) / os.sysconf("SC_CLK_TCK")


def _executable_of_process(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)")
    except OSError:
        return ""


def _systemd_unit_of_process(pid: int) -> str:
    group = read_text_or_empty(f"/proc/{pid}/cgroup").strip().rpartition("/")[2]
    return group if group.endswith(UNIT) and os.path.isdir("/run/systemd/system") else ""
