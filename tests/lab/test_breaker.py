"""A breaker: beta gets no more jobs for a while when it fails them in a row."""

from collections.abc import Iterator

import pytest

from tests.lab.away import QUIET, ends, is_known, lines
from tests.lab.configured import configured
from tests.lab.grid import Grid
from tests.lab.refusals import NO_ACCESS, PROJECT, project_of_others

pytestmark = pytest.mark.lab

SCRIPT = "echo $HOSTNAME >>$JOB_NAME.ran\n"


@pytest.fixture
def quick_breaker(grid: Grid) -> Iterator[None]:
    """Let three jobs in a row close the queue for 15 s."""
    sed = r"/^\[poller\]/a breaker_failures = 3\nbreaker_pause_s = 15"
    with project_of_others(grid), configured(grid, sed):
        # What starters refuse for want of its words is not the cluster's failure.
        grid.until(lambda: is_known(grid, PROJECT), "beta's project to be known")
        yield
    grid.until(lambda: not is_known(grid, PROJECT), "beta's project to be forgotten")


def test_jobs_that_fail_in_a_row_close_the_queue_until_one_runs(
    grid: Grid, quick_breaker: None
) -> None:
    jobs = [grid.submit("-P", PROJECT, "-q", "transfer-beta", *QUIET, script=SCRIPT) for _ in "123"]
    grid.until(lambda: not grid.is_open(), "transfer-beta to be closed")
    told = grid.on("alpha-master", "gridbridge", "status").out
    for job in jobs:
        grid.cell("alpha", "qdel", job)
    probe = grid.transfer("-N", "probe", *QUIET, script=SCRIPT)
    grid.until(lambda: ends(grid, probe), "the probe to end", 90)
    grid.until(grid.is_open, "transfer-beta to be open")

    assert f"3 jobs in a row failed at beta: job rejected: {NO_ACCESS}" in told
    assert [host.partition("-n")[0] for host in lines(grid, "probe.ran")] == ["beta"]
    log = grid.sh("alpha-master", "cat /var/lib/gridbridge/poller.log")
    assert "event=closed cluster=beta" in log
    assert "event=opened cluster=beta" in log
