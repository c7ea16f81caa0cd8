"""The clusters that the contract holds for: each test runs on every one of them."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.far import HOST, EmbeddedReach, Far, GridEngineReach, beta, delta
from tests.lab.conftest import pytest_runtest_makereport as pytest_runtest_makereport
from tests.lab.grid import Grid

SLOTS = {"embedded": 4, "beta": 4, "delta": 2}
SEVERAL_PEOPLES = [
    pytest.param("beta", id="gridengine", marks=pytest.mark.lab),
    pytest.param("delta", id="gridengine-by-ssh", marks=pytest.mark.lab),
]
CLUSTERS = [pytest.param("embedded", id="embedded"), *SEVERAL_PEOPLES]


@pytest.fixture(params=CLUSTERS)
def far(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Far]:
    """Return a cluster without a job; none of ours is left in it."""
    far = embedded(tmp_path) if request.param == "embedded" else gridengine(request)
    yield far
    far.delete_all()


def embedded(folder: Path) -> Far:
    """Return a new embedded cluster."""
    reach = EmbeddedReach(folder, SLOTS["embedded"])
    reach.create()
    return Far(reach)


def gridengine(request: pytest.FixtureRequest) -> Far:
    """Return beta of the lab, or delta by ssh, as alice and as bob."""
    if os.getuid() != 0:
        pytest.skip("the lab needs root")
    grid = Grid()
    request.node.funcargs["grid"] = grid  # a failed test shows the lab's logs
    is_delta = request.param == "delta"
    host, (owner, other) = (
        ("delta-master", ("al_delta", "bo_delta")) if is_delta else (HOST, ("alice", "bob"))
    )
    folder = grid.sh(host, "mktemp -d ~/contract.XXXXXX", user=owner).strip()
    request.addfinalizer(lambda: grid.sh(host, f"rm -rf {folder}", user=owner))
    mine, theirs = (delta(owner), delta(other)) if is_delta else (beta(), beta())
    alice = GridEngineReach(grid, "alice", mine, folder)
    bob = GridEngineReach(grid, "bob", theirs, f"/home/{other}")
    return Far(alice, slots=SLOTS[request.param], others=bob)
