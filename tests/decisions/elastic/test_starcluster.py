"""The rules of StarCluster's load balancer without its known errors."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gridbridge.decisions.elastic.balancer_round_reports import describe_balance_plan
from gridbridge.decisions.elastic.starcluster_policy import plan_balance_by_starcluster
from gridbridge.model.elastic.balance_plan import BalancePlan, BalanceSituation
from gridbridge.model.elastic.balance_plan import BalancePlanReason as Reason
from gridbridge.model.elastic.balance_plan import NodeAddOrRemoveRefusalCause as Cause
from gridbridge.model.elastic.balancer_config_sections import BalanceSection
from gridbridge.model.elastic.grid_engine_cell import CellConfiguration, CellExecutionHost, CellQueue
from tests.decisions.elastic.cells import MASTER, ago, cases, cluster, instance, node, situation, waiting

DAY_MIN = 24 * 60
RULES = BalanceSection(max_nodes=10)
FULL = {MASTER: (4,), "n1": (4,)}
ONE = {"n1": node("n1")}


def decided(seen: BalanceSituation) -> BalancePlan:
    """Return the plan of a round by the corrected rules."""
    return plan_balance_by_starcluster(seen, RULES)


def starcluster_plan(seen: BalanceSituation, **rules: Any) -> BalancePlan:
    """Return the plan of a round with StarCluster's own counting errors."""
    return plan_balance_by_starcluster(seen, replace(RULES, **rules), is_faithful=True)


def add(seen: BalanceSituation, **rules: Any) -> int:
    return plan_balance_by_starcluster(seen, replace(RULES, **rules)).add


def removed(seen: BalanceSituation, **rules: Any) -> tuple[str, ...]:
    return plan_balance_by_starcluster(seen, replace(RULES, **rules)).remove


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [(16, 1), (15, 0), (14, 0), (DAY_MIN + 1, 1), (3 * DAY_MIN + 16, 1)],
    ids=["longer", "just", "not yet", "more than a day", "days"],
)
def test_a_node_is_added_when_a_job_has_waited_more_than_15_minutes(minutes: float, expected: int) -> None:
    assert expected == add(cluster(ONE, FULL, [waiting(minutes)]))


def test_the_time_on_hold_does_not_count_as_waiting_time() -> None:
    """StarCluster counts the time on hold."""
    seen = replace(cluster(ONE, FULL, [waiting(60, tasks=4)]), eligible_since={7: ago(1)})

    assert (add(seen), starcluster_plan(seen).add) == (0, 1)
    assert add(replace(seen, eligible_since={7: ago(16)})) == 1


@pytest.mark.parametrize("is_faithful", [False, True])
def test_no_node_is_added_for_tasks_that_fit_in_free_slots(is_faithful: bool) -> None:
    fits, exceeds = (cluster(ONE, {MASTER: (4,)}, [waiting(60, tasks=n)]) for n in (4, 5))

    assert plan_balance_by_starcluster(fits, RULES, is_faithful=is_faithful).add == 0
    assert plan_balance_by_starcluster(exceeds, RULES, is_faithful=is_faithful).add == 1


OF_FOUR = [waiting(60, tasks=4)]
OTHERS = (instance(MASTER, (4,)), instance("n1"), instance("n1", (4,), queue="other.q"))
COMING = tuple({**ONE, "n2": node("n2", 0, "booting"), "n3": node("n3", 0, "requested")}.values())
FAR = instance("far", (1,) * 9, queue="transfer-beta", slots=50)
AT_ONCE = {"add_nodes_per_iteration": 9}
NUMBERS = {
    "a day's wait": (cluster(ONE, FULL, [waiting(DAY_MIN + 1, tasks=4)]), {}, 1, 0),
    "a day's pause": (cluster(ONE, FULL, OF_FOUR, DAY_MIN + 1), {}, 1, 0),
    "the first of the list is young": (cluster(ONE, FULL, [waiting(1, jobs=(9,), tasks=4), *OF_FOUR]), {}, 1, 0),
    "another queue's jobs": (situation(*OTHERS, wait=OF_FOUR, nodes=ONE.values()), {}, 0, 1),
    "a part of a node is a whole one": (cluster(ONE, FULL, [waiting(60, tasks=9)]), AT_ONCE, 3, 2),
    "the oldest job is not the first": (cluster(ONE, FULL, [waiting(1, oldest=20, jobs=(9, 7), tasks=2)]), {}, 1, 0),
    "nodes on their way count towards the maximum": (
        replace(cluster(ONE, FULL, [waiting(60, tasks=99)]), nodes=COMING),
        *({**AT_ONCE, "max_nodes": 5}, 1, 3),
    ),
    "each task counts with its slots": (cluster(ONE, FULL, [waiting(60, tasks=6, slots=2)]), AT_ONCE, 3, 3),
    "jobs that request other queues": (cluster(ONE, FULL, [waiting(60, queues=("long.q@@big", "far"))]), {}, 0, 0),
    "jobs that request this queue, too": (cluster(ONE, FULL, [waiting(60, queues=("long.q", "all.*@n1"))]), {}, 1, 0),
    "jobs in another queue use none of its slots": (situation(instance(MASTER), FAR, wait=[waiting(60)]), {}, 0, 0),
    "no maximum": (cluster(ONE, FULL, [waiting(60, tasks=99)]), {"max_nodes": 0}, 0, 0),
    **{
        f"a host in state {state} takes no work": (
            situation(instance(MASTER, (4,)), instance("n1", state=state), wait=[waiting(60)], nodes=ONE.values()),
            *({}, 1, 0),
        )
        for state in ("au", "d", "E", "adu", "s")
    },
}


