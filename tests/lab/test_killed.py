"""Killed processes: any but a starter's first is survived, and that one leaves nothing behind."""

import pytest

from tests.lab.away import (
    GONE_AWAY_S,
    QUIET,
    SLEEP,
    Since,
    child,
    kill,
    lines,
    qmaster,
    remote_of,
    starter,
    wait_for,
)
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("clean_homes")]

SCRIPT = "date +%N >>$JOB_NAME.ran\nsleep {seconds}\nexit 3\n"
UNTIL_GO = "date +%N >>$JOB_NAME.ran\nuntil [ -e go.ran ]; do sleep 0.2; done\nexit 3\n"


def test_a_waiting_starter_survives_its_children_and_signals(grid: Grid) -> None:
    """Each job runs once, to its own end, which comes home as soon as ever."""
    names = ("nap", "finish", "signals")
    scripts = dict.fromkeys(names, UNTIL_GO)
    scripts["finish"] = UNTIL_GO.replace("exit 3", "kill -TERM $$")  # Python's to end
    jobs = {name: grid.transfer("-N", name, *QUIET, script=scripts[name]) for name in names}
    shells = {name: starter(grid, job) for name, job in jobs.items()}
    for name, job in jobs.items():
        wait_for(grid, remote_of(grid, job), "r")
        child(grid, shells[name], "sleep")

    kill(grid, child(grid, shells["nap"], "sleep"))
    for signal in ("XCPU", "HUP", "INT", "TERM"):
        kill(grid, f"-{shells['signals']}", signal=signal)
    _let_go_and_kill_the_next_step(grid, shells["finish"])

    for name, job in jobs.items():
        record = grid.accounting(job, limit_s=30)
        ends = ("143", "100") if name == "finish" else ("3", "0")
        assert (record["exit_status"].split()[0], record["failed"].split()[0]) == ends, name
        assert len(lines(grid, f"{name}.ran")) == 1, name


def test_a_step_killed_as_it_submits_or_suspends_is_taken_again(grid: Grid) -> None:
    jobs = {"stop": grid.transfer("-N", "stop", *QUIET, script=UNTIL_GO)}
    remote = remote_of(grid, jobs["stop"])
    wait_for(grid, remote, "r")
    with qmaster(grid, "freeze", "thaw"):
        jobs["submit"] = grid.transfer("-N", "submit", *QUIET, script=SCRIPT.format(seconds=1))
        jobs["client"] = grid.transfer("-N", "client", *QUIET, script=SCRIPT.format(seconds=1))
        grid.cell("alpha", "qmod", "-sj", jobs["stop"])
        shells = {name: starter(grid, job) for name, job in jobs.items()}
        kill(grid, _parent(grid, child(grid, shells["submit"], "qsub")))
        kill(grid, child(grid, shells["client"], "qsub"))
        kill(grid, _parent(grid, child(grid, shells["stop"], "qalter")))

    wait_for(grid, remote, "hs")
    grid.sh("alpha-master", "touch go.ran", user="alice")
    grid.cell("alpha", "qmod", "-usj", jobs["stop"])

    for name, job in jobs.items():
        assert grid.accounting(job)["exit_status"] == "3", name
        assert len(lines(grid, f"{name}.ran")) == 1, name


def test_a_killed_starter_ends_its_job_and_the_epilog_deletes_the_remote_one(grid: Grid) -> None:
    """Grid Engine's rule: failed 100, exit status 137, whatever the epilog says."""
    job = grid.transfer("-N", "first", *QUIET, script=SLEEP)
    remote = remote_of(grid, job)
    wait_for(grid, remote, "r")

    kill(grid, starter(grid, job))
    watch = Since()
    wait_for(grid, remote, "", limit_s=watch.left(10))
    record = grid.accounting(job)

    assert (record["failed"].split()[0], record["exit_status"].split()[0]) == ("100", "137")


def test_a_starter_killed_while_beta_is_down_leaves_nothing_there(grid: Grid) -> None:
    job = grid.transfer("-N", "alone", *QUIET, script=SLEEP)
    remote = remote_of(grid, job)
    wait_for(grid, remote, "r")

    with qmaster(grid, "stop", "start"):
        kill(grid, starter(grid, job))
        grid.until_gone(job, limit_s=20)
    watch = Since()
    wait_for(grid, remote, "", limit_s=watch.left(GONE_AWAY_S))

    assert grid.remote_ids(job) == [remote]


def _let_go_and_kill_the_next_step(grid: Grid, shell: str) -> None:
    """Let the jobs end; kill the next Python child of a starter's shell as soon as there is one."""
    script = f"touch /home/alice/go.ran; until pkill -KILL -P {shell} python3; do sleep 0.003; done"
    assert grid.on("alpha-master", "timeout", "30", "sh", "-c", script).status == 0


def _parent(grid: Grid, pid: str) -> str:
    return grid.on("alpha-master", "ps", "-o", "ppid=", "-p", pid).out.strip()


def test_a_starter_that_may_start_no_process_waits_until_it_may(grid: Grid) -> None:
    """The first process stays, so Grid Engine keeps the job, and the remote one goes on."""
    job = grid.transfer("-N", "full", *QUIET, script=UNTIL_GO)
    shell = starter(grid, job)
    wait_for(grid, remote_of(grid, job), "r")
    nap = child(grid, shell, "sleep")

    grid.sh("alpha-master", f"prlimit --pid {shell} --nproc=1:", user="alice")
    kill(grid, nap)
    grid.until(lambda: _program(grid, shell).startswith("python3"), "the starter to wait", 30)
    grid.sh("alpha-master", f"prlimit --pid {shell} --nproc=1000:", user="alice")
    grid.sh("alpha-master", "touch go.ran", user="alice")
    record = grid.accounting(job)

    assert (record["exit_status"].split()[0], record["failed"].split()[0]) == ("3", "0")
    assert len(lines(grid, "full.ran")) == 1


def _program(grid: Grid, pid: str) -> str:
    return grid.on("alpha-master", "ps", "-o", "comm=", "-p", pid).out.strip()
