"""The balancer's plan for the lab's alpha, with jobs in a real queue."""

import json
from typing import Any

import pytest

from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

HOST = "alpha-master"
FOLDER = "balance-saved"


def plan(grid: Grid, *words: str) -> dict[str, Any]:
    done = grid.on(HOST, "gridbridge", "balance", "plan", "--json", *words, user="bob")
    assert done.status == 0, done
    found = json.loads(done.out)
    assert isinstance(found, dict)
    return found


def test_tasks_that_wait_too_long_make_the_cluster_grow(grid: Grid) -> None:
    """The saved snapshot leads to the same plan. Other limits lead to another plan."""
    job = grid.submit("-q", "all.q", "-t", "1-9", "-b", "y", "-o", "/dev/null", "sleep", "600")
    try:
        grid.until(lambda: "qw" in str(grid.states().values()), "a task to wait")
        options = ("--policy", "starcluster", "-m", "9", "-w", "0", "-a", "3")
        grid.until(lambda: 3 == plan(grid, *options)["add"], "it to be time")
        grid.sh(HOST, f"gridbridge balance snapshot {FOLDER}", user="bob")
        saved = plan(grid, "--from", FOLDER, *options)
        small = plan(grid, "--from", FOLDER, *options[:2], "-m", "3", "-w", "0")
        packed = plan(grid, "--from", FOLDER, "-m", "9")
    finally:
        grid.cell("alpha", "qdel", job, user="root")
        grid.sh(HOST, f"rm -rf {FOLDER}", user="bob")

    assert (3, []) == (saved["add"], saved["remove"])
    assert saved["sentence"].endswith("3 of 9 nodes exist: add 3")
    assert (3, "add 3") == (packed["add"], packed["sentence"][-5:])
    assert (0, "3 of at most 3 nodes exist: no node is added or removed") == (small["add"], small["sentence"])


def test_held_jobs_are_reported_and_add_no_node(grid: Grid) -> None:
    job = grid.submit("-h", "-q", "all.q", "-b", "y", "-o", "/dev/null", "true")
    try:
        found = plan(grid, "-m", "9", "-w", "0")
    finally:
        grid.cell("alpha", "qdel", job, user="root")

    assert {"job": int(job), "reason": "the job is held"} in found["refused"]
    assert 0 == found["add"]


def test_a_cell_that_does_not_answer_ends_with_75(grid: Grid) -> None:
    """No plan is printed without a snapshot."""
    port = "s/^qmaster_port = .*/qmaster_port = 9/"
    script = f"sed '{port}' /var/lib/gridbridge/gridbridge.toml >elsewhere.toml"
    grid.sh(HOST, f"{script} && chmod 644 elsewhere.toml", user="bob")
    done = grid.on(HOST, *("gridbridge", "balance", "plan", "-m", "9", "--config", "elsewhere.toml"), user="bob")
    grid.sh(HOST, "rm elsewhere.toml", user="bob")

    assert (75, "") == (done.status, done.out), done
    assert done.err.startswith("gridbridge: alpha: ")
    assert 1 == done.err.count("\n")
