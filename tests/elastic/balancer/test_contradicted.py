"""Rounds in which machine lists, cell and state file contradict each other: no task is ended."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.elastic.balancer.world import Trouble, World

HOUR = timedelta(hours=1)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, Trouble())


def test_an_outdated_state_file_ends_no_task_on_a_new_machine_of_the_same_name(world: World) -> None:
    """The restored file has the id of an old machine."""
    world.minutes(5, waits=[timedelta(minutes=20)] * 4)
    nodes = world.rows.nodes
    nodes.replace_all_nodes([replace(one, machine=f"old-{one.name}") for one in nodes.load_all_nodes()])
    world.minutes(1)
    first = {one.machine for one in nodes.load_all_nodes()}
    world.minutes(4)
    later = {one.machine: one.state.value for one in nodes.load_all_nodes()}
    world.minutes(20)

    assert {"old-alpha-n10", "old-alpha-n11"} == first
    assert {"m-1": "ready", "m-2": "ready"} == later
    assert (4, 0, 2) == (world.cell.ended, world.cell.killed, world.cloud.asked)
    assert {} == world.cloud.made


def test_a_reporting_node_stays_while_no_list_has_its_machine(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """For example, a list of the wrong region lacks the machine."""
    world.minutes(5, waits=[timedelta(minutes=2)])
    world.cloud.left_out = True
    world.minutes(2)
    soon = [one for one in caplog.messages if "event=not_listed" in one]
    world.minutes(8)
    kept, (told, *_) = world.nodes(), [one for one in caplog.messages if "not_listed" in one]
    world.cloud.left_out = False
    world.minutes(8)

    assert ([], {"alpha-n10": "ready"}) == (soon, kept)
    assert told.startswith("event=not_listed node=alpha-n10 pool=usual provider=cloud machine=m-1")
    assert told.endswith("then `gridbridge balance drain alpha-n10`'")
    assert ({}, {}) == (world.nodes(), world.cloud.made)


def test_the_export_and_name_of_a_removed_node_are_withdrawn_in_a_later_round_if_that_failed(world: World) -> None:
    world.minutes(5, waits=[HOUR])
    world.cell.is_root_away = True
    world.cloud.made.clear()
    (host,) = world.cell.hosts.values()
    world.cell.killed, host.ends, host.is_silent = 1, [], True
    world.minutes(9)
    before, exports = world.nodes(), set(world.cell.exports)
    world.cell.is_root_away = False
    world.minutes(3)

    assert ({"alpha-n10": "removing"}, {"alpha-n10"}, {}) == (before, exports, world.cell.hosts)
    assert ({}, set()) == (world.nodes(), world.cell.exports)
