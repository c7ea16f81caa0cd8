"""Fixtures of the campaign tests: one runner, and campaigns that run side by side.

One lab runs all tests of this folder (tests/order.py).
"""

from collections.abc import Iterator

import pytest

from tests.lab.campaigns import runner
from tests.lab.campaigns.together import Brought, bring, clear
from tests.lab.configured import configured
from tests.lab.grid import Grid

# The shortest pauses that a site may have: what is waited for is a cycle, and then another one.
SOON = (
    "/^.runner.$/,/^.metascheduler.$/s/^#interval_s = .*/interval_s = 5/;"
    " s/^#grace_s = .*/grace_s = 10/; s/^#forgotten_s = .*/forgotten_s = 10/;"
    " s/^#least_s = .*/least_s = 1/; s/^#least_wait_s = .*/least_wait_s = 1/;"
    " s/^#host_rest_s = .*/host_rest_s = 0/"
)


@pytest.fixture(scope="package")
def site(grid: Grid) -> Iterator[Grid]:
    with configured(grid, SOON):
        runner.stop(grid)  # it may be of another time, with another configuration or code
        runner.start(grid)
        yield grid
        runner.end_all(grid)
        runner.stop(grid)


@pytest.fixture(scope="package")
def brought(site: Grid) -> Iterator[Brought]:
    """Submit the campaigns that the tests inspect. The runner is killed while the campaigns run."""
    try:
        yield bring(site)
    finally:
        clear(site)
