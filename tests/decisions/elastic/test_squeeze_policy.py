"""Which of the site's own hosts are powered off, and which are woken."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.decisions.elastic.site_host_power_lifecycle import (
    describe_standby_or_wake_plan,
    standby_and_wake_steps_of_plan,
)
from gridbridge.decisions.elastic.standby_host_policy import (
    StartableStandardRequestCount,
    find_hosts_accepting_tasks,
    plan_hosts_to_sleep_or_wake,
    wakeable_standby_nodes,
)
from gridbridge.elastic.balancer.balancer_round_decision import drop_acts_replaced_by_squeeze
from gridbridge.model.config_key_descriptions import QueueDefaultRequests
from gridbridge.model.elastic.balance_plan import (
    BalancePlan,
    BalancePlanFigures,
    BalanceSituation,
    NodeAddOrRemoveRefusalCause,
)
from gridbridge.model.elastic.balance_plan import BalancePlanReason as Reason
from gridbridge.model.elastic.balancer_config_sections import BalanceSection, SqueezeSection, StandbyNodeSelection
from gridbridge.model.elastic.elastic_nodes import ElasticNode, ElasticNodeState
from gridbridge.model.elastic.grid_engine_cell import TaskResourceRequests
from gridbridge.model.elastic.standby_and_wake_plan import STANDBY_AUTO, HostTagsAndMovableTasks, StandbyOrWakePlan
from gridbridge.model.elastic.standby_and_wake_plan import StandbyOrWakePlanCause as SqueezeCause
from gridbridge.model.elastic.standby_and_wake_plan import StandbyOrWakeStepKind as Step
from tests.decisions.elastic import demand_cells
from tests.decisions.elastic.cells import MASTER, cases, instance, node, situation

RULES = BalanceSection(max_nodes=20, min_nodes=1)
NOTHING = BalancePlanFigures(
    nodes=0, running=0, jobs=0, wanted=0, free=0, slots=0, slots_per_node=None, waited_s=0.0, unchanged_s=None
)
AUTO = (STANDBY_AUTO,)
USUAL, NO_FACTS = SqueezeSection(), HostTagsAndMovableTasks()


def cell(*running: tuple[int, ...], sleeping: int = 0, kept: tuple[int, ...] = ()) -> BalanceSituation:
    """Return nodes n0, n1, ... of four slots with the given tasks, and powered-off nodes s0, s1, ..."""
    names = [f"n{at}" for at in range(len(running))]
    nodes = [node(name, is_kept=at in kept) for at, name in enumerate(names)]
    asleep = [node(f"s{at}", state="standby") for at in range(sleeping)]
    on = [instance(name, some) for name, some in zip(names, running, strict=True)]
    return situation(*on, nodes=(*nodes, *asleep))


def shapes(tasks: tuple[int, ...]) -> tuple[TaskResourceRequests, ...]:
    return tuple(TaskResourceRequests(slots=one, pe="smp" if one > 1 else "") for one in tasks)


def idle_of(seen: BalanceSituation) -> tuple[str, ...]:
    busy = {one.host for one in seen.cell.instances if one.running}
    return tuple(one.name for one in seen.nodes if one.name not in busy)


def plan(seen: BalanceSituation, add: int = 0, verdict: Reason = Reason.SPARE) -> BalancePlan:
    return BalancePlan(verdict=verdict, figures=NOTHING, add=add, remove=() if add else idle_of(seen))


def squeezed(
    seen: BalanceSituation,
    add: int = 0,
    verdict: Reason = Reason.SPARE,
    *,
    squeeze: SqueezeSection = USUAL,
    facts: HostTagsAndMovableTasks = NO_FACTS,
    rules: BalanceSection = RULES,
    figures: BalancePlanFigures = NOTHING,
) -> StandbyOrWakePlan:
    """Return the hosts that a squeeze powers off or wakes after the plan of a policy."""
    return plan_hosts_to_sleep_or_wake(seen, replace(plan(seen, add, verdict), figures=figures), rules, squeeze, facts)


THREE = HostTagsAndMovableTasks(tags={f"s{at}": AUTO for at in range(3)})
LEAVING = replace(cell((), (), ()), nodes=(*cell((), (), ()).nodes, node("n9", state="draining")))
AT_LEAST_3, AT_MOST_2 = replace(NOTHING, most=20, least=3), replace(NOTHING, most=2, least=0)
MEMORY = SqueezeSection(standard_request=QueueDefaultRequests(h_vmem="2G"))
ANY_HOST = SqueezeSection(restriction=StandbyNodeSelection.ALL)
FULL, PLENTY = SqueezeCause.FULL, SqueezeCause.PLENTY
IDLE, TWO = cell((), (), ()), BalanceSection(max_nodes=2, min_nodes=1)
RESERVED = situation(instance("n0", (1,)), instance("n1", (1,), promised=1), nodes=(node("n0"), node("n1")))
WITH_MASTER = situation(*map(instance, ("n1", MASTER)), nodes=map(node, ("n1", MASTER)))
SQUEEZES: dict[str, tuple[StandbyOrWakePlan, SqueezeCause, str]] = {
    "no more are woken than there may be": (squeezed(cell((4,), (4,), sleeping=3), facts=THREE, rules=TWO), FULL, ""),
    "the reserve wakes no more than the schedule allows": (
        *(squeezed(cell((4,), sleeping=3), verdict=Reason.NO_NEED, facts=THREE, figures=AT_MOST_2), FULL, ""),
    ),
    "no more rest than the schedule allows": (squeezed(IDLE, figures=AT_LEAST_3), PLENTY, "n2"),
    "hosts that go down are not among the least": (squeezed(LEAVING, figures=AT_LEAST_3), PLENTY, "n2"),
    "a standard request may ask for memory": (squeezed(cell((), ()), squeeze=MEMORY), PLENTY, "n1"),
    "a host with reserved slots is not powered off": (squeezed(RESERVED, squeeze=ANY_HOST), PLENTY, "n0"),
    "the master is never powered off": (squeezed(WITH_MASTER, squeeze=ANY_HOST), PLENTY, "n1"),
    "no maximum": (squeezed(IDLE, verdict=Reason.NO_MAXIMUM), SqueezeCause.NO_MAXIMUM, ""),
    "too many hosts are silent": (squeezed(IDLE, verdict=Reason.UNREADY), SqueezeCause.UNREADY, ""),
    **{
        f"the policy removes none: {verdict.value}": (
            *(squeezed(cell((1,), (), ()), verdict=verdict, squeeze=ANY_HOST), SqueezeCause.BETWEEN, ""),
        )
        for verdict in (Reason.WAITS, Reason.NOT_YET, Reason.NOT_STABLE)
    },
}


@cases(("found", "cause", "off"), SQUEEZES)
def test_the_cause_of_a_squeeze_plan_and_the_host_powered_off(
    found: StandbyOrWakePlan, cause: SqueezeCause, off: str
) -> None:
    assert (found.cause, found.off, found.on) == (cause, tuple(off.split()), ())
    assert bool(standby_and_wake_steps_of_plan(found)) == bool(off)


@pytest.mark.parametrize(
    ("running", "off"),
    [
        pytest.param(((), (), ()), ("n1", "n2"), id="highest index first, and one works on"),
        pytest.param(((), (1,), ()), ("n0", "n2"), id="idle ones beside a busy one"),
        pytest.param(((4,), (2,), ()), (), id="less than the target would remain"),
        pytest.param(((1,), (1,), (), ()), ("n2", "n3"), id="as long as the target remains"),
        pytest.param(((1,), (1,), (1,)), (), id="busy ones never rest by default"),
    ],
)
def test_idle_hosts_are_powered_off_while_the_target_reserve_remains(
    running: tuple[tuple[int, ...], ...], off: tuple[str, ...]
) -> None:
    seen = cell(*running)
    found = squeezed(seen)

    assert (found.off, found.on) == (off, ())


def test_hosts_with_the_fewest_tasks_are_powered_off_first_then_the_last_listed() -> None:
    seen = cell((2,), (1, 1), (1, 1))
    found = squeezed(seen, squeeze=ANY_HOST)

    assert found.off == ("n2", "n0")


def test_the_required_reserve_is_rounded_down() -> None:
    reserve = StartableStandardRequestCount(SqueezeSection())
    for requests in (1, 1, 2):
        reserve.add_hosts(requests)

    assert (reserve.is_enough(1.5), reserve.is_enough(1.7)) == (True, False)


@pytest.mark.parametrize(
    ("tags", "on"),
    [
        pytest.param({"s0": AUTO, "s1": AUTO}, ("s0",), id="as they come"),
        pytest.param({"s0": AUTO, "s1": ("htools:standby:2",)}, ("s1",), id="an order before auto"),
        pytest.param({"s0": ("htools:standby:10",), "s1": ("htools:standby:9",)}, ("s1",), id="as numbers"),
        pytest.param({"s1": ("htools:standby:b",)}, ("s1",), id="only those with a tag"),
        pytest.param({"s0": ("other",)}, (), id="no other tag"),
    ],
)
def test_hosts_are_woken_in_the_order_of_their_tags(tags: dict[str, tuple[str, ...]], on: tuple[str, ...]) -> None:
    seen = cell((4,), (4,), sleeping=2)
    found = squeezed(seen, verdict=Reason.NO_NEED, facts=HostTagsAndMovableTasks(tags=tags))

    assert (found.off, found.on) == ((), on)
    assert found.cause is (SqueezeCause.LACKING if on else SqueezeCause.NO_STANDBY)
    assert found.untagged == (() if on else ("s0", "s1"))


def test_waiting_tasks_wake_as_many_hosts_as_the_policy_adds() -> None:
    seen = cell((), (), sleeping=3)
    facts = HostTagsAndMovableTasks(tags={f"s{at}": AUTO for at in range(3)})
    found = squeezed(seen, add=2, verdict=Reason.MORE_WANTED, facts=facts)

    assert (found.cause, found.off, found.on) == (SqueezeCause.ASKED, (), ("s0", "s1"))


@pytest.mark.parametrize(
    ("restriction", "movable", "off"),
    [
        (StandbyNodeSelection.IDLE, {"n2": (1,)}, ()),
        (StandbyNodeSelection.RERUNNABLE, {}, ()),
        (StandbyNodeSelection.RERUNNABLE, {"n2": (1,)}, ("n2",)),
        (StandbyNodeSelection.ALL, {}, ("n1", "n2")),
    ],
)
def test_the_restriction_decides_which_hosts_may_be_powered_off(
    restriction: StandbyNodeSelection, movable: dict[str, tuple[int, ...]], off: tuple[str, ...]
) -> None:
    seen = cell((1, 1), (1, 1), (1,))
    squeeze = SqueezeSection(restriction=restriction, target_reserve=1.0)
    facts = HostTagsAndMovableTasks(movable={name: shapes(some) for name, some in movable.items()})
    found = squeezed(seen, verdict=Reason.NO_NEED, squeeze=squeeze, facts=facts)

    assert found.off == off
    assert [one.source for one in found.moved] == (["n2"] if movable and off else [])


MOVES = SqueezeSection(restriction=StandbyNodeSelection.RERUNNABLE, target_reserve=1.0)


def with_memory(left: str, **asks: str) -> tuple[BalanceSituation, HostTagsAndMovableTasks]:
    """Return n0 with the given free memory and room for one task, and n1 with one reschedulable task."""
    known = demand_cells.cell(
        instance("n0", (1, 1)),
        instance("n1", (1,)),
        nodes=(node("n0"), node("n1")),
        left={"mfree": left} if left else None,
    )
    return known, HostTagsAndMovableTasks(movable={"n1": (TaskResourceRequests(requests=tuple(asks.items())),)})


@pytest.mark.parametrize(
    ("left", "asks", "off"),
    [
        ("8G", {"mfree": "4G"}, ("n1",)),
        ("8G", {"mfree": "9G"}, ()),
        ("", {"mfree": "4G"}, ()),
        ("8G", {"arch": "lx-amd64"}, ("n1",)),
        ("8G", {"arch": "other"}, ()),
        ("8G", {"nobody_knows": "1"}, ()),
    ],
    ids=["fits", "too much", "not told", "value", "another", "unknown"],
)
def test_a_task_moves_only_to_a_host_with_its_resources(left: str, asks: dict[str, str], off: tuple[str, ...]) -> None:
    seen, facts = with_memory(left, **asks)
    found = squeezed(seen, verdict=Reason.NO_NEED, squeeze=MOVES, facts=facts)
    told = "tasks on n1 have no room on other hosts"

    assert (found.off, found.bound) == (off, () if off else ("n1",))
    assert (told in describe_standby_or_wake_plan(found)) == (not off)


def test_resources_of_moved_tasks_do_not_count_as_reserve() -> None:
    """A standard request of 4 GB fits beside a moved task of 4 GB, but not beside a task of 5 GB."""
    asks = QueueDefaultRequests(mfree="4G")
    squeeze = replace(MOVES, standard_request=asks)
    offs = []
    for amount in ("4G", "5G"):
        seen, facts = with_memory("8G", mfree=amount)
        found = squeezed(seen, verdict=Reason.NO_NEED, squeeze=squeeze, facts=facts)
        offs.append((found.off, found.bound))

    assert offs == [(("n1",), ()), ((), ())]


def test_with_on_each_every_working_host_needs_its_own_reserve() -> None:
    seen = cell((4,), (), ())

    assert squeezed(seen, squeeze=SqueezeSection(on_each=True)).cause is SqueezeCause.NO_STANDBY


def test_only_a_host_without_a_standby_tag_gets_the_automatic_tag() -> None:
    seen = cell((), (), ())
    facts = HostTagsAndMovableTasks(tags={"n1": ("htools:standby:3",)})

    done = standby_and_wake_steps_of_plan(squeezed(seen, facts=facts), facts)

    assert [(one.host, one.doing) for one in done] == [
        ("n1", Step.DRAIN),
        ("n1", Step.STOP),
        ("n2", Step.DRAIN),
        ("n2", Step.TAG),
        ("n2", Step.STOP),
    ]


def test_a_woken_host_loses_only_the_automatic_tag() -> None:
    seen = cell((4,), sleeping=2)
    facts = HostTagsAndMovableTasks(tags={"s0": AUTO, "s1": ("htools:standby:1", STANDBY_AUTO)})

    done = standby_and_wake_steps_of_plan(squeezed(seen, squeeze=SqueezeSection(minimal_reserve=2), facts=facts), facts)

    assert [(one.host, one.doing, one.tag) for one in done] == [
        ("s1", Step.START, ""),
        ("s1", Step.OPEN, ""),
        ("s1", Step.UNTAG, STANDBY_AUTO),
    ]


def test_the_sentence_about_a_squeeze_states_the_figures() -> None:
    seen = cell((1,), (1,), (), ())

    assert describe_standby_or_wake_plan(squeezed(seen)) == (
        "14 standard requests could start on 4 hosts"
        " (hosts are woken below 1 per host, and powered off above 2):"
        " n2, n3 can be powered off"
    )


TASKS = st.lists(st.integers(1, 2), max_size=2).map(tuple)
CELLS = st.lists(TASKS, min_size=1, max_size=6)


@given(
    running=CELLS,
    sleeping=st.integers(0, 3),
    least=st.floats(0, 2),
    more=st.floats(0, 2),
    restriction=st.sampled_from(StandbyNodeSelection),
    bounds=st.tuples(st.integers(0, 4), st.integers(1, 8)),
    kept=st.sets(st.integers(0, 5)),
)
def test_every_squeeze_keeps_the_reserve_and_the_limits_and_loses_no_task(
    running: list[tuple[int, ...]],
    sleeping: int,
    least: float,
    more: float,
    restriction: StandbyNodeSelection,
    bounds: tuple[int, int],
    kept: set[int],
) -> None:
    seen = cell(*running, sleeping=sleeping, kept=tuple(kept))
    facts = HostTagsAndMovableTasks(
        tags={f"s{at}": AUTO for at in range(sleeping)},
        movable={f"n{at}": shapes(some) for at, some in enumerate(running)},
    )
    rules = BalanceSection(min_nodes=min(bounds), max_nodes=max(bounds))
    squeeze = SqueezeSection(minimal_reserve=least, target_reserve=least + more, restriction=restriction)
    found = squeezed(seen, squeeze=squeeze, facts=facts, rules=rules)

    count = 1 + len(running)  # with the master
    assert not (found.off and found.on)
    assert MASTER not in found.off
    assert not set(found.off) & {f"n{at}" for at in kept}
    assert not found.off or count - len(found.off) >= rules.min_nodes
    assert not found.on or count + len(found.on) <= rules.max_nodes
    left = {f"n{at}": 4 - sum(some) for at, some in enumerate(running) if f"n{at}" not in found.off}
    for one in found.moved:
        assert one.source in found.off
        left[one.target] -= one.slots
    assert min(left.values(), default=0) >= 0
    tasks = sorted(one.slots for name in found.off for one in facts.movable[name])
    assert sorted(one.slots for one in found.moved) == tasks
    if found.off:
        assert sum(left.values()) >= int(squeeze.target_reserve * len(left))


@given(running=CELLS, least=st.floats(0, 2), more=st.floats(0, 2))
def test_a_second_squeeze_changes_nothing(running: list[tuple[int, ...]], least: float, more: float) -> None:
    seen = cell(*running)
    squeeze = SqueezeSection(minimal_reserve=least, target_reserve=least + more)
    found = squeezed(seen, squeeze=squeeze)
    after = situation(
        *(one for one in seen.cell.instances if one.host not in found.off),
        nodes=(
            ElasticNode(name=one.name, state=ElasticNodeState.STANDBY) if one.name in found.off else one
            for one in seen.nodes
        ),
    )
    facts = HostTagsAndMovableTasks(tags=dict.fromkeys(found.off, AUTO))

    again = plan_hosts_to_sleep_or_wake(after, plan(after), RULES, squeeze, facts)

    assert again.off == ()
    if found.off:
        assert again.on == ()
        assert StartableStandardRequestCount(squeeze, find_hosts_accepting_tasks(after, RULES, facts)).is_enough(least)
        assert len(wakeable_standby_nodes(after.nodes, facts)) == len(found.off)


@pytest.mark.parametrize(
    ("given_back", "off", "last"),
    [((), ("n1",), ""), ((0,), (), ""), ((0, 1), (), "n1")],
    ids=["both are the site's own", "one is a pool's", "both are a pool's"],
)
def test_one_host_keeps_working_if_all_other_hosts_are_removed_in_the_same_round(
    given_back: tuple[int, ...], off: tuple[str, ...], last: str
) -> None:
    """Nodes that the policy removes do not count as reserve."""
    seen = cell((), (), kept=given_back)
    squeeze = SqueezeSection(minimal_reserve=0, target_reserve=0)
    found = squeezed(seen, squeeze=squeeze, rules=replace(RULES, min_nodes=0))

    assert (found.off, found.last) == (off, last)


def test_the_last_working_host_is_not_removed_even_if_it_is_a_node_of_a_pool() -> None:
    seen = cell((), sleeping=2, kept=(0,))
    squeeze = SqueezeSection(minimal_reserve=0, target_reserve=0)
    given = plan(seen)
    left = drop_acts_replaced_by_squeeze(
        given, plan_hosts_to_sleep_or_wake(seen, given, replace(RULES, min_nodes=0), squeeze), {"s0", "s1"}
    )

    assert (left.remove, left.verdict) == ((), Reason.NO_NEED)
    assert [(one.host, one.cause) for one in left.refused] == [("n0", NodeAddOrRemoveRefusalCause.LAST_AT_WORK)]
