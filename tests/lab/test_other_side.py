"""What goes wrong on the other cluster alone: the job never ends well, and its reason is told."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.lab.away import (
    QUIET,
    SLEEP,
    complex_at,
    ends,
    lines,
    reason,
    statuses,
    until_all_gone,
    wait_for,
    why,
)
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("clean_homes")]

NODES = ("beta-n1", "beta-n2")
TROUBLES = {
    "full TMPDIR": (
        "mount -t tmpfs -o size=64k,mode=1777 none /tmp; cat /dev/zero >/tmp/filler || :",
        "umount -l /tmp",
        r"can not write the script to /tmp/\S+",
    ),
    "read-only home": (
        "mount -o remount,bind,ro /home",
        "mount -o remount,bind,rw /home",
        "can not append to standard output",
    ),
}
RUN = "echo $HOSTNAME >>$JOB_NAME.ran\n"


def test_an_unknown_resource_is_an_error_until_that_is_cleared(grid: Grid) -> None:
    """The reason is in qstat -j; once beta knows the resource, qmod -cj has the job run."""
    with complex_at(grid, "onlyhere", "alpha-master", "transfer-beta"):
        grid.until(lambda: not is_known(grid, "onlyhere"), "beta not to know it")
        job = grid.transfer("-N", "refused", "-l", "onlyhere=1", *QUIET, script=f"{RUN}exit 4\n")
        told = reason(grid, job)
        with complex_at(grid, "onlyhere", "beta-master", "all.q"):
            grid.until(lambda: is_known(grid, "onlyhere"), "the service to know of it")
            grid.cell("alpha", "qmod", "-cj", job)
            records = grid.until(lambda: ends(grid, job, 2), "its second end")

    assert "gridbridge: beta has no resource onlyhere" in told
    assert statuses(records[1:]) == {("0", "4")}
    assert [host.partition("-")[0] for host in lines(grid, "refused.ran")] == ["beta"]
    assert len(grid.remote_ids(job)) == 1


def test_a_soft_request_that_beta_does_not_know_is_left_out_and_told(grid: Grid) -> None:
    """Grid Engine would refuse the whole job for it."""
    with complex_at(grid, "onlyhere", "alpha-master", "transfer-beta"):
        grid.until(lambda: not is_known(grid, "onlyhere"), "beta not to know it")
        job = grid.transfer("-soft", "-l", "onlyhere=1", *QUIET, script="exit 5\n")
        end = grid.accounting_of_end(job)
    why = grid.on("alpha-master", "gridbridge", "why", job, user="alice").out

    assert end["exit_status"] == "5"
    assert "soft request onlyhere=1 left out: beta has no resource onlyhere" in why


def is_known(grid: Grid, resource: str) -> bool:
    """Say whether beta has told the service of a resource, and the starters know it."""
    told = grid.on("alpha-master", "cat", "/var/lib/gridbridge/published/vocabularies/beta").out
    return resource in told.split()


@pytest.mark.parametrize(("breaks", "mends", "complaint"), TROUBLES.values(), ids=TROUBLES.keys())
def test_a_host_that_can_not_run_it_says_why_and_the_job_runs_later(
    grid: Grid, breaks: str, mends: str, complaint: str
) -> None:
    with on_every_node(grid, breaks, mends):
        job = grid.transfer("-N", "later", "-j", "y", script=f"{RUN}exit 5\n")
        told = reason(grid, job)
        grid.until_gone(grid.remote_id(job), "beta")
    grid.cell("alpha", "qmod", "-cj", job)
    records = grid.until(lambda: ends(grid, job, 2), "its second end")

    assert re.search(rf"gridbridge: {complaint} on beta-n\d", told), told
    assert statuses(records[1:]) == {("0", "5")}
    assert len(lines(grid, "later.ran")) == 1
    assert len(grid.remote_ids(job)) == 2
    until_all_gone(grid, grid.remote_ids(job))


@contextmanager
def on_every_node(grid: Grid, breaks: str, mends: str) -> Iterator[None]:
    """Break something on every host that may run the job, and mend it."""
    try:
        for host in NODES:
            grid.sh(host, breaks)
        yield
    finally:
        for host in NODES:
            grid.on(host, "sh", "-c", mends)


def test_a_job_that_an_operator_of_beta_deletes_ends_or_waits_with_the_reason(
    grid: Grid, deleted: dict[str, str]
) -> None:
    """One that ran ended as killed; of one that had not begun nothing is known, so it may."""
    running, waiting = deleted
    record = grid.accounting(running)
    told = reason(grid, waiting)

    assert statuses([record]) == {("100", "137")}
    killed = "there      killed by signal 9: beta says failed 100, exit status 137"
    assert killed in why(grid, running)
    assert f"gridbridge: beta has no trace of job {deleted[waiting]}" in told
    assert grid.sh("alpha-master", "cat far-*.ran", user="bob").count("beta-n") == 1
    until_all_gone(grid, deleted.values())


@pytest.fixture(scope="module", autouse=True)
def deleted(grid: Grid) -> Iterator[dict[str, str]]:
    """Have an operator of beta delete two jobs of bob's; what comes of them takes a while."""
    grid.sh("alpha-master", "rm -f far-*.ran", user="bob")
    running = grid.transfer("-N", "far-1", *QUIET, user="bob", script=f"{RUN}{SLEEP}")
    remotes = {running: grid.remote_id(running)}
    wait_for(grid, remotes[running], "r")
    with closed_beta(grid):
        waiting = grid.transfer("-N", "far-2", *QUIET, user="bob", script=RUN)
        remotes[waiting] = grid.remote_id(waiting)
        wait_for(grid, remotes[waiting], "qw")
        grid.cell("beta", "qdel", *remotes.values(), user="root")
        for remote in remotes.values():
            grid.until_gone(remote, "beta")
    yield remotes
    grid.cell("alpha", "qdel", "-u", "bob", user="root")


@contextmanager
def closed_beta(grid: Grid) -> Iterator[None]:
    """Let nothing start at beta; what runs there goes on."""
    grid.cell("beta", "qmod", "-d", "all.q", user="root")
    try:
        yield
    finally:
        grid.cell("beta", "qmod", "-e", "all.q", user="root")
