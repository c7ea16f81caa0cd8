"""Prints --help and --version of programs for which loading click would cost too much.

The build (setup.py) writes the commit into the package. In a checkout, git reports the commit. Hot programs
never query the version.
"""

import os
import pwd
import resource
import sys
from contextlib import suppress
from functools import cache

from gridbridge import __version__
from gridbridge.errors import CommandFailed, StateError
from gridbridge.shell.program_runs import run_program

TYPE_CHECKING = False  # importing typing takes as long as importing json
if TYPE_CHECKING:
    from collections.abc import Callable


def print_help_or_version_if_asked(text: str, version: "Callable[[], str] | None" = None) -> None:
    """Print the usage or the version and exit with 0 if the arguments request it.

    `text` begins with the program's name. Hot programs don't know their version.
    """
    if sys.argv[1:] in (["--help"], ["-h"]):
        answer = text
    elif version and sys.argv[1:] == ["--version"]:
        answer = f"{text.split(maxsplit=1)[0].rstrip(':')} {version()}\n"
    else:
        return
    os.write(1, answer.encode())
    sys.exit(0)


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


PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COMMIT = "commit"  # the file that the build writes
DESCRIBE = ("describe", "--always", "--dirty=.changed", "--abbrev=10", "--exclude=*")
GIT_S = 5.0


@cache
def version_with_commit(package: str = PACKAGE) -> str:
    """Return the version as `1.0.0+COMMIT`, or without the commit if it is unknown.

    The result is cached, so that a program still reports its own version after an upgrade.
    """
    commit = _built(package) or _checked_out(package)
    return f"{__version__}+{commit}" if commit else __version__


def _built(package: str) -> str:
    try:
        with open(f"{package}/{COMMIT}", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def _checked_out(package: str) -> str:
    """Return the commit of a package in a git checkout.

    Git refuses a checkout of another account, because its settings can name programs. This process
    already runs that account's code, so the checkout is marked as safe.
    """
    checkout = os.path.dirname(package)
    try:
        is_one_persons = os.stat(f"{checkout}/.git").st_uid == os.stat(package).st_uid
    except OSError:
        return ""
    trusted = ("-c", f"safe.directory={checkout}") if is_one_persons else ()
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
    try:
        answer = run_program(("/usr/bin/git", *trusted, "-C", checkout, *DESCRIBE), environment, GIT_S)
    except CommandFailed:
        return ""
    return answer.stdout.decode("ascii", "replace").strip() if answer.status == 0 else ""
