"""Alpha's balancer after it lost its own files, or while another balancer runs."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.lab.elastic import test_acting
from tests.lab.elastic.test_acting import BALANCE, HOME, HOST, KEPT, comes, ends, machines, nodes, round_, submit
from tests.lab.grid import Done, Grid
from tests.lab.grid import unprepared_grid as unprepared_grid

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(300)]

acting, at_rest = test_acting.acting, test_acting.at_rest  # fixtures
LOCKED = 3


def test_a_second_balancer_does_nothing_while_one_is_at_work(acting: Grid) -> None:
    """The first balancer waits for its provider, which does not answer."""
    acting.lab("faults", "hang")
    second = acting.until(lambda: _refused(acting), "one of two to refuse")
    acting.lab("faults")

    assert "gridbridge-balance" in second.err


def _refused(grid: Grid) -> Done | None:
    argv = (BALANCE, "--config", KEPT, "--apply")
    with ThreadPoolExecutor(2) as threads:
        both = list(threads.map(lambda _: grid.on(HOST, *argv), range(2)))
    return next((one for one in both if one.status == LOCKED), None)


def test_a_lost_state_file_leaves_no_node_unknown(acting: Grid) -> None:
    """The balancer finds each node by its tag. The node goes on running tasks, and is returned later."""
    job = submit(acting, 6, 25)
    comes(acting, "ready")
    before = {one["name"] for one in machines(acting)}
    acting.sh(HOST, f"rm -f {HOME}/state.db {HOME}/state.db-*")
    round_(acting)
    known = set(nodes(acting))
    told = acting.until(lambda: len(found := ends(acting, job)) == 6 and found, "6 records", 90)

    assert before <= known
    assert {status for _, status in told} == {"0"}
