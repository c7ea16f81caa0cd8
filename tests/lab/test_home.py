"""Coming home: a job that beta refuses for good runs at alpha, and never twice."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.lab.away import QUIET, ends, global_setting, lines, reason, why
from tests.lab.configured import configured, restart
from tests.lab.grid import Grid
from tests.lab.refusals import NO_PROJECT, PROJECT, project

pytestmark = pytest.mark.lab

REQUEST = ("hard resource_list", "soft resource_list", "hard_queue_list", "context")
SCRIPT = "echo $HOSTNAME >>$JOB_NAME.ran\n"


@pytest.fixture(scope="module", autouse=True)
def _project(grid: Grid) -> Iterator[None]:
    with project(grid):
        yield


@pytest.fixture(scope="module")
def patient(grid: Grid) -> Iterator[None]:
    """Let no number of refusals close the queue, and forget them afterwards."""
    with configured(grid, r"/^\[poller\]/a breaker_failures = 999"):
        yield
        grid.sh("alpha-master", "rm -f /var/lib/gridbridge/published/breakers.json")
    restart(grid)  # what it knows of them it keeps as long as it runs


@pytest.fixture(autouse=True)
def _fresh_notes(grid: Grid) -> None:
    grid.sh("alpha-master", "rm -f *.ran", user="alice")


@contextmanager
def closed_home(grid: Grid) -> Iterator[None]:
    """Disable alpha's own queue, so that what is submitted goes to the transfer queue."""
    grid.cell("alpha", "qmod", "-d", "all.q", user="root")
    try:
        yield
    finally:
        grid.cell("alpha", "qmod", "-e", "all.q", user="root")


def refused(grid: Grid, *options: str) -> str:
    """Submit a job that crosses and that beta refuses; return its id once it is marked."""
    with closed_home(grid):
        job = grid.submit("-P", PROJECT, *QUIET, *options, script=SCRIPT)
        grid.until(lambda: "gridbridge_refused" in detail(grid, job), f"{job} to be marked")
    return job


def detail(grid: Grid, job: str) -> str:
    return grid.cell("alpha", "qstat", "-j", job).out


def asked(told: str, name: str) -> str:
    """Return a line of `qstat -j`, without its blanks."""
    found = (line.partition(":")[2] for line in told.splitlines() if line.startswith(name))
    return next(found, "").strip()


@pytest.mark.usefixtures("patient")
def test_a_refused_job_runs_at_home_with_all_that_it_asked_for(grid: Grid) -> None:
    options = ("-l", "h_rt=100", "-l", "s_rt=90", "-soft", "-l", "h_fsize=1G", "-hard")
    with closed_home(grid):
        job = grid.submit("-N", "one", "-P", PROJECT, *options, "-pe", "smp", "1-2", script=SCRIPT)
        grid.until(lambda: grid.states().get(job) in ("qw", "Rq"), "it to be home", 60)
        told = detail(grid, job)
    records = grid.until(lambda: ends(grid, job), "its end")

    assert set(asked(told, "hard resource_list").split(",")) == {
        *("h_rt=100", "s_rt=90", "remote=false")
    }
    assert asked(told, "soft resource_list") == "h_fsize=1G"
    assert NO_PROJECT in asked(told, "context")
    assert [host.partition("-n")[0] for host in lines(grid, "one.ran")] == ["alpha"]
    assert [one["exit_status"] for one in records] == ["0"]
    assert NO_PROJECT in why(grid, job)
    assert grid.remote_ids(job) == []


