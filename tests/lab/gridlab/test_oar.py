"""OAR while gamma's database, server or a node fails, and the files left on gamma's disks."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from gridbridge.batch.batch_submission_outcome import JobSubmissionOutcome
from gridbridge.errors import GridbridgeError
from tests.contract.conftest import cluster
from tests.contract.far import FRONTEND, Far
from tests.lab.grid import Grid

pytestmark = pytest.mark.lab

PERSON = "al_gamma"
NODES = ("gamma-n1", "gamma-n2")
WAITING = "until [ -e go ]; do sleep 0.1; done\n"
PATIENCE_S = 5.0
CLIENTS = "ps -eo args | grep -c '^/usr/bin/perl /usr/lib/oar/oar[sdrhn]' || :"


@pytest.fixture
def gamma(grid: Grid) -> Iterator[Far]:
    folder = grid.sh(FRONTEND, "mktemp -d ~/oar.XXXXXX", user=PERSON).strip()
    far = cluster(grid, "gamma", folder)
    yield far
    grid.sh(FRONTEND, "labctl start postgresql; labctl start oar-server")
    far.delete_all()
    grid.sh(FRONTEND, f"rm -rf {folder}", user=PERSON)


def test_nothing_is_left_on_gammas_disks(grid: Grid, gamma: Far) -> None:
    running, ended = gamma.start_all([WAITING, "exit 0\n"])
    held = gamma.submit("exit 0\n")
    kept = grid.sh(FRONTEND, "ls ~/.gridbridge", user=PERSON).split()
    gamma.until_running(running)
    gamma.hot("delete_job", running)
    gamma.hot("delete_job", held)
    gamma.ends([running, ended])

    assert f"job.{held}" in kept
    assert grid.sh(FRONTEND, "ls -A -I stage ~/.gridbridge", user=PERSON) == ""
    jobs = {running, ended, held}
    grid.until(lambda: not jobs & jobs_with_folders(grid), "the nodes to be tidy")


def jobs_with_folders(grid: Grid) -> set[str]:
    names = " ".join(grid.sh(node, "ls /tmp") for node in NODES).split()
    return {name.split(".")[1] for name in names if name.startswith("gridbridge.")}


@pytest.mark.long
def test_a_stopped_database_costs_the_time_limit_and_leaves_no_client(grid: Grid, gamma: Far) -> None:
    """OAR's own clients would retry for ever, and their caller can't kill them."""
    hasty = Far(gamma.reach.within(PATIENCE_S))  # type: ignore[attr-defined]
    grid.sh(FRONTEND, "labctl stop postgresql")
    asks = (lambda: hasty.state("1"), hasty.snapshot, lambda: hasty.hot("delete_job", "1"))
    with ThreadPoolExecutor() as callers:
        answer = callers.submit(hasty.answer, "exit 0\n")
        asked = [callers.submit(ask) for ask in asks]
    refusals = [one.exception() for one in asked]

    assert answer.result().result == JobSubmissionOutcome.UNSURE
    assert [one for one in refusals if not isinstance(one, GridbridgeError)] == []
    grid.until(lambda: grid.sh(FRONTEND, CLIENTS).strip() == "0", "no client to be left")
    grid.sh(FRONTEND, "labctl start postgresql")
    assert gamma.end(gamma.start("exit 3\n")).exit_status == 3


@pytest.mark.long
def test_a_submission_while_the_server_is_down_is_found_and_runs_later(grid: Grid, gamma: Far) -> None:
    """OAR reports the job as killed although it was not."""
    name = gamma.new_name()
    grid.sh(FRONTEND, "labctl stop oar-server")
    answer = gamma.answer("exit 4\n", name=name)
    job = gamma.hot("find_held_job", name, PERSON)
    gamma.accounts[job] = name
    gamma.hot("rename_and_release", job, "work")
    grid.sh(FRONTEND, "labctl start oar-server")

    assert (answer.result, "executor" in answer.reason) == (JobSubmissionOutcome.UNSURE, True)
    assert gamma.end(job).exit_status == 4


@pytest.mark.long
def test_a_deleted_job_of_a_lost_node_has_an_unobserved_end(grid: Grid, gamma: Far) -> None:
    job = gamma.start(WAITING)
    gamma.until_running(job)
    row = gamma.snapshot(job).find_job_list_row(int(job))
    assert row
    node = row.queue.rpartition("@")[2]
    grid.lab("power", node, "cut")
    try:
        gamma.hot("delete_job", job)
        end = grid.until(lambda: gamma.maybe_end(job), "OAR to give it up", 120)
    finally:
        grid.lab("up", "gamma")

    assert (end.exit_status, end.signal, end.host) == (None, None, node)
    assert "EXTERMINATE_JOB" in end.reason


@pytest.mark.long
def test_a_copy_that_oar_makes_of_a_job_does_not_run(grid: Grid, gamma: Far) -> None:
    """OAR makes such a copy of a job that it could not launch."""
    job = gamma.submit("echo ran >>ran\n")
    by_hand = f"oardel {job} >/dev/null; until oarstat -s -j {job} | grep -q Error; do :; done"
    told = grid.sh(FRONTEND, f"{by_hand}; oarsub --resubmit={job}", user=PERSON)
    copy = told.rpartition("OAR_JOB_ID=")[2].strip()
    gamma.accounts[copy] = gamma.accounts[job]
    end = gamma.end(copy)
    gamma.hot("delete_job", job)  # and its script

    assert (end.exit_status, gamma.read("ran")) == (2, "")