@cases(("seen", "rules", "right", "its_own"), NUMBERS)
def test_the_faithful_rules_repeat_the_counting_errors_of_starcluster(
    seen: BalanceSituation, rules: dict[str, int], right: int, its_own: int
) -> None:
    assert (right, its_own) == (add(seen, **rules), starcluster_plan(seen, **rules).add)


@pytest.mark.parametrize(
    ("job", "why"),
    [
        ({"state": "hqw"}, Cause.HELD),
        ({"state": "Eqw"}, Cause.ERROR),
        ({"state": "dqw"}, Cause.DELETED),
        ({"gb_besteffort": "TRUE"}, Cause.BEST_EFFORT),
        ({"is_campaign": True}, Cause.CAMPAIGN),
    ],
)
def test_no_node_is_added_for_jobs_that_no_node_would_help_and_the_refusal_says_why(
    job: dict[str, Any], why: Cause
) -> None:
    plan = decided(cluster(ONE, FULL, [waiting(60, tasks=40, jobs=(3, 4), **job)]))

    assert (plan.add, plan.figures.wanted) == (0, 0)
    assert [(3, why), (4, why)] == [(refusal.job, refusal.cause) for refusal in plan.refused if refusal.job]


@pytest.mark.parametrize(("asked", "expected"), [("long.q", 0), ("long.q|all.*", 1), ("!all.q", 0), ("!(a.q|b.q)", 1)])
def test_a_qname_request_counts_as_a_queue_request(asked: str, expected: int) -> None:
    plan = decided(cluster(ONE, FULL, [waiting(60, qname=asked)]))

    assert plan.add == expected
    refused = [one.cause for one in plan.refused if one.job]
    assert refused == ([] if expected else [Cause.OTHER_QUEUE])


def test_more_than_three_silent_hosts_stop_the_balancer() -> None:
    """StarCluster counts the slots of silent hosts as free."""
    silent = [instance(f"n{number}", state="au") for number in range(1, 5)]
    few, many = (situation(instance(MASTER, (4,)), *silent[:number], wait=[waiting(60)]) for number in (3, 4))
    idle = replace(many, nodes=(node("n1"),), cell=replace(many.cell, waiting=()))

    assert add(few) == 1
    assert (decided(many).verdict, add(many)) == (Reason.UNREADY, 0)
    assert (decided(idle).verdict, removed(idle)) == (Reason.UNREADY, ())
    assert starcluster_plan(many).verdict is Reason.FITS


def test_hosts_may_have_different_numbers_of_slots() -> None:
    """StarCluster stops at such a cell. A new node gets the most frequent number of slots."""
    seen = situation(
        *(instance(MASTER, (2,), slots=2), instance("n1", (8,), slots=8)),
        *(instance("n2", (8,), slots=8), instance("n3", (4,), slots=4)),
        wait=[waiting(60, tasks=17)],
    )
    faithful = starcluster_plan(seen)

    assert add(seen, add_nodes_per_iteration=9) == 3
    assert (faithful.verdict, faithful.add) == (Reason.SEVERAL_SLOT_COUNTS, 0)


@pytest.mark.parametrize(("tasks", "expected"), [(8, 0), (9, 1), (12, 1), (13, 2)])
def test_booting_and_joining_nodes_are_subtracted_from_the_needed_nodes(tasks: int, expected: int) -> None:
    """Two nodes of four slots are arriving; StarCluster waits until nodes are up."""
    nodes = {**ONE, "n2": node("n2", 0, "booting"), "n3": node("n3", 0, "joining")}
    seen = replace(cluster(ONE, FULL, [waiting(60, tasks=tasks)]), nodes=tuple(nodes.values()))

    assert expected == add(seen, add_nodes_per_iteration=9)


