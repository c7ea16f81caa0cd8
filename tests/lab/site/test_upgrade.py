"""An upgrade by one command under a stream of jobs and a campaign: each job and task runs once."""

from collections import Counter
from threading import Event, Thread

import pytest

from tests.lab.away import QUIET
from tests.lab.campaigns import runner
from tests.lab.campaigns.runner import HOST, until_state
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(500)]

SOURCE = "/mnt/checkout/.build/installed/bin"  # which tools/install leaves
UPGRADE = (f"{SOURCE}/python3", "-I", f"{SOURCE}/gridbridge", "install", "--restart")
RUN = "#!/bin/sh\necho $JOB_ID >>upgraded.jobs\nexit 3\n"
TASKS = 60
CAMPAIGN = {
    "name": "upgraded",
    "exec_file": "sh -c 'sleep 5; echo $CIGRI_JOB_ID >>upgraded.tasks' sh",
    "nb_jobs": TASKS,
    "clusters": {"beta": {}},
}


def lines(grid: Grid, name: str) -> Counter[str]:
    return Counter(grid.sh(HOST, f"cat ~/upgraded.{name}; :", user="alice").split())


def environment(grid: Grid) -> str:
    return grid.sh(HOST, "readlink /opt/gridbridge/venv")


def test_an_upgrade_under_load_loses_and_repeats_nothing(grid: Grid) -> None:
    grid.sh(HOST, "rm -f ~/upgraded.*", user="alice")
    runner.start(grid)
    campaign, before = runner.submit(grid, CAMPAIGN), environment(grid)
    jobs: list[str] = []
    is_over = Event()

    def submit_jobs() -> None:
        while not is_over.wait(0.5):
            jobs.append(grid.transfer(*QUIET, script=RUN))

    stream = Thread(target=submit_jobs)
    stream.start()
    try:
        grid.until(lambda: runner.running_tasks(grid, campaign) and jobs, "tasks and jobs to run")
        told = grid.on(HOST, *UPGRADE, timeout_s=300)
        grid.until(lambda: grid.on(HOST, "sh", "-c", runner.FIND).status != 0, "the old runner to end")
        runner.start(grid)  # as systemd or cron would
        grid.require_ready()
    finally:
        is_over.set()
        stream.join()
    ended = until_state(grid, campaign, "terminated")

    assert told.status == 0, told
    assert all(f"stopped gridbridge-{name}: " in told.out for name in ("poller", "runner"))
    assert environment(grid) != before
    assert {grid.accounting_of_end(job)["exit_status"] for job in jobs} == {"3"}
    assert lines(grid, "jobs") == Counter(jobs)
    assert (ended["ended"], ended["failed"]) == (TASKS, 0)
    assert sum(lines(grid, "tasks").values()) == TASKS == len(lines(grid, "tasks"))
    runner.stop(grid)
