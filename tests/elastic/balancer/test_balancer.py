"""Balancer rounds that add and remove nodes, with faults and kills at any call."""

import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import Mock

import pytest

from gridbridge.errors import HostNotReached
from gridbridge.model.elastic.balance_plan import BalancePolicyName
from gridbridge.model.elastic.balancer_config_sections import NodePoolSection
from gridbridge.model.elastic.elastic_nodes import (
    AdministratorNodeRequestKind,
    BalancerNodeAct,
    DueNodeAct,
    ElasticNodeState,
    HostCheckBeforeRemoval,
    HostJoinStep,
    MachineToJoinCell,
    NodeStateCause,
    ProviderMachine,
    ProviderMachineState,
)
from gridbridge.shell.clock import Clock
from tests.elastic.balancer.world import POOL, Cloud, HostThere, Killed, Trouble, World

HOUR = timedelta(hours=1)


def forget(world: World) -> None:
    world.lose_memory()
    (world.folder / "state.db").unlink()


def ended(machine: str) -> str:
    return f"""`echo '{{"id": "{machine}"}}' | /opt/rent destroy`"""


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, Trouble())


def test_nodes_are_added_for_waiting_tasks_and_removed_when_idle(world: World) -> None:
    world.minutes(1, waits=[timedelta(minutes=5)] * 6)
    first = world.nodes()
    world.minutes(40)

    assert {"alpha-n10": "booting", "alpha-n11": "booting", "alpha-n12": "booting"} == first
    assert (6, 0) == (world.cell.ended, world.cell.killed)
    assert ({}, {}, {}) == (world.nodes(), world.cloud.made, world.cell.hosts)


def test_a_node_on_which_a_task_starts_just_before_the_removal_is_reopened(world: World) -> None:
    world.minutes(5, waits=[timedelta(minutes=2)])
    world.cell.slips_in = True
    world.minutes(8)
    (back,) = world.nodes().values()
    world.minutes(20)

    assert ("ready", False) == (back, world.cell.slips_in)
    assert (2, 0, {}) == (world.cell.ended, world.cell.killed, world.nodes())


def test_a_node_on_its_way_starts_nothing_in_a_queue_that_somebody_closed(world: World) -> None:
    """An administrator who disables the queue does not know of nodes that are about to join."""
    world.limits["min_nodes"] = 2
    world.minutes(4)
    world.minutes(1, waits=[HOUR] * 4)
    world.cell.shut(is_shut=True)
    world.minutes(4)
    came, running = list(world.nodes().values()), world.running()
    world.cell.shut(is_shut=False)
    world.minutes(1)

    assert (["ready"] * 2, 2, 4) == (came, running, world.running())


@pytest.mark.parametrize("own", [0, 2])
def test_a_node_with_closed_queues_is_reopened_once_no_queue_is_disabled_on_all_hosts(tmp_path: Path, own: int) -> None:
    world = World(tmp_path, Trouble(), own, min_nodes=3)
    world.minutes(5)
    nodes = world.rows.nodes
    nodes.replace_all_nodes([replace(node, step=HostJoinStep.CLOSED) for node in nodes.load_all_nodes()])
    for host in world.cell.hosts.values():
        host.is_open = False
    world.minutes(2)

    assert [True, True] == [one.is_open for one in world.cell.hosts.values()]


def test_a_repeatable_provider_failure_is_repeated_in_the_next_round(world: World) -> None:
    world.trouble.refused = 1.0
    world.minutes(2, waits=[HOUR])
    waits = world.nodes()
    world.trouble.refused = 0.0
    world.minutes(1)

    assert ({"alpha-n10": "requested"}, {"alpha-n10": "booting"}) == (waits, world.nodes())
    assert (3, 1) == (world.cloud.asked, len(world.cloud.made))


