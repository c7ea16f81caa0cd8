"""The clusters that the contract holds for: each test runs on every one of them."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.far import DELTA, FRONTEND, GAMMA, HOST, EmbeddedReach, Far, beta, delta, gamma
from tests.lab.conftest import pytest_runtest_makereport as pytest_runtest_makereport
from tests.lab.grid import Grid

SLOTS = {"embedded": 4, "beta": 4, "delta": 2, "gamma": 4}
EMBEDDED = pytest.param("embedded", id="embedded")
GRIDENGINE = pytest.param("beta", id="gridengine", marks=pytest.mark.lab)
BY_SSH = pytest.param("delta", id="gridengine-by-ssh", marks=pytest.mark.lab)
OAR = pytest.param("gamma", id="oar", marks=pytest.mark.lab)
SEVERAL_PEOPLES = [GRIDENGINE, BY_SSH, OAR]
CLUSTERS = [EMBEDDED, *SEVERAL_PEOPLES]
NOT_OAR = [EMBEDDED, GRIDENGINE, BY_SSH]  # what OAR can't do, batch/protocol.py says

REACHES = {"beta": beta, "delta": delta, "gamma": gamma}
HOSTS = {"beta": HOST, "delta": "delta-master", "gamma": FRONTEND}  # where the jobs' files are
ACCOUNTS = {"beta": {"alice": "alice", "bob": "bob"}, "delta": DELTA, "gamma": GAMMA}


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
    """Return a cluster of the lab, in a new folder of alice's, and as bob reaches it."""
    if os.getuid() != 0:
        pytest.skip("the lab needs root")
    grid, name = Grid(), str(request.param)
    request.node.funcargs["grid"] = grid  # a failed test shows the lab's logs
    host, accounts = HOSTS[name], ACCOUNTS[name]
    folder = grid.sh(host, "mktemp -d ~/contract.XXXXXX", user=accounts["alice"]).strip()
    request.addfinalizer(lambda: grid.sh(host, f"rm -rf {folder}", user=accounts["alice"]))
    bob = REACHES[name](grid, "bob", f"/home/{accounts['bob']}")
    return Far(REACHES[name](grid, "alice", folder), slots=SLOTS[name], others=bob)
