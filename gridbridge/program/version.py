"""The version of this code with its git commit.

The build (setup.py) writes the commit into the package. In a checkout, git reports the commit. Hot
programs never query the version.
"""

import os
from functools import cache

from gridbridge import __version__
from gridbridge.errors import CommandFailed
from gridbridge.shell.runner import run_program

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
