"""A cluster is removed from gridbridge.toml: its jobs wait, and every command states the reason."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.lab.away import kill, remote_of, wait_for
from tests.lab.configured import TOML, pollers
from tests.lab.grid import Grid

pytestmark = pytest.mark.lab

WITHOUT_BETA = (
    "/^.cluster.beta./,/^.poller./{/^.poller./!d};"
    " /^.queue.transfer-beta./,$d; /^.campaigns.beta.$/d; /^.storage.beta-data./,/^$/d"
)


@pytest.mark.long
def test_jobs_of_a_removed_cluster_wait_and_succeed_once_it_is_restored(grid: Grid) -> None:
    script = "until [ -e dropped.go ]; do sleep 0.2; done; exit 5\n"
    job = grid.transfer("-N", "dropped", "-o", "/dev/null", "-j", "y", script=script)
    wait_for(grid, remote_of(grid, job), "r")

    with without_beta(grid):
        why = grid.until(lambda: _why(grid, job), "why to tell it")
        check = grid.on("alpha-master", "gridbridge", "check")
        state = grid.states()[job]
    grid.sh("alpha-master", "touch dropped.go", user="alice")
    record = grid.accounting(job)
    grid.sh("alpha-master", "rm dropped.go", user="alice")

    assert "until then nobody queries beta, and the job counts as alive" in why
    assert "beta: open transfers" in check.out
    assert (state, record["exit_status"].split()[0]) == ("r", "5")


@contextmanager
def without_beta(grid: Grid) -> Iterator[None]:
    """Remove beta from the next poller's configuration; beta's queue closes some time later."""
    grid.sh("alpha-master", f"cp {TOML} {TOML}.kept && sed -i '{WITHOUT_BETA}' {TOML}")
    try:
        _end_poller(grid)
        yield
    finally:
        grid.sh("alpha-master", f"mv {TOML}.kept {TOML}")
        _end_poller(grid)
        grid.require_ready()


def _end_poller(grid: Grid) -> None:
    """End the poller; the sensor starts another one."""
    kill(grid, *pollers(grid), signal="TERM")


def _why(grid: Grid, job: str) -> str:
    told = grid.on("alpha-master", "gridbridge", "why", job).out
    return told if "[cluster.beta]" in told else ""
