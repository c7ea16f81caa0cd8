"""A task that waits at full beta is moved: it runs at delta or at home, exactly once."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.lab import delta
from tests.lab.away import QUIET, TELLS, ends, full_beta, kill, qmaster, starts, wait_for, why
from tests.lab.configured import HOST, configured, pollers
from tests.lab.grid import Grid
from tests.lab.phases import closed_home

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

LONG = pytest.mark.long
SOURCE, TARGET = ("beta-master", "beta-n1", "beta-n2"), (delta.FAR, "delta-n1")
OF_A_MOVE = ("target", "source")

AT_ONCE = r"/^\[rebalance\]/a least_wait_s = 0\nhost_rest_s = 0\njob_rest_s = 0"


@pytest.fixture(scope="module", autouse=True)
def _at_once(grid: Grid, open_to_delta: None) -> Iterator[None]:
    """Let the rebalancer move a job without any pause."""
    del open_to_delta
    delta.until_open(grid)
    with configured(grid, AT_ONCE):
        yield


@pytest.fixture(autouse=True)
def _no_notes(grid: Grid, _at_once: None) -> None:
    del _at_once
    grid.sh(HOST, "rm -f *.ran", user="alice")
    grid.sh(delta.FAR, f"rm -f ~{delta.ACCOUNT}/*.ran")


def rebalance(grid: Grid, *words: str) -> dict[str, Any]:
    done = grid.on(HOST, "gridbridge", "rebalance", *words, "--json", timeout_s=90)
    assert done.status == 0, done
    told: dict[str, Any] = json.loads(done.out)
    return told


def waits_at_beta(grid: Grid, name: str, *options: str, script: str = TELLS) -> str:
    job = grid.submit("-N", name, *QUIET, *options, script=script)
    wait_for(grid, grid.remote_id(job), "qw")
    grid.until(lambda: is_known(grid, job), "it to be a task of beta's")
    return job


def is_known(grid: Grid, job: str) -> bool:
    told = rebalance(grid, "plan", "fail", "beta")
    return any(one["job"] == f"gb.alpha.{job}" for one in (*told["moves"], *told["rejected"]))


def ran(grid: Grid, name: str) -> list[str]:
    here = grid.on(HOST, "cat", f"{name}.ran", user="alice").out.splitlines()
    there = grid.on("delta-n1", "sh", "-c", f"cat ~{delta.ACCOUNT}/{name}.ran").out.splitlines()
    return [*here, *there]


def keeps_off(grid: Grid, job: str) -> bool:
    told = grid.cell("alpha", "qstat", "-j", job)
    assert told.status == 0, told
    return "gridbridge_queues" in told.out or "!transfer-beta" in told.out


def test_a_task_goes_from_full_beta_to_delta(grid: Grid) -> None:
    """Home is closed, so that the task crosses. Beta's queue stays open."""
    with full_beta(grid), closed_home(grid):
        job = waits_at_beta(grid, "moved", script=f"{TELLS}sleep 15\n")
        told = rebalance(grid, "fail", "beta", "--apply")
        later = rebalance(grid, "host", "beta")
        grid.until(lambda: starts(ran(grid, "moved")), "it to run at delta", 90)
        grid.until(lambda: not keeps_off(grid, job), "it to have its own queues again", 30)
        grid.until(lambda: ends(grid, job), "its end", 90)

    assert [("beta", "delta")] == [(one["from"], one["to"]) for one in told["moves"]]
    assert (1, []) == (told["moved"], told["dropped"])
    assert "1 task is being moved: no other move begins" == later["sentence"]
    assert ["start delta-n1", "end"] == ran(grid, "moved")
    assert "recalled from beta: rebalanced, delta had room" in why(grid, job)
    assert "moved: the task waited at beta before" in why(grid, job)


@pytest.mark.long
def test_a_task_comes_home_where_slots_are_free(grid: Grid) -> None:
    with full_beta(grid):
        with closed_home(grid):
            job = waits_at_beta(grid, "homed")
        told = rebalance(grid, "job", f"gb.alpha.{job}", "--apply")
        if not told["moves"]:
            told = rebalance(grid, "fail", "beta", "--apply")
        grid.until(lambda: ends(grid, job), "its end", 90)

    assert 1 == told["moved"]
    assert "alpha" == starts(ran(grid, "homed"))[0].partition("-")[0]


