"""Fixtures of the contract suite: each test runs on each cluster.

The tests of a module run in all clusters of the lab at once, before pytest reports the first result.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from gridbridge.model.transfer_route import GridEngineCellAccessSettings, OarServerAccessSettings
from tests.contract.far import (
    FRONTEND,
    EmbeddedReach,
    Far,
    LabReach,
    beta,
    delta,
    gamma,
    gamma_by_rest,
    write_rest_login,
)
from tests.contract.resident import HOST
from tests.lab.abreast import functions, parameters, run_all
from tests.lab.conftest import pytest_runtest_makereport as pytest_runtest_makereport
from tests.lab.grid import Grid

SLOTS = {"embedded": 4, "beta": 4, "delta": 2, "gamma": 4, "gamma-rest": 4}
EMBEDDED = pytest.param("embedded", id="embedded")
GRIDENGINE = [
    pytest.param("beta", id="gridengine", marks=pytest.mark.lab),
    pytest.param("delta", id="gridengine-by-ssh", marks=(pytest.mark.lab, pytest.mark.long)),
]
OAR = [
    pytest.param("gamma", id="oar", marks=pytest.mark.lab),
    pytest.param("gamma-rest", id="oar-by-rest", marks=(pytest.mark.lab, pytest.mark.long)),
]
SEVERAL_PEOPLES = [*GRIDENGINE, *OAR]
CLUSTERS = [EMBEDDED, *SEVERAL_PEOPLES]
NOT_OAR = [EMBEDDED, *GRIDENGINE]  # batch/batch_adapter_table.py lists the abilities of each adapter
FILES = {"beta": HOST, "delta": "delta-master", "gamma": FRONTEND, "gamma-rest": FRONTEND}  # host with the jobs' files


@pytest.fixture(params=CLUSTERS)
def far(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Far]:
    """Return a cluster without jobs; the test's jobs are deleted afterwards."""
    if request.param == "embedded":
        with cleared(embedded(tmp_path)) as far:
            yield far
        return
    if os.getuid() != 0:
        pytest.skip("the lab needs root")
    request.node.funcargs["grid"] = Grid()  # the report of a failed test shows the lab's logs
    request.getfixturevalue("side_by_side")
    with of_lab(request.param) as far:
        yield far


@pytest.fixture(scope="module")
def side_by_side(request: pytest.FixtureRequest, one_way: None) -> None:
    """Run a module's tests in the lab, AT_ONCE tests at once in each cluster.

    OAR keeps a node suspected or absent after one silence. The fixture repairs such nodes first.
    """
    Grid().lab("up", "gamma")
    lanes: dict[str, dict[pytest.Function, Callable[[], object]]] = {batch_system(name): {} for name in FILES}
    for item in functions(request):
        given = parameters(item)
        if (name := given.pop("far")) in FILES:
            lanes[batch_system(name)][item] = partial(run_in, name, item.obj, given)
    run_all((calls, request.module.AT_ONCE) for calls in lanes.values())


def batch_system(name: str) -> str:
    """Return the cluster of the lab that a parameter names, perhaps with the way to the cluster."""
    return name.removesuffix("-rest")


def run_in(name: str, test: Callable[..., object], given: Mapping[str, object]) -> None:
    with of_lab(name) as far:
        test(far=far, **given)


def embedded(folder: Path) -> Far:
    reach = EmbeddedReach(folder, SLOTS["embedded"])
    reach.create()
    return Far(reach)


@contextmanager
def of_lab(name: str) -> Iterator[Far]:
    """Return beta, delta or gamma for alice and bob, with a new folder of alice's for files."""
    grid, owner = Grid(), person("alice", name)
    folder = grid.sh(FILES[name], "mktemp -d ~/contract.XXXXXX", user=owner).strip()
    try:
        with cleared(cluster(grid, name, folder)) as far:
            yield far
    finally:
        grid.sh(FILES[name], f"rm -rf {folder}", user=owner)


@contextmanager
def cleared(far: Far) -> Iterator[Far]:
    """Delete the test's jobs at the end of a `with` block."""
    try:
        yield far
    finally:
        far.delete_all()


@pytest.fixture(scope="session")
def one_way() -> Iterator[None]:
    """Disable beta's queue to alpha, whose starters would mark waiting jobs."""
    grid = Grid()
    grid.switch_back("-d")
    yield
    grid.switch_back("-e")


def person(caller: str, name: str) -> str:
    return caller if name == "beta" else {"alice": "al", "bob": "bo"}[caller] + f"_{batch_system(name)}"


def cluster(grid: Grid, name: str, folder: str) -> Far:
    alice = LabReach(grid, "alice", access(grid, name, "alice"), folder)
    bob = LabReach(grid, "bob", access(grid, name, "bob"), f"/home/{person('bob', name)}")
    return Far(alice, slots=SLOTS[name], others=bob)


def access(grid: Grid, name: str, caller: str) -> GridEngineCellAccessSettings | OarServerAccessSettings:
    account = person(caller, name)
    if name == "gamma-rest":
        write_rest_login(grid, caller)
        return gamma_by_rest(account, caller)
    return beta() if name == "beta" else {"delta": delta, "gamma": gamma}[name](account)
