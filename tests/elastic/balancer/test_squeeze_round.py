"""Rounds that switch the site's own hosts off and on, with faults and kills at any call."""

from datetime import timedelta
from pathlib import Path
from random import Random

import pytest

from gridbridge.elastic.balancer_state_file import BalancerStateRows
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
    """Return four hosts of two slots each that are idle; of each slot one has to stay free."""
    return World(tmp_path, Trouble(), own=4, max_nodes=9)


def asleep(world: World) -> list[str]:
    return [name for name, state in world.nodes().items() if state == OFF]


def test_idle_hosts_rest_and_keep_the_target_reserve(world: World) -> None:
    """Two standard requests for each host that works are as many as its slots: all but one rest."""
    world.minutes(12)

    (working,) = [name for name, state in world.nodes().items() if state == ON]
    assert world.cell.hosts[working].is_open
    assert len(asleep(world)) == 3
    assert sorted(world.switches.off) == sorted(asleep(world))
    assert {world.cell.tags[name] for name in asleep(world)} == {(STANDBY_AUTO,)}
    assert not any(world.cell.hosts[name].is_open for name in asleep(world))


def test_idle_hosts_that_a_squeeze_keeps_are_not_said_to_be_given_back(world: World) -> None:
    world.minutes(9)
    plan = world.round()

    assert plan
    assert (plan.plan.verdict, plan.plan.remove) == (BalancePlanReason.NO_NEED, ())


def test_idle_hosts_rest_by_starclusters_rules_too(world: World) -> None:
    """Late in their hour, as nodes are given back by them."""
    world.limits |= {"policy": BalancePolicyName.STARCLUSTER, "kill_after_min": 20}
    world.minutes(18)
    before = asleep(world)
    world.minutes(12)

    assert (before, len(asleep(world))) == ([], 3)


def test_tasks_that_wait_wake_them_and_their_tag_goes(world: World) -> None:
    world.minutes(12)
    world.minutes(8, waits=[timedelta(minutes=20)] * 8)

    assert (asleep(world), world.running()) == ([], 8)
    assert sorted(world.switches.on) == sorted(world.switches.off)
    assert set(world.cell.tags.values()) == {()}


def test_a_host_that_boots_for_long_is_reckoned_with(world: World) -> None:
    """A waiting task wakes one host, and none more or a new node in the rounds until it is up."""
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


def test_a_host_that_alone_can_run_a_job_is_woken_for_it(world: World) -> None:
    """It is as large as no host that works, and the others are left asleep."""
    world.cell.hosts["alpha-n4"].slots = 16
    world.minutes(12)
    before = asleep(world)
    world.wide = 16
    world.minutes(1)

    assert "alpha-n4" in before
    assert world.switches.on == ["alpha-n4"]
    assert "wake alpha-n4" in world.told[-1]


def test_they_rest_again_and_nothing_was_killed(world: World) -> None:
    world.minutes(40, waits=[timedelta(minutes=9)] * 8)

    assert (world.cell.ended, world.cell.killed, len(asleep(world))) == (8, 0, 3)


def test_only_hosts_with_a_tag_are_woken_and_only_the_automatic_one_goes(world: World) -> None:
    world.cell.tags = {"alpha-n2": ("htools:standby:7",)}
    world.minutes(12)
    first = asleep(world)
    world.cell.tags = {"alpha-n2": ("htools:standby:7",)}  # somebody took all others
    world.minutes(8, waits=[HOUR] * 8)

    assert "alpha-n2" in first
    assert world.switches.on == ["alpha-n2"]
    assert world.cell.tags["alpha-n2"] == ("htools:standby:7",)


def test_a_task_that_slips_in_keeps_its_host_on(world: World) -> None:
    world.minutes(1)
    world.cell.slips_in = True
    world.minutes(12)

    assert not world.cell.slips_in
    assert world.cell.killed == 0


def test_a_host_that_an_administrator_drains_rests_until_a_person_wakes_it(world: World) -> None:
    """It waits for the end of its tasks, and has no tag that would have it woken."""
    world.squeeze = {"target_reserve": 100}
    world.minutes(1, waits=[timedelta(minutes=5)] * 8)
    BalancerStateRows(world.database()).ask("alpha-n3", AdministratorNodeRequestKind.DRAIN)
    world.minutes(3)
    before = asleep(world)
    world.minutes(6)
    world.minutes(5, waits=[HOUR] * 20)

    assert (before, asleep(world)) == ([], ["alpha-n3"])
    assert "alpha-n3" not in world.cell.tags
    assert (world.cell.killed, world.switches.on) == (0, [])


def test_best_effort_tasks_make_way_before_their_host_goes_off(world: World) -> None:
    """They don't keep it on, and are not cut off with it."""
    for host in world.cell.hosts.values():
        host.best_effort = 2
    world.minutes(12)

    assert len(asleep(world)) == 3
    assert (world.cell.made_way, world.cell.cut_off) == (6, 0)


