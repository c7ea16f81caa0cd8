"""Claims by grant at gamma, an OAR server, with the same wrapper and service."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.lab.away import QUIET, TELLS, closed, cut, ends, why
from tests.lab.gamma import ACCOUNT, FAR, HOME, LONG_S, Gamma
from tests.lab.grid import Grid
from tests.lab.transfer.home.claimed import claimed, grants

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(500)]

FILL = "for n in 1 2 3 4; do oarsub -l core=1,walltime=0:20:0 'sleep 900' | sed -n s/OAR_JOB_ID=//p; done"


@pytest.fixture(scope="module")
def gamma(grid: Grid, open_to_gamma: None) -> Iterator[Gamma]:
    far = Gamma(grid)
    with claimed(grid, "gamma", "grant"):
        far.until_open()
        grid.sh(HOME, "rm -f *.ran", user="alice")
        grid.sh(FAR, "rm -f *.ran", user=ACCOUNT)
        yield far
    far.clear()


@pytest.fixture(autouse=True)
def _fresh(gamma: Gamma) -> Iterator[None]:
    yield
    gamma.grid.lab("net", FAR, "heal")
    gamma.until_clean()
    gamma.grid.until(lambda: grants(gamma.grid, "gamma") == "", "no grant to be left", LONG_S)


def submit(gamma: Gamma, name: str) -> str:
    """Submit a job that crosses to gamma now, and could run at home."""
    with closed(gamma.grid, "alpha", "all.q", "transfer-beta"):
        job = gamma.grid.submit("-N", name, *QUIET, script=TELLS)
        gamma.until_told(job, "released")
    return job


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    granted: str
    home: str


@pytest.fixture(scope="module")
def outcome(gamma: Gamma) -> Outcome:
    """Let a job run, fill gamma behind it, and cut gamma off while another job waits there."""
    grid = gamma.grid
    granted = submit(gamma, "granted")
    fill = grid.sh(FAR, FILL, user="bo_gamma").split()
    try:
        for number in fill:
            gamma.until_state(number, "Running")
        job = submit(gamma, "waits")
        grid.until(lambda: ends(grid, granted), "its end", LONG_S)
        with cut(grid, "gamma"):
            grid.until(lambda: ends(grid, job), "its end", LONG_S)
            told = why(grid, job)
        others = {int(number) for number in fill}
        grid.until(lambda: {int(one["Job_Id"]) for one in gamma.jobs()} == others, "its copy to go", LONG_S)
    finally:
        grid.sh(FAR, f"oardel {' '.join(fill)}", user="bo_gamma")
    return Outcome(granted=why(grid, granted), home=told)


def test_a_job_of_oar_is_granted_and_runs(gamma: Gamma, outcome: Outcome) -> None:
    assert "granted: the remote job has started at gamma" in outcome.granted
    assert gamma.read("granted.ran").splitlines()[1:] == ["end"]


def test_a_task_comes_home_from_a_silent_oar(gamma: Gamma, outcome: Outcome) -> None:
    """The waiting copy is deleted when the link is back."""
    assert "claimed by home: recalled from gamma: gamma has not answered for" in outcome.home
    assert gamma.read("waits.ran") == ""
    ran = gamma.grid.sh(HOME, "cat waits.ran", user="alice").splitlines()
    assert (len(ran), ran[-1]) == (2, "end")