@pytest.mark.parametrize(("most", "expected"), [(2, 0), (3, 1), (9, 4)])
def test_no_round_adds_more_nodes_than_max_nodes_and_the_limit_of_a_round_allow(most: int, expected: int) -> None:
    seen = cluster(ONE, FULL, [waiting(60, tasks=99)])

    assert expected == add(seen, max_nodes=most, add_nodes_per_iteration=4)


@pytest.mark.parametrize(("changed", "expected"), [(2, 0), (3, 1), (DAY_MIN + 1, 1)])
def test_no_node_is_added_during_the_pause_after_a_change_of_nodes(changed: float, expected: int) -> None:
    assert expected == add(cluster(ONE, FULL, [waiting(60)], changed))


def test_a_cluster_below_min_nodes_grows_without_any_job() -> None:
    assert add(cluster(ONE), min_nodes=5, add_nodes_per_iteration=2) == 2


def test_a_cluster_without_slots_gets_one_node_at_once() -> None:
    nothing = situation(wait=[waiting(0)], changed=0)
    coming = replace(nothing, nodes=(node("n1", 0, "booting"),))

    assert (add(nothing), add(coming)) == (1, 0)
    assert add(nothing, add_nodes_per_iteration=9) == 1


@pytest.mark.parametrize(
    ("minutes", "expected"), [(44, ()), (45, ("n1",)), (59, ("n1",)), (60, ()), (104, ()), (105, ("n1",))]
)
def test_an_idle_node_is_removed_late_in_each_paid_hour(minutes: float, expected: tuple[str, ...]) -> None:
    assert expected == removed(cluster({"n1": node("n1", minutes)}))


def test_no_node_is_removed_while_a_job_waits() -> None:
    assert removed(cluster(ONE, wait=[waiting(1)])) == ()
    assert removed(cluster(ONE, wait=[waiting(1, state="hqw")])) == ("n1",)


def test_leaving_nodes_do_not_count_towards_min_nodes() -> None:
    nodes = {"n1": node("n1"), "n2": node("n2", state="draining"), "n3": node("n3")}
    rules = replace(RULES, min_nodes=3)
    plan = plan_balance_by_starcluster(cluster(nodes), rules)

    assert (plan.remove, plan.verdict) == ((), Reason.AT_MINIMUM)
    assert describe_balance_plan(plan, rules) == (
        "no job waits, 3 of at least 3 nodes stay, 1 more node is leaving: no node is added or removed"
    )
    assert removed(cluster(nodes), min_nodes=2) == ("n1",)
    assert plan_balance_by_starcluster(cluster(nodes), rules, is_faithful=True).remove == ()


def test_the_master_and_hosts_that_are_not_nodes_stay() -> None:
    seen = cluster({"n1": node("n1"), "n2": node("n2")})
    own = replace(seen, nodes=(node(MASTER), node("n1")))

    assert decided(own).remove == ("n1",)


THREE = {name: node(name) for name in ("n1", "n2", "n3")}
BARE = replace(cluster(ONE).cell, hosts=(*cluster(ONE).cell.hosts, CellExecutionHost(name="bare")))
WITH_DOMAIN = situation(instance("master.site"), instance("n1.site", (1,)), nodes=ONE.values(), hosts=())
REMOVALS: dict[str, tuple[BalanceSituation, dict[str, int], tuple[str, ...], dict[str, Cause]]] = {
    "beside a busy node": (cluster(THREE, {"n2": (1,)}), {}, ("n1", "n3"), {"n2": Cause.BUSY}),
    "to the minimum": (cluster(THREE), {"min_nodes": 3}, ("n1",), dict.fromkeys(("n2", "n3"), Cause.AT_MINIMUM)),
    "without a maximum": (cluster(ONE), {"max_nodes": 0}, (), {}),
    "a host name with a domain": (WITH_DOMAIN, {}, (), {"n1": Cause.BUSY}),
    "another domain": (replace(WITH_DOMAIN, nodes=(node("n1.other"),)), {}, (), {"n1.other": Cause.NOT_LISTED}),
    **{
        name: (replace(cluster(ONE), cell=BARE, nodes=(kept,)), {}, (), {kept.name: why})
        for name, kept, why in (
            ("draining", node("n1", 50, "draining"), Cause.NOT_READY),
            ("joining", node("n1", 50, "joining"), Cause.NOT_READY),
            ("unknown uptime", node("n1", None), Cause.UPTIME_UNKNOWN),
            ("not listed", node("n9"), Cause.NOT_LISTED),
            ("in no queue", node("bare"), Cause.NOT_LISTED),
        )
    },
}


