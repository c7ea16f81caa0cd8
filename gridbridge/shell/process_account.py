"""Changes the user id and the resource limits of the current process."""

import os
import pwd
import resource
from contextlib import suppress

from gridbridge.errors import StateError

MOST_FILES, FEWEST_FILES = 4096, 256  # limits of open files


def switch_process_to_account(name: str, remedy: str = "") -> None:
    """Switch this process to an account for good.

    Only root and the account itself may do so; any other account gets StateError. `remedy` says how
    to create a missing account, and is added to the error message.
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


def drop_root_to_account(name: str) -> None:
    """Switch a root process to an account if the account exists; others change nothing."""
    if os.geteuid() == 0:
        with suppress(StateError):
            switch_process_to_account(name)


def setpriv_command_prefix(name: str) -> tuple[str, ...]:
    """Return the setpriv(1) command prefix that makes root run a program as an account.

    The program gets the account's groups as well. The prefix is empty if the caller is not root or
    the account does not exist.
    """
    if os.geteuid() != 0:
        return ()
    try:
        account = pwd.getpwnam(name)
    except KeyError:
        return ()
    ids = (f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}")
    return ("/usr/bin/setpriv", *ids, "--init-groups", "--")


def raise_resource_limits() -> int:
    """Raise this process's resource limits as far as allowed; return the open-file limit.

    sudo passes the caller's limits on. With low limits a caller could make name-service look-ups
    and cluster queries fail.
    """
    for name in ("AS", "CPU", "DATA", "FSIZE", "NPROC", "STACK", "NOFILE"):
        limit = getattr(resource, f"RLIMIT_{name}")
        highest = MOST_FILES if name == "NOFILE" else resource.RLIM_INFINITY
        try:
            resource.setrlimit(limit, (highest, highest))
        except ValueError:  # only root may raise the limit, and not in every container
            hard = resource.getrlimit(limit)[1]
            resource.setrlimit(limit, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]
