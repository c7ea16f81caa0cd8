"""Alpha's balancer while nodes die, never join, are missing from lists, or the qmaster is down."""

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.lab.elastic import test_acting
from tests.lab.elastic.test_acting import HOST, KEPT, comes, machines, round_
from tests.lab.grid import Grid, is_rescheduled
from tests.lab.grid import unprepared_grid as unprepared_grid

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(600)]

acting, at_rest = test_acting.acting, test_acting.at_rest  # fixtures
OWN = {"alpha-n1", "alpha-n2"}
END_S = 240
COMES_S = 240
TASKS = 8
ROUNDS = 12  # without a qmaster


GATE = "~/balance.go"
UNTIL_OPEN = f"until [ -e {GATE} ]; do sleep 0.5; done\n"


@pytest.fixture(autouse=True)
def gate(acting: Grid, at_rest: None) -> Iterator[None]:
    """Provide a file for which running tasks wait, and create it after the test."""
    acting.sh(HOST, f"rm -f {GATE}", user="alice")
    yield
    acting.sh(HOST, f"touch {GATE}", user="alice")


@pytest.fixture
def broken_mounts(acting: Grid) -> Iterator[None]:
    whole = acting.sh(HOST, f"cat {KEPT}")
    acting.on(HOST, "tee", KEPT, stdin=whole.replace("test.mounts", "broken.mounts"))
    broken = f"echo /export/nowhere /nowhere none bind 0 0 >{test_acting.HOME}/broken.mounts"
    acting.sh(HOST, broken)
    yield
    acting.on(HOST, "tee", KEPT, stdin=whole)


def submit(grid: Grid, tasks: int) -> str:
    words = ("-r", "y", "-q", "all.q", "-t", f"1-{tasks}", "-o", "/dev/null", "-j", "y")
    return grid.submit(*words, script=UNTIL_OPEN).partition(".")[0]


def busy(grid: Grid) -> set[str]:
    told = grid.cell("alpha", "qstat", "-u", "*", "-s", "r").out
    return set(re.findall(r"all\.q@(\S+)", told))


def hosts(grid: Grid) -> set[str]:
    return set(grid.sh(HOST, "qconf -sel").split()) - {HOST}


def take_away(grid: Grid) -> set[str]:
    found = machines(grid)
    for one in found:
        wish = json.dumps({"id": one["id"]})
        grid.on(HOST, "/opt/gridlab/power-node", "destroy", stdin=wish)
    return {one["name"] for one in found}


def all_end(grid: Grid, job: str, tasks: int) -> list[tuple[str, str]]:
    """Open the gate, and run cycles until each task has ended; return each task's host and exit status."""
    grid.sh(HOST, f"touch {GATE}", user="alice")

    def have_ended() -> list[tuple[str, str]]:
        round_(grid)
        told = [one for one in grid.records(job) if not is_rescheduled(one)]
        return [(one["hostname"], one["exit_status"]) for one in told] if len(told) >= tasks else []

    return grid.until(have_ended, f"{tasks} tasks to end", END_S)


def test_nodes_that_die_under_tasks_leave_the_cell_and_their_tasks_run_again(acting: Grid) -> None:
    job = submit(acting, TASKS)
    comes(acting, "ready", COMES_S)
    acting.until(lambda: busy(acting) - OWN, "tasks on a new node")
    lost = take_away(acting)
    acting.until(lambda: round_(acting) and not lost & hosts(acting), "them to be gone", COMES_S)
    told = all_end(acting, job, TASKS)

    assert lost
    assert ["0"] * TASKS == [status for host, status in told if host not in lost]


def test_nodes_that_die_while_joining_are_removed_and_replaced(acting: Grid) -> None:
    job = submit(acting, TASKS)
    comes(acting, "joining")
    lost = {one["id"] for one in machines(acting)}
    take_away(acting)
    comes(acting, "ready", COMES_S)
    now = {one["id"] for one in machines(acting)}
    told = all_end(acting, job, TASKS)

    assert lost
    assert now - lost
    assert ["0"] * TASKS == [status for _, status in told]


def test_a_node_that_boots_and_never_joins_is_given_back(acting: Grid, broken_mounts: None) -> None:
    """The queue on the node was never enabled, so that no task started there."""
    submit(acting, TASKS)
    comes(acting, "joining")
    first = {one["id"] for one in machines(acting)}
    acting.until(
        lambda: round_(acting) and not first & {one["id"] for one in machines(acting)},
        "the first ones to be given back",
        COMES_S,
    )

    assert busy(acting) <= OWN


def test_nodes_missing_from_a_list_keep_working(acting: Grid) -> None:
    """The nodes' execds report, so the list is wrong."""
    job = submit(acting, TASKS)
    comes(acting, "ready", COMES_S)
    acting.until(lambda: busy(acting) - OWN, "tasks on a new node")
    before = busy(acting)
    acting.lab("faults", "partial")
    for _ in range(4):
        round_(acting)
    during = busy(acting)
    acting.lab("faults")
    told = all_end(acting, job, TASKS)

    assert before <= during
    assert ["0"] * TASKS == [status for _, status in told]


def test_a_machine_that_never_appears_is_given_up_and_requested_again(acting: Grid) -> None:
    """A list may be late. The balancer waits two minutes for a machine that no list shows."""
    acting.lab("faults", "lie")
    job = submit(acting, TASKS)
    round_(acting)
    acting.lab("faults")
    comes(acting, "ready", COMES_S)
    told = all_end(acting, job, TASKS)

    assert ["0"] * TASKS == [status for _, status in told]


def test_no_task_is_lost_when_the_qmaster_is_killed_in_each_cycle(acting: Grid) -> None:
    """Nodes join and leave meanwhile."""
    job = submit(acting, TASKS)
    for turn in range(ROUNDS):
        with ThreadPoolExecutor(1) as thread:
            under_way = thread.submit(round_, acting)
            acting.sh(HOST, "labctl kill qmaster")
            under_way.result()
        acting.sh(HOST, "labctl start qmaster")
        acting.until(lambda: acting.on(HOST, "qconf", "-sel").status == 0, "the qmaster to answer")
        round_(acting)
        if turn == ROUNDS // 2:  # the rest of them while nodes leave
            acting.sh(HOST, f"touch {GATE}", user="alice")
    told = all_end(acting, job, TASKS)

    assert ["0"] * TASKS == [status for _, status in told]
