"""gridbridge init writes a working gridbridge.toml on bare hosts of a real cell and of a real OAR server."""

import json
import tomllib
from collections.abc import Iterator

import pytest

from tests.lab.grid import Grid
from tests.lab.installed import installed

pytestmark = [pytest.mark.lab, pytest.mark.timeout(200)]

TOML = "/etc/gridbridge/gridbridge.toml"
PORTS = {"qmaster_port": 6444, "execd_port": 6445}
BY_SSH = "delta=al_delta@delta-master,gamma=al_gamma@gamma-master"


@pytest.fixture(params=["delta", "gamma"])
def bare(request: pytest.FixtureRequest, grid: Grid) -> Iterator[str]:
    """Return a cluster whose master has gridbridge, but no configuration."""
    with installed(grid, f"{request.param}-master"):
        yield request.param


def test_a_fresh_site_is_configured_by_init(grid: Grid, bare: str) -> None:
    host, section = f"{bare}-master", {"delta": PORTS, "gamma": {"kind": "oar"}}[bare]
    fresh = grid.on(host, "gridbridge", "check")
    done = grid.on(host, "gridbridge", "init", "--yes", "--home", bare)
    again = grid.on(host, "gridbridge", "init", "--yes")
    text = grid.sh(host, f"cat {TOML}")
    items = {item["name"]: item for item in json.loads(grid.on(host, "gridbridge", "check", "--json").out)["items"]}

    assert (fresh.status, fresh.out.count("\n"), "gridbridge init" in fresh.out) == (2, 1, True)
    assert (done.status, done.out) == (0, f"{TOML}: written\nnext: gridbridge setup host --apply\n")
    assert (again.status, again.err.count("\n")) == (1, 1)
    assert tomllib.loads(text) == {"site": {"cluster": bare}, "cluster": {bare: section}}
    assert items[{"delta": "delta: qmaster", "gamma": "gamma: OAR server"}[bare]]["state"] == "ok"
    assert items[f"file {TOML}"]["state"] == "ok"


def test_init_finds_the_cells_of_a_host_and_clusters_by_ssh(grid: Grid) -> None:
    """The ports of beta are on no file of alpha-master; the person who called sudo has the keys."""
    answers = f"--yes --ports beta=6454,6455 --spool-shared --ssh {BY_SSH} --dry-run"
    unknown = grid.on("alpha-master", "gridbridge", "init", "--yes", "--dry-run")

    text = grid.sh("alpha-master", f"SUDO_USER=alice gridbridge init {answers}")

    assert (unknown.status, unknown.err.count("\n")) == (2, 1)
    assert "Ports of beta" in unknown.err
    assert tomllib.loads(text)["cluster"] == {
        "alpha": PORTS,
        "beta": {"qmaster_port": 6454, "execd_port": 6455, "spool_shared": True},
        "delta": {**PORTS, "ssh": "delta-master"},
        "gamma": {"kind": "oar", "ssh": "gamma-master"},
    }
