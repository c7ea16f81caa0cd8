"""Jobs that beta refuses: their project exists only at alpha, or only other users may use it."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.lab.grid import Grid

PROJECT = "homeonly"
NO_PROJECT = f"beta has no project {PROJECT}"  # as is known beforehand
NO_ACCESS = f'no access to project "{PROJECT}" for user "alice"'  # as its qmaster refuses
FOR_ALL, FOR_OTHERS = "NONE", "deadlineusers"  # every cell has that set, with nobody in it
BETA = "SGE_CELL=beta SGE_QMASTER_PORT=6454 SGE_EXECD_PORT=6455 qconf"


@contextmanager
def project(grid: Grid) -> Iterator[None]:
    with _project(grid, "qconf", FOR_ALL):
        yield


@contextmanager
def project_of_others(grid: Grid) -> Iterator[None]:
    """Give beta the project too, for users other than alice."""
    with project(grid), _project(grid, BETA, FOR_OTHERS):
        yield


@contextmanager
def _project(grid: Grid, qconf: str, users: str) -> Iterator[None]:
    definition = f"name {PROJECT}\\noticket 0\\nfshare 0\\nacl {users}\\nxacl NONE\\n"
    grid.sh("alpha-master", f"printf '{definition}' >/tmp/prj && {qconf} -Aprj /tmp/prj")
    try:
        yield
    finally:
        grid.sh("alpha-master", f"{qconf} -dprj {PROJECT}")
