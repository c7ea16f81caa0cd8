"""--kill-master destroys the machine of the master, here in libcloud's dummy driver."""

from datetime import timedelta
from pathlib import Path

import pytest

from gridbridge.elastic.providers.libcloud import LibcloudMachineProvider
from gridbridge.model.elastic.elastic_nodes import MASTER_TAG
from tests.decisions.elastic.cells import MASTER
from tests.elastic.balancer.world import CLUSTER, POOL, Trouble, World

MINUTES = 50  # of its hour, which is nearly over


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, Trouble(), max_nodes=5, min_nodes=0)


def rounds(world: World, provider: LibcloudMachineProvider, *, kills: bool) -> list[str]:
    """Run three rounds; return the remaining machines.

    The provider also has the master's machine and a machine of another cluster.
    """
    for name, tag in ((MASTER, CLUSTER), ("theirs", "beta")):
        provider.create_machine(name, {MASTER_TAG: tag})
    for node in provider.driver.list_nodes():
        node.created_at = world.now - timedelta(minutes=MINUTES)
    world.others, world.kills_master, world.limits["kill_master"] = {POOL: provider}, kills, kills
    for _ in range(3):
        world.round()
    return sorted(one.name for one in provider.list_machines())


def test_only_the_machine_of_an_idle_master_is_destroyed(world: World, labelled: LibcloudMachineProvider) -> None:
    assert rounds(world, labelled, kills=True) == ["theirs"]
    assert any("the master's machine" in one and "is destroyed" in one for one in world.told)
    assert any(": end the master's machine " in one for one in world.told)


@pytest.mark.parametrize(("kills", "waiting"), [(False, 0), (True, 1)], ids=["without kill_master", "a task waits"])
def test_the_machine_of_a_needed_master_stays(
    world: World, labelled: LibcloudMachineProvider, kills: bool, waiting: int
) -> None:
    world.cell.waits = [timedelta(minutes=5)] * waiting

    assert MASTER in rounds(world, labelled, kills=kills)
