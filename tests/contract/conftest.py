"""The clusters that the contract holds for: each test runs on every one of them."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.far import FRONTEND, HOST, EmbeddedReach, Far, LabReach, beta, delta, gamma
from tests.lab.conftest import pytest_runtest_makereport as pytest_runtest_makereport
from tests.lab.grid import Grid

SLOTS = {"embedded": 4, "beta": 4, "delta": 2, "gamma": 4}
EMBEDDED = pytest.param("embedded", id="embedded")
GRIDENGINE = [
    pytest.param("beta", id="gridengine", marks=pytest.mark.lab),
    pytest.param("delta", id="gridengine-by-ssh", marks=pytest.mark.lab),
]
OAR = pytest.param("gamma", id="oar", marks=pytest.mark.lab)
SEVERAL_PEOPLES = [*GRIDENGINE, OAR]
CLUSTERS = [EMBEDDED, *SEVERAL_PEOPLES]
NOT_OAR = [EMBEDDED, *GRIDENGINE]  # what OAR can't do, batch/protocol.py says
FILES = {"beta": HOST, "delta": "delta-master", "gamma": FRONTEND}  # where the jobs' files are


@pytest.fixture(params=CLUSTERS)
def far(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Far]:
    """Return a cluster without a job; none of ours is left in it."""
    far = embedded(tmp_path) if request.param == "embedded" else of_lab(request)
    yield far
    far.delete_all()


def embedded(folder: Path) -> Far:
    """Return a new embedded cluster."""
    reach = EmbeddedReach(folder, SLOTS["embedded"])
    reach.create()
    return Far(reach)


def of_lab(request: pytest.FixtureRequest) -> Far:
    """Return beta, or delta or gamma by ssh, as alice and as bob, in a new folder of alice's."""
    if os.getuid() != 0:
        pytest.skip("the lab needs root")
    grid = Grid()
    request.node.funcargs["grid"] = grid  # a failed test shows the lab's logs
    name = request.param
    if name == "beta":
        request.getfixturevalue("one_way")
    owner = person("alice", name)
    folder = grid.sh(FILES[name], "mktemp -d ~/contract.XXXXXX", user=owner).strip()
    request.addfinalizer(lambda: grid.sh(FILES[name], f"rm -rf {folder}", user=owner))
    return cluster(grid, name, folder)


@pytest.fixture(scope="session")
def one_way() -> Iterator[None]:
    """Keep beta's queue to alpha closed: what waits there would be tried and marked by it."""
    grid = Grid()
    grid.switch_back("-d")
    yield
    grid.switch_back("-e")


def person(caller: str, name: str) -> str:
    """Return somebody's account on a cluster of the lab."""
    return caller if name == "beta" else {"alice": "al", "bob": "bo"}[caller] + f"_{name}"


def cluster(grid: Grid, name: str, folder: str) -> Far:
    """Return a cluster of the lab as alice, in a folder of hers, and as bob."""
    where = {"beta": lambda _: beta(), "delta": delta, "gamma": gamma}[name]
    alice = LabReach(grid, "alice", where(person("alice", name)), folder)
    bob = LabReach(grid, "bob", where(person("bob", name)), f"/home/{person('bob', name)}")
    return Far(alice, slots=SLOTS[name], others=bob)
