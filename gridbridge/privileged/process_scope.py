"""Puts the processes that root starts for a user into a scope, so that all processes end together.

The scope is a PID namespace (pid_namespaces(7)), or else a subreaper (PR_SET_CHILD_SUBREAPER). A systemd scope
(systemd.scope(5)), or else RLIMIT_NPROC, limits the number of processes, to leave some for the service.
"""

import os
import resource
import select
import time
from contextlib import suppress

from gridbridge.privileged import systemd_scope
from gridbridge.shell.program_runs import SIGKILL

# RLIMIT_NPROC is set above the user's present number of processes, because the user's jobs may start more.
SHORT_S, MORE, MANY_MORE = 60.0, 256, 2048  # scopes of up to SHORT_S may add MORE processes, longer scopes MANY_MORE
NO_LIMIT = 1 << 20  # an RLIMIT_NPROC of at least this number counts as no limit
FIRST_SIGNAL = 128  # an exit status above 128 is 128 plus a signal's number, as in a shell
CLONE_NEWPID = 0x20000000  # flag of unshare(2)
PR_SET_CHILD_SUBREAPER = 36  # option of prctl(2)
KILL_S = 5.0  # time limit for killing processes without a namespace
BY_SYSTEMD, BY_UID = b"s", b"u"  # the byte says whether systemd or RLIMIT_NPROC limits processes

_more = 0  # number of further processes of the user; 0: systemd sets the limit


class UserProcessScope:
    """A forked child process (in the child, `pid` is 0); only root can give the child a scope."""

    def __init__(self, limit_s: float) -> None:
        """Fork a process into a scope; systemd ends the scope 30 s after `limit_s`."""
        self._line = -1
        if os.geteuid():
            self.pid = os.fork()
            return
        line, self._line = os.pipe()  # the parent closes this pipe to end the scope
        self.pid, is_closed = _fork_in_new_pid_namespace()
        if not self.pid:
            os.close(self._line)
            _fork_worker_and_watch(line, limit_s, is_closed=is_closed)
            return
        os.close(line)
        os.write(self._line, BY_SYSTEMD if systemd_scope.limit_processes_by_systemd(self.pid, limit_s) else BY_UID)

    def kill_scope_processes(self) -> None:
        """Kill all processes of the scope; process `pid` ends last."""
        if self._line >= 0:
            os.close(self._line)
            self._line = -1
        else:
            os.kill(self.pid, SIGKILL)


def limit_user_processes() -> None:
    """Limit the number of processes of the current user, unless systemd limits the scope.

    The kernel counts all processes of the uid, so the limit is doubled until a further process can start.
    """
    most = _more // 2
    while 0 < most < NO_LIMIT and not _can_fork_below_limit(most):
        most *= 2
    if 0 < most < NO_LIMIT:
        resource.setrlimit(resource.RLIMIT_NPROC, (most + _more // 2,) * 2)


def _can_fork_below_limit(most: int) -> bool:
    resource.setrlimit(resource.RLIMIT_NPROC, (most, resource.getrlimit(resource.RLIMIT_NPROC)[1]))
    try:
        pid = os.fork()
    except BlockingIOError:
        return False
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)
    return True


def _fork_in_new_pid_namespace() -> tuple[int, bool]:
    """Fork a child, if possible in a new PID namespace; return pid and whether the namespace is new."""
    import ctypes  # imported here, because transfers need no ctypes

    libc = ctypes.CDLL(None)
    ours = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    is_closed = not libc.unshare(CLONE_NEWPID)
    try:
        pid = os.fork()
    finally:
        if is_closed:
            libc.setns(ours, CLONE_NEWPID)
        os.close(ours)
    if not pid and not is_closed:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    return pid, is_closed


def _fork_worker_and_watch(line: int, limit_s: float, *, is_closed: bool) -> None:
    """Fork, and return only in the child; the parent waits for the child's end, and then ends the scope."""
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
    status = 1
    try:
        line = os.dup2(line, 3)  # the following line closes the locks and pipes inherited from the parent
        os.closerange(4, os.sysconf("SC_OPEN_MAX"))
        status = _wait_for_worker_end(main, line)
        if not is_closed:
            _kill_descendant_processes()
    finally:
        os._exit(status if status >= 0 else FIRST_SIGNAL - status)


def _wait_for_worker_end(main: int, line: int) -> int:
    """Wait for a process, and return its exit code; -SIGKILL if the parent closes the pipe first."""
    poll = select.poll()
    poll.register(line, select.POLLIN)
    poll.register(os.pidfd_open(main), select.POLLIN)
    while True:
        ready = [end for end, _ in poll.poll(1000)]  # orphaned processes are reaped each second
        ended = _reap_child_processes()
        if main in ended:
            return os.waitstatus_to_exitcode(ended[main])
        if line in ready:
            return -SIGKILL


def _reap_child_processes() -> dict[int, int]:
    ended = {}
    with suppress(ChildProcessError):
        while (exited := os.waitpid(-1, os.WNOHANG))[0]:
            ended[exited[0]] = exited[1]
    return ended


def _kill_descendant_processes() -> None:
    """Kill all descendants, including orphans, which become children of this process."""
    until = time.monotonic() + KILL_S
    while (below := _pids_of_descendant_processes(os.getpid())) and time.monotonic() < until:
        for pid in below:
            with suppress(ProcessLookupError):
                os.kill(pid, SIGKILL)
        _reap_child_processes()


def _pids_of_descendant_processes(pid: int) -> list[int]:
    pids = [pid]
    for parent in pids:  # the loop extends the list
        with suppress(OSError), open(f"/proc/{parent}/task/{parent}/children", encoding="ascii") as file:
            pids += map(int, file.read().split())
    return pids[1:]
