"""The clusters that the contract holds for: each test runs on every one of them."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.far import HOST, EmbeddedReach, Far, GridEngineReach
from tests.lab.conftest import pytest_runtest_makereport as pytest_runtest_makereport
from tests.lab.grid import Grid

SLOTS = 4  # of the embedded cluster; beta has as many
SEVERAL_PEOPLES = [pytest.param("gridengine", id="gridengine", marks=pytest.mark.lab)]
CLUSTERS = [pytest.param("embedded", id="embedded"), *SEVERAL_PEOPLES]


@pytest.fixture(params=CLUSTERS)
def far(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Far]:
    """Return a cluster without a job; none of ours is left in it."""
    far = embedded(tmp_path) if request.param == "embedded" else gridengine(request)
    yield far
    far.delete_all()


def embedded(folder: Path) -> Far:
    """Return a new embedded cluster."""
    reach = EmbeddedReach(folder, SLOTS)
    reach.create()
    return Far(reach)


def gridengine(request: pytest.FixtureRequest) -> Far:
    """Return beta of the lab as alice, and as bob."""
    if os.getuid() != 0:
        pytest.skip("the lab needs root")
    grid = Grid()
    request.node.funcargs["grid"] = grid  # a failed test shows the lab's logs
    folder = grid.sh(HOST, "mktemp -d ~/contract.XXXXXX", user="alice").strip()
    request.addfinalizer(lambda: grid.sh(HOST, f"rm -rf {folder}", user="alice"))
    alice = GridEngineReach(grid, "alice", folder)
    return Far(alice, others=GridEngineReach(grid, "bob", "/home/bob"))
