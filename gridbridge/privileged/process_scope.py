"""Puts the processes that root starts for a user into a scope, so that all processes end together.

The scope is a PID namespace (pid_namespaces(7)): when its first process ends, the kernel kills all its processes. A
systemd scope (systemd.scope(5)), or else RLIMIT_NPROC, limits processes and threads, so that no user uses up the
processes of the service. If the kernel refuses a namespace, as in some containers, the first process adopts orphaned
processes (PR_SET_CHILD_SUBREAPER) and kills them.
"""

import os
import resource
import select
import time
from typing import NoReturn

from gridbridge.errors import CommandFailed
from gridbridge.shell import program_runs
from gridbridge.shell.program_runs import SIGKILL

MOST_TASKS = 128  # maximal number of processes and threads in a systemd scope
# RLIMIT_NPROC leaves room for processes that the user's jobs start meanwhile.
SHORT_S, MORE, MANY_MORE = 60.0, 256, 2048  # longest limit of a short scope; spare processes of short, of long scopes
NO_LIMIT = 1 << 20  # number of processes that stands for no limit
FIRST_SIGNAL = 128  # a larger exit status is 128 plus the number of a signal, as in a shell
CLONE_NEWPID = 0x20000000  # flag of unshare(2)
PR_SET_CHILD_SUBREAPER = 36  # option of prctl(2)
OWN_NAMESPACE = "/proc/self/ns/pid"
REAP_MS = 1000  # period in which orphaned processes are reaped
KILL_S = 5.0  # time limit for killing processes without a namespace
BUSCTL, BOOTED = "/usr/bin/busctl", "/run/systemd/system"  # paths that exist if systemd runs (sd_booted(3))
SYSTEMD_S, MOVE_S, LOOK_S = 3.0, 1.0, 0.002
SPARE_S = 30  # time after a scope's own limit at which systemd ends the scope
BARE = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}
CGROUPS = "/sys/fs/cgroup"
BY_SYSTEMD, BY_UID = b"s", b"u"  # who limits processes: systemd, or RLIMIT_NPROC

_more = 0  # number of spare processes of the user; 0: systemd limits processes


class UserProcessScope:
    """A forked process in a scope; `pid` is 0 in the forked process.

    Only root can make a scope; for other users the process is only forked.
    """

    __slots__ = ("_line", "pid")

    def __init__(self, limit_s: float) -> None:
        """Fork a process into a scope; systemd ends the scope SPARE_S after `limit_s`."""
        self._line = -1
        self.pid = os.fork() if os.geteuid() else self._fork(limit_s)

    def end(self) -> None:
        """Kill all processes of the scope; process `pid` ends last."""
        if self._line >= 0:
            os.close(self._line)
            self._line = -1
        else:
            os.kill(self.pid, SIGKILL)

    def _fork(self, limit_s: float) -> int:
        line, self._line = os.pipe()  # the scope ends when the parent closes this pipe
        pid, is_closed = _fork_apart()
        if not pid:
            os.close(self._line)
            _begin(line, limit_s, is_closed=is_closed)
            return 0
        os.close(line)
        os.write(self._line, BY_SYSTEMD if _is_moved(pid, limit_s) else BY_UID)
        return pid


