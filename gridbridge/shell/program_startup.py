"""Help, version, account and resource limits of programs that start too often to load click."""

import os
import pwd
import resource
import sys
from contextlib import contextmanager, suppress
from functools import cache

from gridbridge import __version__
from gridbridge.errors import CommandFailed, StateError
from gridbridge.shell.program_runs import run_program

TYPE_CHECKING = False  # importing typing would take as long as importing json
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def print_help_or_version_if_asked(text: str, version: "Callable[[], str] | None" = None) -> None:
    """Print the help `text` or the version, and exit with 0, if the only argument asks for it."""
    if sys.argv[1:] in (["--help"], ["-h"]):
        answer = text
    elif version and sys.argv[1:] == ["--version"]:
        answer = f"{text.split(maxsplit=1)[0].rstrip(':')} {version()}\n"
    else:
        return
    os.write(1, answer.encode())
    sys.exit(0)


MOST_FILES, FEWEST_FILES = 4096, 256  # limit of open files that this process sets, and the smallest sufficient limit


def switch_process_to_account(name: str, remedy: str = "") -> None:
    """Switch this process to an account for good; raise StateError with `remedy` if this is impossible."""
    try:
        account = pwd.getpwnam(name)
    except KeyError as error:
        hint = f"; {remedy}" if remedy else ""
        raise StateError(f"account {name} does not exist on this host{hint}") from error
    if os.geteuid() == account.pw_uid:
        return
    if os.geteuid() != 0:
        raise StateError(f"only {name} and root may do this: sudo -u {name} ...")
    os.setgroups(os.getgrouplist(name, account.pw_gid))
    os.setgid(account.pw_gid)
    os.setuid(account.pw_uid)


@contextmanager
def acting_as_account(name: str) -> "Iterator[None]":
    """Act with an account's rights in a `with` block, if root calls: root itself opens no database of others."""
    try:
        account = pwd.getpwnam(name) if os.geteuid() == 0 else None
    except KeyError:
        account = None
    if account is None:
        yield
        return
    groups, gid = os.getgroups(), os.getegid()
    os.setgroups(os.getgrouplist(name, account.pw_gid))
    os.setegid(account.pw_gid)
    os.seteuid(account.pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(gid)
        os.setgroups(groups)


def drop_root_to_account(name: str) -> None:
    """Switch a process of root to an account, if the account exists."""
    if os.geteuid() == 0:
        with suppress(StateError):
            switch_process_to_account(name)


def setpriv_command_prefix(name: str) -> tuple[str, ...]:
    """Return the setpriv(1) words that run a program as an account; empty without root or the account."""
    if os.geteuid() != 0:
        return ()
    try:
        account = pwd.getpwnam(name)
    except KeyError:
        return ()
    ids = (f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}")
    return ("/usr/bin/setpriv", *ids, "--init-groups", "--")


def raise_resource_limits() -> int:
    """Raise this process's resource limits as far as possible; return the limit of open files."""
    for name in ("AS", "CPU", "DATA", "FSIZE", "NPROC", "STACK", "NOFILE"):
        limit = getattr(resource, f"RLIMIT_{name}")
        highest = MOST_FILES if name == "NOFILE" else resource.RLIM_INFINITY
        try:
            resource.setrlimit(limit, (highest, highest))
        except ValueError:  # only root may raise a limit, and in some containers not even root
            hard = resource.getrlimit(limit)[1]
            resource.setrlimit(limit, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]


PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COMMIT = "commit"  # the build (setup.py) writes this file
DESCRIBE = ("describe", "--always", "--dirty=.changed", "--abbrev=10", "--exclude=*")
DATE = ("log", "-1", "--format=%cs")
GIT_S = 5.0


@cache
def version_with_commit(package: str = PACKAGE) -> str:
    """Return the version as `1.0.0+COMMIT`, or `1.0.0` if the commit is unknown."""
    commit, _, _ = _commit_and_date(package).partition(" ")
    return f"{__version__}+{commit}" if commit else __version__


def version_with_commit_and_date(package: str = PACKAGE) -> str:
    """Return the version as `1.0.0+COMMIT (DATE)`, or `1.0.0` if the commit is unknown."""
    _, _, date = _commit_and_date(package).partition(" ")
    return f"{version_with_commit(package)} ({date})" if date else version_with_commit(package)


@cache
def _commit_and_date(package: str) -> str:
    return _commit_of_build(package) or _commit_of_checkout(package)


def _commit_of_build(package: str) -> str:
    try:
        with open(f"{package}/{COMMIT}", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def _commit_of_checkout(package: str) -> str:
    """Return the commit and its date of a git checkout that contains the package; empty if unknown.

    Git would refuse another account's checkout, but this process runs that account's code anyway.
    """
    checkout = os.path.dirname(package)
    try:
        is_one_persons = os.stat(f"{checkout}/.git").st_uid == os.stat(package).st_uid
    except OSError:
        return ""
    trusted = ("-c", f"safe.directory={checkout}") if is_one_persons else ()
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
    answers = []
    for words in (DESCRIBE, DATE):
        try:
            answer = run_program(("/usr/bin/git", *trusted, "-C", checkout, *words), environment, GIT_S)
        except CommandFailed:
            return ""
        if answer.status:
            return ""
        answers.append(answer.stdout.decode("ascii", "replace").strip())
    return " ".join(answers)
