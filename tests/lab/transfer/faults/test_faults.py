"""After each fault every job has run exactly once, or waits with a stated reason; no orphan runs."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from shlex import quote

import pytest

from tests.lab.away import cut, ends, global_setting, lines, qmaster, statuses
from tests.lab.configured import configured
from tests.lab.grid import Grid, between

pytestmark = pytest.mark.lab

POLLER = "[g]ridbridge.transfer.poller.program"  # so that pkill does not match its own caller
SENSOR = "[g]ridbridge.transfer.starter.sensor"
BAD_ANSWERS = (
    "true",
    "echo garbage",
    "head -c 300 $0.whole",
    "printf '<a><b></a>'",
    "exit 1",
    "sleep 60",  # the last: what is asked while it sleeps would count for the next
)
WIPE = f"""pkill -KILL -u gridbridge -f {POLLER}
rm -f /var/lib/gridbridge/state.db* /var/spool/gridbridge/m.*"""
FIFOS = " /var/spool/gridbridge/wake/*"
Outcome = tuple[list[str], set[tuple[str, str]]]  # the tasks that ran, how they ended
UNTIL_GO = "$(until [ -e {}.go ]; do sleep 0.3; done)"
SCRIPT = "echo $JOB_ID.$SGE_TASK_ID >>$JOB_NAME.ran; sleep 0 {seconds}\n"


@pytest.fixture(autouse=True)
def _fresh_notes(grid: Grid) -> Iterator[None]:
    grid.sh("alpha-master", "rm -f *.ran *.go", user="alice")
    yield
    grid.require_ready()


def submit(grid: Grid, name: str, count: int, seconds: int | str) -> str:
    script = SCRIPT.format(seconds=seconds)
    return grid.transfer("-N", name, "-t", f"1-{count}", "-o", "/dev/null", "-j", "y", script=script)


def outcome(grid: Grid, job: str, name: str, count: int, limit_s: float = 120) -> Outcome:
    records = grid.until(lambda: ends(grid, job, count), f"{count} ends of {job}", limit_s)
    for remote in grid.remote_ids(job):
        grid.until_gone(remote, "beta")  # a qmaster that was away hears its execds some 30 s later
    return sorted(_ran(grid, name)), statuses(records)


def once_each(job: str, count: int) -> Outcome:
    return sorted(f"{job}.{task}" for task in range(1, count + 1)), {("0", "0")}


@pytest.mark.long
def test_twenty_jobs_run_once_each_though_the_remote_qmaster_stops_for_a_minute(grid: Grid) -> None:
    job = submit(grid, "outage", 20, 3)
    grid.until(lambda: len(grid.remote_ids(job)) > 4, "some to be away")

    with qmaster(grid, "stop", "start"):
        grid.sh("beta-master", "sleep 60", timeout_s=90)

    assert outcome(grid, job, "outage", 20) == once_each(job, 20)


@pytest.mark.long
def test_jobs_run_once_though_the_network_to_the_remote_master_is_cut(grid: Grid) -> None:
    job = submit(grid, "cut", 6, 3)
    grid.until(lambda: len(grid.remote_ids(job)) > 1, "some to be away")

    with cut(grid, "beta"):
        grid.until(lambda: "gb_beta_up=0" in _load(grid), "the queue to be closed", 90)

    assert outcome(grid, job, "cut", 6) == once_each(job, 6)


def test_jobs_run_once_though_the_transfer_hosts_daemons_are_killed(grid: Grid) -> None:
    """The poller, the sensor and execd are killed in turn. The starters survive."""
    job = submit(grid, "daemons", 4, UNTIL_GO.format("daemons"))
    grid.until(lambda: len(grid.remote_ids(job)) == 4, "all to be away")

    grid.sh("alpha-master", f"pkill -9 -f {POLLER}")
    grid.until(lambda: _pids(grid, POLLER), "the sensor to start a new poller", 30)
    grid.sh("alpha-master", f"pkill -9 -f {SENSOR}")
    grid.until(lambda: _pids(grid, SENSOR), "a new sensor", 30)
    grid.sh("alpha-master", "labctl kill execd; labctl start execd")
    grid.sh("alpha-master", "touch daemons.go", user="alice")
    for remote in grid.remote_ids(job):
        grid.until_gone(remote, "beta")
    # An execd looks at the jobs of an earlier one when it starts, then once a minute.
    grid.sh("alpha-master", "labctl restart execd")

    assert outcome(grid, job, "daemons", 4) == once_each(job, 4)


@pytest.mark.long
@pytest.mark.parametrize("lost", ["", FIFOS], ids=["messages", "all"])
def test_remote_jobs_are_known_two_minutes_after_state_file_and_spool_were_lost(grid: Grid, lost: str) -> None:
    """Each starter checks after its sleep whether its FIFO is gone or its record is too old."""
    job = submit(grid, "wiped", 2, UNTIL_GO.format("wiped"))
    told = partial(grid.logged, f"name=gb.alpha.{job}.")
    grid.until(lambda: told().count("released") == 2, "both to cross")
    grid.sh("alpha-master", f"{WIPE}{lost}")
    grid.until(lambda: told().count("released") == 4, "both to be known again", 130)
    grid.sh("alpha-master", "touch wiped.go", user="alice")

    assert outcome(grid, job, "wiped", 2) == once_each(job, 2)


def test_a_stopped_sensor_never_blocks_execd(grid: Grid) -> None:
    """Execd keeps starting and ending jobs. The resumed sensor answers again."""
    with between(lambda signal: grid.sh("alpha-master", f"pkill -{signal} -f {SENSOR}"), "STOP", "CONT"):
        job = submit(grid, "deaf", 2, 1)
        assert outcome(grid, job, "deaf", 2, 40) == once_each(job, 2)


def _states(grid: Grid, job: str) -> set[str]:
    return {letters for one, letters in grid.states().items() if one.partition(".")[0] == job}


def test_a_job_refused_by_a_limit_is_only_delayed(grid: Grid) -> None:
    """Under max_u_jobs qsub(1) exits with 25."""
    with global_setting(grid, "beta-master", "max_u_jobs", "2"):
        job = submit(grid, "limit", 5, 2)
        grid.until(lambda: len(_ran(grid, "limit")) >= 2, "the first to run")

        assert _states(grid, job) <= {"r", "t", "qw"}
    assert outcome(grid, job, "limit", 5, 150) == once_each(job, 5)


@pytest.mark.long
def test_no_answer_is_never_taken_for_an_end_or_for_idle(grid: Grid) -> None:
    job = submit(grid, "answers", 2, UNTIL_GO.format("answers"))
    grid.until(lambda: len(_ran(grid, "answers")) == 2, "both to run")
    with qstat_of_the_service(grid) as answer:
        for words in BAD_ANSWERS:
            before = _unanswered(grid)
            was_given = answer(words)
            grid.until(was_given, f"{words!r} to be asked for")
            grid.until(lambda: _unanswered(grid) > before, f"{words!r} to be no answer")  # noqa: B023

            assert _states(grid, job) == {"r"}
        grid.until(lambda: "gb_beta_up=0" in _load(grid), "the queue to be closed", 60)

        assert "gb_beta_pending=999999" in _load(grid)
    grid.sh("alpha-master", "touch answers.go", user="alice")
    assert outcome(grid, job, "answers", 2) == once_each(job, 2)


@pytest.mark.long
def test_jobs_run_once_though_betas_clocks_are_two_hours_ahead(grid: Grid) -> None:
    with false_clock(grid, "+2h"):
        job = submit(grid, "clock", 4, 2)
        assert outcome(grid, job, "clock", 4) == once_each(job, 4)


@contextmanager
def qstat_of_the_service(grid: Grid) -> Iterator[Callable[[str], Callable[[], bool]]]:
    """Replace the poller's qstat of beta by a program with a given answer; starters keep the real qstat.

    The correct answer is saved beside it as `qstat.whole`. The yielded function says whether the new
    answer was given.
    """
    fake = "/var/tmp/fake"
    setting = f'binaries = "{fake}"\\ncommand_timeout_s = 5.0'

    def answer(words: str) -> Callable[[], bool]:
        line = f"#!/bin/sh\necho {quote(words)} >>{fake}/given\n{words}\n"
        grid.on("alpha-master", "tee", f"{fake}/new", stdin=line)
        grid.sh("alpha-master", f"chmod 755 {fake}/new && mv {fake}/new {fake}/qstat")
        return lambda: words in grid.sh("alpha-master", f"cat {fake}/given").splitlines()

    grid.sh(
        "alpha-master",
        f"mkdir -p {fake} && ln -sf /usr/lib/gridengine/* {fake}/ &&"
        f" install -m 666 /dev/null {fake}/given &&"
        f" qstat -f -u '*' -xml >{fake}/qstat.whole",
    )
    try:
        with configured(grid, f"/cluster.beta/a {setting}"):
            yield answer
    finally:
        grid.sh("alpha-master", f"rm -r {fake}")


def false_clock(grid: Grid, offset: str) -> AbstractContextManager[None]:
    def restart(option: str) -> None:
        for host, daemon in (("beta-master", "qmaster"), ("beta-n1", "execd"), ("beta-n2", "execd")):
            grid.sh(host, f"labctl stop {daemon}; labctl {option} start {daemon}")

    return between(restart, f"--faketime {offset}", "")


def _ran(grid: Grid, name: str) -> list[str]:
    return lines(grid, f"{name}.ran")


def _load(grid: Grid) -> str:
    return grid.sh("alpha-master", "cat /var/lib/gridbridge/published/load")


def _unanswered(grid: Grid) -> int:
    return grid.logged("event=no_answer cluster=beta").count("\n")


def _pids(grid: Grid, program: str) -> list[str]:
    return grid.on("alpha-master", "pgrep", "-f", program).out.split()
