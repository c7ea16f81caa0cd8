"""Jobs that run several short tasks, on real daemons."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab.campaigns import runner
from tests.lab.campaigns.runner import CAMPAIGN_S, HOST, jobs_of, ledger, submit
from tests.lab.configured import configured
from tests.lab.gamma import ACCOUNT, FAR
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]


def jdl(command: str, tasks: int, *clusters: str) -> dict[str, Any]:
    known = {"name": "short", "type": "normal", "walltime": "0:10", "temporal_grouping": True, "nb_jobs": tasks}
    return known | {"exec_file": f"sh -c '{command}' sh", "clusters": {name: {} for name in clusters}}


def begun(grid: Grid, number: int) -> list[str]:
    """Return the words that the tasks have written, at beta and gamma."""
    look = f"cat ran.{number} 2>/dev/null; :"
    return [*grid.sh(HOST, look, user="alice").split(), *grid.sh(FAR, f"cd; {look}", user=ACCOUNT).split()]


def test_jobs_of_grid_engine_and_oar_run_several_tasks_each_once(site: Grid) -> None:
    """Eight slots share 80 tasks; each task has its own end."""
    run = "echo $1 >>ran.$CIGRI_CAMPAIGN_ID; case $1 in 5) exit 3 ;; 7) kill -11 $$ ;; esac"
    number = submit(site, jdl(run, 80, "beta", "gamma"))
    shown = runner.until_state(site, number, "terminated")
    ran = begun(site, number)

    assert sorted(ran, key=int) == [str(task) for task in range(80)]
    assert runner.outcomes(site, number) == {"success": 78, "program_error": 1, "signal": 1}
    assert (shown["ended"], shown["failed"]) == (80, 2)
    assert {row[2] for row in ledger(site, number) if row[0] == "array" and "group=" in row[-1]} == {"beta", "gamma"}


@pytest.mark.long
@pytest.mark.parametrize("cluster", ["beta", "gamma"])
def test_tasks_of_a_job_run_side_by_side_in_its_slots(site: Grid, cluster: str) -> None:
    """Each task waits for the other task of its pair."""
    run = "n=$CIGRI_CAMPAIGN_ID; echo $1 >>ran.$n; : >at.$n.$1; until [ -e at.$n.$(($1 ^ 1)) ]; do sleep 0.2; done"
    number = submit(site, jdl(run, 4, cluster) | {"dimensional_grouping": 2, "temporal_grouping": False})
    runner.until_state(site, number, "terminated")

    assert runner.outcomes(site, number) == {"success": 4}
    assert sorted(begun(site, number)) == ["0", "1", "2", "3"]


@pytest.fixture(name="pulling")
def _pulling(site: Grid) -> Iterator[Grid]:
    """Let running jobs get further tasks."""
    with configured(site, "s/^#pull = .*/pull = true/; s/^#pull_wait_s = .*/pull_wait_s = 20/"):
        runner.stop(site)
        runner.start(site)
        yield site
        runner.end_all(site)
        runner.stop(site)
    runner.start(site)


@pytest.mark.long
@pytest.mark.parametrize("cluster", ["beta", "gamma"])
def test_running_jobs_get_further_tasks_and_a_deleted_job_loses_only_its_own(pulling: Grid, cluster: str) -> None:
    """A job begins with 50 tasks; one of the jobs is deleted once it has further tasks."""
    number = submit(pulling, jdl("echo $1 >>ran.$CIGRI_CAMPAIGN_ID; sleep 1", 400, cluster))
    pulling.until(lambda: any(row[0] == "more" for row in ledger(pulling, number)), "further tasks", CAMPAIGN_S)
    (job, *_) = jobs_of(pulling, number)
    if cluster == "beta":
        pulling.cell("beta", "qdel", f"{job}.1", user="alice")
    else:
        pulling.sh(FAR, f"oardel {job}", user=ACCOUNT)
    runner.until_state(pulling, number, "terminated")
    outcomes, ran = runner.outcomes(pulling, number), begun(pulling, number)

    assert outcomes["success"] + outcomes["signal"] + outcomes["cancelled"] == 400
    assert outcomes["signal"] + outcomes["cancelled"] <= 1
    assert len(ran) == len(set(ran)) == 400


@pytest.mark.long
@pytest.mark.parametrize("cluster", ["beta", "gamma"])
def test_a_deleted_job_loses_only_the_task_that_ran(site: Grid, cluster: str) -> None:
    """The deleted tasks are those that slept, at most one for each of the cluster's four slots."""
    run = "echo $1 >>ran.$CIGRI_CAMPAIGN_ID; mkdir sleeps.$CIGRI_CAMPAIGN_ID.$1 && [ $(($1 % 10)) -ne 5 ] || sleep 60"
    number = submit(site, jdl(run, 40, cluster))
    site.until(lambda: len(jobs_of(site, number)) > 0, "jobs", CAMPAIGN_S)
    site.until(lambda: any(word.endswith("5") for word in begun(site, number)), "a sleeping task", CAMPAIGN_S)
    (job, *_) = jobs_of(site, number)
    if cluster == "beta":
        site.cell("beta", "qdel", job, user="alice")
    else:
        site.sh(FAR, f"oardel {job}", user=ACCOUNT)
    runner.until_state(site, number, "terminated")
    outcomes, ran = runner.outcomes(site, number), begun(site, number)

    assert outcomes["success"] + outcomes["signal"] + outcomes["cancelled"] == 40
    assert 1 <= outcomes["signal"] + outcomes["cancelled"] <= 4
    assert len(ran) == len(set(ran)) == 40
