"""Policy demand: which nodes are removed, and which nodes stay."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gridbridge.decisions.elastic.balancer_round_reports import describe_balance_plan, explain_no_new_node_or_removal
from gridbridge.decisions.elastic.demand.demand_policy import plan_balance_by_demand
from gridbridge.model.elastic.balance_plan import BalancePlan, BalanceSituation
from gridbridge.model.elastic.balance_plan import BalancePlanReason as Reason
from gridbridge.model.elastic.balance_plan import NodeAddOrRemoveRefusalCause as Cause
from gridbridge.model.elastic.balancer_config_sections import BalanceSection, DemandPolicySection, NodePoolSection
from gridbridge.model.elastic.elastic_nodes import ElasticNode
from gridbridge.model.elastic.grid_engine_cell import CellQueue
from tests.decisions.elastic.cells import MASTER, ago, begun, cases, instance, node, waiting
from tests.decisions.elastic.demand_cells import FAR, LAYOUT, after, cell, full, plan

TWO = (node("n1"), node("n2"))
MIXED = {"cheap": NodePoolSection(slots=4, price=1, limit=3), "dear": NodePoolSection(slots=8, price=9, limit=2)}


def idle(*nodes: ElasticNode, **more: Any) -> BalanceSituation:
    return cell(*full(MASTER), *(instance(one.name) for one in nodes), nodes=nodes, **more)


PAID = {"paid": NodePoolSection(slots=4, price=1.0)}
LAST_HOUR = {"now": datetime(2026, 1, 31, 23, 55, tzinfo=UTC)}
REMOVED: dict[str, tuple[BalanceSituation, dict[str, Any], tuple[str, ...]]] = {
    "hosts that are not ours stay": (cell(instance("n1"), instance("n2"), nodes=[node("n1")]), {}, ("n1",)),
    "never fewer than the minimum are left": (idle(*TWO, node("n3")), {"schedule": "0-24 3-9"}, ("n1",)),
    "nothing soon after a change": (idle(*TWO, last_change=ago(2)), {}, ()),
    "a while after a change": (idle(*TWO, last_change=ago(3)), {}, ("n1", "n2")),
    "best-effort tasks keep no node": (
        *(cell(instance("n1"), instance("n1", (4,), queue="be.q"), nodes=TWO[:1]), {}, ("n1",)),
    ),
    "a unit that begins in the next month is not of this month's budget": (
        replace(idle(node("n1", 50, pool="paid"), wait=[waiting(1, tasks=4)], spent=100), **LAST_HOUR),
        *({"pools": PAID, "billing_s": 3600, "budget_month": 100.0}, ()),
    ),
}


@cases(("seen", "settings", "expected"), REMOVED)
def test_idle_nodes_are_removed_within_the_limits(
    seen: BalanceSituation, settings: dict[str, Any], expected: tuple[str, ...]
) -> None:
    assert plan(seen, **settings).remove == expected


def test_idle_nodes_are_removed_and_busy_nodes_stay() -> None:
    seen = cell(instance("n1"), instance("n2", (1,)), nodes=TWO)
    found = plan(seen)

    assert (found.remove, found.verdict) == (("n1",), Reason.SPARE)
    assert [(one.host, one.cause) for one in found.refused] == [("n2", Cause.BUSY)]


@pytest.mark.parametrize("key", ["reserved", "promised"], ids=["begun", "to come"])
def test_a_node_with_reserved_slots_is_not_removed(key: str) -> None:
    one = instance("n2")
    reserved = replace(one, reserved=1) if key == "reserved" else replace(one, promised=1)
    found = plan(cell(instance("n1"), reserved, nodes=TWO))

    assert found.remove == ("n1",)
    assert [(one.host, one.cause) for one in found.refused] == [("n2", Cause.BUSY)]


def test_only_nodes_that_waiting_tasks_need_stay() -> None:
    """A job that new nodes cannot help keeps no node."""
    nodes = (*TWO, node("n3"))

    assert plan(idle(*nodes, wait=[waiting(1, tasks=5)])).remove == ("n1",)
    assert plan(idle(*nodes, wait=[waiting(1, state="hqw")])).remove == ("n1", "n2", "n3")
    assert plan(idle(*nodes, wait=[waiting(1, queues=("gone.q",))])).remove == ("n1", "n2", "n3")


def test_a_node_without_a_listed_queue_is_not_taken_for_idle() -> None:
    """The cell lists best-effort queues, so a node with only best-effort queues is idle."""
    only_best = instance("n2", queue="be.q")
    seen = cell(instance("n1"), only_best, nodes=TWO)
    bare = replace(seen.cell, instances=(only_best,))
    found = plan(replace(seen, cell=bare))

    assert found.remove == ("n2",)
    assert [(one.host, one.cause) for one in found.refused] == [("n1", Cause.NOT_LISTED)]


def test_a_node_in_no_queue_is_removed() -> None:
    """No task can run on a node whose host group was removed from all queues."""
    rest = CellQueue(name="all.q", hosts=("@htc", "n1.example.org"))
    seen = cell(instance("n1"), instance("n2"), nodes=TWO, layout=replace(LAYOUT, queues={"all.q": rest}))
    bare = replace(seen, cell=replace(seen.cell, instances=(instance(MASTER),)))
    found = plan(bare)

    assert found.remove == ("n2",)
    assert [(one.host, one.cause) for one in found.refused] == [("n1", Cause.NOT_LISTED)]


def over_budget(minutes: float, spent: float = 0.0, most: int = 9, **budget: float) -> BalancePlan:
    """Return the plan for two idle nodes and a busy node of a paid pool, and tasks that wait for four slots."""
    own = [node(name, minutes, idle=0.1, pool="paid") for name in ("n1", "n2", "n3")]
    seen = cell(*full(MASTER), *map(instance, ("n1", "n2")), instance("n3", (1,)), nodes=own, spent=spent)
    waits = replace(seen, cell=replace(seen.cell, waiting=(waiting(1, tasks=4),)))
    rules = BalanceSection(min_nodes=4, max_nodes=most)
    return plan_balance_by_demand(waits, rules, DemandPolicySection(billing_s=3600, spare_nodes=2, **budget), PAID)


@pytest.mark.parametrize(
    ("spent", "minutes", "expected"),
    [(97, 50, ()), (97.5, 50, ("n1",)), (99.5, 50, ("n1", "n2")), (999, 50, ("n1", "n2")), (999, 40, ())],
    ids=["enough", "one too many", "none", "long ago", "paid for"],
)
def test_idle_nodes_beyond_a_month_budget_are_removed(spent: float, minutes: float, expected: tuple[str, ...]) -> None:
    """The budget overrides min_nodes, spare_nodes, the idle timeout and waiting tasks."""
    found = over_budget(minutes, spent, budget_month=100.0)

    assert (found.remove, found.add) == (expected, 0)
    assert (found.verdict is Reason.MONTH_SPENT) == bool(expected)


@pytest.mark.parametrize(
    ("budget", "minutes", "expected"),
    [(3.0, 50, ()), (2.9, 50, ("n1",)), (0.5, 50, ("n1", "n2")), (0.5, 40, ()), (0.0, 50, ())],
    ids=["enough", "one too many", "a busy one stays", "paid for", "no budget"],
)
def test_idle_nodes_beyond_an_hour_budget_are_removed(budget: float, minutes: float, expected: tuple[str, ...]) -> None:
    """The budget overrides min_nodes, spare_nodes and waiting tasks, for example when a price rises."""
    found = over_budget(minutes, most=4, budget_hour=budget)

    assert (found.remove, found.add) == (expected, 0)
    assert (found.verdict is Reason.TOO_DEAR) == bool(expected)


def test_kept_nodes_and_nodes_without_a_price_survive_a_spent_month_budget() -> None:
    kept = node("n1", 50, pool="paid", is_kept=True)
    seen = idle(kept, node("n2", 50), wait=[waiting(1, tasks=4)], spent=999)

    assert plan(seen, PAID, billing_s=3600, budget_month=100.0).remove == ()


@cases(("minutes", "expected"), {"4": (4.9, ()), "5": (5.1, ("n1",)), "unknown": (None, ("n1",))})
def test_a_node_is_removed_only_after_the_idle_timeout(minutes: float | None, expected: tuple[str, ...]) -> None:
    assert expected == plan(idle(node("n1", idle=minutes))).remove


@pytest.mark.parametrize(
    ("minutes", "expected"), [(44.9, ()), (45, ("n1",)), (59.9, ("n1",)), (60, ()), (104.9, ()), (105, ("n1",))]
)
def test_an_hourly_billed_node_is_removed_in_the_last_quarter_hour(minutes: float, expected: tuple[str, ...]) -> None:
    assert expected == plan(idle(node("n1", minutes)), billing_s=3600).remove


@pytest.mark.parametrize(
    ("kept", "cause", "sentence"),
    [
        (node("n1", is_kept=True), Cause.KEPT, ""),
        (node("n1", state="draining"), Cause.NOT_READY, "the node is draining, not ready"),
        (node("n1", None), Cause.UPTIME_UNKNOWN, ""),
        (node("n1", 2), Cause.IDLE_BRIEFLY, ""),
        (node(MASTER), Cause.MASTER, ""),
        (node("n9"), Cause.NOT_LISTED, ""),
    ],
    ids=["kept", "draining", "unknown", "idle", "master", "not listed"],
)
def test_some_nodes_are_never_removed_and_the_refusal_says_why(kept: ElasticNode, cause: Cause, sentence: str) -> None:
    found = plan(cell(instance(MASTER), instance("n1"), nodes=[kept]))

    (refusal,) = found.refused
    assert (found.remove, refusal.host, refusal.cause) == ((), kept.name, cause)
    assert sentence in explain_no_new_node_or_removal(refusal, BalanceSection())


def test_idle_nodes_above_the_scheduled_maximum_are_removed() -> None:
    nodes = [node(f"n{number}", 10, idle=0, pool="plain") for number in range(1, 6)]
    busy = [instance(MASTER, (4,)), *(instance(name, (4,)) for name in ("n1", "n2"))]
    free = [instance(name) for name in ("n3", "n4", "n5")]
    seen = cell(*busy, *free, wait=[waiting(9, tasks=12)], nodes=nodes)
    night, day = plan(seen, schedule="0-24 0-4"), plan(seen, schedule="0-24 0-9")

    assert (night.verdict, night.remove) == (Reason.ABOVE_MAXIMUM, ("n3", "n4"))
    assert day.remove == plan(seen, schedule="0-24 0-4", billing_s=3600.0).remove == ()
    assert {one.host for one in night.refused} == {"n1", "n2", "n5"}


@pytest.mark.parametrize("state", ["draining", "removing"])
def test_leaving_nodes_do_not_count_towards_the_minimum_or_maximum(state: str) -> None:
    """A drained node may still run a task for hours."""
    leaving = [node(name, state=state) for name in ("a", "b")]
    seen = idle(*leaving, *TWO, node("n3"), wait=[waiting(9, tasks=12)])
    quiet = replace(seen, cell=replace(seen.cell, waiting=()))

    assert plan(quiet, schedule="0-24 3-9").remove == ("n1",)
    assert plan(quiet, schedule="0-24 4-9").remove == ()
    assert plan(seen, schedule="0-24 0-3").remove == ("n1",)
    assert plan(seen, schedule="0-24 0-4").remove == ()


@pytest.mark.parametrize(("spare", "expected"), [(0, 3), (1, 2), (4, 2), (5, 1), (9, 0)])
def test_configured_spare_slots_and_nodes_are_not_removed(spare: int, expected: int) -> None:
    seen = idle(*TWO, node("n3"))

    assert expected == len(plan(seen, spare_slots=spare).remove)
    assert len(plan(seen, spare_nodes=2).remove) == 1


def test_silent_then_expensive_nodes_are_removed_first() -> None:
    nodes = [
        node("a", 50, pool="cheap"),
        node("b", 58, pool="cheap"),
        node("c", 50, pool="dear"),
        node("d", 50, pool="cheap"),
        node("e", 50, pool="other"),
    ]
    hosts = [instance(one.name, state="au" if one.name == "e" else "") for one in nodes]
    pools = {"cheap": NodePoolSection(slots=4, price=1), "dear": NodePoolSection(slots=4, price=9)}
    seen = cell(instance(MASTER), *hosts, nodes=nodes)

    assert plan(seen, pools, billing_s=3600).remove == ("e", "c", "b", "a", "d")


def test_nodes_of_the_least_busy_pool_are_removed_first() -> None:
    nodes = [node("a1", pool="a"), node("a2", pool="a"), node("b1", pool="b")]
    pools = {"a": NodePoolSection(slots=4), "b": NodePoolSection(slots=4)}
    seen = cell(instance("a1"), instance("a2", (1,)), instance("b1"), nodes=nodes)

    assert plan(seen, pools, most=2).remove == ("b1", "a1")


def test_at_max_nodes_an_idle_node_is_removed_to_make_room_for_a_node_that_waiting_tasks_can_use() -> None:
    seen = idle(*TWO, wait=[waiting(9, gpu="1")])
    pools = {"gpus": NodePoolSection(slots=4, resources={"gpu": "2"})}  # type: ignore[arg-type]
    found = plan(seen, pools, most=3)

    assert (found.add, found.remove) == (0, ("n1", "n2"))
    assert plan(after(seen, found), pools, most=3).add == 1


FULL = cell(*full(MASTER), wait=[waiting(1)])
ENDS_SOON = cell(instance(MASTER, (4,), begun=[begun(20)]), wait=[waiting(9)], runtimes={("alice", "job"): 1200.0})


@pytest.mark.parametrize(
    ("seen", "demand", "told"),
    [
        (
            cell(*full(MASTER), wait=[waiting(18, tasks=9)]),
            {},
            "9 tasks wait 18 min, 0 fit in 0 free slots, 1 of 10 nodes exists: add 3 of pool p at 2 an hour each",
        ),
        (
            cell(instance(MASTER), wait=[waiting(18)]),
            {},
            "1 task waits, 1 fits in 4 free slots, 1 of 10 nodes exists: ",
        ),
        (
            cell(instance("n1"), nodes=TWO[:1]),
            {},
            "no task waits, 1 node is idle and not needed, 2 of 10 nodes exist: remove n1",
        ),
        (FULL, {"wait_s": 90}, "1 task waits 60 s, less than 90 s, 0 fit in 0 free slots: "),
        (
            cell(*full(MASTER), FAR, wait=[waiting(1)], elsewhere={"far": 60.0}),
            {},
            "1 task waits 60 s, 0 fit in 0 free slots, queue far would start the other tasks in 60 s,"
            " a new node in 5 min: ",
        ),
        (
            ENDS_SOON,
            {"target_wait_s": 60},
            "1 task waits 9 min, without a new node all tasks end in 5 min, within 60 s plus a boot time of 5 min: ",
        ),
        (
            cell(instance(MASTER)),
            {"schedule": "12-13 3-9"},
            "1 of at least 3 nodes exists: add 2 of pool p at 2 an hour each",
        ),
        (FULL, {"schedule": "12-13 0-1"}, "1 of at most 1 node exists: "),
        (replace(FULL, last_change=ago(1)), {"grow_pause_s": 90}, "the last change was 60 s ago, less than 90 s: "),
    ],
    ids=["grow", "fits", "shrink", "not yet", "elsewhere", "soon", "hour's least", "hour's most", "pause"],
)
def test_the_round_sentence_states_the_figures(seen: BalanceSituation, demand: dict[str, float], told: str) -> None:
    told += "no node is added or removed" * told.endswith(": ")
    rules, own = BalanceSection(max_nodes=10), DemandPolicySection(**demand)  # type: ignore[arg-type]
    found = plan(seen, {"p": NodePoolSection(slots=4, price=2)}, 10, **demand)

    assert told == describe_balance_plan(found, rules, own)


HOSTS = some.lists(
    some.tuples(
        some.integers(0, 4),
        some.integers(0, 130),
        some.sampled_from(["", "", "au", "d"]),
        some.sampled_from(["", "cheap", "dear"]),
        some.sampled_from(["ready", "ready", "booting", "draining"]),
    ),
    max_size=6,
)
WAITS = some.lists(
    some.tuples(
        some.integers(0, 90),
        some.integers(1, 40),
        some.sampled_from([("", 1), ("smp", 3), ("smp", 8), ("fill", 10), ("pairs", 6)]),
        some.booleans(),
    ),
    max_size=4,
)

ROUNDS = len(MIXED) + 2 * 3  # one for each pool; at the maximum each old node makes way for another


def drawn(hosts: list[tuple[int, int, str, str, str]], waits: list[Any]) -> BalanceSituation:
    """Return a cell with the drawn hosts and jobs; every second host is not a node of the balancer."""
    names = [f"n{place}" for place in range(len(hosts))]
    known = list(zip(names, hosts, strict=True))
    return cell(
        instance(MASTER),
        *(instance(name, (1,) * one[0], state=one[2]) for name, one in known if one[4] != "booting"),
        wait=[
            waiting(minutes, tasks=tasks, pe=pe, slots=slots, **({"exclusive": "1"} if alone else {}))
            for minutes, tasks, (pe, slots), alone in waits
        ],
        nodes=[replace(node(name, one[1], one[4], pool=one[3]), since=ago(1)) for name, one in known[::2]],
    )


@given(HOSTS, WAITS, some.integers(1, 12), some.integers(0, 6), some.integers(0, 9))
def test_in_every_cell_limits_hold_and_no_used_node_is_removed(
    hosts: list[tuple[int, int, str, str, str]], waits: list[Any], most: int, spare: int, least: int
) -> None:
    seen = drawn(hosts, waits)
    least = min(least, most)
    options: dict[str, Any] = {"schedule": f"0-24 {least}-{most}", "spare_slots": spare, "max_booting": 50}
    found = plan(seen, MIXED, most, **options)
    own = {one.name for one in seen.nodes}
    busy = {one.host for one in seen.cell.instances if one.running}

    assert not (found.add and found.remove)
    assert not found.add or found.figures.nodes + found.add <= most
    assert not found.remove or found.figures.nodes - len(found.remove) >= least
    assert own.issuperset(found.remove)
    assert busy.isdisjoint(found.remove)
    assert found == plan(seen, MIXED, most, **options)
    now = found
    for _ in range(ROUNDS):
        seen = after(seen, now)
        now = plan(seen, MIXED, most, **options)
    assert not now.add
    assert sum(one.pool == "cheap" for one in seen.nodes) <= max(3, sum(one[3] == "cheap" for one in hosts))
