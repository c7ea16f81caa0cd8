"""Jobs of alice whose files are copied to delta and back, each with a folder of its own."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from tests.lab.delta import ACCOUNT, ACCOUNTS, FAR, HOME, STAGE, empty, submit, until_open
from tests.lab.grid import Grid

ROOT = "/home/alice/staged"
SLOW = "rate 16mbit burst 64kb latency 400ms"  # so that something can happen meanwhile


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    script: str
    declared: str = ""
    before: str = ""
    options: tuple[str, ...] = ()


def put(grid: Grid, name: str, script: str) -> None:
    grid.sh(HOME, f"mkdir -p {ROOT}/{name} && cd {ROOT}/{name} && {script or ':'}", user="alice")


def here(grid: Grid, name: str, script: str) -> str:
    return grid.sh(HOME, f"cd {ROOT}/{name} && {script}", user="alice")


def send(grid: Grid, name: str, job: Job) -> str:
    where = ("-wd", f"{ROOT}/{name}", "-o", "out", "-e", "err")
    declared = ("-ac", job.declared) if job.declared else ()
    return submit(grid, job.script, *where, *declared, *job.options, name=name)


def send_all(grid: Grid, jobs: Mapping[str, Job]) -> dict[str, str]:
    """Make all files and submit all jobs; return the ids by job name."""
    for name, job in jobs.items():
        put(grid, name, job.before)
    return {name: send(grid, name, job) for name, job in jobs.items()}


def begin(grid: Grid) -> None:
    """Wait until the queue is open, and remove the folders of earlier jobs."""
    grid.sh(HOME, f"rm -rf {ROOT}; mkdir {ROOT}", user="alice")
    until_open(grid)


def leave_nothing(grid: Grid) -> None:
    empty(grid)
    for user in ACCOUNTS:
        grid.sh(FAR, f"rm -rf {STAGE} ran", user=ACCOUNTS[user])
    grid.sh(HOME, f"rm -rf {ROOT}", user="alice")


@contextmanager
def slow_line(grid: Grid) -> Iterator[None]:
    """Slow down the traffic from home and delta (tc-tbf(8))."""
    for host in (HOME, FAR):
        grid.sh(host, f"tc qdisc add dev eth0 root tbf {SLOW}")
    try:
        yield
    finally:
        for host in (HOME, FAR):
            grid.sh(host, "tc qdisc del dev eth0 root")


def arriving(grid: Grid) -> dict[str, int]:
    """Return how many input bytes have arrived at delta, by job id."""
    script = f"cd {STAGE} 2>/dev/null && find . -type f -size +100k -printf '%p %s\\n' || :"
    return sizes(grid.sh(FAR, script, user=ACCOUNT), r"\./gb\.alpha\.(\d+)\.")


def coming(grid: Grid) -> dict[str, int]:
    """Return how many output bytes have arrived at home, final or temporary, by job name."""
    script = "find . -type f -size +100k ! -name big -printf '%p %s\\n'"
    return sizes(here(grid, ".", script), r"\./([^/]+)/")


def sizes(rows: str, folder: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in rows.splitlines():
        path, size = row.split()
        if whose := re.match(folder, path):
            found[whose[1]] = found.get(whose[1], 0) + int(size)
    return found
