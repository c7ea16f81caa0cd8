"""A rescheduled task never runs at home while a copy of it may live on the other cluster."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.lab.away import QUIET, ends, global_setting, lines, until_all_gone, wait_for
from tests.lab.grid import Grid

pytestmark = pytest.mark.lab

# Two lines an execution: where it ran, and that it came to its end.
SCRIPT = "echo start $HOSTNAME >>$JOB_NAME.ran; sleep {seconds}; echo end >>$JOB_NAME.ran\n"
UNTIL_GO = (
    "echo start $HOSTNAME >>$JOB_NAME.ran; until [ -e $JOB_NAME.go ]; do sleep 0.2; done; exit 3\n"
)


@pytest.fixture(autouse=True)
def _fresh_notes(grid: Grid) -> None:
    grid.sh("alpha-master", "rm -f *.ran *.go", user="alice")


@pytest.fixture
def busy_beta(grid: Grid) -> Iterator[None]:
    """Fill beta's slots with bob's jobs for as long as the test takes."""
    job = grid.submit("-N", "fill", "-t", "1-4", user="bob", cluster="beta", script="sleep 600\n")
    grid.until(lambda: _running(grid, job, "beta") == 4, "beta to be full")
    yield
    grid.cell("beta", "qdel", job, user="bob")
    grid.until_gone(job, "beta")


def test_qmod_rj_starts_anew_only_after_the_copy_is_gone(grid: Grid) -> None:
    """As at home: what ran is killed, and the task runs again."""
    job = grid.overflow("-N", "rj", script=SCRIPT.format(seconds=15))
    first = grid.remote_id(job)
    grid.until(lambda: "start" in _ran(grid, "rj"), "the first run")

    grid.cell("alpha", "qmod", "-rj", job, user="root")
    record = grid.accounting_of_end(job)

    assert record["exit_status"] == "0"
    starts_and_end = _ran(grid, "rj").splitlines()
    assert starts_and_end[0].startswith("start beta-")
    assert starts_and_end[1].startswith("start alpha-n")
    assert starts_and_end[2:] == ["end"]
    assert first not in grid.states("beta")


def test_a_copy_that_still_waits_is_deleted_and_the_task_runs_at_home(
    grid: Grid, busy_beta: None
) -> None:
    job = grid.overflow("-N", "waits", script=SCRIPT.format(seconds=1))
    remote = grid.remote_id(job)

    grid.cell("alpha", "qmod", "-rj", job, user="root")
    grid.accounting_of_end(job)

    assert _ran(grid, "waits").startswith("start alpha-n")
    assert remote not in grid.states("beta")


def test_a_running_copy_is_adopted_after_the_transfer_host_lost_power(grid: Grid) -> None:
    """Free slots at home are no temptation: both tasks run once, at beta, to their end."""
    job = grid.overflow("-N", "cut", "-t", "1-2", tasks=2, script=SCRIPT.format(seconds=20))
    grid.until(lambda: _ran(grid, "cut").count("start") == 2, "both tasks to run")

    grid.lab("power", "alpha-master", "cut")
    grid.lab("power", "alpha-master", "on")
    grid.require_ready()
    records = grid.until(lambda: ends(grid, job, 2), "both tasks to end", 90)

    assert {each["exit_status"] for each in records} == {"0"}
    ran = _ran(grid, "cut").splitlines()
    assert (len([one for one in ran if one.startswith("start beta-")]), ran.count("end")) == (2, 2)
    assert len(ran) == 4


def test_a_task_that_the_silence_of_its_execd_puts_back_runs_once_to_its_end(grid: Grid) -> None:
    """reschedule_unknown: an end that nobody heard is kept, a copy that runs is deleted."""
    names = ("before", "after", "runs")
    jobs = {name: grid.overflow("-N", name, *QUIET, script=UNTIL_GO) for name in names}
    remotes = {name: grid.remote_id(job) for name, job in jobs.items()}
    for remote in remotes.values():
        wait_for(grid, remote, "r")
    with silent_execd(grid):
        _let_end(grid, "before", remotes["before"])
        for job in jobs.values():
            wait_for(grid, job, "hRq", "alpha", limit_s=90)
        _let_end(grid, "after", remotes["after"])

        assert {grid.states()[job] for name, job in jobs.items() if name != "before"} == {"hRq"}
    grid.until(lambda: len(lines(grid, "runs.ran")) == 2, "the second run", 90)
    _let_end(grid, "runs", remotes["runs"])
    found = {name: grid.accounting_of_end(job)["exit_status"] for name, job in jobs.items()}

    assert found == dict.fromkeys(names, "3")
    assert [_clusters(grid, name) for name in names] == [["beta"], ["beta"], ["beta", "alpha"]]
    until_all_gone(grid, remotes.values())


def _let_end(grid: Grid, name: str, remote: str) -> None:
    grid.sh("alpha-master", f"touch {name}.go", user="alice")
    wait_for(grid, remote, "")


@contextmanager
def silent_execd(grid: Grid) -> Iterator[None]:
    """Stop the execd of the transfer host, so that the qmaster puts its jobs back."""
    with global_setting(grid, "alpha-master", "reschedule_unknown", "0:0:5"):
        grid.on("alpha-master", "labctl", "stop", "execd")
        try:
            yield
        finally:
            grid.on("alpha-master", "labctl", "start", "execd")
            grid.require_ready()


def _clusters(grid: Grid, name: str) -> list[str]:
    """Return the clusters where a job began to run, in order."""
    starts = [line for line in lines(grid, f"{name}.ran") if line.startswith("start")]
    return [line.split()[1].partition("-")[0] for line in starts]


def test_a_job_put_back_at_beta_after_its_end_was_told_does_not_run_to_its_end_again(
    grid: Grid,
) -> None:
    """`-notify` warns the job, which ends of it and says so; then beta starts it once more."""
    job = grid.transfer("-N", "put", "-notify", "-r", "n", script=SCRIPT.format(seconds=45))
    remote = grid.remote_id(job)
    grid.until(lambda: "start" in _ran(grid, "put"), "the first run")

    grid.cell("beta", "qmod", "-f", "-rj", remote, user="root")
    record = grid.accounting_of_end(job)
    grid.until_gone(remote, "beta", 30)

    assert record["exit_status"].split()[0] == "140"  # USR2, -notify's warning
    assert "end" not in _ran(grid, "put")
    told = grid.sh("alpha-master", f"gridbridge why {job}")
    told = grid.on("alpha-master", "gridbridge", "why", job, user="alice").out
    assert "delete remote: its end was told, and beta lists it as " in told


def _ran(grid: Grid, name: str) -> str:
    return grid.on("alpha-master", "cat", f"{name}.ran", user="alice").out


def _running(grid: Grid, job: str, cluster: str) -> int:
    return sum(
        state == "r" for key, state in grid.states(cluster).items() if key.split(".")[0] == job
    )
