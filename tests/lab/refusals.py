"""A request that beta refuses for good: a project that only alpha has."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.lab.grid import Grid

PROJECT = "homeonly"
NO_PROJECT = f'the requested project "{PROJECT}" does not exist'
DEFINITION = f"name {PROJECT}\\noticket 0\\nfshare 0\\nacl NONE\\nxacl NONE\\n"


@contextmanager
def project(grid: Grid) -> Iterator[None]:
    """Let alpha have the project for a while."""
    grid.sh("alpha-master", f"printf '{DEFINITION}' >/tmp/prj && qconf -Aprj /tmp/prj")
    try:
        yield
    finally:
        grid.sh("alpha-master", f"qconf -dprj {PROJECT}")
