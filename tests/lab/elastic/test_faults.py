"""Alpha's balancer when its own files are lost, or another balancer is at work."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.lab.elastic import test_acting
from tests.lab.elastic.test_acting import (
    BALANCE,
    HOME,
    HOST,
    KEPT,
    comes,
    ends,
    machines,
    nodes,
    round_,
    submit,
)
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(300)]

grid, acting, at_rest = test_acting.grid, test_acting.acting, test_acting.at_rest  # fixtures
LOCKED = 3


def test_a_second_balancer_does_nothing_while_one_is_at_work(acting: Grid) -> None:
    """The first one waits for its provider, which does not answer."""
    acting.lab("faults", "hang")
    with ThreadPoolExecutor(1) as thread:
        first = thread.submit(round_, acting)
        argv = (BALANCE, "--config", KEPT, "--apply")
        second = acting.until(
            lambda: (done := acting.on(HOST, *argv)).status == LOCKED and done, "it to refuse"
        )
        acting.lab("faults")
        first.result()

    assert "gridbridge-balance" in second.err


def test_a_lost_state_file_leaves_no_node_unknown(acting: Grid) -> None:
    """Each is known by its tag, goes on running its tasks, and is given back in the end."""
    job = submit(acting, 6, 25)
    comes(acting, "ready")
    before = {one["name"] for one in machines(acting)}
    acting.sh(HOST, f"rm -f {HOME}/state.db {HOME}/state.db-*")
    round_(acting)
    known = set(nodes(acting))
    told = acting.until(lambda: len(found := ends(acting, job)) == 6 and found, "6 records", 90)

    assert before <= known
    assert {status for _, status in told} == {"0"}
