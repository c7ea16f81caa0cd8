"""Rounds that power the site's own hosts off and on, with faults and kills at any call."""

from datetime import timedelta
from pathlib import Path
from random import Random

import pytest

from gridbridge.model.elastic.balance_plan import BalancePlanReason, BalancePolicyName
from gridbridge.model.elastic.balancer_config_sections import StandbyNodeSelection
from gridbridge.model.elastic.elastic_nodes import AdministratorNodeRequestKind, ElasticNodeState, NodeStateCause
from gridbridge.model.elastic.grid_engine_cell import TaskResourceRequests
from gridbridge.model.elastic.standby_and_wake_plan import STANDBY_AUTO
from tests.elastic.balancer.world import Trouble, World

SEEDS = [*range(6), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(6, 150))]
KILLS = [*range(3), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 8))]
HOUR = timedelta(hours=1)
OFF, ON = ElasticNodeState.STANDBY.value, ElasticNodeState.READY.value


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Return four idle hosts of two slots each."""
    return World(tmp_path, Trouble(), own=4, max_nodes=9)


def asleep(world: World) -> list[str]:
    return [name for name, state in world.nodes().items() if state == OFF]


def test_all_idle_hosts_but_one_are_powered_off_for_the_target_reserve(world: World) -> None:
    world.minutes(9)
    plan = world.plan().plan
    world.minutes(3)

    (working,) = [name for name, state in world.nodes().items() if state == ON]
    assert (plan.verdict, plan.remove) == (BalancePlanReason.NO_NEED, ())
    assert world.cell.hosts[working].is_open
    assert len(asleep(world)) == 3
    assert sorted(world.switches.off) == sorted(asleep(world))
    assert {world.cell.tags[name] for name in asleep(world)} == {(STANDBY_AUTO,)}
    assert not any(world.cell.hosts[name].is_open for name in asleep(world))


def test_policy_starcluster_powers_idle_hosts_off_late_in_their_hour(world: World) -> None:
    world.limits |= {"policy": BalancePolicyName.STARCLUSTER, "kill_after_min": 20}
    world.minutes(18)
    before = asleep(world)
    world.minutes(12)

    assert (before, len(asleep(world))) == ([], 3)


@pytest.mark.parametrize("lost", [0, 3], ids=["at once", "by repeated requests"])
def test_waiting_tasks_wake_hosts_and_remove_the_tag(world: World, lost: int) -> None:
    world.minutes(12)
    world.switches.lost = lost
    world.minutes(8, waits=[timedelta(minutes=20)] * 8)

    assert (asleep(world), world.running()) == ([], 8)
    assert set(world.switches.on) == set(world.switches.off)
    assert set(world.cell.tags.values()) == {()}


def test_a_slowly_booting_host_counts_as_woken(world: World) -> None:
    world.squeeze = {"minimal_reserve": 0, "target_reserve": 0}
    world.minutes(12)
    world.cell.waits = [HOUR] * 3  # one more than the working host has slots
    world.switches.boot_s = 270
    plans = []
    for _ in range(6):
        world.cell.schedule()
        plans.append(world.round())
        world.now += timedelta(minutes=1)
    added = [one.plan.add for one in plans if one]

    assert len(world.switches.on) == 1
    assert added == [0] * 6


def test_a_host_on_which_a_task_starts_during_the_power_off_stays_on(world: World) -> None:
    world.minutes(1)
    world.cell.slips_in = True
    world.minutes(12)

    assert not world.cell.slips_in
    assert world.cell.killed == 0


def test_a_host_drained_by_an_administrator_is_powered_off_and_not_woken(world: World) -> None:
    world.squeeze = {"target_reserve": 100}
    world.minutes(1, waits=[timedelta(minutes=5)] * 8)
    world.rows.store_administrator_request("alpha-n3", AdministratorNodeRequestKind.DRAIN)
    world.minutes(3)
    before = asleep(world)
    world.minutes(6)
    world.minutes(5, waits=[HOUR] * 20)

    assert (before, asleep(world)) == ([], ["alpha-n3"])
    assert "alpha-n3" not in world.cell.tags
    assert (world.cell.killed, world.switches.on) == (0, [])


def test_best_effort_tasks_are_preempted_before_a_power_off(world: World) -> None:
    for host in world.cell.hosts.values():
        host.best_effort = 2
    world.minutes(12)

    assert len(asleep(world)) == 3
    assert (world.cell.made_way, world.cell.cut_off) == (6, 0)


def test_best_effort_tasks_continue_on_a_host_that_is_kept_after_all(world: World) -> None:
    for host in world.cell.hosts.values():
        host.best_effort = 2
    for _ in range(12):
        world.minutes(0 if suspended(world) else 1)
    draining = suspended(world)
    for name in draining:
        world.rows.store_administrator_request(name, AdministratorNodeRequestKind.KEEP)
    world.cell.hosts[draining[0]].best_effort = 2
    world.round()

    assert (suspended(world), world.cell.cut_off) == ([], 0)
    assert all(world.cell.hosts[name].is_open for name in draining)


def suspended(world: World) -> list[str]:
    return [name for name, host in world.cell.hosts.items() if host.is_suspended]


def test_with_restriction_all_busy_hosts_are_closed_and_powered_off_after_their_tasks(world: World) -> None:
    world.squeeze = {"restriction": StandbyNodeSelection.ALL, "target_reserve": 0.5, "minimal_reserve": 0.25}
    world.minutes(1, waits=[timedelta(minutes=9)] + [HOUR] * 2)
    world.minutes(20)

    assert len(asleep(world)) >= 2
    assert (world.cell.ended, world.cell.killed) == (1, 0)


MOVES: dict[str, object] = {
    "restriction": StandbyNodeSelection.RERUNNABLE,
    "target_reserve": 0.5,
    "minimal_reserve": 0.25,
}


def spread(world: World) -> None:
    for host in world.cell.hosts.values():
        host.ends = [world.now + HOUR]


def test_rerunnable_tasks_are_moved_from_hosts_that_are_powered_off(world: World) -> None:
    world.squeeze = dict(MOVES)
    world.cell.rerun = set(world.cell.hosts)
    spread(world)
    world.minutes(30)
    full = world.running()
    resting = asleep(world)
    world.minutes(60)

    assert world.cell.moved >= len(resting) >= 1
    assert full == 4
    assert (world.cell.ended, world.cell.killed) == (4, 0)


def test_a_host_is_reopened_if_a_task_that_cannot_move_starts(world: World) -> None:
    world.squeeze = dict(MOVES)
    world.cell.rerun = {"alpha-n4"}
    spread(world)
    movable = world.cell.query_rerunnable_tasks
    world.cell.query_rerunnable_tasks = lambda hosts: {**movable(hosts), "alpha-n4": (TaskResourceRequests(),)}  # type: ignore[method-assign]
    world.cell.rerun = set()
    world.minutes(5)

    assert (world.cell.moved, world.cell.killed) == (0, 0)
    assert world.cell.hosts["alpha-n4"].is_open
    assert world.nodes()["alpha-n4"] == ON


@pytest.mark.parametrize("seed", KILLS)
def test_moving_tasks_continues_after_kills(tmp_path: Path, seed: int) -> None:
    world = World(tmp_path, Trouble(random=Random(seed), kills=0.08), own=4, max_nodes=9)
    world.squeeze = dict(MOVES)
    world.cell.rerun = set(world.cell.hosts)
    spread(world)
    world.minutes(60)
    world.quiet()
    world.minutes(90)

    assert (world.cell.ended, world.cell.killed) == (4, 0)
    off = [name for name, at in world.switches.up_at.items() if at is None]
    assert asleep(world) == sorted(off)
    assert len(off) == 3


def test_a_host_that_does_not_boot_is_retried_after_retry_s(world: World) -> None:
    world.minutes(12)
    world.switches.is_dead = True
    world.minutes(12, waits=[HOUR] * 8)
    first = list(world.switches.on)
    world.minutes(2)
    second = list(world.switches.on)
    world.minutes(12)

    assert sorted(first) == sorted(second) == sorted(set(world.switches.off))
    assert len(world.switches.on) == 2 * len(first)


def test_a_host_that_is_shutting_down_is_woken_only_after_it_is_off(world: World) -> None:
    world.switches.halt_s = 150
    world.minutes(5)
    resting = asleep(world)
    world.minutes(12, waits=[HOUR] * 8)

    assert resting
    assert (asleep(world), world.running()) == ([], 8)


def test_a_busy_host_that_its_provider_reports_as_off_keeps_running(world: World) -> None:
    world.cell.tags = {"alpha-n1": ("htools:standby:1",)}
    world.minutes(2, waits=[HOUR] * 12)
    world.switches.lying = {"alpha-n1"}
    world.minutes(1)
    counted = world.nodes()["alpha-n1"]
    world.minutes(30)

    assert (counted, world.nodes()["alpha-n1"], world.running()) == (ON, ON, 8)
    assert (world.switches.on, world.switches.off, world.cell.killed) == ([], [], 0)


def test_a_host_that_is_reported_as_off_from_the_first_round_is_left_alone(world: World) -> None:
    world.switches.lying = {"alpha-n1"}
    world.minutes(30, waits=[HOUR] * 12)

    assert "alpha-n1" not in world.nodes()
    assert (world.running(), world.cell.killed) == (8, 0)


def test_a_woken_host_that_reports_counts_as_up_after_the_boot_time_although_reported_as_off(world: World) -> None:
    world.minutes(12)
    chosen = asleep(world)[0]
    world.switches.lying = {chosen}
    world.minutes(9, waits=[HOUR] * 8)
    before = world.nodes()[chosen]
    world.minutes(9)

    assert (before, world.nodes()[chosen], world.running()) == ("booting", ON, 8)
    assert (world.switches.off.count(chosen), world.cell.killed) == (1, 0)


def test_a_silent_host_with_listed_tasks_is_not_powered_off_after_the_boot_timeout(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.minutes(12)
    chosen = asleep(world)[0]
    world.switches.is_dead = True
    world.minutes(2, waits=[HOUR] * 8)
    world.cell.hosts[chosen].ends = [world.now + 9 * HOUR]
    world.minutes(12)

    assert world.nodes()[chosen] == ElasticNodeState.FAILED.value
    assert (world.switches.off.count(chosen), world.cell.killed) == (1, 0)
    assert f"event=not_done node={chosen} act=stop" in caplog.text


def test_a_host_with_unknown_power_state_is_not_powered_off(world: World) -> None:
    world.minutes(1)
    world.switches.silent = {"alpha-n4"}
    world.minutes(12)
    resting, world.switches.silent = asleep(world), set()
    world.minutes(12)

    assert resting == ["alpha-n1", "alpha-n2", "alpha-n3"]
    assert world.cell.hosts["alpha-n4"].is_open


@pytest.mark.parametrize("is_told", [True, False])
def test_a_host_that_could_not_be_powered_off_is_reopened_after_the_boot_time(
    world: World, caplog: pytest.LogCaptureFixture, is_told: bool
) -> None:
    world.switches.broken = {"alpha-n4"}
    world.minutes(5)
    before = world.cell.hosts["alpha-n4"].is_open
    world.switches.silent = set() if is_told else {"alpha-n4"}
    world.minutes(4, waits=[HOUR] * 8)
    soon = world.cell.hosts["alpha-n4"].is_open
    world.minutes(8)

    assert (before, soon, world.running()) == (False, False, 8)
    assert (world.nodes()["alpha-n4"], world.cell.killed) == (ON, 0)
    assert "event=not_done node=alpha-n4 act=rest" in caplog.text


def test_a_failed_power_off_is_retried_later(world: World) -> None:
    world.switches.broken = {"alpha-n2", "alpha-n3", "alpha-n4"}
    world.minutes(5)
    tried = sorted(world.switches.off)
    world.switches.broken = set()
    world.minutes(30)

    assert tried == ["alpha-n2", "alpha-n3", "alpha-n4"]
    assert len(world.switches.off) == len(tried) + 3
    assert len(asleep(world)) == 3


def test_a_drained_host_that_cannot_be_powered_off_stays_closed(world: World) -> None:
    world.squeeze = {"target_reserve": 100}
    world.switches.broken = {"alpha-n3"}
    world.minutes(1)
    world.rows.store_administrator_request("alpha-n3", AdministratorNodeRequestKind.DRAIN)
    world.minutes(20)

    assert world.nodes()["alpha-n3"] == ElasticNodeState.DRAINING.value
    assert not world.cell.hosts["alpha-n3"].is_open
    assert world.switches.off.count("alpha-n3") == 20


@pytest.mark.parametrize("is_squeezed", [False, True], ids=["no squeeze", "another configuration"])
def test_closed_hosts_are_reopened_when_the_squeeze_or_their_configuration_ends(
    world: World, is_squeezed: bool
) -> None:
    world.squeeze = {"restriction": StandbyNodeSelection.ALL, "target_reserve": 0.5, "minimal_reserve": 0.25}
    spread(world)
    world.minutes(9)
    closed = [name for name, host in world.cell.hosts.items() if not host.is_open]
    world.is_squeezed = is_squeezed
    for name in closed if is_squeezed else ():
        del world.switches.up_at[name]
    world.minutes(3)

    assert closed
    assert all(world.cell.hosts[name].is_open for name in closed)
    assert not set(closed) & world.nodes().keys()
    assert (world.switches.off, world.cell.killed) == ([], 0)


def test_booting_hosts_work_after_the_squeeze_is_disabled(world: World) -> None:
    world.minutes(12)
    world.minutes(1, waits=[HOUR] * 8)
    world.is_squeezed = False
    world.minutes(6)

    assert (world.running(), world.nodes()) == (8, {})
    assert set(world.cell.tags.values()) == {()}


@pytest.mark.parametrize("is_squeezed", [False, True], ids=["no squeeze", "another configuration"])
def test_powered_off_hosts_without_squeeze_or_configuration_are_logged_once_with_a_command(
    world: World, caplog: pytest.LogCaptureFixture, is_squeezed: bool
) -> None:
    world.minutes(12)
    off = asleep(world)[:1] if is_squeezed else asleep(world)
    world.is_squeezed = is_squeezed
    for name in off if is_squeezed else ():
        del world.switches.up_at[name]
    world.minutes(3)
    lines = [line for line in caplog.messages if "event=left_off" in line]

    assert sorted(lines) == [f"event=left_off node={name} command='open {name}'" for name in off]
    assert len(off) == (1 if is_squeezed else 3)
    assert not set(off) & world.nodes().keys()


def test_a_power_off_without_effect_is_repeated_and_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.switches.deaf = {"alpha-n4"}
    world.minutes(30)
    asked = world.switches.off.count("alpha-n4")
    told = sum("event=still_on node=alpha-n4" in one.getMessage() for one in caplog.records)
    world.switches.deaf = set()
    world.minutes(30)

    assert (asked, told) == (3, 2)
    assert world.switches.off.count("alpha-n4") == 4
    assert "alpha-n4" in asleep(world)


def test_a_host_that_a_person_powers_on_is_left_alone_while_it_boots(world: World) -> None:
    world.minutes(12)
    (chosen, *_) = asleep(world)
    before = list(world.switches.off)
    world.squeeze = {"target_reserve": 100}
    world.minutes(20)
    world.switches.up_at[chosen] = world.now + timedelta(hours=1)
    world.minutes(59)

    assert (world.switches.off, world.nodes()[chosen]) == (before, OFF)


def test_a_silent_host_with_power_is_left_alone(world: World) -> None:
    """A person may be working on the host."""
    world.switches.up_at["alpha-n4"] = world.now + timedelta(days=9)
    world.minutes(12)

    assert "alpha-n4" not in world.switches.off
    assert "alpha-n4" not in world.nodes()


@pytest.mark.parametrize("after", range(4))
def test_the_loss_of_the_state_file_leaves_no_host_closed(world: World, after: int) -> None:
    world.minutes(12)
    world.cell.waits = [timedelta(minutes=9)] * 8
    world.minutes(after)
    world.lose_memory()
    (world.folder / "state.db").unlink()
    world.minutes(6)
    woken = [name for name, host in world.cell.hosts.items() if host.is_open]
    world.minutes(30)

    assert len(woken) == 4
    assert (world.cell.ended, world.cell.killed, len(asleep(world))) == (8, 0, 3)


def test_no_busy_host_is_powered_off_after_the_clock_was_set_back(world: World) -> None:
    world.minutes(6, waits=[HOUR] * 5)
    world.now -= timedelta(hours=5)
    for host in world.cell.hosts.values():
        host.ends = [end - timedelta(hours=5) for end in host.ends]  # their own clocks go on
    world.minutes(20)

    assert (world.cell.killed, world.running()) == (0, 5)
    assert all(world.cell.hosts[name].is_open for name in world.nodes() if name not in asleep(world))


def test_a_host_that_a_person_powers_off_under_tasks_is_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.minutes(3, waits=[HOUR] * 8)
    world.switches.up_at["alpha-n2"] = None
    world.minutes(2)
    (told,) = {one.getMessage() for one in caplog.records if "off_under_tasks" in one.getMessage()}
    (kept,) = (one for one in world.rows.nodes.load_all_nodes() if one.name == "alpha-n2")
    world.cell.hosts["alpha-n2"].ends = []
    caplog.clear()
    world.minutes(1)
    (after,) = (one for one in world.rows.nodes.load_all_nodes() if one.name == "alpha-n2")

    assert "node=alpha-n2" in told
    assert "clear alpha-n2" in told
    assert (kept.state.value, kept.cause) == (OFF, NodeStateCause.UNDER_TASKS)
    assert (after.state.value, after.cause) == (OFF, NodeStateCause.NONE)
    assert "off_under_tasks" not in caplog.text


def test_a_host_that_a_person_powers_on_works_again(world: World) -> None:
    world.minutes(12)
    chosen = asleep(world)[0]
    world.squeeze = {"target_reserve": 100}
    world.switches.up_at[chosen] = world.now
    world.minutes(3)

    assert world.nodes()[chosen] == ON
    assert world.cell.hosts[chosen].is_open


@pytest.mark.parametrize("seed", SEEDS)
def test_after_faults_no_task_is_killed_and_all_hosts_have_their_intended_state(tmp_path: Path, seed: int) -> None:
    trouble = Trouble(random=Random(seed), kills=0.05)
    world = World(tmp_path, trouble, own=4, max_nodes=9)
    world.boot_timeout_s = 7200  # nothing that follows is well only because it is over

    def more() -> None:
        if trouble.random.random() < 0.2:
            chosen = trouble.random.choice(list(world.cell.hosts.values()))
            chosen.best_effort += chosen.is_open and not chosen.is_silent
            world.cell.waits += [timedelta(minutes=trouble.random.randint(1, 15))] * 3

    world.minutes(90, more)
    world.quiet()
    wanted = world.cell.ended + len(world.cell.waits) + world.running()
    world.minutes(45)

    assert (world.cell.ended, world.cell.killed) == (wanted, 0)
    assert world.cell.cut_off == 0
    off = [name for name, at in world.switches.up_at.items() if at is None]
    assert asleep(world) == sorted(off)
    assert len(off) == 3
    assert all(world.cell.tags[name] == (STANDBY_AUTO,) for name in off)
