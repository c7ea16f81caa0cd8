"""An installed gridbridge shows every user which tasks should be on other hosts."""

import json

import pytest

from tests.lab.grid import Grid

pytestmark = pytest.mark.lab

TOLD = {
    "now": "2026-11-25T12:00:00+00:00",
    "hosts": [
        {"name": "alpha", "used_bytes": 900e9, "max_bytes": 1000e9},
        {"name": "beta", "used_bytes": 100e9, "max_bytes": 1000e9},
    ],
    "jobs": [{"name": "align"}],
    "tasks": [{"job": "align", "number": 1, "bytes": 60e9, "live": "alpha"}],
}

OF_THE_SERVICE = ("plan", "auto", "data", "quiesce", "host beta", "job 1", "fail beta")


def test_an_ordinary_user_can_neither_start_nor_block_a_round(grid: Grid) -> None:
    for what in OF_THE_SERVICE:
        apply = () if what in ("plan", "quiesce") else ("--apply",)
        argv = ("gridbridge", "rebalance", *what.split(), *apply)
        done = grid.on("alpha-master", *argv, user="bob")
        assert (done.status, done.err.count("\n")) == (2, 1), done
        assert "only gridbridge and root may do this" in done.err


def test_alice_plans_from_a_file_of_her_own(grid: Grid) -> None:
    path = "/tmp/alice-hosts.json"
    grid.on("alpha-master", "tee", path, user="alice", stdin=json.dumps(TOLD))

    asked = ("gridbridge", "rebalance", "plan", "host", "alpha", "--from", path, "--json")
    done = grid.on("alpha-master", *asked, user="alice")

    assert 0 == done.status, done.err
    assert ["beta"] == [move["to"] for move in json.loads(done.out)["moves"]]
    grid.sh("alpha-master", f"rm {path}")
