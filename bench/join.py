"""Time until a task runs on a new node of the lab's alpha, from the round that requests the node.

Rounds follow each other every five seconds, as gridbridge-balance --loop -i 5 does them. The time
of the node's boot, from the call of its provider until its machine runs, is taken off.

Usage: .venv/bin/python -m bench.join [--json FILE]    in a lab, as root
"""

import argparse
import json
import sys
import time
from statistics import median

from bench.brief import sized
from bench.rows import Row, show
from tests.lab.elastic.test_acting import HOST, balanced, machines, rest, round_
from tests.lab.grid import Grid

PAUSE_S = 5.0
MOST_S = 15.0
LIMIT_S = 120.0  # a qmaster that knows the machine's address by another name keeps it out
REPEATS = sized(5, 1)
NEW = "qstat -s r -u alice | awk 'NR>2 {print $8}'"  # the queues of running tasks


def main() -> int:
    """Measure the time; return the exit status."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--json", metavar="FILE")
    path = options.parse_args().json
    grid = Grid()
    with balanced(grid):
        found = [_joined(grid) for _ in range(REPEATS)]
        rest(grid)
    took_s, boot_s = (median(one[at] for one in found) for at in (0, 1))
    rows = [Row(what="a task runs on a new node", measured=took_s, unit="s", limit=MOST_S,
                baseline=boot_s)]  # fmt: skip
    if path:
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"took_s": [one[0] for one in found], "boot_s": boot_s}, file)
    show(rows)
    return 0 if all(row.is_met for row in rows) else 1


def _joined(grid: Grid) -> tuple[float, float]:
    """Return the seconds beyond the boot, and the seconds of the boot."""
    rest(grid)
    before = {f"alpha-n{number}" for number in (1, 2)}
    job = grid.submit("-q", "all.q", "-t", "1-40", "-o", "/dev/null", "-j", "y", script="sleep 4\n")
    began = _must_grow(grid)
    booted = _until_booted(grid)
    time.sleep(max(0.0, began + PAUSE_S - time.monotonic()))
    while not _runs_on_new(grid, before):
        if time.monotonic() > began + LIMIT_S:
            sys.exit(f"no task ran on a new node within {LIMIT_S:g} s")
        due = time.monotonic() + PAUSE_S
        round_(grid)
        while time.monotonic() < due and not _runs_on_new(grid, before):
            time.sleep(0.2)
    took_s = time.monotonic() - began
    grid.cell("alpha", "qdel", job, user="root")
    return took_s - (booted - began), booted - began


def _until_booted(grid: Grid) -> float:
    """Return the time at which the first new machine ran."""
    while not any(one["state"] == "running" for one in machines(grid)):
        time.sleep(0.2)
    return time.monotonic()


def _must_grow(grid: Grid) -> float:
    """Run rounds until one adds nodes; return its start time."""
    while True:
        began = time.monotonic()
        if json.loads(round_(grid))["add"]:
            return began


def _runs_on_new(grid: Grid, before: set[str]) -> bool:
    told = grid.sh(HOST, NEW).split()
    return any(one.partition("@")[2] not in {*before, ""} for one in told)


if __name__ == "__main__":
    sys.exit(main())