@pytest.mark.parametrize(
    ("trouble", "cloud", "minutes", "tasks", "asked"),
    [
        ({"refused": 1.0}, {}, 7, 1, 3),
        ({"lost": 1.0, "lies": 1.0}, {}, 3, 1, 1),
        ({}, {"untags": True, "capacity": 99}, 60, 1, 3),
        ({}, {"garbles": True}, 9, 99, 4),
    ],
    ids=["repeated failures", "an unknown outcome", "lost tags", "an unreadable answer"],
)
def test_an_unreliable_pool_is_asked_for_few_machines(
    world: World, trouble: dict[str, float], cloud: dict[str, Any], minutes: int, tasks: int, asked: int
) -> None:
    """A machine without an owner tag counts as another owner's, and its creation as a failed boot.

    A creation with an unknown outcome is not repeated: the provider might create a second machine. A machine whose
    creation was answered unreadably counts once it is listed.
    """
    vars(world.trouble).update(trouble)
    vars(world.cloud).update(cloud)
    world.retry_s = 0.0 if "garbles" in cloud else world.retry_s
    world.minutes(minutes, waits=[HOUR] * tasks)

    assert asked == (world.cloud.most if "garbles" in cloud else world.cloud.asked)
    assert "refused" not in trouble or "pools had no capacity" in world.plan().decision_sentence


def test_a_node_that_never_boots_is_destroyed_and_its_pool_is_paused(world: World) -> None:
    world.trouble.never_boots = 1.0
    world.minutes(60, waits=[HOUR])

    assert 4 == world.cloud.asked
    assert ({}, {}) == (world.nodes(), world.cloud.made)
    assert "pools had no capacity" in world.plan().decision_sentence


