"""With whose rights and limits a process goes on: root's own, or another account's for ever."""

import os
import pwd
import resource
from contextlib import suppress

from gridbridge.errors import StateError

MOST_FILES, FEWEST_FILES = 4096, 256  # that may be open


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


def lift_limits() -> int:
    """Have the limits of root, or as many as we may; return how many files may be open.

    sudo hands on those of whoever called it, by which a name service's or a cluster's answer could
    be made to fail.
    """
    for name in ("AS", "CPU", "DATA", "FSIZE", "NPROC", "STACK", "NOFILE"):
        limit = getattr(resource, f"RLIMIT_{name}")
        highest = MOST_FILES if name == "NOFILE" else resource.RLIM_INFINITY
        try:
            resource.setrlimit(limit, (highest, highest))
        except ValueError:  # we are not root, or as in a container
            hard = resource.getrlimit(limit)[1]
            resource.setrlimit(limit, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]
