"""Small filesystems in memory, for tests that run as root."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def memory_mounted(folder: object, options: str) -> Iterator[None]:
    """Mount a filesystem in memory with these options, and unmount it afterwards."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
