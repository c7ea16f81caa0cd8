"""Rounds that add nodes and remove them, with faults and kills at any call."""

# ruff: noqa: SIM300 - `expected == actual` (style.md 33)

from datetime import timedelta
from pathlib import Path
from random import Random

import pytest

from gridbridge.model.elastic.machines import MachineState
from tests.services.elastic.world import OTHERS, Trouble, World

HOUR = timedelta(hours=1)


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Return a world without faults."""
    return World(tmp_path, Trouble())


def test_a_full_queue_brings_nodes_which_run_it_and_go_again(world: World) -> None:
    world.cell.waits = [timedelta(minutes=5)] * 6
    world.minutes(1)
    first = world.nodes()
    world.minutes(40)

    assert {"alpha-n10": "booting", "alpha-n11": "booting", "alpha-n12": "booting"} == first
    assert (6, 0) == (world.cell.ended, world.cell.killed)
    assert ({}, {}, {}) == (world.nodes(), world.cloud.made, world.cell.hosts)


def test_never_more_nodes_than_the_maximum(world: World) -> None:
    """The master counts: five are at most four beside it."""
    world.cell.waits = [HOUR] * 99
    world.minutes(30)

    assert 4 == world.cloud.most == len(world.cell.hosts)


def test_a_task_that_slips_in_puts_its_node_back(world: World) -> None:
    """It runs to its end there, and then the node goes."""
    world.cell.waits = [timedelta(minutes=2)]
    world.minutes(5)
    world.cell.slips_in = True
    world.minutes(8)
    (back,) = world.nodes().values()
    world.minutes(20)

    assert ("ready", False) == (back, world.cell.slips_in)
    assert (2, 0, {}) == (world.cell.ended, world.cell.killed, world.nodes())


def test_a_node_that_never_boots_is_given_back_and_its_pool_left_out(world: World) -> None:
    """The fourth is asked for in the round that gives the third up."""
    world.trouble.never_boots = 1.0
    world.cell.waits = [HOUR]
    world.minutes(60)

    assert 4 == world.cloud.asked
    assert ({}, {}) == (world.nodes(), world.cloud.made)
    assert "pools had no capacity" in world.round_sentence()


def test_a_node_that_was_said_to_be_there_and_is_not_is_given_up(world: World) -> None:
    world.trouble.lies = 1.0
    world.cell.waits = [HOUR]
    world.minutes(4)

    assert (1, {}, {}) == (world.cloud.asked, world.cloud.made, world.nodes())


def test_an_answer_that_was_lost_makes_no_second_node(world: World) -> None:
    world.trouble.lost = 1.0
    world.cell.waits = [HOUR]
    world.minutes(6)

    assert (1, {"alpha-n10": "ready"}) == (world.cloud.asked, world.nodes())


def test_a_list_that_does_not_come_changes_nothing(world: World) -> None:
    """What is not known is never gone."""
    world.cell.waits = [timedelta(minutes=5)]
    world.minutes(5)
    before = world.nodes()
    world.cloud.is_silent = True
    world.minutes(30)

    assert {"alpha-n10": "ready"} == before == world.nodes()
    assert ["alpha-n10"] == list(world.cell.hosts)


def test_a_machine_that_vanishes_is_taken_out_of_the_cell(world: World) -> None:
    world.cell.waits = [HOUR]
    world.minutes(5)
    (machine,) = world.cloud.made.values()
    world.cloud.destroy(machine)
    world.minutes(3)

    assert ({}, {}) == (world.nodes(), world.cell.hosts)


def test_what_nobody_knows_but_has_our_tag_is_taken_in_again(world: World) -> None:
    """As when the state file is lost: the provider's tags tell whose a node is."""
    world.cell.waits = [timedelta(minutes=5)] * 4
    world.minutes(5)
    before = world.nodes()
    world.lose_memory()
    (world.folder / "state.db").unlink()
    world.minutes(1)
    after = world.nodes()
    world.minutes(30)

    assert before == after
    assert ({}, {}, 4, 0) == (
        world.nodes(),
        world.cloud.made,
        world.cell.ended,
        world.cell.killed,
    )


def test_machines_of_others_are_left_alone(world: World) -> None:
    """The fake asserts that nobody destroys it; its number is taken, though."""
    world.minutes(3)

    assert OTHERS.name == "alpha-n9"
    assert OTHERS in world.cloud.machines()
    assert MachineState.RUNNING is OTHERS.state
    assert {} == world.nodes()


SEEDS = [*range(8), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(8, 150))]


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_fails_no_task_is_killed_and_nothing_stays_paid_for(
    tmp_path: Path, seed: int
) -> None:
    """Kills at any call, lost answers, refusals, machines that lie or never boot."""
    random = Random(seed)
    trouble = Trouble(random=random, kills=0.04, lost=0.1, refused=0.1, never_boots=0.1, lies=0.05)
    world = World(tmp_path, trouble, protect_after=1000)
    for _ in range(6):
        world.cell.waits += [timedelta(minutes=random.randint(1, 9))] * random.randint(0, 8)
        world.cell.slips_in = random.random() < 0.5
        world.minutes(15)
    submitted = world.cell.ended + len(world.cell.waits) + world.running()
    world.quiet()
    world.minutes(90)

    assert 0 == world.cell.killed
    assert 4 >= world.cloud.most
    assert submitted <= world.cell.ended
    assert ({}, {}, {}) == (world.nodes(), world.cloud.made, world.cell.hosts)
