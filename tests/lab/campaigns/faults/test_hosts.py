"""A host loses power while it runs tasks: these tasks run again, all others once, and none is lost.

OAR does not notice a host that is up again before OAR's next check: its jobs then last until their walltime.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab.campaigns.runner import CAMPAIGN_S, HOST, submit, until_state
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(900)]

FOLDER = "~/hosts"
LOST = "beta-n2"
TASKS = 4  # as many as beta has slots
RUN = "sh -c 'echo $CIGRI_JOB_ID $(hostname) >>ran; until [ -e go ]; do sleep 0.2; done'"


@pytest.fixture
def folder(site: Grid) -> Iterator[Grid]:
    site.sh(HOST, f"rm -rf {FOLDER} && mkdir {FOLDER}", user="alice")
    yield site
    site.lab("power", LOST, "on")
    site.sh(HOST, f"rm -rf {FOLDER}", user="alice")


def ran(grid: Grid) -> list[tuple[str, str]]:
    """Return the task and the host of each run."""
    told = grid.sh(HOST, f"cat {FOLDER}/ran 2>/dev/null; :", user="alice")
    return sorted((line.split()[0], line.split()[1]) for line in told.splitlines())


def test_tasks_on_a_host_that_loses_power_run_again(folder: Grid) -> None:
    grid = folder
    jdl: dict[str, Any] = {
        "name": "hosts",
        "exec_file": RUN,
        "exec_directory": FOLDER,
        "nb_jobs": TASKS,
        "walltime": "0:10",
        "clusters": {"beta": {}},
    }
    number = submit(grid, jdl)
    grid.until(lambda: len(ran(grid)) == TASKS, "all tasks to run", CAMPAIGN_S)
    before = ran(grid)
    grid.lab("power", LOST, "cut")
    grid.lab("power", LOST, "on")
    grid.sh(HOST, f"touch {FOLDER}/go", user="alice")
    found = until_state(grid, number, "terminated")
    again = sorted(task for task, host in before if host == LOST)

    assert (TASKS, 0) == (found["ended"], found["failed"])
    assert again
    assert sorted([*(task for task, _ in before), *again]) == [task for task, _ in ran(grid)]
