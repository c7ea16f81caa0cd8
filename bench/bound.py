"""Delay of a campaign whose tasks wait at a full cluster until rebalancing has moved them.

free    a campaign for gamma alone, from its submission to its end
bound   the same one for beta and gamma: it is submitted while gamma is full, so that most tasks
        wait at beta, in a queue that stays closed; beta's slots are then used by others. From the
        moment at which gamma is free, with a round of rebalancing and one of nikita every 15 s

Usage: .venv/bin/python -m bench.bound [--json FILE] [--tasks N] [--task-s S]    in a lab, as root
"""

import argparse
import json
import sys
import time
from typing import Any

from bench.harvest import until
from bench.rows import Row, show
from tests.lab.campaigns.full.test_nikita import NIKITA, QUEUE, closed_queue, filled
from tests.lab.campaigns.runner import HOST, published, start, stop, submit
from tests.lab.configured import configured
from tests.lab.gamma import NODES
from tests.lab.grid import Grid

TASKS, TASK_S, PAUSE_S, LIMIT_S = 16, 60.0, 15.0, 1800.0
MOST = 1.2
SLOTS = 4  # of beta's own queue; where some are free, beta counts as a place for the tasks
FILL = ("-N", "fill", "-t", f"1-{SLOTS}", "-q", "all.q", "-o", "/dev/null", "-j", "y")
AT_BETA, AT_GAMMA = {"beta": {"queue": QUEUE}}, {"gamma": {}}
NO_REST = r"/^\[rebalance\]/a least_wait_s = 0\nhost_rest_s = 0\njob_rest_s = 0"
FLOODED = "s|^#flood_rate = .*|flood_rate = 10|"
ROUND = f"gridbridge rebalance auto --apply; {NIKITA}"


def main() -> int:
    """Measure the delay; return the exit status."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--json", metavar="FILE")
    options.add_argument("--tasks", metavar="N", type=int, default=TASKS)
    options.add_argument("--task-s", metavar="S", type=float, default=TASK_S)
    given = options.parse_args()
    jdl = {
        "name": "bound",
        "type": "normal",
        "walltime": "0:10",
        "exec_file": f"sleep {given.task_s:g}",
        "nb_jobs": given.tasks,
    }
    grid = Grid()
    with configured(grid, NO_REST), configured(grid, FLOODED), closed_queue(grid):
        stop(grid)
        start(grid)
        free_s, bound_s = _free(grid, jdl), _bound(grid, jdl)
    stop(grid)
    rows = [
        Row(what="a campaign whose tasks waited at a full cluster", measured=bound_s,
            unit="s to its end", limit=MOST * free_s, baseline=free_s),
    ]  # fmt: skip
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump({"free_s": free_s, "bound_s": bound_s}, file)
    show(rows)
    return 0 if all(row.is_met for row in rows) else 1


def _free(grid: Grid, jdl: dict[str, Any]) -> float:
    began = time.monotonic()
    number = submit(grid, jdl | {"clusters": AT_GAMMA})
    return until(lambda: _is_over(grid, number), LIMIT_S) - began


def _bound(grid: Grid, jdl: dict[str, Any]) -> float:
    with filled(grid, *NODES):
        number = submit(grid, jdl | {"clusters": AT_BETA | AT_GAMMA})
        until(lambda: _waiting(grid, number) == jdl["nb_jobs"], LIMIT_S)
        fill = grid.submit(*FILL, user="bob", cluster="beta", script=f"sleep {LIMIT_S:g}\n")
        until(lambda: [*grid.states("beta").values()].count("r") == SLOTS, LIMIT_S)
    began = time.monotonic()
    try:
        return _ended(grid, number) - began
    finally:
        grid.cell("beta", "qdel", fill, user="bob")


def _ended(grid: Grid, number: int) -> float:
    """Run cycles until a campaign has ended; return the time of its end."""
    began = time.monotonic()
    while not _is_over(grid, number):
        if time.monotonic() > began + LIMIT_S:
            sys.exit(f"campaign {number} has not ended within {LIMIT_S:g} s")
        due = time.monotonic() + PAUSE_S
        print(grid.sh(HOST, ROUND, timeout_s=120), file=sys.stderr)
        while time.monotonic() < due and not _is_over(grid, number):
            time.sleep(0.5)
    return time.monotonic()


def _waiting(grid: Grid, number: int) -> int:
    """Return the numbers of tasks that wait at beta, and at gamma, which is full."""
    return sum(one["waiting"] for one in published(grid, number)["at"])


def _is_over(grid: Grid, number: int) -> bool:
    told = published(grid, number)
    if told["state"] == "in_treatment":
        return False
    assert (told["ended"], told["failed"]) == (told["tasks"], 0), told
    return True


if __name__ == "__main__":
    sys.exit(main())
