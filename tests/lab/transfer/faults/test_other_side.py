"""Faults of the other cluster alone: the job does not succeed, and its reason is shown."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import pytest

from tests.lab.away import (
    QUIET,
    SLEEP,
    closed,
    complex_at,
    ends,
    is_known,
    lines,
    reason,
    statuses,
    until_all_gone,
    wait_for,
    why,
)
from tests.lab.grid import Grid
from tests.lab.phases import Outcomes, Phases, Steps, as_it_is, closed_beta, closed_home, no_jobs_left, roomy

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(600)]

LOST, LEFT = "beta-n1", "beta-n2"
RUN = "echo $HOSTNAME >>$JOB_NAME.ran\n"


@contextmanager
def to_be_lost(grid: Grid) -> Iterator[None]:
    with closed_home(grid), closed(grid, "beta", f"all.q@{LEFT}"):
        yield


@contextmanager
def broken(grid: Grid, breaks: str, mends: str) -> Iterator[None]:
    with closed(grid, "beta", f"all.q@{LOST}"):
        try:
            grid.sh(LEFT, breaks)
            yield
        finally:
            grid.on(LEFT, "sh", "-c", mends)


FILL = "mount -t tmpfs -o size=64k,mode=1777 none /tmp; cat /dev/zero >/tmp/filler || :"
BIND = "mount -o remount,bind,{} /home"
PHASES: Phases = {
    "one node runs jobs": to_be_lost,
    "beta is closed": closed_beta,
    "TMPDIR is full": partial(broken, breaks=FILL, mends="umount -l /tmp"),
    "homes are read-only": partial(broken, breaks=BIND.format("ro"), mends=BIND.format("rw")),
    "all is well": as_it_is,
}


@pytest.fixture(scope="module")
def came(grid: Grid) -> Iterator[Outcomes]:
    """Run the fault scenarios of all tests; only alpha has a resource `onlyhere`."""
    scenarios = (unknown, left_out, *TROUBLES.values(), deleted, another, lost)
    here = complex_at(grid, "onlyhere", "alpha-master", "transfer-beta")
    with no_jobs_left(grid), roomy(grid), here:
        yield Outcomes(grid, *scenarios, phases=PHASES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mended:
    reason: str
    statuses: set[tuple[str, str]]  # of its ends but the first
    hosts: tuple[str, ...]
    remote_ids: tuple[str, ...]


def cleared(grid: Grid, job: str, name: str, told: str) -> Mended:
    grid.cell("alpha", "qmod", "-cj", job)
    records = grid.until(lambda: ends(grid, job, 2), "its second end")
    return Mended(
        reason=told,
        statuses=statuses(records[1:]),
        hosts=tuple(host.partition("-")[0] for host in lines(grid, f"{name}.ran")),
        remote_ids=tuple(grid.remote_ids(job)),
    )


def unknown(grid: Grid) -> Steps[Mended]:
    grid.until(lambda: not is_known(grid, "resource", "onlyhere"), "beta not to know it")
    options = ("-N", "refused", "-l", "onlyhere=1", *QUIET)
    job = grid.transfer(*options, script=f"{RUN}exit 4\n")
    told = reason(grid, job)

    yield "beta is closed"
    with complex_at(grid, "onlyhere", "beta-master", "all.q"):
        yield "all is well"
        grid.until(lambda: is_known(grid, "resource", "onlyhere"), "the service to know of it")
        return cleared(grid, job, "refused", told)


def test_a_job_with_an_unknown_resource_is_in_error_until_cleared(came: Outcomes) -> None:
    """The reason is in qstat -j. Once beta has the resource, qmod -cj lets the job run."""
    job = came.of(unknown)

    assert "gridbridge: beta has no resource onlyhere" in job.reason
    assert job.statuses == {("0", "4")}
    assert job.hosts == ("beta",)
    assert len(job.remote_ids) == 1


def left_out(grid: Grid) -> tuple[str, str]:
    grid.until(lambda: not is_known(grid, "resource", "onlyhere"), "beta not to know it")
    job = grid.transfer("-soft", "-l", "onlyhere=1", *QUIET, script="exit 5\n")
    end = grid.accounting_of_end(job)
    return end["exit_status"], why(grid, job)


def test_an_unknown_soft_request_is_omitted_and_reported(came: Outcomes) -> None:
    """Grid Engine itself would refuse the whole job."""
    status, told = came.of(left_out)

    assert status == "5"
    assert "soft request onlyhere=1 left out: beta has no resource onlyhere" in told


def troubled(grid: Grid, name: str, phase: str) -> Steps[Mended]:
    yield phase
    job = grid.transfer("-N", name, "-j", "y", script=f"{RUN}exit 5\n")
    told = reason(grid, job)
    grid.until_gone(grid.remote_id(job), "beta")

    yield "all is well"
    found = cleared(grid, job, name, told)
    until_all_gone(grid, found.remote_ids)
    return found


TROUBLES = {
    "can not write to its TMPDIR": partial(troubled, name="later-tmp", phase="TMPDIR is full"),
    "can not append to standard output": partial(troubled, name="later-home", phase="homes are read-only"),
}


@pytest.mark.parametrize("complaint", TROUBLES.keys(), ids=["full TMPDIR", "read-only home"])
def test_a_job_that_a_host_can_not_start_shows_the_reason_and_runs_later(came: Outcomes, complaint: str) -> None:
    job = came.of(TROUBLES[complaint])

    assert re.search(rf"gridbridge: {complaint} on beta-n\d", job.reason), job.reason
    assert job.statuses == {("0", "5")}
    assert len(job.hosts) == 1
    assert len(job.remote_ids) == 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    remote_ids: tuple[str, str]
    statuses: set[tuple[str, str]]
    why: str
    reason: str  # of the one that had not begun
    runs: int


def deleted(grid: Grid) -> Steps[Deleted]:
    grid.sh("alpha-master", "rm -f far-*.ran", user="bob")
    running = grid.transfer("-N", "far-1", *QUIET, user="bob", script=f"{RUN}{SLEEP}")
    remotes = {running: grid.remote_id(running)}
    wait_for(grid, remotes[running], "r")

    yield "beta is closed"
    waiting = grid.transfer("-N", "far-2", *QUIET, user="bob", script=RUN)
    remotes[waiting] = grid.remote_id(waiting)
    wait_for(grid, remotes[waiting], "qw")
    grid.cell("beta", "qdel", *remotes.values(), user="root")
    until_all_gone(grid, remotes.values())

    yield "all is well"
    told = reason(grid, waiting)
    record = grid.accounting(running)
    grid.cell("alpha", "qdel", waiting, user="root")
    return Deleted(
        remote_ids=(remotes[running], remotes[waiting]),
        statuses=statuses([record]),
        why=why(grid, running),
        reason=told,
        runs=grid.sh("alpha-master", "cat far-*.ran", user="bob").count("beta-n"),
    )


def another(grid: Grid) -> Steps[tuple[str, bool, str]]:
    """Give the remote job the account of another transfer, and delete the local job."""
    job = grid.submit("-N", "another", "-q", "transfer-beta", *QUIET, script=SLEEP)
    remote = grid.remote_id(job)
    wait_for(grid, remote, "r")
    grid.cell("beta", "qalter", "-A", "gb.alpha.999999.0.1", remote, user="root")

    yield "beta is closed"
    grid.cell("alpha", "qdel", job)
    grid.until_gone(job)
    grid.until(lambda: "no remote job exists at beta" in why(grid, job), "its transfer to be over")
    lives = grid.states("beta").get(remote) == "r"
    grid.cell("beta", "qdel", remote, user="root")
    return remote, lives, why(grid, job)


def test_an_unrelated_job_with_a_transfers_id_is_neither_touched_nor_waited_for(came: Outcomes) -> None:
    remote, lives, told = came.of(another)

    assert lives
    assert f"beta has given {remote} to another job" in told


def test_a_job_that_an_operator_of_beta_deletes_ends_or_waits_with_the_reason(came: Outcomes) -> None:
    """The running job ended as killed. The job that had not started may run at home."""
    jobs = came.of(deleted)

    assert jobs.statuses == {("100", "137")}
    killed = "there      killed by signal 9: beta says failed 100, exit status 137"
    assert killed in jobs.why
    assert f"gridbridge: beta has no trace of job {jobs.remote_ids[1]}" in jobs.reason
    assert jobs.runs == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """The messages while a node was lost, and the ends of the jobs that may not rerun."""

    unknown: str
    state: str
    ends: set[tuple[str, str]]  # failed, exit status
    once: list[int]  # how often those were sent


def lost(grid: Grid) -> Steps[Lost]:
    """Cut the power of the node that runs three jobs; only one job may be rerun.

    One job does not say whether it may be rerun: its queue at home says no, the transfer queue says yes.
    """
    rerun = grid.submit("-N", "again", *QUIET, "-r", "y", script=SLEEP)
    others = [grid.submit("-N", "once", *QUIET, *says, script=SLEEP) for says in (["-r", "n"], [])]
    grid.until(lambda: _run_on(grid, LOST, rerun, *others), "all to run")

    yield "TMPDIR is full"
    grid.lab("power", LOST, "cut")
    try:
        yield "homes are read-only"
        told = grid.until(lambda: _unknown(grid, rerun), "the host to be missed", 90)
        state = grid.states()[rerun]
        yield "all is well"
    finally:
        grid.lab("power", LOST, "on")
    found = [grid.accounting_of_end(other, 120) for other in others]
    grid.until(lambda: "R" in grid.states().get(rerun, ""), "a rerun", 60)
    grid.cell("alpha", "qdel", rerun)
    grid.until_gone(rerun)
    return Lost(unknown=told, state=state, ends=statuses(found), once=_counts(grid, others))


def test_a_lost_remote_host_is_unknown_until_beta_says_what_became_of_the_job(came: Outcomes) -> None:
    """A rerunnable job comes home. A job that may not rerun ends as killed with its host."""
    jobs = came.of(lost)

    assert f"host {LOST} does not report to" in jobs.unknown
    assert jobs.state == "r"
    assert jobs.ends == {("100", "137")}
    assert jobs.once == [1, 1]


def _run_on(grid: Grid, node: str, *jobs: str) -> bool:
    out = grid.cell("beta", "qstat", "-u", "*", user="root").out
    ids = {grid.remote_id(job) for job in jobs}
    rows = [row for row in map(str.split, out.splitlines()) if row and row[0] in ids]
    return [(row[4], row[7]) for row in rows] == [("r", f"all.q@{node}")] * len(jobs)


def _counts(grid: Grid, jobs: list[str]) -> list[int]:
    return [len(grid.remote_ids(job)) for job in jobs]


def _unknown(grid: Grid, job: str) -> str:
    """Return the published transfers in which a job is in unknown state; empty if there is none."""
    out = grid.sh("alpha-master", "cat /var/lib/gridbridge/published/transfers.json")
    rows = [line for line in out.splitlines() if "unknown" in line]
    return rows[0] if rows and f"gb.alpha.{job}." in out else ""
