"""The system calls that Python 3.11 lacks: unshare(2), setns(2), mount(2), pivot_root(2)."""

import ctypes
import os
import sys
from collections.abc import Callable
from typing import NoReturn

from gridlab.errors import LabError

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000

PR_SET_PDEATHSIG = 1
MNT_DETACH = 2
PIVOT_ROOT_NUMBERS = {"x86_64": 155, "aarch64": 41}  # glibc has no wrapper, see pivot_root(2)

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Give the calling process new namespaces; NEWPID applies to its next children."""
    _check(_libc.unshare(flags), "unshare")


def join(pid: int, *names: str) -> None:
    """Enter namespaces of a process, such as "mnt" and "net"; "pid" applies to the next children.

    All are opened first, since /proc may look different after "mnt" is entered.
    """
    handles = [os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY) for name in names]
    for handle, name in zip(handles, names, strict=True):
        _check(_libc.setns(handle, 0), f"setns {name} of {pid}")
        os.close(handle)


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Attach a filesystem to a folder."""
    arguments = (source.encode(), target.encode(), kind.encode(), flags, options.encode())
    _check(_libc.mount(*arguments), f"mount {source} on {target}")


def bind(source: str, target: str, *, read_only: bool = False) -> None:
    """Show a folder at a second place."""
    mount(source, target, flags=MS_BIND)
    if read_only:
        mount(source, target, flags=MS_BIND | MS_REMOUNT | MS_RDONLY)


def keep_mounts_private() -> None:
    """Keep mounts of this namespace off the machine, and the machine's mounts out of it."""
    mount("none", "/", flags=MS_REC | MS_PRIVATE)


def pivot_into(root: str) -> None:
    """Make a mounted folder the root and drop all other mounts from this namespace."""
    os.chdir(root)
    number = PIVOT_ROOT_NUMBERS[os.uname().machine]
    _check(_libc.syscall(number, b".", b"."), f"pivot_root {root}")
    _check(_libc.umount2(b".", MNT_DETACH), "umount of the old root")
    os.chdir("/")


def die_with_parent(number: int) -> None:
    """Request a signal at the parent's end; a change of uid cancels it (prctl(2))."""
    _check(_libc.prctl(PR_SET_PDEATHSIG, number, 0, 0, 0), "prctl")


def in_child(act: Callable[[], None]) -> None:
    """Run `act` in a forked child and wait for it; raise LabError with its complaint.

    `act` may end in exec: the closing of the pipe then says that all went well. A grandchild
    that `act` forks is covered too, until it execs or ends.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        run_and_exit(act, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        complaint = stream.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    if complaint:
        raise LabError(complaint.strip())
    if status != 0:
        raise LabError(f"a helper process ended with status {os.waitstatus_to_exitcode(status)}")


def run_and_exit(act: Callable[[], None], complaints: int) -> NoReturn:
    """Run `act` in a forked process and end it, reporting any exception to a file descriptor."""
    status = 1
    try:
        act()
        status = 0
    except LabError as error:
        os.write(complaints, str(error).encode())
    except BaseException:  # a forked child must never return into its parent's code
        import traceback  # costs 4 ms that `lab on` need not pay

        os.write(complaints, traceback.format_exc().encode())
    finally:
        sys.stdout.flush()
        os._exit(status)


def leave_terminal(log: str) -> None:
    """Detach the process as a daemon: own session, no stdin, output appended to a file."""
    os.setsid()
    null = os.open("/dev/null", os.O_RDONLY)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(null, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
