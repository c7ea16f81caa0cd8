"""Starts processes that hold a lock as the poller does."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

HOLD = """
import sys, time
from gridbridge.shell import program_lock_file as lock
print(lock.take_lock_until_exit(sys.argv[1]), flush=True)
time.sleep(60)
"""


def a_holder(
    path: Path, uid: int | None = None, environment: Mapping[str, str] | None = None
) -> "subprocess.Popen[str]":
    """Start a process that holds a lock, as the owner of the folder or as another account."""
    user = os.stat(path.parent).st_uid if uid is None else uid
    child = subprocess.Popen(
        (sys.executable, "-c", HOLD, str(path)),
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
        user=user if os.geteuid() == 0 else None,
    )
    assert child.stdout.readline() == "True\n"
    return child