@cases(("seen", "rules", "expected", "refused"), REMOVALS)
def test_idle_nodes_are_removed_unless_facts_are_unknown(
    seen: BalanceSituation, rules: dict[str, int], expected: tuple[str, ...], refused: dict[str, Cause]
) -> None:
    plan = plan_balance_by_starcluster(seen, replace(RULES, **rules))

    assert (plan.remove, {refusal.host: refusal.cause for refusal in plan.refused}) == (expected, refused)


def test_a_node_with_reserved_slots_is_not_removed() -> None:
    """StarCluster does not know advance reservations."""
    reserved = replace(instance("n1"), reserved=1)
    seen = situation(instance(MASTER), reserved, nodes=ONE.values())

    assert [one.cause for one in decided(seen).refused] == [Cause.BUSY]
    assert starcluster_plan(seen).remove == ("n1",)


def test_a_node_in_no_queue_is_removed() -> None:
    layout = CellConfiguration(queues={"all.q": CellQueue(name="all.q", hosts=(MASTER, "n1"))})

    assert removed(replace(cluster(ONE), cell=BARE, nodes=(node("bare"),), layout=layout)) == ("bare",)


def test_a_node_whose_name_contains_the_name_of_another_node_is_another_node() -> None:
    """StarCluster keeps n1 while n11 is busy."""
    seen = cluster({"n1": node("n1"), "n11": node("n11")}, {"n11": (1,)})

    assert decided(seen).remove == ("n1",)
    assert starcluster_plan(seen).remove == ()


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        (
            cluster(ONE, FULL, [waiting(18, tasks=2, jobs=(1, 2))]),
            "2 jobs wait 18 min, over 15 min, 2 slots are wanted and 0 are free, 2 of 10 nodes exist: add 1",
        ),
        (cluster(ONE, FULL, [waiting(3)]), "1 job waits 3 min, not yet over 15 min, 1 slot is wanted and 0 are free: "),
        (cluster(ONE, wait=[waiting(18, tasks=2)]), "1 job waits, 2 slots are wanted and 8 are free: "),
        (
            replace(cluster(ONE, FULL, [waiting(18)]), nodes=COMING[:2]),
            "1 job waits 18 min, over 15 min, 1 slot is wanted and 0 are free, and 1 node is on its way: ",
        ),
        (cluster(ONE), "no job waits, 1 node is idle past minute 45 of the hour, 2 of 10 nodes exist: remove n1"),
        (cluster(ONE, changed=1), "the last change was 60 s ago, less than 180 s: "),
    ],
    ids=["grow", "wait", "fits", "fits soon", "shrink", "settle"],
)
def test_the_round_sentence_states_the_figures(seen: BalanceSituation, told: str) -> None:
    told += "no node is added or removed" * told.endswith(": ")

    assert told == describe_balance_plan(decided(seen), RULES)


@given(
    some.lists(some.tuples(some.integers(0, 5), some.integers(0, 130), some.sampled_from(["", "au", "d"])), max_size=6),
    some.lists(some.tuples(some.integers(0, 90), some.integers(1, 30)), max_size=3),
    some.integers(0, 8),
    some.integers(1, 8),
    some.one_of(some.none(), some.integers(0, 9)),
)
def test_in_every_cell_limits_hold_and_no_busy_node_is_removed(
    hosts: list[tuple[int, int, str]], jobs: list[tuple[int, int]], least: int, most: int, changed: int | None
) -> None:
    names = [f"n{place}" for place in range(len(hosts))]
    seen = situation(
        instance(MASTER),
        *(instance(name, (1,) * used, state=state) for name, (used, _, state) in zip(names, hosts, strict=True)),
        wait=[waiting(minutes, tasks=tasks) for minutes, tasks in jobs],
        nodes=[node(name, up) for name, (_, up, _) in zip(names, hosts, strict=True)],
        changed=changed,
    )
    rules = BalanceSection(max_nodes=most, min_nodes=min(least, most), add_nodes_per_iteration=9)
    plan = plan_balance_by_starcluster(seen, rules)
    count = plan.figures.nodes

    assert not (plan.add and plan.remove)
    assert plan.add == 0 or count + plan.add <= most
    assert not plan.remove or count - len(plan.remove) >= rules.min_nodes
    assert all(not hosts[names.index(name)][0] for name in plan.remove)
    assert plan == plan_balance_by_starcluster(seen, rules)


def test_no_node_is_added_to_a_queue_that_is_disabled_on_all_hosts() -> None:
    closed = tuple(instance(name, state="d") for name in (MASTER, "n1"))
    seen = situation(*closed, wait=[waiting(60, tasks=2)])
    found = decided(seen)

    assert (found.verdict, found.add) == (Reason.CLOSED, 0)
    assert describe_balance_plan(found, RULES) == (
        "1 job waits and all.q is closed on all hosts (`qstat -f -q all.q` shows how), 2 of 10 nodes exist:"
        " no node is added or removed"
    )
