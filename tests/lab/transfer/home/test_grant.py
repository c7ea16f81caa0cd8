"""Claims by grant at delta: a job starts after home's grant, and comes home while delta is cut off."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass

import pytest

from tests.lab.away import QUIET, TELLS, closed, cut, ends, starts, why
from tests.lab.delta import ACCOUNT, FAR, far_jobs, until_open
from tests.lab.grid import Grid, between
from tests.lab.transfer.home.claimed import claimed, frozen_poller, grants

pytestmark = [pytest.mark.lab, pytest.mark.timeout(500)]

LONG_S = 150  # a command over a cut link gives up after 15 s, and is tried again ever later
WAIT_S = 30
LOGGED = r"submitted to delta as"
RAN = "if [ -e {0}.ran ]; then cat {0}.ran; fi"


@pytest.fixture(scope="module")
def by_grant(grid: Grid, open_to_delta: None) -> Iterator[None]:
    grid.sh("alpha-master", "rm -f *.ran", user="alice")
    grid.sh(FAR, "rm -f *.ran", user=ACCOUNT)
    with claimed(grid, "delta", "grant", WAIT_S):
        until_open(grid)
        yield


@pytest.fixture(autouse=True)
def _fresh(grid: Grid, by_grant: None) -> Iterator[None]:
    until_open(grid)
    yield
    grid.lab("net", FAR, "heal")
    grid.sh(FAR, "chmod 755 ~gb_delta")
    grid.until(lambda: not far_jobs(grid), "delta to be empty", LONG_S)
    grid.until(lambda: grants(grid, "delta") == "", "no grant to be left", LONG_S)


def submit(grid: Grid, *names: str) -> list[str]:
    """Submit jobs that cross to delta now, and could run at home."""
    with closed(grid, "alpha", "all.q", "transfer-beta"):
        jobs = [grid.submit("-N", name, *QUIET, script=TELLS) for name in names]
        for job in jobs:
            until_released(grid, job)
    return jobs


def until_released(grid: Grid, job: str) -> None:
    grid.until(lambda: "released" in why(grid, job), f"{job} to be released")


def ran(grid: Grid, name: str) -> list[str]:
    """Return the clusters where a job started and ended, from its output files at home and at delta."""
    here = grid.sh("alpha-master", RAN.format(name), user="alice")
    there = grid.sh(FAR, RAN.format(name), user=ACCOUNT)
    told = (here + there).splitlines()
    starts(told)
    return [line.partition("-n")[0] for line in told]


@contextmanager
def full_delta(grid: Grid) -> Iterator[list[str]]:
    submit = "for n in 1 2; do echo sleep 600 | qsub -terse -N fill -o /dev/null -j y; done"
    jobs = grid.sh(FAR, submit, user="bo_delta").split()
    grid.until(lambda: "".join(far_jobs(grid)).count(" r ") == 2, "delta to be full")
    try:
        yield jobs
    finally:
        grid.sh(FAR, f"qdel {' '.join(jobs)}; :", user="bo_delta")


def unable_to_give(grid: Grid) -> AbstractContextManager[None]:
    """Keep grants from arriving at delta; the service still writes them."""
    return between(lambda mode: grid.sh(FAR, f"chmod {mode} ~gb_delta"), "700", "755")


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """Messages about two jobs that came home from silent delta, and the exit status of a remote copy.

    `fenced` is the id of a third job, which waited at delta because it could run only there.
    """

    told: tuple[str, ...]
    copy_status: str
    fenced: str


@pytest.fixture(scope="module")
def silence(grid: Grid, by_grant: None) -> Silence:
    """Cut off delta while it is full, and free its slots when the link is back.

    The service is frozen at that time, so the jobs that start get no grant. One job is held until the service
    runs again and deletes it.
    """
    with full_delta(grid) as fill:
        waits, copy = submit(grid, "waits", "copy")
        fenced = grid.submit("-N", "fenced", "-q", "transfer-delta", *QUIET, script=TELLS)
        until_released(grid, fenced)
        remotes = [remote_id(grid, job) for job in (waits, copy, fenced)]
        with ExitStack() as frozen:
            with cut(grid, "delta"):
                grid.until(lambda: ends(grid, waits) and ends(grid, copy), "their ends", LONG_S)
                told = (why(grid, waits), why(grid, copy))
                frozen.enter_context(frozen_poller(grid))
            grid.sh(FAR, f"qalter -h o {remotes[0]}")
            grid.sh(FAR, f"qdel {' '.join(fill)}", user="bo_delta")
            for remote in remotes[1:]:
                grid.until(lambda each=remote: far_end(grid, each), f"{remote} to end", LONG_S)
        grid.until(lambda: not is_far(grid, remotes[0]), "the other copy to be gone", LONG_S)
    return Silence(told=told, copy_status=far_end(grid, remotes[1]), fenced=fenced)


def is_far(grid: Grid, remote: str) -> bool:
    return any(line.split()[0] == remote for line in far_jobs(grid))


def test_a_job_is_granted_and_runs(grid: Grid) -> None:
    (job,) = submit(grid, "granted")
    grid.until(lambda: ends(grid, job), "its end", LONG_S)

    assert "granted: the remote job has started at delta" in why(grid, job)
    assert ran(grid, "granted") == ["start delta", "end"]


@pytest.mark.long
def test_a_task_whose_job_has_no_grant_comes_home_at_once(grid: Grid, silence: Silence) -> None:
    for told in silence.told:
        assert "claimed by home: recalled from delta: delta has not answered for" in told
    assert ran(grid, "waits") == ["start alpha", "end"]


@pytest.mark.long
def test_a_copy_that_starts_when_the_link_is_back_gets_no_grant(grid: Grid, silence: Silence) -> None:
    assert silence.copy_status == "199"
    assert ran(grid, "copy") == ["start alpha", "end"]


@pytest.mark.long
def test_a_grant_that_nobody_confirmed_counts_as_given(grid: Grid) -> None:
    """The task stays at silent delta, and runs there when the grant arrives."""
    with unable_to_give(grid):
        (job,) = submit(grid, "unsure")
        grid.until(lambda: "granted:" in why(grid, job), "its grant to be kept", LONG_S)
        with cut(grid, "delta"):
            before = silences(grid)
            grid.until(lambda: silences(grid) > before + 1, "delta to be silent", LONG_S)
            state = grid.states()[job]
    grid.until(lambda: ends(grid, job), "its end", LONG_S)

    assert state == "r"
    assert "claimed by home" not in why(grid, job)
    assert len(ran(grid, "unsure")) == 2


@pytest.mark.long
def test_a_job_that_gets_no_grant_ends_as_fenced_and_its_task_runs(grid: Grid, silence: Silence) -> None:
    grid.until(lambda: ends(grid, silence.fenced), "its end", LONG_S)

    assert "fenced at delta: the job got no grant" in why(grid, silence.fenced)
    assert ran(grid, "fenced")[1:] == ["end"]


def silences(grid: Grid) -> int:
    return grid.logged("event=no_answer cluster=delta").count("\n")


def remote_id(grid: Grid, job: str) -> str:
    told = why(grid, job)
    return told.partition(LOGGED)[2].split()[0].rstrip(",")


def far_end(grid: Grid, remote: str) -> str:
    """Return the exit status of a job at delta; empty before its end."""
    out = grid.on(FAR, "qacct", "-j", remote).out
    return next((line.split()[1] for line in out.splitlines() if line[:11] == "exit_status"), "")