def test_a_host_that_is_to_work_on_has_its_best_effort_tasks_go_on(world: World) -> None:
    """They had begun to make way when somebody wanted it kept."""
    for host in world.cell.hosts.values():
        host.best_effort = 2
    for _ in range(12):
        world.minutes(0 if suspended(world) else 1)
    draining = suspended(world)
    for name in draining:
        BalancerStateRows(world.database()).ask(name, AdministratorNodeRequestKind.KEEP)
    world.cell.hosts[draining[0]].best_effort = 2
    world.round()

    assert (suspended(world), world.cell.cut_off) == ([], 0)
    assert all(world.cell.hosts[name].is_open for name in draining)


def suspended(world: World) -> list[str]:
    return [name for name, host in world.cell.hosts.items() if host.is_suspended]


def test_who_has_the_tasks_of_its_hosts_end_condenses_them(world: World) -> None:
    """A host with the fewest tasks takes no more, and rests when they have ended."""
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


def test_tasks_that_may_run_again_are_moved_from_hosts_that_rest(world: World) -> None:
    """Of four hosts, each half full, two are enough; each task ends once."""
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


def test_hosts_with_any_other_task_are_not_freed(world: World) -> None:
    world.squeeze = dict(MOVES)
    spread(world)
    world.minutes(30)

    assert (world.cell.moved, world.cell.killed, asleep(world)) == (0, 0, [])


def test_another_task_that_slips_in_has_its_host_opened_again(world: World) -> None:
    """When the host is closed and looked at again it is there; none of them is moved."""
    world.squeeze = dict(MOVES)
    world.cell.rerun = {"alpha-n4"}
    spread(world)
    movable = world.cell.movable
    world.cell.movable = lambda hosts: {**movable(hosts), "alpha-n4": (TaskResourceRequests(),)}  # type: ignore[method-assign]
    world.cell.rerun = set()
    world.minutes(5)

    assert (world.cell.moved, world.cell.killed) == (0, 0)
    assert world.cell.hosts["alpha-n4"].is_open
    assert world.nodes()["alpha-n4"] == ON


@pytest.mark.parametrize("seed", KILLS)
def test_moving_is_gone_on_with_after_kills(tmp_path: Path, seed: int) -> None:
    """No task is lost, and no host stays closed for nothing."""
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


def test_a_host_that_does_not_come_up_is_left_alone_for_a_while(world: World) -> None:
    """It is switched off again, and tried anew after retry_s."""
    world.minutes(12)
    world.switches.is_dead = True
    world.minutes(12, waits=[HOUR] * 8)
    first = list(world.switches.on)
    world.minutes(2)
    second = list(world.switches.on)
    world.minutes(12)

    assert sorted(first) == sorted(second) == sorted(asleep_before(world))
    assert len(world.switches.on) == 2 * len(first)


def test_a_wake_that_is_lost_is_asked_for_again(world: World) -> None:
    """No host waits for its boot limit because one packet was lost."""
    world.minutes(12)
    world.switches.lost = 3
    world.minutes(8, waits=[HOUR] * 8)

    assert (asleep(world), world.running()) == ([], 8)


def test_a_host_that_still_goes_down_is_not_woken_before_it_is_off(world: World) -> None:
    """It would be taken for one that is up, and opened, and lose its tag; then it goes off."""
    world.switches.halt_s = 150
    world.minutes(5)
    resting = asleep(world)
    world.minutes(12, waits=[HOUR] * 8)

    assert resting
    assert (asleep(world), world.running()) == ([], 8)


def test_a_working_host_that_is_told_to_be_off_works_on(world: World) -> None:
    """Its daemon reports: it is counted, not woken, and no task of its is ended."""
    world.cell.tags = {"alpha-n1": ("htools:standby:1",)}
    world.minutes(2, waits=[HOUR] * 12)
    world.switches.lying = {"alpha-n1"}
    world.minutes(1)
    counted = world.nodes()["alpha-n1"]
    world.minutes(30)

    assert (counted, world.nodes()["alpha-n1"], world.running()) == (ON, ON, 8)
    assert (world.switches.on, world.switches.off, world.cell.killed) == ([], [], 0)


def test_a_host_that_is_told_to_be_off_from_the_first_look_is_left_alone(world: World) -> None:
    world.switches.lying = {"alpha-n1"}
    world.minutes(30, waits=[HOUR] * 12)

    assert "alpha-n1" not in world.nodes()
    assert (world.running(), world.cell.killed) == (8, 0)


