"""The breaker: after several failed jobs in a row beta gets no more jobs for a while."""

from collections.abc import Iterator
from contextlib import AbstractContextManager

import pytest

from tests.lab.away import QUIET, ends, lines
from tests.lab.configured import configured
from tests.lab.grid import Grid, between

pytestmark = pytest.mark.lab

OPENED = "event=opened cluster=beta"
HERS = "until [ -e ~/probed ]; do sleep 0.2; done; echo $HOSTNAME >>$JOB_NAME.ran\n"


@pytest.fixture
def quick_breaker(grid: Grid) -> Iterator[None]:
    """Let three failed jobs in a row close the queue for 15 s."""
    sed = r"/^\[breaker\]/a failures = 3\npause_s = 15"
    grid.sh("alpha-master", "rm -f /home/alice/probed /home/alice/probe.ran")
    with configured(grid, sed):
        yield


def closed_to_us(grid: Grid) -> AbstractContextManager[None]:
    """Let beta refuse jobs from alpha-master, but still answer queries from there."""
    return between(lambda way: grid.cell("beta", "qconf", way, "alpha-master", user="root"), "-ds", "-as")


@pytest.mark.long
def test_jobs_that_fail_in_a_row_close_the_queue_until_one_runs(grid: Grid, quick_breaker: None) -> None:
    before = grid.logged(OPENED)
    with closed_to_us(grid):
        jobs = [grid.submit("-q", "transfer-beta", *QUIET, script="true\n") for _ in "123"]
        grid.until(lambda: not grid.is_open(), "transfer-beta to be closed")
    told = grid.on("alpha-master", "gridbridge", "status").out
    for job in jobs:
        grid.cell("alpha", "qdel", job)
    probe = grid.transfer("-N", "probe", *QUIET, script=HERS)
    grid.until(lambda: grid.logged(OPENED) != before, "a job to be seen to run")
    grid.sh("alpha-master", "touch /home/alice/probed", user="alice")
    grid.until(lambda: ends(grid, probe), "the probe to end", 90)
    grid.until(grid.is_open, "transfer-beta to be open")

    assert "3 jobs in a row failed at beta: beta rejects all jobs of this site" in told
    assert [host.partition("-n")[0] for host in lines(grid, "probe.ran")] == ["beta"]
    assert "cause=denied owners=alice" in grid.logged("event=closed cluster=beta")
