"""Jobs that Grid Engine 8.1.9 can't kill any more: the lab's hosts end these jobs."""

import pytest

from tests.lab.grid import Grid

pytestmark = pytest.mark.lab

IGNORES = (
    "cd /var/spool/gridengine/beta/execd/*/active_jobs/{job}.1 && yes 'ignored signal KILL' | head -n {lines} >>trace"
)


def test_a_job_whose_shepherd_ignores_kills_ends(grid: Grid) -> None:
    """The trace has two ignored kills: a single one may be a repeated kill of a dying job."""
    job = grid.submit("-l", "hostname=beta-n1", cluster="beta", script="exec sleep 600\n")
    grid.until(lambda: grid.states("beta").get(job) == "r", "the job to run")
    grid.sh("beta-n1", IGNORES.format(job=job, lines=2))

    grid.until_gone(job, "beta")
    assert grid.accounting(job, "beta")["failed"].startswith("100")