@pytest.mark.usefixtures("patient")
def test_a_whole_array_is_marked_once_and_each_task_runs_once(grid: Grid) -> None:
    job = refused(grid, "-N", "many", "-t", "1-5")
    grid.until(lambda: len(ends(grid, job, 5)) == 5, "five ends", 90)

    ran = lines(grid, "many.ran")
    assert [host.partition("-n")[0] for host in ran] == ["alpha"] * 5


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(
    "options",
    [("-q", "transfer-beta"), ("-l", "remote=true")],
    ids=["queue", "remote"],
)
def test_what_nothing_at_home_could_run_is_in_error_with_the_reason(
    grid: Grid, options: tuple[str, ...]
) -> None:
    job = grid.submit("-P", PROJECT, *QUIET, *options, script=SCRIPT)

    told = reason(grid, job)

    assert NO_PROJECT in told
    assert "no queue here could run it either" in told
    assert "remote=false" not in detail(grid, job)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(
    "options",
    [("-q", "transfer-beta,all.q"), ("-l", "mem_free=1M")],
    ids=["a list with a queue at home", "a load value"],
)
def test_what_some_queue_at_home_could_run_comes_home(grid: Grid, options: tuple[str, ...]) -> None:
    job = refused(grid, "-N", "listed", *options)
    grid.until(lambda: ends(grid, job), "its end")

    assert [host.partition("-n")[0] for host in lines(grid, "listed.ran")] == ["alpha"]


@pytest.mark.usefixtures("patient")
def test_where_queues_do_not_say_remote_the_list_of_queues_keeps_a_job_home(grid: Grid) -> None:
    grid.sh("alpha-master", "qconf -dattr queue complex_values remote=FALSE all.q")
    try:
        job = refused(grid, "-N", "byqueue", "-l", "h_rt=100")
        told = detail(grid, job)
        grid.until(lambda: ends(grid, job), "its end")
    finally:
        grid.sh("alpha-master", "qconf -mattr queue complex_values remote=FALSE all.q")

    assert asked(told, "hard_queue_list").startswith("!transfer-beta")
    assert asked(told, "hard resource_list") == "h_rt=100"
    assert [host.partition("-n")[0] for host in lines(grid, "byqueue.ran")] == ["alpha"]


def test_a_refusal_for_now_alters_nothing_and_the_task_stays_held(grid: Grid) -> None:
    """Beta lets alice have one job (max_u_jobs), and she has it there."""
    with global_setting(grid, "beta-master", "max_u_jobs", "1"):
        other = grid.submit("-N", "other", *QUIET, cluster="beta", script="sleep 600\n")
        options = ("-h", "-N", "now", "-l", "h_rt=900", "-soft", "-l", "h_fsize=1G")
        job = grid.transfer(*options, *QUIET, script=SCRIPT)
        before = request(grid, job)
        grid.cell("alpha", "qrls", job)
        grid.until(lambda: tries(grid, job) > 1, "two refusals")
        after, state, told = request(grid, job), grid.states()[job], why(grid, job)
        grid.cell("beta", "qdel", other)
        records = grid.until(lambda: ends(grid, job), "its end", 90)

    assert before == after
    assert state == "hr"
    assert "tried in vain" in told
    assert [one["exit_status"] for one in records] == ["0"]
    assert [host.partition("-n")[0] for host in lines(grid, "now.ran")] == ["beta"]


def request(grid: Grid, job: str) -> dict[str, str]:
    """Return what a job asks for, and what else `qsub` and `qalter` set of it."""
    told = detail(grid, job)
    return {name: asked(told, name) for name in REQUEST}


def tries(grid: Grid, job: str) -> int:
    """Return how often the task's own log tells that beta has refused it."""
    log = f"/tmp/{job}.1.transfer-beta/.gridbridge.log"
    return grid.on("alpha-master", "cat", log).out.count("allowed per user")


def test_a_job_that_a_transfer_brought_is_not_sent_on(grid: Grid) -> None:
    """Its account is a transfer's, wherever that was from."""
    with closed_home(grid):
        options = ("-N", "brought", "-A", "gb.omega.7.0.1")
        job = grid.submit(*QUIET, *options, script=SCRIPT)
        grid.until(lambda: "gridbridge_refused" in detail(grid, job), f"{job} to be marked")
    grid.until(lambda: ends(grid, job), "its end")

    assert [host.partition("-n")[0] for host in lines(grid, "brought.ran")] == ["alpha"]
    assert grid.remote_ids(job) == []