def test_undeletable_machines_count_as_nodes_and_pause_a_pool(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.limits |= {"protected_s": 600}
    world.trouble.never_boots, world.cloud.keeps = 1.0, True
    world.minutes(120, waits=[HOUR])
    (first, *_), figures = world.cloud.made.values(), world.plan().plan.figures

    assert 2 == world.cloud.asked
    assert {"alpha-n10": "failed", "alpha-n11": "failed"} == world.nodes()
    assert (3, 1, 2) == (figures.nodes, figures.useful_node_count, figures.failed)
    told = f"event=not_destroyed node=alpha-n10 pool=usual provider=cloud machine={first.id}"
    assert f"{told} mend={ended(first.id)!r}" in caplog.messages


def test_the_balancer_adds_and_removes_nodes_after_the_clock_was_set_back(world: World) -> None:
    world.minutes(5, waits=[timedelta(minutes=3)])
    ready = world.nodes()
    world.now -= timedelta(days=30)
    world.cell.hosts["alpha-n10"].ends = []
    world.minutes(6)
    gone = world.nodes()
    world.minutes(5, waits=[timedelta(minutes=3)])

    assert ({"alpha-n10": "ready"}, {}) == (ready, gone)
    assert ["ready"] == list(world.nodes().values())


def test_a_paused_pool_is_used_again_after_the_clock_was_set_back(world: World) -> None:
    world.limits |= {"protected_s": 600}
    world.trouble.never_boots = 1.0
    world.minutes(45, waits=[timedelta(hours=9)])
    asked = world.cloud.asked
    world.now -= timedelta(days=30)
    world.quiet()
    world.minutes(5)
    soon = world.cloud.asked
    world.minutes(20)

    assert asked == soon < world.cloud.asked


def first(world: World, provider: Cloud | None) -> None:
    world.pools = {"first": NodePoolSection(slots=2, provider="other", priority=1)}
    world.others = {"first": provider} if provider else {}


@pytest.mark.parametrize("policy", list(BalancePolicyName))
@pytest.mark.parametrize("trouble", ["it refuses", "its list does not come", "no provider"])
def test_if_a_pool_gives_no_nodes_the_next_pool_is_used(world: World, policy: BalancePolicyName, trouble: str) -> None:
    world.limits |= {"policy": policy, "job_wait_time_s": 0}
    provider = Cloud(world, world.trouble)
    provider.refuses = trouble == "it refuses"
    provider.is_silent = trouble == "its list does not come"
    first(world, None if trouble == "no provider" else provider)
    world.minutes(8, waits=[HOUR])

    assert [1, 0 + provider.refuses] == [world.cloud.asked, provider.asked]
    assert ["ready"] == list(world.nodes().values())


@pytest.mark.parametrize(("capacity", "words"), [(9, "wrong image"), (0, "none left")], ids=["refused", "full"])
def test_the_log_quotes_the_provider_about_a_failed_creation(
    world: World, caplog: pytest.LogCaptureFixture, capacity: int, words: str
) -> None:
    world.cloud.refuses, world.cloud.capacity = capacity > 0, capacity
    world.minutes(1, waits=[HOUR])

    assert [f"event=not_made node=alpha-n10 pool=usual why='{words}'"] == told_of(caplog, "not_made")


def test_idle_nodes_are_removed_while_another_pool_gives_no_nodes(world: World) -> None:
    world.minutes(6, waits=[timedelta(minutes=3)])
    first(world, None)
    world.pools["first"] = replace(world.pools["first"], slots=9)
    world.wide = 9
    world.minutes(9)

    assert {} == world.nodes()


def test_a_node_of_a_renamed_pool_is_reported_and_not_removed(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.minutes(6, waits=[timedelta(minutes=5)])
    world.pool = "renamed"
    world.minutes(12)

    assert ((), {"alpha-n10": "ready"}) == (world.plan().plan.remove, world.nodes())
    mend = "write [pool.usual] with its provider into gridbridge.toml again, then `gridbridge balance"
    told = f"event=no_provider node=alpha-n10 pool=usual machine=m-1 mend='{mend} drain alpha-n10`'"
    assert told in caplog.messages


def test_a_missing_machine_list_changes_nothing(world: World) -> None:
    world.minutes(5, waits=[timedelta(minutes=5)])
    before = world.nodes()
    world.cloud.is_silent = True
    world.minutes(30)

    assert {"alpha-n10": "ready"} == before == world.nodes()
    assert ["alpha-n10"] == list(world.cell.hosts)


def test_a_node_that_dies_while_draining_is_removed_from_the_cell(world: World) -> None:
    world.minutes(5, waits=[HOUR])
    ((name, host),) = world.cell.hosts.items()
    world.rows.store_administrator_request(name, AdministratorNodeRequestKind.DRAIN)
    world.minutes(2)
    draining, is_open = world.nodes(), host.is_open
    world.cloud.made.clear()
    host.is_silent = True
    world.minutes(4)
    dead, restarted = world.nodes(), world.cell.restarted
    host.ends = []  # they were put back
    world.minutes(3)

    assert ({name: "draining"}, False, {name: "removing"}) == (draining, is_open, dead)
    assert restarted > 0
    assert ({}, {}) == (world.nodes(), world.cell.hosts)


def test_a_machine_that_stops_under_a_task_is_replaced(world: World) -> None:
    """The cell shows the daemon as reporting for some minutes; then the task is rescheduled."""
    world.limits |= {"max_nodes": 2}
    world.minutes(5, waits=[HOUR])
    (machine,) = world.cloud.made.values()
    world.cloud.stopped.add(machine.id)
    world.minutes(4)
    doubted = world.nodes()
    (host,) = world.cell.hosts.values()
    host.is_silent = True
    world.minutes(2)
    world.cell.waits, host.ends = [HOUR], []
    world.minutes(8)

    assert {"alpha-n10": "ready"} == doubted == world.nodes()
    assert ["m-2"] == list(world.cloud.made)
    assert (1, 1, 0) == (world.cloud.most, world.running(), world.cell.killed)


def test_references_that_delay_the_removal_of_a_node_are_logged_after_a_while(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.cell.waits = [timedelta(minutes=2)]
    world.cell.named = {"alpha-n10"}
    world.minutes(12)
    soon = told_of(caplog, "not_left")
    world.minutes(8)

    assert ([], {"alpha-n10": "removing"}) == (soon, world.nodes())
    assert "event=not_left node=alpha-n10 why='@site names it'" in caplog.messages


def test_a_silent_node_that_lists_omit_for_a_while_keeps_its_tasks(world: World) -> None:
    """A node leaves only after several lists without its machine, and joins again later."""
    world.minutes(5, waits=[timedelta(minutes=30)])
    (host,) = world.cell.hosts.values()
    world.cloud.left_out = host.is_silent = True
    world.minutes(2)
    first, kept = world.nodes(), world.cell.restarted
    world.minutes(2)
    second = world.nodes()
    world.cloud.left_out = host.is_silent = False
    world.minutes(2)
    third, before = world.nodes(), world.cell.restarted
    world.minutes(28)

    assert [{"alpha-n10": one} for one in ("ready", "removing", "ready")] == [first, second, third]
    assert (0, before) == (kept, world.cell.restarted)
    assert (1, 0) == (world.cell.ended, world.cell.killed)


def test_after_the_loss_of_the_state_file_tagged_machines_are_adopted(world: World) -> None:
    world.minutes(5, waits=[timedelta(minutes=5)] * 4)
    before = world.nodes()
    forget(world)
    world.minutes(1)
    after = world.nodes()
    world.minutes(30)

    assert before == after
    assert ({}, {}, 4, 0) == (world.nodes(), world.cloud.made, world.cell.ended, world.cell.killed)


@pytest.mark.parametrize("policy", list(BalancePolicyName))
@pytest.mark.parametrize("minutes", [1, 2])
def test_the_loss_of_the_state_file_never_leads_to_more_than_max_nodes(
    world: World, policy: BalancePolicyName, minutes: int
) -> None:
    """Machines count from the round that adopts them."""
    world.limits |= {"policy": policy, "job_wait_time_s": 0, "stabilization_s": 0.0}
    world.limits |= {"min_nodes": 5, "add_nodes_per_iteration": 9}
    world.cell.waits = [HOUR] * 99
    world.minutes(minutes)
    before = world.cloud.most
    forget(world)
    world.minutes(9)

    assert (4, 4) == (before, world.cloud.most)


@pytest.mark.parametrize("lost_at", ["joining", "draining"])
def test_a_closed_host_is_reopened_after_the_loss_of_the_state_file(world: World, lost_at: str) -> None:
    world.cell.waits = [timedelta(minutes=2)]
    world.minutes(3 if lost_at == "joining" else 5)
    ((name, host),) = world.cell.hosts.items()
    if lost_at == "draining":
        world.rows.store_administrator_request(name, AdministratorNodeRequestKind.DRAIN)
        world.cell.slips_in = True
        world.minutes(1)
    before, was_open = world.nodes(), host.is_open
    forget(world)
    world.minutes(2, waits=[timedelta(minutes=2)])

    assert ({name: lost_at}, False) == (before, was_open)
    assert ({name: "ready"}, True, 1) == (world.nodes(), host.is_open, world.cloud.most)


def add_running_machine(world: World, name: str, pool: str) -> None:
    tags = {"gridbridge": "alpha", **({"gridbridge-pool": pool} if pool else {})}
    world.cloud.made["m-7"] = ProviderMachine(
        id="m-7", name=name, state=ProviderMachineState.RUNNING, tags=tags, created=world.now
    )
    world.cloud.boots["m-7"] = world.now


@pytest.mark.parametrize(
    ("address", "advice"),
    [("10.9.9.9", ""), ("", "if the machine is that host, make fixed resolve to 10.0.0.7 here, else ")],
    ids=["another address", "no address, as after a move of the qmaster"],
)
def test_a_site_host_is_not_drained_for_a_machine_of_its_name(
    world: World, caplog: pytest.LogCaptureFixture, address: str, advice: str
) -> None:
    world.cell.hosts["fixed"] = HostThere(address=address, is_open=True)
    add_running_machine(world, "fixed", "usual")
    world.minutes(10)

    assert ({}, True) == (world.nodes(), world.cell.hosts["fixed"].is_open)
    mend = f"{advice}rename the machine, or {ended('m-7')}"
    assert f"event=other_host machine=m-7 name=fixed mend={mend!r}" in caplog.messages


@pytest.mark.parametrize("pool", ["former", ""])
def test_a_machine_of_an_unknown_pool_is_reported_once_a_round_and_left_alone(
    world: World, caplog: pytest.LogCaptureFixture, pool: str
) -> None:
    """Two pools of one provider list the machine."""
    add_running_machine(world, "alpha-n20", pool)
    world.pools = {"large": NodePoolSection(slots=9, provider="cloud")}
    world.others = {"large": world.cloud}
    world.minutes(3)

    told = told_of(caplog, "unknown_pool")
    assert (3, {}, ["m-7"]) == (len(told), world.nodes(), list(world.cloud.made))
    lacks = "[pool.former]" if pool else "a tag gridbridge-pool with its pool"
    mend = f"give the machine {lacks}, or {ended('m-7')}"
    assert f"event=unknown_pool machine=m-7 name=alpha-n20 pool='{pool}' mend={mend!r}" == told[0]


SEEDS = [*range(5), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(5, 150))]


@pytest.mark.parametrize("seed", SEEDS)
def test_no_fault_kills_a_task_or_leaves_a_machine_behind(tmp_path: Path, seed: int) -> None:
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


@pytest.mark.parametrize("policy", BalancePolicyName)
def test_no_machine_is_destroyed_while_a_fault_silences_all_hosts(tmp_path: Path, policy: BalancePolicyName) -> None:
    limits = {"policy": policy, "add_nodes_per_iteration": 8, "stabilization_s": 0.0}
    world = World(tmp_path, Trouble(), max_nodes=9, min_nodes=9, **limits)
    world.minutes(6)
    before = set(world.cloud.made)
    for host in world.cell.hosts.values():
        host.is_silent = True
    told = world.plan().decision_sentence
    world.minutes(20)

    assert "8 of 9 hosts are silent or in error" in told
    assert (8, before) == (len(before), set(world.cloud.made))
    assert set(world.nodes().values()) == {"ready"}


def test_a_silent_node_with_a_task_is_logged_with_a_command(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.minutes(5, waits=[3 * HOUR])
    (host,) = world.cell.hosts.values()
    host.is_silent = True
    world.minutes(14)
    soon = told_of(caplog, "hangs")
    world.minutes(4)
    late = told_of(caplog, "hangs")
    host.is_silent = False
    world.minutes(9)

    assert ([], late[:1]) == (soon, list(dict.fromkeys(told_of(caplog, "hangs"))))
    assert len(late) == len(told_of(caplog, "hangs"))
    assert "event=hangs node=alpha-n10 machine=m-1 mend='clear alpha-n10'" in late[0]
    assert {"alpha-n10": "ready"} == world.nodes()


def told_of(caplog: pytest.LogCaptureFixture, event: str) -> list[str]:
    return [one for one in caplog.messages if one.startswith(f"event={event} ")]


def test_a_single_silent_host_of_many_is_removed(tmp_path: Path) -> None:
    world = World(tmp_path, Trouble(), max_nodes=9, min_nodes=9)
    world.minutes(6)
    world.cell.hosts["alpha-n10"].is_silent = True
    world.minutes(20)

    assert "alpha-n10" not in world.nodes()


@pytest.mark.parametrize("is_told", [True, False])
def test_a_node_is_paid_from_its_first_round(world: World, is_told: bool) -> None:
    """Each second is a billing unit here; the provider may or may not report the time of creation."""
    world.price = 3600.0
    world.cell.waits = [HOUR]
    world.cloud.tells_age = is_told
    world.minutes(6)

    assert 301.0 == world.rows.month_cost(world.now)


def test_the_node_of_a_job_that_never_starts_is_removed_and_not_added_again_for_long(world: World) -> None:
    world.cell.never_starts = 1
    world.minutes(15)
    kept = world.nodes()
    world.minutes(8)
    gone = world.nodes()
    world.minutes(140)
    asked = world.cloud.asked
    world.minutes(20)

    assert ({"alpha-n10": "ready"}, {}) == (kept, gone)
    assert (1, 2) == (asked, world.cloud.asked)


def test_a_dry_run_stores_no_history_of_waiting_jobs(world: World) -> None:
    world.cell.never_starts = 1
    world.minutes(15)
    before = world.rows.job_histories(world.now)
    world.round(is_dry=True)

    assert {9: 1} == {job: history.tasks for job, history in before.items()}
    assert before == world.rows.job_histories(world.now)


def test_a_gap_between_rounds_does_not_count_as_time_with_free_slots(world: World) -> None:
    world.cell.never_starts = 1
    world.minutes(12)
    world.now += timedelta(hours=2)
    world.minutes(10)

    assert {"alpha-n10": "ready"} == world.nodes()


def test_the_sentence_of_an_acting_round_never_says_that_nothing_is_done(world: World) -> None:
    """The policy adds no node at the maximum, while nodes are joining."""
    world.cell.waits = [timedelta(hours=1)] * 20
    told = []
    for _ in range(12):
        world.cell.schedule()
        plan = world.plan()
        told.append((plan.decision_sentence.rpartition(": ")[2], bool(plan.acts_in_words)))
        world.now += timedelta(minutes=1)

    assert ("no other node is added or removed", True) in told
    assert ("no node is added or removed", False) in told
    assert {("no node is added or removed", True), ("no other node is added or removed", False)}.isdisjoint(told)


def test_a_silent_host_without_machine_is_logged_with_a_command(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is logged while a machine list is missing."""
    world.minutes(9, waits=[timedelta(hours=1)] * 2)
    (machine,) = world.cloud.made.values()
    world.rows.nodes.replace_all_nodes([])
    world.cloud.made.clear()
    world.cell.waits = []
    world.cell.hosts[machine.name].is_silent = True
    world.cloud.is_silent = True
    world.minutes(20)
    unknown = told_of(caplog, "no_machine")
    world.cloud.is_silent = False
    world.minutes(20)

    assert [] == unknown
    (told,) = set(told_of(caplog, "no_machine"))
    assert f"host={machine.name} mend='if the host is gone: forget {machine.name}'" in told
    assert machine.name in world.cell.hosts


@pytest.mark.parametrize("is_open", [True, False], ids=["opened", "closed"])
@pytest.mark.parametrize("cause", [NodeStateCause.NOT_NEEDED, NodeStateCause.NEVER_JOINED, NodeStateCause.SILENT])
def test_a_node_with_a_task_at_its_removal_stays(world: World, cause: NodeStateCause, is_open: bool) -> None:
    """A host that may be alive is checked again just before the removal."""
    world.minutes(5, waits=[HOUR])
    (node,) = world.rows.nodes.load_all_nodes()
    host = world.cell.hosts[node.name]
    host.is_open = is_open
    removing = node.with_state(ElasticNodeState.REMOVING, world.now, cause)

    done = world.acts(world.site()).carry_out_node_act(
        DueNodeAct(node=removing, before=node, act=BalancerNodeAct.EVICT)
    )

    assert done.state in (ElasticNodeState.JOINING, ElasticNodeState.READY)
    assert (1, [node.machine]) == (len(host.ends), [*world.cloud.made])
    assert (0, {node.name}) == (world.cell.restarted, {*world.cell.hosts})


def test_a_machine_that_boots_but_never_joins_is_destroyed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:

    def join_host_to_cluster(node: MachineToJoinCell) -> HostJoinStep:
        raise HostNotReached(("ssh", node.name), 255)

    monkeypatch.setattr(world.cell, "join_host_to_cluster", join_host_to_cluster)
    world.minutes(60, waits=[HOUR])
    failures = world.rows.pool_failure_records()[POOL].failures
    world.minutes(60, waits=[])

    assert failures
    assert 2 >= world.cloud.most
    assert ({}, {}, {}) == (world.nodes(), world.cloud.made, world.cell.hosts)


def test_a_machine_that_never_boots_delays_no_other_node(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for program in (Clock, time):
        monkeypatch.setattr(program, "sleep", Mock(side_effect=AssertionError("a round waits")))
    world.trouble.never_boots = 1.0
    world.minutes(1, waits=[HOUR] * 2)
    world.trouble.never_boots = 0.0
    world.cell.waits += [HOUR] * 2
    world.minutes(5)

    assert sorted(world.nodes().values()) == ["booting", "ready"]


def test_a_planned_state_is_stored_before_the_act(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a kill between closing and removing a node, the next round finds the node draining."""
    killed, seen = list[str](), list[dict[str, str]]()

    def check_host_before_removal(host: str) -> HostCheckBeforeRemoval:
        monkeypatch.undo()
        killed.append(host)
        raise Killed

    world.cell.waits = [timedelta(minutes=3)]
    monkeypatch.setattr(world.cell, "check_host_before_removal", check_host_before_removal)
    while not killed and len(seen) < 40:
        world.minutes(1)
        seen.append(world.nodes())
    world.minutes(9, waits=[HOUR])

    assert (["alpha-n10"], {"alpha-n10": "draining"}) == (killed, seen[-1])
    assert 1 == world.running()


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
