"""A DRMAA program observes the same of a transferred job as of a job that runs at home."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.lab.grid import Grid
from tests.lab.phases import Outcomes, closed_home, no_jobs_left

pytestmark = pytest.mark.lab

HOST = "alpha-master"
PROGRAM = Path(__file__).with_name("drmaa_program.py").read_text()
LIBRARIES = (
    "LD_PRELOAD=libjemalloc.so.2",  # Debian's libdrmaa finds no room for it when it is loaded later
    "DRMAA_LIBRARY_PATH=/usr/lib/gridengine-drmaa/lib/libdrmaa.so.1.0",
)
OPTIONS = {"start": (), "none": ("-q", "transfer-beta")}  # by what guards the task at home


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    states: list[str]
    host: str
    status: int


def program(grid: Grid, guard: str) -> Seen:
    name = f"drmaa-{guard}"
    argv = ("env", *LIBRARIES, "python3", "-", name, *OPTIONS[guard])
    done = grid.on(HOST, *argv, user="alice", stdin=PROGRAM, timeout_s=200)
    assert done.status == 0, done
    return Seen(**json.loads(done.out))


def guarded_by_start(grid: Grid) -> Seen:
    return program(grid, "start")


def guarded_by_none(grid: Grid) -> Seen:
    return program(grid, "none")


@pytest.fixture(scope="module")
def came(grid: Grid) -> Iterator[Outcomes]:
    with no_jobs_left(grid), closed_home(grid):
        yield Outcomes(grid, guarded_by_start, guarded_by_none)


@pytest.mark.parametrize("followed", [guarded_by_start, guarded_by_none])
def test_a_drmaa_program_observes_run_suspension_and_end_of_a_transferred_job(came: Outcomes, followed: object) -> None:
    seen = came.of(followed)

    since = seen.states.index("running")  # it may have been seen to wait
    assert seen.states[:since] in ([], ["queued_active"])
    assert seen.states[since:] == ["running", "user_suspended", "running"]
    assert (seen.host.partition("-")[0], seen.status) == ("beta", 7)
