"""Jobs are offered to the transfer queues in the order of gridbridge.toml."""

from collections.abc import Iterator

import pytest

from tests.lab import delta
from tests.lab.away import QUIET, TELLS, full_beta
from tests.lab.configured import HOST, configured
from tests.lab.grid import Grid
from tests.lab.phases import closed_home

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

WAIT = r'/^\[site\]/a queue_order = "wait"'
COST = (
    r'/^\[site\]/a queue_order = "cost"'
    "\n"
    r"/^\[cluster.beta\]/a cost = 3"
    "\n"
    r"/^\[cluster.delta\]/a cost = 0.5"
)
QUEUES = ("transfer-beta", "transfer-delta", "transfer-gamma")


@pytest.fixture(scope="module", autouse=True)
def _by_number(grid: Grid, open_to_delta: None) -> Iterator[None]:
    del open_to_delta
    delta.until_open(grid)
    before = numbers(grid)
    yield
    order(grid)
    assert before == numbers(grid)


def numbers(grid: Grid) -> dict[str, str]:
    words = (grid.sh(HOST, f"qconf -sq {queue} | grep ^seq_no").split() for queue in QUEUES)
    return {queue: number for queue, (_, number) in zip(QUEUES, words, strict=True)}


def order(grid: Grid) -> str:
    return grid.sh(HOST, "gridbridge setup order --apply")


def told(grid: Grid) -> str:
    return grid.sh(HOST, "gridbridge explain --to beta -- -b y sleep 1", user="alice")


def goes_to(grid: Grid) -> str:
    """Return the transfer queue that takes a job without a request, and delete the job."""
    job = grid.submit(*QUIET, script=TELLS)
    return grid.accounting_of_end(job)["qname"]


def test_a_full_cluster_comes_last(grid: Grid) -> None:
    """Delta then has the shortest expected wait, and takes a new job although beta is open."""
    with configured(grid, WAIT), full_beta(grid), closed_home(grid):
        full = "0 waiting, 0 of 4 slots free"
        grid.until(lambda: f"transfer-beta ({full})" in told(grid), "beta to be known as full")
        before = told(grid)
        done = order(grid)
        after, where = told(grid), goes_to(grid)

    assert "the shortest expected wait first: transfer-delta" in before
    assert "the queues' seq_no follow another order" in before
    assert "queue transfer-delta: seq_no 200 -> seq_no 100" in done
    assert "the queues' seq_no follow another order" not in after
    assert "transfer-delta" == where


@pytest.mark.long
def test_the_cheapest_cluster_comes_first_and_the_sequence_numbers_are_restored(grid: Grid) -> None:
    order(grid)
    first = numbers(grid)
    with configured(grid, COST), closed_home(grid):
        order(grid)
        by_cost, where = numbers(grid), goes_to(grid)
        again = order(grid)
    back = order(grid)

    assert {"transfer-beta": "100", "transfer-delta": "200", "transfer-gamma": "300"} == first
    assert {"transfer-delta": "100", "transfer-gamma": "200", "transfer-beta": "300"} == by_cost
    assert "transfer-delta" == where
    assert "nothing to do\n" == again
    assert "original number" in back
    assert first == numbers(grid)