def test_a_woken_host_that_reports_works_though_it_is_told_to_be_off(world: World) -> None:
    """Until it has had the time to boot, the cell may not have heard that it went off."""
    world.minutes(12)
    chosen = asleep(world)[0]
    world.switches.lying = {chosen}
    world.minutes(9, waits=[HOUR] * 8)
    before = world.nodes()[chosen]
    world.minutes(9)

    assert (before, world.nodes()[chosen], world.running()) == ("booting", ON, 8)
    assert (world.switches.off.count(chosen), world.cell.killed) == (1, 0)


def test_a_host_is_not_switched_off_for_its_boot_limit_while_tasks_may_run_there(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Its daemon is silent, and the cell has a task there that nobody saw end."""
    world.minutes(12)
    chosen = asleep(world)[0]
    world.switches.is_dead = True
    world.minutes(2, waits=[HOUR] * 8)
    world.cell.hosts[chosen].ends = [world.now + 9 * HOUR]
    world.minutes(12)

    assert world.nodes()[chosen] == ElasticNodeState.FAILED.value
    assert (world.switches.off.count(chosen), world.cell.killed) == (1, 0)
    assert f"event=not_done node={chosen} act=stop" in caplog.text


def test_a_host_that_does_not_tell_whether_it_is_on_is_not_put_to_rest(world: World) -> None:
    """Nobody would see it off, or know when it is to be woken; the others rest."""
    world.minutes(1)
    world.switches.silent = {"alpha-n4"}
    world.minutes(12)
    resting, world.switches.silent = asleep(world), set()
    world.minutes(12)

    assert resting == ["alpha-n1", "alpha-n2", "alpha-n3"]
    assert world.cell.hosts["alpha-n4"].is_open


@pytest.mark.parametrize("is_told", [True, False])
def test_a_host_that_could_not_be_switched_off_works_again(
    world: World, caplog: pytest.LogCaptureFixture, is_told: bool
) -> None:
    """After as long as a boot may take, for it may go down; whether its state is told or not."""
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


def test_hosts_that_could_not_be_switched_off_are_tried_again_later(world: World) -> None:
    """Who has been idle for longest goes first: alpha-n1, and then two of the three again."""
    world.switches.broken = {"alpha-n2", "alpha-n3", "alpha-n4"}
    world.minutes(5)
    tried = sorted(world.switches.off)
    world.switches.broken = set()
    world.minutes(30)

    assert tried == ["alpha-n2", "alpha-n3", "alpha-n4"]
    assert len(world.switches.off) == len(tried) + 3
    assert len(asleep(world)) == 3


def test_a_drained_host_that_can_not_be_switched_off_stays_closed(world: World) -> None:
    """An administrator wants it to take no tasks; it is told again in each round."""
    world.squeeze = {"target_reserve": 100}
    world.switches.broken = {"alpha-n3"}
    world.minutes(1)
    BalancerStateRows(world.database()).ask("alpha-n3", AdministratorNodeRequestKind.DRAIN)
    world.minutes(20)

    assert world.nodes()["alpha-n3"] == ElasticNodeState.DRAINING.value
    assert not world.cell.hosts["alpha-n3"].is_open
    assert world.switches.off.count("alpha-n3") == 20


def test_hosts_on_their_way_work_once_they_are_squeezed_no_more(world: World) -> None:
    """What was closed for their tasks' ends is opened; and is no node any more."""
    world.squeeze = {"restriction": StandbyNodeSelection.ALL, "target_reserve": 0.5, "minimal_reserve": 0.25}
    spread(world)
    world.minutes(9)
    closed = [name for name, host in world.cell.hosts.items() if not host.is_open]
    world.is_squeezed = False
    world.minutes(2)

    assert closed
    assert all(host.is_open for host in world.cell.hosts.values())
    assert (world.nodes(), world.switches.off, world.cell.killed) == ({}, [], 0)


def test_hosts_that_boot_work_once_they_are_squeezed_no_more(world: World) -> None:
    world.minutes(12)
    world.minutes(1, waits=[HOUR] * 8)
    world.is_squeezed = False
    world.minutes(6)

    assert (world.running(), world.nodes()) == (8, {})
    assert set(world.cell.tags.values()) == {()}


def test_how_hosts_that_are_off_work_again_is_told_when_they_are_squeezed_no_more(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Once, for each of them in a line."""
    world.minutes(12)
    off = asleep(world)
    world.is_squeezed = False
    world.minutes(3)
    told = [one.getMessage() for one in caplog.records if "event=left_off" in one.getMessage()]

    assert sorted(told) == [f"event=left_off node={one} command='open {one}'" for one in off]
    assert len(off) == 3


def test_a_host_that_is_off_and_that_nobody_switches_any_more_is_told_with_its_line(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Its section was taken out of gridbridge.toml, the others' stay: it is forgotten."""
    world.minutes(12)
    gone = asleep(world)[0]
    del world.switches.up_at[gone]
    world.minutes(3)
    told = [one.getMessage() for one in caplog.records if "event=left_off" in one.getMessage()]

    assert told == [f"event=left_off node={gone} command='open {gone}'"]
    assert gone not in world.nodes()


def test_a_host_on_its_way_down_that_nobody_switches_any_more_works_on(world: World) -> None:
    """It was closed until its tasks have ended; it is opened before it is forgotten."""
    world.squeeze = {"restriction": StandbyNodeSelection.ALL, "target_reserve": 0.5, "minimal_reserve": 0.25}
    spread(world)
    world.minutes(9)
    closed = [name for name, host in world.cell.hosts.items() if not host.is_open]
    for name in closed:
        del world.switches.up_at[name]
    world.minutes(3)

    assert closed
    assert all(world.cell.hosts[name].is_open for name in closed)
    assert not set(closed) & world.nodes().keys()
    assert (world.switches.off, world.cell.killed) == ([], 0)


def test_a_host_that_does_not_go_off_is_told_again_and_it_is_logged(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """After as long as a boot may take, and so on until it does."""
    world.switches.deaf = {"alpha-n4"}
    world.minutes(30)
    asked = world.switches.off.count("alpha-n4")
    told = sum("event=still_on node=alpha-n4" in one.getMessage() for one in caplog.records)
    world.switches.deaf = set()
    world.minutes(30)

    assert (asked, told) == (3, 2)
    assert world.switches.off.count("alpha-n4") == 4
    assert "alpha-n4" in asleep(world)


def test_a_host_that_a_person_switches_on_is_not_switched_off_while_it_boots(world: World) -> None:
    """Nor when its system takes for ever to come up: somebody may be at work there."""
    world.minutes(12)
    (chosen, *_) = asleep(world)
    before = list(world.switches.off)
    world.squeeze = {"target_reserve": 100}
    world.minutes(20)
    world.switches.up_at[chosen] = world.now + timedelta(hours=1)
    world.minutes(59)

    assert (world.switches.off, world.nodes()[chosen]) == (before, OFF)


def asleep_before(world: World) -> list[str]:
    return sorted(set(world.switches.off))


def test_a_host_that_nobody_knows_why_it_is_silent_is_left_alone(world: World) -> None:
    """It has power: somebody may be at work there."""
    world.switches.up_at["alpha-n4"] = world.now + timedelta(days=9)
    world.minutes(12)

    assert "alpha-n4" not in world.switches.off
    assert "alpha-n4" not in world.nodes()


@pytest.mark.parametrize("after", range(4))
def test_a_lost_state_file_leaves_no_host_closed(world: World, after: int) -> None:
    """Hosts on standby are known by their tags, and those that were being woken are opened."""
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


def test_a_clock_that_was_set_back_switches_nothing_off_in_use(world: World) -> None:
    """What was noted lies in the future then: it is waited for, or begins anew."""
    world.minutes(6, waits=[HOUR] * 5)
    world.now -= timedelta(hours=5)
    for host in world.cell.hosts.values():
        host.ends = [end - timedelta(hours=5) for end in host.ends]  # their own clocks go on
    world.minutes(20)

    assert (world.cell.killed, world.running()) == (0, 5)
    assert all(world.cell.hosts[name].is_open for name in world.nodes() if name not in asleep(world))


def test_a_host_that_somebody_switches_off_under_tasks_is_told(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """As long as its tasks are listed; it rests then as any other."""
    world.minutes(3, waits=[HOUR] * 8)
    world.switches.up_at["alpha-n2"] = None
    world.minutes(2)
    (told,) = {one.getMessage() for one in caplog.records if "off_under_tasks" in one.getMessage()}
    (kept,) = (one for one in BalancerStateRows(world.database()).nodes.all() if one.name == "alpha-n2")
    world.cell.hosts["alpha-n2"].ends = []
    caplog.clear()
    world.minutes(1)
    (after,) = (one for one in BalancerStateRows(world.database()).nodes.all() if one.name == "alpha-n2")

    assert "node=alpha-n2" in told
    assert "clear alpha-n2" in told
    assert (kept.state.value, kept.cause) == (OFF, NodeStateCause.UNDER_TASKS)
    assert (after.state.value, after.cause) == (OFF, NodeStateCause.NONE)
    assert "off_under_tasks" not in caplog.text


def test_who_switches_a_host_on_has_it_work(world: World) -> None:
    world.minutes(12)
    chosen = asleep(world)[0]
    world.squeeze = {"target_reserve": 100}
    world.switches.up_at[chosen] = world.now
    world.minutes(3)

    assert world.nodes()[chosen] == ON
    assert world.cell.hosts[chosen].is_open


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_killed_and_all_is_well_after_faults(tmp_path: Path, seed: int) -> None:
    """After kills at any call the hosts that are to work do, and those that rest can be woken."""
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
