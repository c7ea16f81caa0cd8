"""gridbridge init writes a working gridbridge.toml on bare hosts of a real cell and of a real OAR server."""

import json
import tomllib
from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from tests.lab.grid import Grid
from tests.lab.installed import installed

pytestmark = [pytest.mark.lab, pytest.mark.timeout(200)]

TOML = "/etc/gridbridge/gridbridge.toml"
PORTS = {"qmaster_port": 6444, "execd_port": 6445}
BY_SSH = "delta=al_delta@delta-master,gamma=al_gamma@gamma-master"


HOSTS = {"alpha": "alpha-n1", "gamma": "gamma-master"}  # nodes of alpha mount /opt/gridbridge
PROGRAM = "/opt/gridbridge/bin/gridbridge"


@pytest.fixture(params=["alpha", pytest.param("gamma", marks=pytest.mark.long)])
def bare(request: pytest.FixtureRequest, grid: Grid) -> Iterator[str]:
    """Return a cluster with a host that has gridbridge, but no configuration."""
    cluster = str(request.param)
    with installed(grid, HOSTS[cluster]) if cluster == "gamma" else nullcontext():
        yield cluster
        grid.sh(HOSTS[cluster], f"rm -f {TOML}")


def test_a_fresh_site_is_configured_by_init(grid: Grid, bare: str) -> None:
    host, section = HOSTS[bare], {"alpha": PORTS, "gamma": {"kind": "oar"}}[bare]
    fresh = grid.on(host, PROGRAM, "check")
    done = grid.on(host, PROGRAM, "init", "--yes", "--home", bare)
    again = grid.on(host, PROGRAM, "init", "--yes")
    text = grid.sh(host, f"cat {TOML}")
    items = {item["name"]: item for item in json.loads(grid.on(host, PROGRAM, "check", "--json").out)["items"]}

    assert (fresh.status, fresh.out.count("\n"), "gridbridge init" in fresh.out) == (2, 1, True), fresh
    assert (done.status, done.out) == (0, f"{TOML}: written\nnext: gridbridge setup host --apply\n"), done
    assert (again.status, again.err.count("\n")) == (1, 1)
    assert tomllib.loads(text) == {"site": {"cluster": bare}, "cluster": {bare: section}}
    # a node of alpha is no admin host, and the check names the command that makes it one
    answers = {"alpha": "alpha: admin host alpha-n1", "gamma": "gamma: OAR server"}
    assert items[answers[bare]]["state"] == ("broken" if bare == "alpha" else "ok")
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
