"""Changes a process's rights and limits: to root's own, or to another account's for ever."""

import os
import pwd
import resource
from contextlib import suppress

from gridbridge.errors import StateError

MOST_FILES, FEWEST_FILES = 4096, 256  # open files


def become(name: str, remedy: str = "") -> None:
    """Be this account from now on; StateError for somebody else than root and that account.

    `remedy` says what makes an account that is not there.
    """
    try:
        account = pwd.getpwnam(name)
    except KeyError as error:
        hint = f"; {remedy}" if remedy else ""
        raise StateError(f"account {name}: there is none on this machine{hint}") from error
    if os.geteuid() == account.pw_uid:
        return
    if os.geteuid() != 0:
        raise StateError(f"only {name} and root may do this: sudo -u {name} ...")
    os.setgroups(os.getgrouplist(name, account.pw_gid))
    os.setgid(account.pw_gid)
    os.setuid(account.pw_uid)


def leave_root(name: str) -> None:
    """Have root be this account from now on, where there is one; everybody else goes on as is."""
    if os.geteuid() == 0:
        with suppress(StateError):
            become(name)


def words_as(name: str) -> tuple[str, ...]:
    """Return the words before a program by which root asks as this account, with its groups.

    None for others than root, and without such an account: they ask as themselves.
    """
    if os.geteuid() != 0:
        return ()
    try:
        account = pwd.getpwnam(name)
    except KeyError:
        return ()
    ids = (f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}")
    return ("/usr/bin/setpriv", *ids, "--init-groups", "--")


def lift_limits() -> int:
    """Take root's limits, or as much of them as we may; return the limit of open files.

    sudo passes the caller's limits on, by which the caller could make answers of name services and
    clusters fail.
    """
    for name in ("AS", "CPU", "DATA", "FSIZE", "NPROC", "STACK", "NOFILE"):
        limit = getattr(resource, f"RLIMIT_{name}")
        highest = MOST_FILES if name == "NOFILE" else resource.RLIM_INFINITY
        try:
            resource.setrlimit(limit, (highest, highest))
        except ValueError:  # we are not root, or in a container
            hard = resource.getrlimit(limit)[1]
            resource.setrlimit(limit, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]
