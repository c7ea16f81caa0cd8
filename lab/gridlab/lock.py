"""One lab a machine: who may act now (a flock), and which checkout the lab belongs to."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from gridlab import paths
from gridlab.errors import LabError

WAIT_LIMIT_S = 180.0  # another command, e.g. a first `up` with its download


@contextmanager
def exclusive() -> Iterator[int]:
    """Hold the machine-wide lock; the kernel releases it even after kill -9.

    A child process that gets the handle holds the lock too.
    """
    handle = _take()
    try:
        yield handle
    finally:
        os.close(handle)


def forget() -> None:
    """Delete the lock file while holding it; waiters notice and make a new one."""
    paths.LOCK.unlink(missing_ok=True)


def owner() -> str:
    """Return the checkout that owns the lab; empty when none does."""
    try:
        return paths.OWNER.read_text().strip()
    except FileNotFoundError:
        return ""


def claim() -> None:
    """Record that this checkout owns the lab."""
    paths.RUN.mkdir(exist_ok=True)
    beside = paths.OWNER.with_name(".owner.new")
    beside.write_text(f"{paths.CHECKOUT}\n")
    beside.rename(paths.OWNER)


def check_ours() -> None:
    """Raise LabError unless this checkout owns the lab."""
    now = owner()
    if not now:
        raise LabError("the lab is down; start it with: lab/lab up")
    if now != str(paths.CHECKOUT):
        raise LabError(f"the lab belongs to {now}; `lab/lab up` takes it over")


def _take() -> int:
    deadline = time.monotonic() + WAIT_LIMIT_S
    while True:
        handle = os.open(paths.LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        if _locked(handle):
            return handle
        os.close(handle)
        if time.monotonic() > deadline:
            raise LabError(f"another lab command holds {paths.LOCK} for {WAIT_LIMIT_S:.0f} s")
        time.sleep(0.05)


def _locked(handle: int) -> bool:
    """Try to lock; a file that was deleted meanwhile does not count."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(handle), os.stat(paths.LOCK))
    except (BlockingIOError, FileNotFoundError):
        return False
