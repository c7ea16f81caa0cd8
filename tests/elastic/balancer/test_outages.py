"""The qmaster stops or is busy during any step; once it answers again, everything is in order."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from gridbridge.errors import ClusterStateUnknown, CommandFailed
from gridbridge.model.elastic.balance_plan import BalanceSituation
from tests.elastic.balancer.world import Trouble, World

MOST = 40  # acts of a node's life, or of a rest and a waking: there are no more
BRIEF, LONG = timedelta(minutes=1), timedelta(minutes=5)
STEADY = ("ready", "standby")


@dataclass
class Outage(Trouble):
    """All calls fail for a while, from call number `at` on. Some failed calls still take effect."""

    world: World | None = None
    at: int = 0
    lasts: timedelta = BRIEF
    calls: int = 0
    until: datetime | None = None

    def may_end(self) -> None:
        assert self.world
        self.calls += 1
        if self.calls == self.at:
            self.until = self.world.now + self.lasts
        if self.is_down:
            raise CommandFailed(("qconf",), 1, stderr=b"unable to send message to qmaster")

    @property
    def is_down(self) -> bool:
        return self.until is not None and self.world is not None and self.world.now < self.until


def cut(world: World, at: int, lasts: timedelta) -> Outage:
    outage = Outage(world=world, at=at, lasts=lasts)
    seen = world.cell.situation

    def look() -> BalanceSituation:
        if outage.is_down:
            raise ClusterStateUnknown("unable to send message to qmaster")
        return seen()

    world.cell.trouble = outage
    world.look = look
    return outage


def worlds(folder: Path, lasts: timedelta, own: int) -> Iterator[tuple[World, Outage]]:
    for at in range(1, MOST):
        place = folder / str(at)
        place.mkdir()
        world = World(place, Trouble(), own=own, max_nodes=9)
        outage = cut(world, at, lasts)
        yield world, outage
        world.database().close()
        if outage.calls < at:
            return
    raise AssertionError("there are more calls")


def settled(world: World) -> bool:
    nodes = world.nodes()
    are_open = {name for name, host in world.cell.hosts.items() if host.is_open}
    is_steady = all(state in STEADY for state in nodes.values())
    return is_steady and are_open == {name for name, one in nodes.items() if one == "ready"}


@pytest.mark.parametrize("lasts", [BRIEF, LONG], ids=["busy", "ended"])
def test_a_node_is_added_and_removed_whenever_the_qmaster_stops(tmp_path: Path, lasts: timedelta) -> None:
    for world, outage in worlds(tmp_path, lasts, own=0):
        world.minutes(24, waits=[timedelta(minutes=3)])

        assert (outage.at, world.cell.ended, world.cell.killed) == (outage.at, 1, 0)
        assert (world.nodes(), world.cloud.made, world.cell.hosts) == ({}, {}, {})


@pytest.mark.parametrize("lasts", [BRIEF, pytest.param(LONG, marks=pytest.mark.long)], ids=["busy", "ended"])
def test_hosts_are_powered_off_and_woken_whenever_the_qmaster_stops(tmp_path: Path, lasts: timedelta) -> None:
    for world, outage in worlds(tmp_path, lasts, own=2):
        world.minutes(9)
        world.minutes(9, waits=[timedelta(minutes=9)] * 4)
        is_well = outage.is_down or (settled(world) and world.running() == 4)
        world.minutes(18)

        assert (outage.at, is_well, world.cell.ended, world.cell.killed) == (outage.at, True, 4, 0)
        assert settled(world)
        assert sorted(world.nodes().values()) == ["ready", "standby"]
