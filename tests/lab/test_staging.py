"""Files are carried to delta, which sees none of ours, and back, whatever happens on the way."""

# ruff: noqa: SIM300 - `expected == actual` (style.md 33)

from collections.abc import Iterator

import pytest

from tests.lab.grid import Grid
from tests.lab.test_ssh import (
    ACCOUNT,
    FAR,
    HOME,
    LONG_S,
    far_jobs,
    submit,
    until_open,
)

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

STAGE = ".gridbridge/stage"
BIG_MB = 300  # takes seconds, so that something can happen meanwhile


@pytest.fixture(scope="module")
def ready(grid: Grid, open_to_delta: None) -> Grid:
    """Return the lab with its queue to delta open."""
    until_open(grid)
    return grid


@pytest.fixture(autouse=True)
def work(ready: Grid) -> Iterator[str]:
    """Return a working directory of alice, and leave nothing anywhere."""
    ready.sh(HOME, "rm -rf staged; mkdir staged", user="alice")
    yield "/home/alice/staged"
    ready.lab("net", FAR, "heal")
    ready.sh(FAR, "labctl start sshd; umount /home/al_delta/.gridbridge 2>/dev/null; :")
    ready.sh(HOME, "qdel -u alice; :", user="alice")
    ready.until(lambda: not ready.states(), "home to be empty", LONG_S)
    ready.until(lambda: not far_jobs(ready), "delta to be empty")
    ready.sh(FAR, f"rm -rf {STAGE} ran", user=ACCOUNT)
    ready.sh(HOME, "rm -rf staged", user="alice")
    until_open(ready)


def put(grid: Grid, script: str) -> None:
    """Make the inputs, in the working directory."""
    grid.sh(HOME, f"cd staged && {script}", user="alice")


def send(grid: Grid, script: str, declared: str, *options: str) -> str:
    where = ("-wd", "/home/alice/staged", "-o", "out", "-e", "err")
    return submit(grid, script, *where, *(("-ac", declared) if declared else ()), *options)


def here(grid: Grid, script: str) -> str:
    return grid.sh(HOME, f"cd staged && {script}", user="alice")


def staged(grid: Grid) -> list[str]:
    """Return the folders that lie at delta."""
    return far_read_list(grid, f"ls {STAGE} 2>/dev/null || :")


def far_read_list(grid: Grid, script: str) -> list[str]:
    return grid.sh(FAR, script, user=ACCOUNT).split()


def until_ended(grid: Grid, job: str, status: str = "0", limit_s: float = LONG_S) -> None:
    """Wait for the end at home, after which nothing lies at delta."""
    record = grid.accounting(job, limit_s=limit_s)

    assert ("0", status) == (record["failed"].split()[0], record["exit_status"])
    assert [] == staged(grid)


def test_inputs_go_there_and_outputs_and_streams_are_home_when_the_job_ends(ready: Grid) -> None:
    put(ready, "mkdir data; echo one >data/a; echo two >b; chmod 755 b; echo before >out")
    script = (
        "pwd; cat data/a b; [ -x b ] && echo oops >&2; mkdir -p res/x; echo 3 >res/x/y; exit 7\n"
    )
    job = send(ready, script, "stage_in=data:b,stage_out=res:none")
    until_ended(ready, job, "7")

    pwd, *rest = here(ready, "tail -n +2 out").splitlines()
    assert f"/home/{ACCOUNT}/{STAGE}/gb.alpha.{job}.0.1/work" == pwd
    assert ["one", "two"] == rest
    assert "before\n" == here(ready, "head -1 out")
    assert "oops\n" == here(ready, "cat err")
    assert "3\n" == here(ready, "cat res/x/y")