def limit_user_processes() -> None:
    """Limit the number of processes of the current user, unless systemd limits the scope.

    The kernel counts all processes of a uid on the machine, perhaps thousands. So the limit is doubled until the user
    can start a process, and then raised by some spare.
    """
    most = _more // 2
    while 0 < most < NO_LIMIT and not _may_fork(most):
        most *= 2
    if 0 < most < NO_LIMIT:
        resource.setrlimit(resource.RLIMIT_NPROC, (most + _more // 2,) * 2)


def systemd_scope_command(pid: int, limit_s: float) -> tuple[str, ...]:
    """Return the busctl command that moves a process into a new systemd scope.

    See org.freedesktop.systemd1(5), StartTransientUnit.
    """
    name = f"gridbridge-people-{os.urandom(8).hex()}.scope"
    properties = (
        *("PIDs", "au", "1", str(pid)),
        *("Slice", "s", "gridbridge-people.slice"),
        *("TasksMax", "t", str(MOST_TASKS)),
        *("RuntimeMaxUSec", "t", str(round((limit_s + SPARE_S) * 1e6))),
        *("KillSignal", "i", str(SIGKILL)),
        *("CollectMode", "s", "inactive-or-failed"),
    )
    manager = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1")
    call = ("call", *manager, "org.freedesktop.systemd1.Manager", "StartTransientUnit")
    signature = "ssa(sv)a(sa(sv))"
    return (BUSCTL, "--quiet", *call, signature, name, "fail", "6", *properties, "0")


def _is_moved(pid: int, limit_s: float) -> bool:
    """Move a process into a systemd scope; say whether the scope limits the number of processes."""
    if not os.path.isdir(BOOTED):
        return False
    argv = systemd_scope_command(pid, limit_s)
    name = next(word for word in argv if word.endswith(".scope"))
    try:
        program_runs.run_program(argv, BARE, SYSTEMD_S, most_bytes=program_runs.CHUNK_BYTES).checked()
    except CommandFailed:  # D-Bus is missing or systemd is busy
        return False
    until = time.monotonic() + MOVE_S
    while name not in (groups := _groups(pid)) and time.monotonic() < until:
        time.sleep(LOOK_S)
    return any(_counts(line, name) for line in groups.splitlines())


def _counts(line: str, name: str) -> bool:
    _, controllers, path = line.split(":", 2)
    counts_all = not controllers and os.path.exists(f"{CGROUPS}{path}/pids.max")
    return path.endswith(f"/{name}") and (counts_all or "pids" in controllers.split(","))


def _groups(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _fork_apart() -> tuple[int, bool]:
    """Fork, into a new PID namespace if possible; return the pid, and whether there is a namespace."""
    import ctypes  # imported here, because transfers need no ctypes

    libc = ctypes.CDLL(None)
    ours = os.open(OWN_NAMESPACE, os.O_RDONLY | os.O_CLOEXEC)
    try:
        is_closed = not libc.unshare(CLONE_NEWPID)
        try:
            pid = os.fork()
        finally:
            if is_closed:
                libc.setns(ours, CLONE_NEWPID)
    finally:
        os.close(ours)
    if not pid and not is_closed:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    return pid, is_closed


def _begin(line: int, limit_s: float, *, is_closed: bool) -> None:
    global _more
    word = os.read(line, 1)
    if not word:  # the parent process has ended
        os._exit(1)
    if word == BY_UID:
        _more = MORE if limit_s <= SHORT_S else MANY_MORE
    main = os.fork()
    if not main:
        os.close(line)
        return
    _watch(main, line, is_closed=is_closed)


def _watch(main: int, line: int, *, is_closed: bool) -> NoReturn:
    status = 1
    try:
        line = os.dup2(line, 3)  # closes the parent's locks and pipes in this process
        os.closerange(4, os.sysconf("SC_OPEN_MAX"))
        status = _end_of(main, line)
        if not is_closed:
            _kill_children()
    finally:
        os._exit(status if status >= 0 else FIRST_SIGNAL - status)


def _end_of(main: int, line: int) -> int:
    """Return a process's exit code; -SIGKILL if the parent closes the pipe first."""
    poll = select.poll()
    poll.register(line, select.POLLIN)
    poll.register(os.pidfd_open(main), select.POLLIN)
    while True:
        ready = [end for end, _ in poll.poll(REAP_MS)]
        ended = _reaped()
        if main in ended:
            return os.waitstatus_to_exitcode(ended[main])
        if line in ready:
            return -SIGKILL


def _reaped() -> dict[int, int]:
    ended = {}
    try:
        while (exited := os.waitpid(-1, os.WNOHANG))[0]:
            ended[exited[0]] = exited[1]
    except ChildProcessError:
        pass
    return ended


def _kill_children() -> None:
    """Kill all descendant processes, even orphans, which become child processes."""
    until = time.monotonic() + KILL_S
    while (below := _below(os.getpid())) and time.monotonic() < until:
        for pid in below:
            try:
                os.kill(pid, SIGKILL)
            except ProcessLookupError:
                continue
        _reaped()


def _below(pid: int) -> list[int]:
    descendants = []
    open_ = [pid]
    while open_:
        children = _children(open_.pop())
        descendants += children
        open_ += children
    return descendants


def _children(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def _may_fork(most: int) -> bool:
    resource.setrlimit(resource.RLIMIT_NPROC, (most, resource.getrlimit(resource.RLIMIT_NPROC)[1]))
    try:
        pid = os.fork()
    except BlockingIOError:
        return False
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)
    return True