@pytest.mark.long
def test_a_task_that_no_other_queue_accepts_stays_with_the_reason(grid: Grid) -> None:
    with full_beta(grid):
        job = waits_at_beta(grid, "only", "-q", "transfer-beta")
        rebalance(grid, "fail", "beta", "--apply")
        grid.until(lambda: "not moved: no other queue could run the job" in why(grid, job), "the reason")
        stays = grid.states("beta")[grid.remote_id(job)]
    grid.until(lambda: ends(grid, job), "its end", 90)

    assert "qw" == stays
    assert "beta" == starts(ran(grid, "only"))[0].partition("-")[0]


@pytest.mark.long
def test_a_round_leaves_a_job_whose_owner_wants_it_to_stay(grid: Grid) -> None:
    """`qsub -ac gridbridge_balance=no` keeps the job. Emptying beta ignores this wish."""
    with full_beta(grid), closed_home(grid):
        job = waits_at_beta(grid, "stays", "-ac", "gridbridge_balance=no")
        told = rebalance(grid, "host", "beta")
        drained = rebalance(grid, "fail", "beta")
        grid.cell("alpha", "qdel", job, user="alice")

    assert [] == told["moves"]
    reasons = [one["reason"] for one in told["rejected"] if one["job"] == f"gb.alpha.{job}"]
    assert ["the owner wants the job to stay"] == reasons
    assert [f"gb.alpha.{job}"] == [one["job"] for one in drained["moves"]]


@pytest.mark.long
def test_a_task_is_moved_once_though_the_poller_is_killed(grid: Grid) -> None:
    """The next poller continues at any point of the move."""
    with full_beta(grid), closed_home(grid):
        job = waits_at_beta(grid, "killed")
        rebalance(grid, "fail", "beta", "--apply")
        grid.until(lambda: keeps_off(grid, job), "it to keep off beta")
        kill(grid, *pollers(grid))
        grid.until(lambda: ends(grid, job), "its end", 120)
    grid.require_ready()

    assert ["start delta-n1", "end"] == ran(grid, "killed")


def moves(grid: Grid) -> bool:
    """Move the tasks that wait at beta; say whether exactly one task moved."""
    return 1 == rebalance(grid, "fail", "beta", "--apply")["moved"]


@pytest.mark.parametrize("turn", [0, *(pytest.param(n, marks=LONG) for n in range(1, 100))])
def test_a_task_runs_once_when_its_old_cluster_gets_free_during_the_move(grid: Grid, turn: int) -> None:
    name = f"raced{turn}"
    with ExitStack() as full:
        full.enter_context(full_beta(grid))
        full.enter_context(closed_home(grid))
        job = waits_at_beta(grid, name)
        grid.until(lambda: moves(grid), "a round that waits for no earlier move")
        grid.cell("beta", "qdel", "-u", "bob", user="bob")
        grid.until(lambda: ends(grid, job), "its end", 120)

    assert 2 == len(ran(grid, name))
    assert starts(ran(grid, name))[0].partition("-")[0] in ("beta", "delta")


@pytest.mark.long
@pytest.mark.parametrize("cluster", [TARGET, SOURCE], ids=OF_A_MOVE)
def test_a_task_is_moved_once_though_a_qmaster_dies(grid: Grid, cluster: tuple[str, ...]) -> None:
    host, *nodes = cluster
    name = f"cut-{host}"
    with full_beta(grid), closed_home(grid):
        job = waits_at_beta(grid, name)
        remote = grid.remote_id(job)
        told = rebalance(grid, "fail", "beta", "--apply")
        with qmaster(grid, "kill", "start", host):
            grid.until(lambda: keeps_off(grid, job), "it to keep off beta")
        for node in nodes:  # by itself it hears the new qmaster after half a minute
            grid.sh(node, "labctl restart execd")
        grid.until(lambda: ends(grid, job), "its end", 120)
    wait_for(grid, remote, "")

    assert 1 == told["moved"]
    assert ["start delta-n1", "end"] == ran(grid, name)
