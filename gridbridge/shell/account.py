"""Becomes another account for ever: root looks at a person's files with that person's rights."""

import os
import pwd
from contextlib import suppress

from gridbridge.errors import StateError


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
