"""How a campaign fills the lab's beta: from nothing known, where it is full, and for a long time.

begun     100 tasks for 100 free slots: from gridsub to the last one's submission
flooded   100 more of another campaign while all slots run: how many wait there at most
harvested what part of the slots that no local job used a long best-effort campaign used, each 2 s
delayed   how long a local job waits there for its start, beside the same job without the campaign

Beside the first two is what CiGri 3's turns and taps do on as many simulated slots.
Beta's queue has 50 slots a host for the first two, and 20 for the others; it is put back.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import mean, median
from typing import TypeVar

from bench.rows import Row
from bench.simulated import Cigri
from bench.simulation import HUNDRED, filled_s, waiting_at
from tests.lab.campaigns.runner import HOST, start, submit
from tests.lab.grid import Grid

BETA, NODE = "beta-master", "beta-n1"
HOSTS = 2
MANY, FEW = 50, 20  # slots of a host; its gid_range lets 100 jobs run
SETUP = "gridbridge setup besteffort beta"
MOST_S, MOST_WAIT = 45.0, 0.1  # [campaigns.beta] flood_rate
LEAST_PART, MOST_PASSES = 0.95, 2.0  # a scheduling pass is a second here
WATCHED_S, WARM_S, LOOK_S = 150.0, 45.0, 2.0
LOCAL_JOBS = 7
T = TypeVar("T")
STAGGERED = "sh -c 'sleep $((60 + $1 * 37 % 120))' sh"


def rows() -> list[Row]:
    """Measure all of it."""
    grid = Grid()
    start(grid)
    with slots(grid, MANY):
        found = _filled(grid)
    with slots(grid, FEW), _besteffort(grid):
        return [*found, *_harvested(grid)]


def _filled(grid: Grid) -> list[Row]:
    full = HOSTS * MANY
    began = time.monotonic()
    first = _campaign(grid, full, "sleep 90", "normal")
    took_s = until(lambda: _listed(grid, first) >= full) - began
    until(lambda: _listed(grid, first, "r") >= full)
    second = _campaign(grid, full, "sleep 1", "normal")
    most = max(_looks(lambda: _listed(grid, second, "qw"), 40.0))
    grid.on(HOST, "griddel", str(first), str(second), user="alice", timeout_s=200)
    until(lambda: not _listed(grid, first) + _listed(grid, second))
    return [
        Row(what=f"{full} tasks on {full} free slots", measured=took_s, unit="s", limit=MOST_S,
            baseline=filled_s(Cigri(HUNDRED))),
        Row(what="  that wait at a full cluster", measured=most, unit="tasks",
            limit=MOST_WAIT * full, baseline=waiting_at(Cigri(HUNDRED), is_full=True)),
    ]  # fmt: skip


def _harvested(grid: Grid) -> list[Row]:
    plain_s = median(_local_s(grid) for _ in range(LOCAL_JOBS))
    number = _campaign(grid, 2000, STAGGERED, "best-effort")
    until(lambda: _used(grid)[0] >= HOSTS * FEW - 2)
    _looks(lambda: 0, WARM_S)
    samples = _looks(lambda: _used(grid), WATCHED_S)
    part = mean(ours / (HOSTS * FEW - local) for ours, local in samples)
    waited_s = median(_local_s(grid) for _ in range(LOCAL_JOBS))
    grid.on(HOST, "griddel", str(number), user="alice", timeout_s=200)
    until(lambda: not _listed(grid, number))
    return [
        Row(what="idle slots that are harvested", measured=part, unit="of them", limit=LEAST_PART,
            is_least=True),
        Row(what="a local job starts", measured=waited_s - plain_s, unit="s later",
            limit=MOST_PASSES, baseline=plain_s),
    ]  # fmt: skip


def _campaign(grid: Grid, tasks: int, runs: str, kind: str) -> int:
    jdl = {"name": "harvest", "nb_jobs": tasks, "exec_file": runs, "walltime": "0:10"}
    return submit(grid, jdl | {"type": kind, "clusters": {"beta": {}}})


def _listed(grid: Grid, number: int, state: str = "") -> int:
    """Return how many tasks of a campaign are in beta's list, in one state if one is given."""
    of_name = f"campaign.{number}"[:10]
    words = [line.split() for line in grid.cell("beta", "qstat", "-g", "d").out.splitlines()[2:]]
    ours = [one for one in words if one[2] in (of_name, f"gc.alpha.{number}"[:10])]
    return sum(one[4] == state or not state for one in ours)


def _used(grid: Grid) -> tuple[int, int]:
    """Return the slots that best-effort tasks use, and those that local jobs do."""
    lines = grid.cell("beta", "qstat", "-f").out.splitlines()
    queues = [(one[0], int(one[2].split("/")[1])) for one in map(str.split, lines)
              if one and "@" in one[0]]  # fmt: skip
    ours = sum(used for name, used in queues if name.startswith("gb-be"))
    return ours, sum(used for name, used in queues if name.startswith("all.q"))


def _local_s(grid: Grid) -> float:
    """Return how long a local job waited for its start, once it has started."""
    words = ("qsub", "-terse", "-l", f"hostname={NODE}", "-b", "y", "-o", "/dev/null", "-j", "y")
    began = time.monotonic()
    job = grid.on(BETA, *words, "sleep", "3", user="bob").out.strip()
    started = until(lambda: _state(grid, job) == "r", pause_s=0.1) - began
    until(lambda: not _state(grid, job), pause_s=0.2)
    return started


def _state(grid: Grid, job: str) -> str:
    rows = map(str.split, grid.cell("beta", "qstat", "-u", "*").out.splitlines())
    return next((row[4] for row in rows if row and row[0] == job), "")


def until(look: Callable[[], object], limit_s: float = 240.0, pause_s: float = 0.5) -> float:
    """Return when something is so."""
    latest = time.monotonic() + limit_s
    while not look():
        if time.monotonic() > latest:
            raise SystemExit(f"not so within {limit_s:g} s")
        time.sleep(pause_s)
    return time.monotonic()


def _looks(look: Callable[[], T], passed_s: float) -> list[T]:
    latest = time.monotonic() + passed_s
    found = []
    while time.monotonic() < latest:
        found.append(look())
        time.sleep(LOOK_S)
    return found


@contextmanager
def slots(grid: Grid, slots: int) -> Iterator[None]:
    """Give beta's queue so many slots a host."""
    put = "PATH=$PATH:/usr/lib/gridengine; qconf -rattr queue slots"
    grid.sh(BETA, f"{put} {slots} all.q")
    try:
        yield
    finally:
        grid.sh(BETA, f"{put} 2 all.q")


@contextmanager
def _besteffort(grid: Grid) -> Iterator[None]:
    grid.sh(HOST, f"{SETUP} --apply")
    try:
        yield
    finally:
        grid.sh(HOST, f"{SETUP} --remove --apply")
