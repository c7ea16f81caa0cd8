"""No round waits for a booting machine."""

import time
from datetime import timedelta
from pathlib import Path

import pytest

from gridbridge.shell.clock import Clock
from tests.elastic.balancer.world import Trouble, World

BUSY = timedelta(hours=1)


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    def sleep(*_: object) -> None:
        raise AssertionError("a round waits")

    monkeypatch.setattr(Clock, "sleep", sleep)
    monkeypatch.setattr(time, "sleep", sleep)


def test_a_machine_that_never_boots_delays_no_other_node(tmp_path: Path) -> None:
    world = World(tmp_path, Trouble(never_boots=1.0))
    world.minutes(1, waits=[BUSY] * 2)
    world.trouble.never_boots = 0.0
    world.cell.waits += [BUSY] * 2
    world.minutes(5)

    assert sorted(world.nodes().values()) == ["booting", "ready"]
