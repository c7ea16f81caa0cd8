"""Runs a fixed verb of gridbridge-as-root on this machine."""

import os
from collections.abc import Mapping

from gridbridge.model.places import AS_ROOT
from gridbridge.shell.runner import run_program

SUDO = ("/usr/bin/sudo", "-n")
BARE: Mapping[str, str] = {"LC_ALL": "C", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
LIMIT_S = 60.0


def run_root_verb(*words: str) -> None:
    """Run a verb of gridbridge-as-root by sudo; CommandFailed if it fails."""
    sudo = SUDO if os.geteuid() else ()
    run_program((*sudo, AS_ROOT, *words), dict(BARE), LIMIT_S).checked()
