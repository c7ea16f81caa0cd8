"""An installed gridbridge says what should be on other hosts, to anybody."""

# ruff: noqa: SIM300 - `expected == actual` (style.md 33)

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


def test_alice_plans_from_a_file_of_her_own(grid: Grid) -> None:
    path = "/tmp/alice-hosts.json"
    grid.on("alpha-master", "tee", path, user="alice", stdin=json.dumps(TOLD))

    asked = ("gridbridge", "rebalance", "plan", "host", "alpha", "--from", path, "--json")
    done = grid.on("alpha-master", *asked, user="alice")

    assert 0 == done.status, done.err
    assert ["beta"] == [move["to"] for move in json.loads(done.out)["moves"]]
    grid.sh("alpha-master", f"rm {path}")
