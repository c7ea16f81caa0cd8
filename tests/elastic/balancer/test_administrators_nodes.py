"""Requests of administrators for nodes, and what administrators see of the balancer."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from gridbridge.elastic.balancer import administrator_alerts_and_requests
from gridbridge.elastic.balancer.balancer_round_decision import BalancerRoundPlan, BalancerRoundSituation
from gridbridge.elastic.balancer.balancer_round_runner import BalancerRoundRunner
from gridbridge.errors import StateError
from gridbridge.model.elastic.balance_plan import BalancePolicyName
from gridbridge.model.elastic.elastic_nodes import AdministratorNodeRequestKind, ElasticNodeState
from gridbridge.model.elastic.published_balance import BalancerStateOverview
from tests.elastic.balancer.world import Trouble, World


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path, Trouble())
    world.minutes(5, waits=[timedelta(minutes=30)])
    return world


def place(world: World) -> str:
    return f"{world.folder}/state.db"


def overview(world: World) -> BalancerStateOverview:
    return administrator_alerts_and_requests.read_balancer_state_overview(world.now, place(world))


def ask(world: World, request: AdministratorNodeRequestKind, host: str = "alpha-n10") -> None:
    administrator_alerts_and_requests.record_node_change_request(host, request, place(world))


def test_a_drained_node_is_removed_after_its_task_ends(world: World) -> None:
    ask(world, AdministratorNodeRequestKind.DRAIN, "alpha-n10.cluster")
    world.minutes(3)
    meanwhile = world.nodes(), world.running(), world.cell.hosts["alpha-n10"].is_open
    world.minutes(40)

    assert ({"alpha-n10": "draining"}, 1, False) == meanwhile
    assert ({}, {}, 1, 0) == (world.nodes(), world.cloud.made, world.cell.ended, world.cell.killed)


def test_a_kept_node_stays_until_the_request_is_withdrawn(world: World) -> None:
    ask(world, AdministratorNodeRequestKind.KEEP)
    world.minutes(60)
    kept = world.nodes()
    ask(world, AdministratorNodeRequestKind.FREE)
    world.minutes(10)

    assert ({"alpha-n10": "ready"}, {}) == (kept, world.nodes())


def test_a_keep_request_prevents_the_removal_in_the_next_round(world: World) -> None:
    world.minutes(27)
    ready = world.nodes()
    ask(world, AdministratorNodeRequestKind.KEEP)
    world.minutes(1)

    assert {"alpha-n10": "ready"} == ready == world.nodes()
    assert world.cell.hosts["alpha-n10"].is_open


def test_policy_starcluster_never_removes_a_kept_node(world: World) -> None:
    world.limits |= {"policy": BalancePolicyName.STARCLUSTER, "kill_after_min": 0, "stabilization_s": 0}
    ask(world, AdministratorNodeRequestKind.KEEP)
    world.minutes(60)

    assert ((), {"alpha-n10": "ready"}) == (world.plan().plan.remove, world.nodes())


def test_a_joining_node_is_drained_once_it_is_ready(tmp_path: Path) -> None:
    world = World(tmp_path, Trouble())
    world.minutes(1, waits=[timedelta(minutes=30)])
    ask(world, AdministratorNodeRequestKind.DRAIN)
    world.minutes(2)
    first = world.nodes()
    world.minutes(3)

    assert {"alpha-n10": "joining"} == first
    assert {"alpha-n10": "draining"} == world.nodes()
    assert () == overview(world).asked


def test_a_request_that_arrives_while_a_round_acts_is_not_lost(world: World) -> None:
    """The round has read `drain` and closes the node; then an administrator requests `keep`."""
    ask(world, AdministratorNodeRequestKind.DRAIN)
    memory = world.rows
    read = memory.administrator_requests()
    ask(world, AdministratorNodeRequestKind.KEEP)
    memory.delete_administrator_requests(read)
    world.minutes(2)

    assert {"alpha-n10": True} == {one.name: one.is_kept for one in memory.nodes.load_all_nodes()}


@pytest.mark.parametrize("request_", [AdministratorNodeRequestKind.FREE, AdministratorNodeRequestKind.KEEP])
def test_a_drained_node_is_reopened_when_freed_or_kept(world: World, request_: AdministratorNodeRequestKind) -> None:
    ask(world, AdministratorNodeRequestKind.DRAIN)
    world.minutes(2)
    ask(world, request_)
    world.minutes(2)

    assert {"alpha-n10": "ready"} == world.nodes()
    assert world.cell.hosts["alpha-n10"].is_open


@pytest.mark.parametrize("wish", [AdministratorNodeRequestKind.DRAIN, AdministratorNodeRequestKind.KEEP])
def test_a_request_for_a_node_under_removal_is_refused(world: World, wish: AdministratorNodeRequestKind) -> None:
    (node,) = world.rows.nodes.load_all_nodes()
    world.rows.nodes.replace_all_nodes([replace(node, state=ElasticNodeState.REMOVING)])

    with pytest.raises(StateError, match="the removal has begun"):
        ask(world, wish, node.name)


def test_before_the_first_round_the_overview_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="no round of gridbridge-balance has acted yet"):
        administrator_alerts_and_requests.read_balancer_state_overview(
            World(tmp_path, Trouble()).now, f"{tmp_path}/none.db"
        )


def test_a_node_kept_while_a_round_decides_its_removal_stays(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.limits["min_nodes"] = 0
    decide, removed = BalancerRoundRunner.decide, list[str]()

    def decided(balancer: BalancerRoundRunner, seen: BalancerRoundSituation) -> BalancerRoundPlan:
        plan = decide(balancer, seen)
        removed.extend(plan.plan.remove)
        for name in plan.plan.remove:
            ask(world, AdministratorNodeRequestKind.KEEP, name)
        return plan

    monkeypatch.setattr(BalancerRoundRunner, "decide", decided)
    world.minutes(60)

    assert (["alpha-n10"], {"alpha-n10": "ready"}) == (removed, world.nodes())
    assert world.cell.hosts["alpha-n10"].is_open


def test_a_keep_request_that_comes_too_late_is_logged_once(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world.limits["min_nodes"] = 0
    remove_host = world.cell.remove_host

    def kept_meanwhile(host: str, *, is_dead: bool) -> str:
        monkeypatch.undo()
        ask(world, AdministratorNodeRequestKind.KEEP, host)
        return remove_host(host, is_dead=is_dead)

    monkeypatch.setattr(world.cell, "remove_host", kept_meanwhile)
    world.minutes(60)

    told = [one.getMessage() for one in caplog.records if "too_late" in one.getMessage()]
    assert ["event=kept_too_late node=alpha-n10"] == told
    assert ({}, ()) == (world.nodes(), overview(world).asked)
