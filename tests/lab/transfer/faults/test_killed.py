"""A starter survives the kill of any process but its first; after that kill no job is left behind.

Kills while beta does not answer are in test_unanswered.py.
"""

from collections.abc import Iterator

import pytest

from tests.lab.away import QUIET, SLEEP, Since, child, kill, lines, remote_of, starter, wait_for
from tests.lab.grid import Grid
from tests.lab.phases import Outcomes, Phases, Steps, as_it_is, no_jobs_left, roomy

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

Ended = tuple[str, str, int]  # exit status, failed, runs
UNTIL_GO = "date +%N >>$JOB_NAME.ran\nuntil [ -e {go}.go ]; do sleep 0.2; done\nexit 3\n"
PHASES: Phases = {"jobs run": as_it_is, "processes are killed": as_it_is}


@pytest.fixture(scope="module")
def came(grid: Grid) -> Iterator[Outcomes]:
    with no_jobs_left(grid), roomy(grid):
        yield Outcomes(grid, children, first, full, phases=PHASES)


def ended(grid: Grid, job: str, name: str, limit_s: float = 60) -> Ended:
    record = grid.accounting(job, limit_s=limit_s)
    status, failed = record["exit_status"].split()[0], record["failed"].split()[0]
    return status, failed, len(lines(grid, f"{name}.ran"))


def children(grid: Grid) -> Steps[dict[str, Ended]]:
    names = ("nap", "finish", "signals")
    scripts = dict.fromkeys(names, UNTIL_GO.format(go="children"))
    scripts["finish"] = scripts["nap"].replace("exit 3", "kill -TERM $$")  # Python's to end
    jobs = {name: grid.transfer("-N", name, *QUIET, script=scripts[name]) for name in names}
    shells = {name: starter(grid, job) for name, job in jobs.items()}
    for name, job in jobs.items():
        wait_for(grid, remote_of(grid, job), "r")
        child(grid, shells[name], "sleep")

    yield "processes are killed"
    kill(grid, child(grid, shells["nap"], "sleep"))
    for signal in ("XCPU", "HUP", "INT", "TERM"):
        kill(grid, f"-{shells['signals']}", signal=signal)
    _let_go_and_kill_the_next_step(grid, shells["finish"])
    return {name: ended(grid, job, name, 30) for name, job in jobs.items()}


def test_a_waiting_starter_survives_its_children_and_signals(came: Outcomes) -> None:
    found = came.of(children)

    assert found == {"nap": ("3", "0", 1), "finish": ("143", "100", 1), "signals": ("3", "0", 1)}


def _let_go_and_kill_the_next_step(grid: Grid, shell: str) -> None:
    """Let the jobs end, and kill the next Python child of a starter's shell at once.

    The child lives for about 50 ms, so the search for it starts no process.
    """
    children, name = f"/proc/{shell}/task/{shell}/children", "/proc/$pid/comm"
    look = f'for pid in $pids; do read -r name <{name} && [ "$name" = python3 ] && kill -9 "$pid"'
    script = (
        f"touch /home/alice/children.go\nwhile :; do read -r pids <{children}\n{look} && exit 0; done; done 2>/dev/null"
    )
    assert grid.on("alpha-master", "timeout", "30", "sh", "-c", script).status == 0


def first(grid: Grid) -> Steps[Ended]:
    job = grid.transfer("-N", "first", *QUIET, script=SLEEP)
    remote = remote_of(grid, job)
    wait_for(grid, remote, "r")

    yield "processes are killed"
    kill(grid, starter(grid, job))
    watch = Since()
    wait_for(grid, remote, "", limit_s=watch.left(10))
    return ended(grid, job, "first")


def test_a_killed_starter_ends_its_job_and_the_epilog_deletes_the_remote_one(came: Outcomes) -> None:
    """Grid Engine reports failed 100 and exit status 137, whatever the epilog returns."""
    status, failed, _ = came.of(first)

    assert (failed, status) == ("100", "137")


def full(grid: Grid) -> Steps[Ended]:
    job = grid.transfer("-N", "full", *QUIET, script=UNTIL_GO.format(go="full"))
    shell = starter(grid, job)
    wait_for(grid, remote_of(grid, job), "r")
    nap = child(grid, shell, "sleep")

    yield "processes are killed"
    grid.sh("alpha-master", f"prlimit --pid {shell} --nproc=1:", user="alice")
    kill(grid, nap)
    grid.until(lambda: _program(grid, shell).startswith("python3"), "the starter to wait", 30)
    grid.sh("alpha-master", f"prlimit --pid {shell} --nproc=1000:", user="alice")
    grid.sh("alpha-master", "touch full.go", user="alice")
    return ended(grid, job, "full")


def test_a_starter_that_may_start_no_process_waits_until_it_may(came: Outcomes) -> None:
    """The starter's first process stays, so that Grid Engine keeps the job. The remote job continues."""
    assert came.of(full) == ("3", "0", 1)


def _program(grid: Grid, pid: str) -> str:
    return grid.on("alpha-master", "ps", "-o", "comm=", "-p", pid).out.strip()
