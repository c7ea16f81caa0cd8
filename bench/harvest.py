"""How fast and how well a campaign fills the lab's beta: at first, when beta is full, and for long.

begun     100 tasks for 100 free slots: from gridsub to the last one's submission
flooded   100 more of another campaign while all slots run: how many wait there at most
harvested what part of the slots that no local job had a long best-effort campaign used, each 2 s,
          while local jobs come and go
delayed   how much later each of these starts than the same job without the campaign: the largest

The local jobs are the same in both: when they come and how long they run is drawn once.

Beside the first two is what CiGri 3's turns and taps do on as many simulated slots.
Beta's queue has 50 slots a host for the first two, and 20 for the others; it is put back.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from statistics import median
from typing import TypeVar

from bench.brief import sized
from bench.rows import Row
from bench.simulated import Cigri
from bench.simulation import HUNDRED, filled_s, waiting_at
from tests.lab.campaigns.runner import HOST, start, submit
from tests.lab.grid import Grid

BETA, NODE = "beta-master", "beta-n1"
HOSTS = 2
MANY, FEW = sized(50, 20), sized(20, 10)  # slots of a host; its gid_range lets 100 jobs run
SETUP = "gridbridge setup besteffort beta"
MOST_S, MOST_WAIT = 45.0, 0.1  # [campaigns.beta] flood_rate
LEAST_PART, MOST_PASSES = 0.95, 2.0  # a scheduling pass is PASS_S here
PASS_S = 1.0
WATCHED_S, WARM_S, LOOK_S = sized(120.0, 30.0), sized(45.0, 15.0), 2.0
SEED, PAUSE_S, SHORTEST_S, LONGEST_S = 1, 7.0, 3, 20  # of local jobs, one after another
STARTED = "/tmp/gb-bench-local"
T = TypeVar("T")
STAGGERED = "sh -c 'sleep $((60 + $1 * 37 % 120))' sh"


def rows() -> list[Row]:
    """Measure all figures."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """Observations while local jobs came and went."""

    used: tuple[tuple[int, int], ...]  # slots of best-effort tasks and of local jobs, each 2 s
    waits_s: tuple[float, ...]  # of the jobs for their starts, in their order


def _harvested(grid: Grid) -> list[Row]:
    """Submit the same local jobs without a campaign and beside one."""
    plain = _played(grid)
    number = _campaign(grid, 2000, STAGGERED, "best-effort")
    until(lambda: _used(grid)[0] >= HOSTS * FEW - 2)
    _looks(lambda: 0, WARM_S)
    beside = _played(grid)
    grid.on(HOST, "griddel", str(number), user="alice", timeout_s=200)
    until(lambda: not _listed(grid, number))
    later = [(ours - alone) / PASS_S for ours, alone in zip(beside.waits_s, plain.waits_s, strict=True)]
    return [
        Row(what="idle slots that are harvested", measured=_part(beside), unit="of them",
            limit=LEAST_PART, is_least=True, baseline=_part(plain), needs_whole=True),
        Row(what="  slots in use", measured=_in_use(beside), unit="of all",
            baseline=_in_use(plain)),
        Row(what="a local job starts, the latest", measured=max(later), unit="passes later",
            limit=MOST_PASSES, baseline=max(plain.waits_s) / PASS_S, needs_whole=True),
        Row(what="  the median", measured=median(later), unit="passes later",
            baseline=median(plain.waits_s) / PASS_S),
    ]  # fmt: skip


def _part(played: Played) -> float:
    """Return the used fraction of the slots that no local job had."""
    harvestable = sum(HOSTS * FEW - local for _, local in played.used)
    return sum(ours for ours, _ in played.used) / harvestable


def _in_use(played: Played) -> float:
    return sum(map(sum, played.used)) / (HOSTS * FEW * len(played.used))


def local_jobs(random: Random) -> list[tuple[float, int]]:
    """Return the submission times of the sample's local jobs, and their run times in seconds."""
    found = []
    at_s = random.expovariate(1 / PAUSE_S)
    while at_s < WATCHED_S - LONGEST_S:  # each ends in the sample, too
        found.append((at_s, random.randint(SHORTEST_S, LONGEST_S)))
        at_s += random.expovariate(1 / PAUSE_S)
    return found


def _played(grid: Grid) -> Played:
    """Submit and end local jobs, and observe the slots meanwhile."""
    due, waits = local_jobs(Random(SEED)), dict[str, float]()
    used = []
    began_s = time.monotonic()
    while (passed_s := time.monotonic() - began_s) < WATCHED_S:
        while due and due[0][0] <= passed_s:
            runs_s = due.pop(0)[1]
            asked_at = time.time()  # the lab's hosts have this machine's clock
            waits[_submitted(grid, runs_s)] = asked_at
        used.append(_used(grid))
        time.sleep(LOOK_S)
    until(lambda: all(_started_at(grid, job) for job in waits))
    waited = tuple(_started_at(grid, job) - asked_at for job, asked_at in waits.items())
    until(lambda: not _used(grid)[1])
    grid.sh(NODE, f"rm -f {STARTED}.*")
    return Played(used=tuple(used), waits_s=waited)


def _submitted(grid: Grid, runs_s: int) -> str:
    """Submit a local job that records its start; return its number."""
    words = ("qsub", "-terse", "-l", f"hostname={NODE}", "-S", "/bin/sh", "-j", "y")
    script = f"date +%s.%N\nsleep {runs_s}\n"
    return grid.on(BETA, *words, "-o", f"{STARTED}.$JOB_ID", user="bob", stdin=script).out.strip()


def _started_at(grid: Grid, job: str) -> float:
    """Return the start time of a local job; 0 before its start."""
    told = grid.sh(NODE, f"cat {STARTED}.{job} 2>/dev/null; :").split()
    return float(told[0]) if told else 0.0


def _campaign(grid: Grid, tasks: int, runs: str, kind: str) -> int:
    jdl = {"name": "harvest", "nb_jobs": tasks, "exec_file": runs, "walltime": "0:10"}
    return submit(grid, jdl | {"type": kind, "clusters": {"beta": {}}})


def _listed(grid: Grid, number: int, state: str = "") -> int:
    """Return how many tasks of a campaign beta lists, optionally in one state."""
    of_name = f"campaign.{number}"[:10]
    words = [line.split() for line in grid.cell("beta", "qstat", "-g", "d").out.splitlines()[2:]]
    ours = [one for one in words if one[2] in (of_name, f"gc.alpha.{number}"[:10])]
    return sum(one[4] == state or not state for one in ours)


def _used(grid: Grid) -> tuple[int, int]:
    """Return the slots used by best-effort tasks and by local jobs."""
    lines = grid.cell("beta", "qstat", "-f").out.splitlines()
    queues = [(one[0], int(one[2].split("/")[1])) for one in map(str.split, lines)
              if one and "@" in one[0]]  # fmt: skip
    ours = sum(used for name, used in queues if name.startswith("gb-be"))
    return ours, sum(used for name, used in queues if name.startswith("all.q"))


def until(look: Callable[[], object], limit_s: float = 240.0, pause_s: float = 0.5) -> float:
    """Return the time at which a condition holds."""
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
    """Set the slots of beta's queue on each host."""
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
