"""The version of this code, and its commit.

The build (setup.py) writes the commit into the package; in a checkout git tells it. Hot programs
don't ask.
"""

import os
from functools import cache

from gridbridge import __version__
from gridbridge.errors import CommandFailed
from gridbridge.shell.runner import run

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COMMIT = "commit"  # the file that the build writes
DESCRIBE = ("describe", "--always", "--dirty=.changed", "--abbrev=10", "--exclude=*")
GIT_S = 5.0


@cache
def version(package: str = PACKAGE) -> str:
    """Return the version as `1.0.0+COMMIT`, without the last part if the commit is unknown.

    The answer is kept: a program from before an upgrade still says what it runs.
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
    """Ask git about a package in a checkout.

    Git refuses a checkout of another account, for its settings can name programs. This process
    already runs the code of whoever owns the package, so that person's checkout is asked all the
    same.
    """
    checkout = os.path.dirname(package)
    try:
        is_one_persons = os.stat(f"{checkout}/.git").st_uid == os.stat(package).st_uid
    except OSError:
        return ""
    trusted = ("-c", f"safe.directory={checkout}") if is_one_persons else ()
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
    try:
        answer = run(("/usr/bin/git", *trusted, "-C", checkout, *DESCRIBE), environment, GIT_S)
    except CommandFailed:
        return ""
    return answer.stdout.decode("ascii", "replace").strip() if answer.status == 0 else ""
