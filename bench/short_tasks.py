"""How many tasks of 1 s run in an hour on beta in the lab: by jobs that pull, and as a bare array on the same slots.

Each pair has the same scheduler: Grid Engine's defaults, which run the scheduler each 15 s, and the lab's own settings,
which also run it a second after each submission and end of a job. A rate is that of the tasks that begin while all
slots are in use.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from bench.brief import sized
from bench.harvest import BETA, until
from bench.rows import Row
from tests.lab.campaigns.runner import HOST, start, stop, submit
from tests.lab.configured import configured
from tests.lab.grid import Grid

TASKS = sized(1600, 600)  # a job begins with 50 of them
BARE = sized(60, 16)
LEAST_TIMES = 5.0
HOUR_S = 3600
PULLS = "s/^#pull = .*/pull = true/"
BEGUN = "gb-bench-short"  # a file in alice's home; each task adds the time of its begin
TASK = f"date +%s.%N >>$HOME/{BEGUN}; sleep 1"
USUAL = {"schedule_interval": "0:0:15", "flush_submit_sec": "0", "flush_finish_sec": "0"}  # sched_conf(5)


def rows() -> list[Row]:
    """Measure both rates with both schedulers."""
    grid = Grid()
    with configured(grid, PULLS):
        stop(grid)
        start(grid)
        at_once = _bare_rate(grid), _pulled_rate(grid)
        with _usual_scheduler(grid):
            usual = _bare_rate(grid), _pulled_rate(grid)
        stop(grid)
    start(grid)
    return [
        Row(what="tasks of 1 s by pull", measured=usual[1], unit="tasks an hour", baseline=usual[0],
            limit=LEAST_TIMES * usual[0], is_least=True, needs_whole=True),
        Row(what="and if the scheduler runs at each end of a job", measured=at_once[1], unit="tasks an hour",
            baseline=at_once[0]),
    ]  # fmt: skip


def _bare_rate(grid: Grid) -> float:
    job = grid.submit("-t", f"1-{BARE}", "-o", "/dev/null", "-j", "y", cluster="beta", script=f"{TASK}\n")
    until(lambda: len(_begins(grid)) >= BARE, limit_s=40.0 * BARE)
    until(lambda: f" {job} " not in grid.cell("beta", "qstat").out)
    return _rate(grid)


def _pulled_rate(grid: Grid) -> float:
    jdl = {"name": "short", "nb_jobs": TASKS, "exec_file": f"{TASK} #", "type": "normal", "walltime": "1:0"}
    submit(grid, jdl | {"temporal_grouping": True, "clusters": {"beta": {}}})
    until(lambda: len(_begins(grid)) >= TASKS, limit_s=600.0 + TASKS)
    return _rate(grid)


def _begins(grid: Grid) -> list[float]:
    return sorted(map(float, grid.sh(HOST, f"cat {BEGUN} 2>/dev/null; :", user="alice").split()))


def _rate(grid: Grid) -> float:
    """Return the tasks an hour of the middle eight tenths of the tasks, and forget the tasks."""
    begins = _begins(grid)
    grid.sh(HOST, f"rm -f {BEGUN}", user="alice")
    middle = begins[len(begins) // 10 : -(len(begins) // 10) or None]
    return HOUR_S * (len(middle) - 1) / (middle[-1] - middle[0])


@contextmanager
def _usual_scheduler(grid: Grid) -> Iterator[None]:
    """Give beta's scheduler Grid Engine's defaults."""
    shown = grid.sh(BETA, "PATH=$PATH:/usr/lib/gridengine; qconf -ssconf").splitlines()
    before = dict(line.split() for line in shown if line.startswith(tuple(USUAL)))
    _set_scheduler(grid, USUAL)
    try:
        yield
    finally:
        _set_scheduler(grid, before)


def _set_scheduler(grid: Grid, settings: dict[str, str]) -> None:
    edits = " ".join(f"-e 's/^{key} .*/{key} {value}/'" for key, value in settings.items())
    grid.sh(BETA, f"cd /tmp; PATH=$PATH:/usr/lib/gridengine; qconf -ssconf | sed {edits} >s && qconf -Msconf s")
