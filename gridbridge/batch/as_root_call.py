"""Asks root on this machine for one of its fixed verbs (gridbridge-as-root)."""

import os
from collections.abc import Mapping

from gridbridge.model.places import AS_ROOT
from gridbridge.shell.runner import run

SUDO = ("/usr/bin/sudo", "-n")
BARE: Mapping[str, str] = {"LC_ALL": "C", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
LIMIT_S = 60.0


def as_root(*words: str) -> None:
    """Have root do one of its fixed verbs here; CommandFailed when it does not."""
    sudo = SUDO if os.geteuid() else ()
    run((*sudo, AS_ROOT, *words), dict(BARE), LIMIT_S).checked()
