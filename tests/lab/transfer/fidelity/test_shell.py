"""The login shell of the wrapper: its profile is read, and does not change the job."""

import re
from collections.abc import Iterator

import pytest

from tests.lab.away import lines, reason
from tests.lab.configured import TOML, configured
from tests.lab.grid import Grid

pytestmark = pytest.mark.lab

NODES = ("beta-n1", "beta-n2")
PROFILE = "/etc/profile.d/zz-shell.sh"
NOTES = 'export FROM_PROFILE=1; [ "$JOB_NAME" != shell ] || echo read >>~/shell.read\n'
OF_A_RUN = ("JOB_ID=", "GRIDBRIDGE_REMOTE_JOB_ID=", "GRIDLAB_", "HOSTNAME=", "SGE_JOB_SPOOL_DIR=")


@pytest.fixture
def profile(grid: Grid) -> Iterator[None]:
    """Have every login shell on beta's nodes write a note and set a variable."""
    for node in NODES:
        assert grid.on(node, "tee", PROFILE, stdin=NOTES).status == 0
    yield
    for node in NODES:
        grid.sh(node, f"rm {PROFILE}")
    grid.sh("alpha-master", "rm -f shell.read shell.seen", user="alice")


def test_the_job_sees_the_same_whether_its_wrapper_is_a_login_shell_or_not(grid: Grid, profile: None) -> None:
    """The lab's own configuration uses no login shell."""
    del profile
    section = grid.sh("alpha-master", f"sed -n '/^.cluster.beta./,/^.queue/p' {TOML}")
    assert '\nshell = "/bin/dash"\n' in section
    seen_by_dash = environment(grid)
    read_by_dash = lines(grid, "shell.read")
    with configured(grid, with_shell("/bin/sh")):
        seen_by_sh = environment(grid)
    read_by_sh = lines(grid, "shell.read")

    assert (read_by_sh, read_by_dash) == (["read"], [])
    assert seen_by_sh == seen_by_dash
    assert not [line for line in seen_by_sh if line.startswith("FROM_PROFILE")]


def test_a_missing_remote_shell_is_shown_as_the_reason(grid: Grid) -> None:
    with configured(grid, with_shell("/no/such/sh")):
        job = grid.transfer("-b", "y", "true")
        try:
            told = reason(grid, job)
        finally:
            grid.cell("alpha", "qdel", job)

    assert re.search(r"gridbridge: beta put job \d+ into error state; .*/no/such/sh", told), told


def with_shell(path: str) -> str:
    """Return the script that makes beta's nodes run the wrapper with this shell."""
    return f'/^.cluster.beta./,/^.queue/ s|^#*shell = .*|shell = "{path}"|'


def environment(grid: Grid) -> list[str]:
    """Return the environment of a job that requests no shell, without values that differ in each run."""
    into = ("-N", "shell", "-o", "shell.seen", "-j", "y")
    job = grid.transfer(*into, "-b", "y", "-shell", "n", "env")
    assert grid.accounting(job)["exit_status"].split()[0] == "0"
    seen = [re.sub(r"/tmp/\d+\.1\.all\.q", "@TMPDIR@", line) for line in lines(grid, "shell.seen")]
    grid.sh("alpha-master", "rm shell.seen", user="alice")
    return sorted(line for line in seen if not line.startswith(OF_A_RUN))
