"""Campaigns run at sites whose own cluster is an OAR server, and at sites without a cluster."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.lab.grid import OAR_ALIVE, Done, Grid
from tests.lab.installed import installed

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(500)]

HOST, USER = "gamma-master", "al_gamma"  # a frontend of gamma's
FAR, FAR_USER = "delta-master", "al_delta"
BIN, STATE = "/opt/gridbridge/bin", "/var/lib/gridbridge"
TOML = "/etc/gridbridge/gridbridge.toml"
KEYGEN = "ssh-keygen -q -t ed25519 -N '' -f"
AS_SERVICE = "runuser -u gridbridge --"
PROGRAMS = ("gridbridge-poller", "gridbridge-runner --loop", "gridbridge-nikita --loop")
KEY, ALLOWED = "~/.ssh/id_ed25519", "~/.ssh/authorized_keys"
PLACE = "other-site"  # a folder of the account's, at both clusters
SITE = Path(__file__).with_name("other_site.toml").read_text()
TASKS = 6


class OtherSite:
    def __init__(self, grid: Grid) -> None:
        self._grid = grid

    def run(self, *argv: str, user: str = USER, stdin: str = "", timeout_s: float = 60) -> Done:
        program, *words = argv
        return self._grid.on(HOST, f"{BIN}/{program}", *words, user=user, stdin=stdin, timeout_s=timeout_s)

    def checked(self) -> list[dict[str, Any]]:
        found = json.loads(self.run("gridbridge", "check", "--json", user="root").out)
        assert isinstance(found, dict), found
        return [one for one in found["items"] if one["state"] not in ("ok", "note")]

    def jobs(self, number: str) -> list[dict[str, Any]]:
        told = json.loads(self.run("gridstat", number, "-f", "-d").out)["jobs"]
        assert isinstance(told, list)
        return told


@contextmanager
def let_in(grid: Grid, account: str, key: str) -> Iterator[None]:
    grid.sh(FAR, f"cp -p {ALLOWED} {ALLOWED}.kept", user=account)
    try:
        grid.on(FAR, "sh", "-c", f"cat >>{ALLOWED}", user=account, stdin=key)
        yield
    finally:
        grid.sh(FAR, f"mv {ALLOWED}.kept {ALLOWED}", user=account)


@contextmanager
def running(grid: Grid) -> Iterator[None]:
    for one in PROGRAMS:
        log = f"{STATE}/{one.split()[0].removeprefix('gridbridge-')}.log"
        grid.sh(HOST, f"setsid {AS_SERVICE} {BIN}/{one} >>{log} 2>&1 </dev/null &")
    try:
        yield
    finally:
        grid.sh(HOST, "pgrep -u gridbridge | xargs -r kill")
        grid.until(lambda: not grid.on(HOST, "pgrep", "-u", "gridbridge").out, "all to end")


@contextmanager
def folders(grid: Grid) -> Iterator[None]:
    at = ((HOST, USER), (FAR, FAR_USER))
    for host, user in at:
        grid.sh(host, f"mkdir {PLACE}", user=user)
    try:
        yield
    finally:
        for host, user in at:
            grid.sh(host, f"rm -rf {PLACE}", user=user)


@pytest.fixture(params=["gamma", "hub"], ids=["own OAR", "no own cluster"])
def other(grid: Grid, request: pytest.FixtureRequest) -> Iterator[OtherSite]:
    """Return a site on gamma's frontend: with gamma as its own cluster, or without a cluster."""
    with ExitStack() as kept:
        kept.enter_context(installed(grid, HOST))
        kept.enter_context(folders(grid))
        grid.on(HOST, "tee", TOML, stdin=SITE.format(name=request.param))
        grid.sh(HOST, f"{BIN}/gridbridge setup host --apply")
        kept.callback(grid.sh, HOST, f"rm -f {KEY}*", user=USER)
        kept.enter_context(let_in(grid, FAR_USER, grid.sh(HOST, f"{KEYGEN} {KEY} && cat {KEY}.pub", user=USER)))
        grid.sh(HOST, f"{AS_SERVICE} {KEYGEN} {STATE}/.ssh/id_ed25519")
        of_service = grid.sh(HOST, f"cat {STATE}/.ssh/id_ed25519.pub")
        kept.enter_context(let_in(grid, "gb_delta", of_service))
        kept.enter_context(running(grid))
        yield OtherSite(grid)
        grid.on(HOST, "oardel", "--sql", OAR_ALIVE)


def test_a_campaign_of_a_site_without_grid_engine_runs_at_all_clusters(other: OtherSite, grid: Grid) -> None:
    """The outputs are collected where the campaign was submitted."""
    jdl = {
        "name": "other",
        "type": "normal",
        "walltime": "0:5",
        "exec_directory": f"$HOME/{PLACE}",
        "exec_file": "echo did",
        "nb_jobs": TASKS,
        "max_jobs": TASKS // 2,
        "clusters": {"gamma": {}, "delta": {}},
    }
    done = other.run("gridsub", "--wait", "-", stdin=json.dumps(jdl), timeout_s=300)
    assert done.status == 0, (done, grid.sh(HOST, f"cat {STATE}/*.log"))
    number = done.out.rpartition("CAMPAIGN_ID=")[2].strip()
    tasks, wrong = other.jobs(number), other.checked()
    fetched = grid.sh(HOST, f"cd {PLACE} && {BIN}/gridfetch {number} all && cat all/*.out", user=USER)

    assert {one["state"] for one in tasks} == {"success"}
    assert {one["cluster"] for one in tasks} == {"gamma", "delta"}
    assert sorted(line for line in fetched.splitlines() if line.startswith("did ")) == [
        f"did {n}" for n in range(TASKS)
    ]
    assert not wrong
