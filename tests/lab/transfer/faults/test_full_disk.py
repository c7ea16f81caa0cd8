"""State or spool fills its filesystem of 4 MB: an error is reported, and no job is lost."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.lab.grid import Grid

pytestmark = pytest.mark.lab

HOST = "alpha-master"
HOME = "/var/lib/gridbridge"
SPOOL = "/var/spool/gridbridge"
NO_ROOM = "No space left on device"


@contextmanager
def small(grid: Grid, folder: str, mode: str, subfolders: str) -> Iterator[None]:
    options = f"size=4m,nr_inodes=2000,mode={mode},uid=$(id -u gridbridge),gid=$(id -g gridbridge)"
    grid.sh(HOST, f"mount -t tmpfs -o {options} none {folder}")
    grid.sh(HOST, f"cd {folder} && mkdir {subfolders} && chown gridbridge: {subfolders}")
    grid.sh(HOST, f"cd {folder} && chmod {mode} {subfolders}")
    try:
        yield
    finally:
        end_poller(grid)
        grid.sh(HOST, f"umount -l {folder}")
        end_poller(grid)
        grid.require_ready()


def end_poller(grid: Grid) -> None:
    grid.on(HOST, "pkill", "-KILL", "-f", "gridbridge.transfer.poller.program")


def fill(grid: Grid, folder: str) -> None:
    grid.on(HOST, "sh", "-c", f"cat /dev/zero >{folder}/filler; ln -s x {folder}/filler2")
    assert grid.sh(HOST, f"df --output=avail {folder} | tail -n 1").strip() == "0"


def make_room(grid: Grid, folder: str) -> None:
    grid.sh(HOST, f"rm -f {folder}/filler {folder}/filler2")


@pytest.fixture
def small_state(grid: Grid) -> Iterator[None]:
    with small(grid, HOME, "755", "published"):
        end_poller(grid)
        started = ("grep", "-q", "event=start", f"{HOME}/poller.log")
        grid.until(lambda: grid.on(HOST, *started).status == 0, "the new poller")
        grid.require_ready()
        yield


@pytest.fixture
def small_spool(grid: Grid) -> Iterator[None]:
    """Mount a filesystem of 4 MB over the spool, which remote hosts do not share."""
    with small(grid, SPOOL, "1733", "wake"):
        yield


@pytest.mark.long
def test_a_full_disk_of_the_state_file_delays_jobs_and_loses_none(grid: Grid, small_state: None) -> None:
    go = grid.sh(HOST, "mktemp -u /home/alice/go.XXXXXX", user="alice").strip()
    script = f"while [ ! -e {go} ]; do sleep 0.1; done; exit 3\n"
    before = grid.transfer("-N", "before", script=script)
    grid.remote_id(before)
    fill(grid, HOME)
    during = grid.submit("-q", "transfer-beta", "-l", "remote=true", script=script)
    grid.until(lambda: grid.states().get(during, "qw") in ("r", "qw"), "its state")
    grid.sh(HOST, f"touch {go}", user="alice")
    grid.until(lambda: not grid.states("beta").get(grid.remote_ids(before)[0]), "the remote end")
    make_room(grid, HOME)

    assert grid.accounting(before, limit_s=90)["exit_status"] == "3"
    assert grid.accounting(during, limit_s=90)["exit_status"] == "3"
    log = grid.until(lambda: grid.sh(HOST, f"grep event=well_again {HOME}/poller.log || true"), "the log")
    assert "full" in log or NO_ROOM in log


def use_up_files(grid: Grid, folder: str) -> None:
    grid.on(HOST, "sh", "-c", f"cd {folder} && seq -f filler.%g 3000 | xargs touch")


def state_of_the_queue(grid: Grid) -> str:
    told = grid.on(HOST, "gridbridge", "status", user="alice").out
    return next(line for line in told.splitlines() if line.startswith("transfer-beta "))


@pytest.mark.long
def test_a_full_spool_closes_the_queue_until_there_is_room(grid: Grid, small_spool: None) -> None:
    """The spool lacks files, then bytes. Status and check report it, and Grid Engine closes the queue."""
    grid.require_ready()
    wake = f"{SPOOL}/wake"
    for fill_up, what in ((use_up_files, "files are free"), (fill, "KiB are free")):
        fill_up(grid, wake)
        grid.until(lambda: not grid.is_open(), "the queue to be closed")
        status = grid.on(HOST, "gridbridge", "status", user="alice").out
        line, check = state_of_the_queue(grid), grid.on(HOST, "gridbridge", "check").out
        grid.sh(HOST, f"cd {wake} && ls | grep ^filler | xargs rm -f")
        grid.until(lambda: grid.is_open(), "the queue to be open")

        full = f"{SPOOL} is full: 0 {what}, "
        assert status.startswith(full), status
        assert " no " in line and full in line, line  # noqa: PT018
        found = [row for row in check.splitlines() if f"room in {SPOOL}" in row]
        assert found and found[0].startswith("broken"), check  # noqa: PT018


@pytest.mark.long
def test_a_full_spool_delays_jobs_and_loses_none(grid: Grid, small_spool: None) -> None:
    fill(grid, f"{SPOOL}/wake")  # what lies in the spool itself is removed at once
    job = grid.transfer("-N", "full", script="exit 3\n")
    notes = f"cat /tmp/{job}.*/.gridbridge/log 2>/dev/null || true"
    grid.until(lambda: NO_ROOM in grid.sh(HOST, notes), "the starter's complaint")
    assert not grid.remote_ids(job)
    make_room(grid, f"{SPOOL}/wake")

    assert grid.accounting(job, limit_s=120)["exit_status"] == "3"
    assert len(grid.remote_ids(job)) == 1
