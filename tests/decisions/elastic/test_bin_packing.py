"""Policy demand: how many nodes are added for waiting tasks, and from which pool."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gridbridge.decisions.elastic.balancer_round_reports import explain_no_new_node_or_removal
from gridbridge.decisions.elastic.demand.demand_policy import plan_balance_by_demand
from gridbridge.model.config_key_descriptions import QueueDefaultRequests
from gridbridge.model.elastic.balance_plan import BalancePlan, BalanceSituation
from gridbridge.model.elastic.balance_plan import BalancePlanReason as Reason
from gridbridge.model.elastic.balance_plan import NodeAddOrRemoveRefusalCause as Cause
from gridbridge.model.elastic.balancer_config_sections import BalanceSection, DemandPolicySection, NodePoolSection
from gridbridge.model.elastic.elastic_nodes import ElasticNode
from gridbridge.model.elastic.grid_engine_cell import (
    CellConfiguration,
    CellQueue,
    CellQueueInstance,
    ParallelEnvironment,
    ParallelSlotDistribution,
    RunningTaskGroup,
    WaitingJobGroup,
)
from tests.decisions.elastic.cells import MASTER, NOON, ago, begun, cases, instance, node, waiting
from tests.decisions.elastic.demand_cells import F4, FAR, LAYOUT, PLAIN, RULES, after, cell, full, plan

HTC, HPC = ("htc.q",), ("hpc.q",)


@cases(
    ("wait", "expected", "groups"),
    {
        "array of 40": ([waiting(1, tasks=40, queues=HTC)], 10, []),
        "array of 44 and a limit of 10": ([waiting(1, tasks=44, queues=HTC)], 10, []),
        "two arrays of 2": ([waiting(1, tasks=2, queues=HTC), waiting(1, tasks=2, queues=HTC, jobs=(8,))], 1, []),
        "memory": ([waiting(1, tasks=5, queues=HTC, mfree="2G")], 2, []),
        "two slots on a host": ([waiting(1, tasks=3, slots=2, pe="smp", queues=HPC)], 2, []),
        "two slots a host, 10": ([waiting(1, slots=10, pe="pairs", queues=HPC)], 5, [5]),
        "exclusive in groups": ([waiting(1, tasks=2, slots=6, pe="pairs", queues=HPC, exclusive="1")], 6, [3, 3]),
        "as many groups as there may be": (
            [waiting(1, tasks=4, slots=6, pe="pairs", queues=HPC, exclusive="1")],
            9,
            [3, 3, 3],
        ),
        "larger than a group": ([waiting(1, slots=14, pe="pairs", queues=HPC)], 0, []),
        "fill up": ([waiting(1, slots=20, pe="fill", queues=HPC)], 5, [5]),
        "fill up, larger than a group": ([waiting(1, slots=28, pe="fill", queues=HPC)], 0, []),
    },
)
def test_tasks_are_packed_into_new_nodes(wait: list[WaitingJobGroup], expected: int, groups: list[int]) -> None:
    """The cases and numbers are those of the tests of another autoscaler for Grid Engine."""
    found = plan(cell(*full(MASTER), wait=wait), F4)

    assert expected == found.add
    assert groups == [found.groups.count(one) for one in dict.fromkeys(found.groups)]


BUSY = full(MASTER)


def job_at(*there: CellQueueInstance, minutes: float = 1, left: str = "", **job: Any) -> BalanceSituation:
    """Return a cell with these hosts, on which `left` memory is free, and one job."""
    return cell(*there, wait=[waiting(minutes, **job)], left={"mfree": left} if left else None)


CLOSED = tuple(instance(name, state="d") for name in (MASTER, "n1"))
SHUT = replace(FAR, state=CLOSED[0].state)
REMOTE = replace(LAYOUT, resources=LAYOUT.resources | {"remote": replace(LAYOUT.resources["remote"], is_forced=True)})
RACK = replace(LAYOUT, parts={"@allhosts": frozenset(("@rack", "@big"))})
IN_BIG = {"pools": {"p": NodePoolSection(slots=4, hostgroups="@big")}}
GPUS = {"pools": {**PLAIN, "gpus": NodePoolSection(slots=2, resources=QueueDefaultRequests(gpu="2"), priority=-1)}}
PAID = {"paid": replace(PLAIN["plain"], price=1.0)}
RUNS, KNOWN = instance(MASTER, (4,), begun=[begun(1)]), {"runtimes": {("alice", "job"): 60.0}}
SCRATCH = cell(instance("n1"), wait=[waiting(1, tasks=2, slots=2, pe="smp", scratch="4G")], left={"scratch": "8G"})
FAR_SOON = {"elsewhere": {"far": 30.0}}
ADDED: dict[str, tuple[BalanceSituation, dict[str, Any], int]] = {
    "a task that wants its host alone, beside another": (job_at(instance("n1", (1,)), exclusive="true"), {}, 1),
    "two tasks that want their hosts alone": (job_at(instance("n1"), tasks=2, exclusive="true"), {}, 1),
    **{
        f"{tasks} tasks of {asks} on a host of {left}": (
            *(job_at(instance("n1", slots=8), tasks=tasks, mfree=asks, left=left), {}, added),
        )
        for left, asks, tasks, added in (
            *(("8G", "2G", 4, 0), ("8G", "2G", 5, 1), ("7.9G", "2G", 4, 1), ("8G", "2000M", 4, 0)),
            *(("8g", "2G", 4, 1), ("8388608k", "2G", 4, 1), ("8388608K", "2G", 4, 0)),
        )
    },
    "what counts by job is taken once by a task of two slots": (SCRATCH, {}, 0),
    "slots of which no environment is told": (job_at(*full("n1"), slots=9), {}, 3),
    "slots of which no environment is told, and are free": (job_at(instance("n1"), slots=3), {}, 0),
    **{
        f"where no resource is known, {name} {hosts}": (
            *(replace(job_at(*full("n1"), **{name: hosts}), layout=CellConfiguration()), {}, added),
        )
        for name in ("h", "hostname")
        for hosts, added in (("!n1&!n2", 1), ("n1", 0))
    },
    "a group within a queue's group, asked for by the outer one": (
        *(replace(job_at(*BUSY, tasks=5, queues=("all.q@@allhosts",)), layout=RACK), IN_BIG, 2),
    ),
    "without pools a new node is as most of those that are there": (
        *(job_at(*BUSY, instance("n1", (8,), slots=8), tasks=17), {"pools": {}}, 3),
    ),
    "who asks not to make way": (job_at(*BUSY, gb_besteffort="FALSE"), {}, 1),
    "an array of which 8 tasks may start": (job_at(*BUSY, tasks=99, capped=91), {}, 2),
    "a transfer queue that is shut": (replace(job_at(*BUSY, SHUT), **FAR_SOON), {}, 1),
    **{
        f"a transfer queue whose value is forced, asked for by {asks}": (
            *(replace(job_at(*BUSY, FAR, **asks), layout=REMOTE, **FAR_SOON), {}, added),
        )
        for asks, added in (({}, 1), ({"remote": "true"}, 0))
    },
    "a pool whose node has a value": (job_at(*BUSY, tasks=3, gpu="1"), GPUS, 2),
    "an unknown run time": (job_at(RUNS, minutes=60, tasks=8), {"target_wait_s": 60}, 2),
    "unknown owners of what runs": (
        *(replace(job_at(*BUSY, minutes=60, tasks=8), **KNOWN), {"target_wait_s": 3600}, 2),
    ),
    "known run times without a target": (replace(job_at(RUNS, minutes=60, tasks=8), **KNOWN), {}, 2),
    **{
        f"a month that has to have a unit of {billing_s} s of each new node left": (
            replace(job_at(*BUSY, tasks=99), spent=95.0),
            *({"pools": PAID, "budget_month": 100.0, "billing_s": billing_s}, added),
        )
        for billing_s, added in ((1.0, 5), (3600.0, 5), (7200.0, 2), (86400.0, 0))
    },
}


@cases(("seen", "settings", "expected"), ADDED)
def test_the_number_of_added_nodes(seen: BalanceSituation, settings: dict[str, Any], expected: int) -> None:
    assert plan(seen, **settings).add == expected


@pytest.mark.parametrize(("age_s", "expected"), [(1799, 0), (1801, 1)])
def test_a_booting_node_counts_as_capacity_until_the_boot_timeout(age_s: int, expected: int) -> None:
    since = NOON - timedelta(seconds=age_s)
    late = replace(node("n1", None, "booting"), since=since, pool="plain")

    assert expected == plan(cell(*BUSY, wait=[waiting(1)], nodes=[late])).add


def test_no_node_is_added_for_tasks_that_fit_in_free_slots() -> None:
    seen = cell(instance(MASTER), wait=[waiting(60, tasks=4)])

    assert plan(seen).verdict is Reason.ALL_FIT
    assert plan(cell(instance(MASTER), wait=[waiting(60, tasks=5)])).add == 1


def test_a_million_tasks_are_planned_by_arithmetic() -> None:
    assert plan(job_at(*BUSY, tasks=1_000_000), {"p": NodePoolSection(slots=64)}, most=100_000).add == 15625


def test_the_environment_decides_whether_a_task_uses_several_hosts() -> None:
    half = [instance(MASTER, (2,)), instance("n1", (2,))]

    assert plan(job_at(*half, slots=4, pe="smp")).add == 1
    assert plan(job_at(*half, slots=4, pe="fill")).add == 0
    assert plan(job_at(*half, slots=6, pe="fill")).add == 1
    assert plan(job_at(*half, slots=4, pe="pairs")).add == 0
    assert plan(job_at(*half, slots=6, pe="pairs")).add == 1


@pytest.mark.parametrize(
    "queues", [("all.q",), ("none.q", "all.*"), ("all.q@n1", "all.q@@big"), ("*@@allh*",), ("all.q@@allhosts",)]
)
def test_a_queue_request_may_list_several_queues_and_host_groups(queues: tuple[str, ...]) -> None:
    seen = cell(instance("n1"), instance("n2"), wait=[waiting(1, tasks=5, queues=queues)])

    assert plan(seen).verdict is Reason.ALL_FIT


@pytest.mark.parametrize(("asked", "added", "fit"), [("n1", 0, 0), ("n2", 0, 1), ("!n2", 1, 0), ("(n1|n2)&!n1", 0, 1)])
def test_a_job_that_requests_hosts_by_name_fits_only_on_these_hosts(asked: str, added: int, fit: int) -> None:
    """A new node has none of the requested names, because the name of a new node is not known yet."""
    seen = cell(*full("n1"), instance("n2"), wait=[waiting(1, hostname=asked)])
    found = plan(seen)

    assert (found.add, found.figures.fit) == (added, fit)
    causes = [one.cause for one in found.refused if one.job == 7]
    assert causes == ([] if added or fit else [Cause.NO_VALUE])


@pytest.mark.parametrize(
    ("asked", "queues", "added"),
    [
        ("all.q", (), 1),
        ("other.q", (), 0),
        ("other.q|all.*", (), 1),
        ("!all.q", (), 0),
        ("!a.q&!b.q", (), 1),
        ("all.q", ("htc.q",), 0),
        ("all.q", ("*.q",), 1),
    ],
)
def test_a_qname_request_restricts_the_queues_of_a_job(asked: str, queues: tuple[str, ...], added: int) -> None:
    """If a job requests queues by -q as well, both requests must match."""
    found = plan(job_at(*full("n1"), queues=queues, qname=asked))

    assert found.add == added
    assert [one.cause for one in found.refused] == ([] if added else [Cause.NO_QUEUE])


@pytest.mark.parametrize(
    ("asked", "added"),
    [("!sol-sparc", 1), ("lx-*&!lx-x86", 1), ("(lx-x86|lx-amd64)", 1), ("!lx-amd64", 0), ("lx-*&!*-amd64", 0)],
)
def test_an_expression_for_a_text_resource_restricts_the_hosts_of_a_job(asked: str, added: int) -> None:
    """`gridsub` requests the properties of a campaign by such expressions."""
    found = plan(job_at(*full("n1"), arch=asked))

    assert found.add == added
    assert [one.cause for one in found.refused] == ([] if added else [Cause.NO_VALUE])


def test_nodes_come_from_the_pool_that_joins_the_requested_host_group() -> None:
    pools = {"big": NodePoolSection(slots=4, hostgroups="@allhosts @big"), "all": NodePoolSection(slots=4)}
    found = plan(cell(*full("n1"), wait=[waiting(1, queues=("all.q@@big",))]), pools)

    assert (found.add, found.pool) == (1, "big")


@pytest.mark.parametrize(
    ("pools", "expected"),
    [
        ({"a": NodePoolSection(slots=4, price=1), "b": NodePoolSection(slots=4, price=2, priority=1)}, "b"),
        ({"a": NodePoolSection(slots=4, price=3), "b": NodePoolSection(slots=8, price=4)}, "b"),
        ({"a": NodePoolSection(slots=4, price=4, spot=True), "b": NodePoolSection(slots=8, price=8)}, "b"),
        ({"a": NodePoolSection(slots=16, price=16), "b": NodePoolSection(slots=4, price=4)}, "b"),
        (
            {"a": NodePoolSection(slots=4, price=4), "b": NodePoolSection(slots=4, price=9, prices="22-6=1 11-13=2")},
            "b",
        ),
        ({"a": NodePoolSection(slots=4, price=4), "b": NodePoolSection(slots=4, price=9, prices="13-11=2")}, "a"),
    ],
    ids=["priority", "price of a slot", "spot", "waste", "price at noon", "another hour"],
)
def test_pools_are_chosen_by_priority_price_and_unused_slots(pools: dict[str, NodePoolSection], expected: str) -> None:
    assert expected == plan(job_at(*BUSY, tasks=3), pools).pool


@pytest.mark.parametrize(("minutes", "expected"), [(9, "b"), (11, "a")])
def test_a_pool_without_capacity_is_skipped_for_ten_minutes(minutes: int, expected: str) -> None:
    pools = {"a": NodePoolSection(slots=4, priority=1), "b": NodePoolSection(slots=4)}
    seen = cell(*BUSY, wait=[waiting(1)], failed={"a": ago(minutes)})

    assert expected == plan(seen, pools).pool


def test_nodes_that_one_pool_cannot_give_come_from_the_next_pool_in_the_next_round() -> None:
    pools = {"a": NodePoolSection(slots=4, priority=1, limit=2), "b": NodePoolSection(slots=4)}
    first = plan(seen := job_at(*BUSY, tasks=20), pools)
    second = plan(after(seen, first), pools)
    third = plan(after(after(seen, first), second), pools)

    assert [(one.pool, one.add) for one in (first, second, third)] == [("a", 2), ("b", 3), ("", 0)]


@pytest.mark.parametrize(
    ("pool", "demand", "most", "expected", "verdict"),
    [
        ({}, {}, 4, 3, Reason.MORE_WANTED),
        ({}, {}, 1, 0, Reason.FULL),
        ({}, {}, 0, 0, Reason.NO_MAXIMUM),
        ({"limit": 2}, {}, 99, 2, Reason.MORE_WANTED),
        ({"quota": 11}, {}, 99, 2, Reason.MORE_WANTED),
        ({"quota": 3}, {}, 99, 0, Reason.OVER_QUOTA),
        ({}, {"add_at_once": 2}, 99, 2, Reason.MORE_WANTED),
        ({}, {"max_booting": 1}, 99, 1, Reason.MORE_WANTED),
        ({"price": 2}, {"budget_hour": 5}, 99, 2, Reason.MORE_WANTED),
        ({"price": 2}, {"budget_hour": 1.5}, 99, 0, Reason.OVER_BUDGET),
        ({"price": 2}, {"budget_month": 103}, 99, 1, Reason.MORE_WANTED),
        ({"price": 2}, {"budget_month": 101}, 99, 0, Reason.OVER_MONTH),
        ({"price": 2}, {"budget_month": 101, "budget_hour": 0.5}, 99, 0, Reason.OVER_BUDGET),
    ],
    ids=[
        *("most", "full", "no maximum", "limit", "quota", "no quota", "rate", "booting"),
        *("hour", "none", "month", "no month", "neither"),
    ],
)
def test_limits_and_budgets_restrict_the_number_of_added_nodes(
    pool: dict[str, int], demand: dict[str, float], most: int, expected: int, verdict: Reason
) -> None:
    pools = {"p": NodePoolSection(slots=4, **pool)}  # type: ignore[arg-type]
    seen = cell(*BUSY, wait=[waiting(1, tasks=99)], spent=100.0)
    found = plan(seen, pools, most, **demand)

    assert (expected, verdict) == (found.add, found.verdict)


@pytest.mark.parametrize("state", ["ready", "booting"])
def test_present_and_booting_nodes_reduce_the_remaining_hourly_budget(state: str) -> None:
    pools = {"p": NodePoolSection(slots=4, price=2)}
    nodes = [node(name, 1, state, pool="p") for name in ("n1", "n2")]
    up = full(MASTER, "n1", "n2") if state == "ready" else full(MASTER)
    seen = cell(*up, nodes=nodes, wait=[waiting(1, tasks=99)])
    none, one = (plan(seen, pools, 99, budget_hour=hour) for hour in (5, 6))

    assert (none.add, none.verdict, one.add) == (0, Reason.OVER_BUDGET, 1)


def test_a_limit_that_forbids_all_new_nodes_is_reported_before_the_shortage_of_one_pool() -> None:
    pools = {"p": NodePoolSection(slots=4, priority=1), "q": NodePoolSection(slots=4)}
    seen = cell(*BUSY, wait=[waiting(1, tasks=9)], failed={"p": ago(1)})

    assert plan(seen, pools, 1).verdict is Reason.FULL


@pytest.mark.parametrize(
    ("told", "demand", "why"),
    [({"failed": {"plain": ago(1)}}, {}, Reason.NO_CAPACITY), ({}, {"budget_month": 1.0}, Reason.OVER_MONTH)],
    ids=["no capacity", "no money"],
)
def test_the_plan_says_why_the_minimum_number_of_nodes_is_not_reached(
    told: dict[str, object], demand: dict[str, float], why: Reason
) -> None:
    pools = {"plain": NodePoolSection(slots=4, price=2)}
    found = plan(cell(instance(MASTER), **told), pools, schedule="0-24 4-9", **demand)

    assert (found.add, found.verdict, found.hindrance) == (0, Reason.BELOW_MINIMUM, why)


@pytest.mark.parametrize(
    ("queues", "hostgroups"),
    [("", "@nogroup"), ("no.q", "@allhosts"), ("all.q no.q", "@big"), ("", "@big"), ("", "@far")],
    ids=["no group", "no queue", "one queue", "a group of no queue", "queues of others' tasks"],
)
def test_a_pool_whose_nodes_would_be_in_no_ordinary_queue_gives_no_nodes(queues: str, hostgroups: str) -> None:
    pools = {"p": NodePoolSection(slots=4, queues=queues, hostgroups=hostgroups)}
    others = {
        "be.q": CellQueue(name="be.q", hosts=("@far",), is_best_effort=True),
        "far": CellQueue(name="far", hosts=("@far",), is_away=True),
    }
    layout = replace(LAYOUT, groups={**LAYOUT.groups, "@far": frozenset()}, queues={**LAYOUT.queues, **others})
    found = plan(cell(*BUSY, wait=[waiting(1)], layout=layout), pools)

    assert (found.add, found.verdict) == (0, Reason.NO_SUCH_PLACE)


def test_without_a_known_cell_configuration_new_nodes_are_in_the_configured_queue() -> None:
    seen = cell(*BUSY, wait=[waiting(1, tasks=5)], layout=CellConfiguration())

    assert plan(seen, {"p": NodePoolSection(slots=4)}).add == 2


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("0-24 0-3", 2),
        ("sat-sun 0-24 0-2, 8-20 0-4", 3),
        ("mon-fri 8-20 0-6", 5),
        ("thu 12-13 0-9", 8),
        ("thu 20-13 0-3", 2),
        ("wed 20-13 0-3, 0-24 0-6", 5),
    ],
)
def test_a_schedule_sets_the_maximum_number_of_nodes_at_this_hour(schedule: str, expected: int) -> None:
    """The rounds run on a Thursday at noon."""
    assert expected == plan(job_at(*BUSY, tasks=99), schedule=schedule).add


def test_a_schedule_may_add_nodes_without_waiting_tasks() -> None:
    found = plan(cell(instance(MASTER)), schedule="mon-fri 11-20 4-9, 0-24 1-9")

    assert (found.add, found.pool, found.verdict) == (3, "plain", Reason.BELOW_MINIMUM)


def test_a_cluster_without_slots_gets_one_first_node_and_then_waits_for_the_node() -> None:
    seen = cell(wait=[waiting(0, tasks=99)])
    coming = after(seen, first := plan(seen, {}))

    assert (first.add, plan(coming, {}).verdict) == (1, Reason.ON_THEIR_WAY)


@pytest.mark.parametrize(
    ("one", "cause"),
    [
        (waiting(9, state="hqw"), Cause.HELD),
        (waiting(9, is_deferred=True), Cause.FUTURE),
        (waiting(9, tasks=4, capped=4), Cause.CAPPED),
        (waiting(9, licence="2"), Cause.LICENCE),
        (waiting(9, slots=25, pe="round"), Cause.ENVIRONMENT_FULL),
        (waiting(9, queues=("be.q",)), Cause.BEST_EFFORT),
        (waiting(9, gb_besteffort="TRUE"), Cause.BEST_EFFORT),
        (waiting(9, is_campaign=True), Cause.CAMPAIGN),
        (waiting(9, slots=5, pe="pairs"), Cause.UNDIVIDED),
        (waiting(9, slots=1, pe="pairs"), Cause.UNDIVIDED),
        (waiting(9, queues=("gone.q",)), Cause.NO_QUEUE),
        (waiting(9, queues=("all.q@@big",)), Cause.NO_QUEUE),
        (waiting(9, slots=5, pe="smp"), Cause.TOO_WIDE),
        (waiting(9, mfree="9G"), Cause.TOO_MUCH),
        (waiting(9, gpu="1"), Cause.TOO_MUCH),
        (waiting(9, mfree="nan"), Cause.TOO_MUCH),
        (waiting(9, mfree="-5G"), Cause.TOO_MUCH),
        (waiting(9, mfree="1e400"), Cause.TOO_MUCH),
        (waiting(9, slots=2**32 - 1, pe="pairs"), Cause.UNDIVIDED),
        (waiting(9, slots=2**31, pe="fill"), Cause.ENVIRONMENT_FULL),
        (waiting(9, licence="nan"), Cause.LICENCE),
        (waiting(9, arch="sol-sparc"), Cause.NO_VALUE),
        (waiting(9, h_rt="25:0:0"), Cause.NO_QUEUE),
        (waiting(9, h_rt="INFINITY"), Cause.NO_QUEUE),
        (waiting(9, h_rt="nan"), Cause.NO_QUEUE),
    ],
    ids=lambda one: one.name.lower() if isinstance(one, Cause) else "",
)
def test_jobs_that_new_nodes_cannot_help_are_refused(one: WaitingJobGroup, cause: Cause) -> None:
    found = plan(cell(*BUSY, wait=[one], left={"mfree": "8G"}, licences={"licence": "1"}))

    assert (0, [(7, cause)]) == (found.add, [(each.job, each.cause) for each in found.refused])


@pytest.mark.parametrize("limits", [{"most": 0}, {"wait_s": 1e6}], ids=["no maximum", "too young"])
def test_a_job_that_no_node_could_run_is_refused_even_if_no_node_may_be_added(limits: dict[str, Any]) -> None:
    found = plan(cell(*BUSY, wait=[waiting(9, gpu="1")]), **limits)

    assert found.add == 0
    assert [(each.job, each.cause) for each in found.refused] == [(7, Cause.TOO_MUCH)]


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (waiting(9, slots=5, pe="pairs"), "pairs gives 2 slots on each host, and 5 is no multiple"),
        (waiting(9, slots=2, pe="nope"), "a queue that the job may use (nope)"),
        (waiting(9, queues=("gone.q",)), "a queue that the job may use (gone.q)"),
        (waiting(9, h_rt="25:0:0"), "a queue that the job may use (h_rt=25:0:0)"),
        (waiting(9, arch="a\nb\x9b1m"), "the job requests arch=a�b�1m, and no"),
    ],
)
def test_the_explanation_of_a_refusal_names_the_request_of_the_job(one: WaitingJobGroup, expected: str) -> None:
    (told,) = plan(cell(*BUSY, wait=[one])).refused

    assert expected in explain_no_new_node_or_removal(told, RULES)


@pytest.mark.parametrize("limits", [{"limit": 1}, {"quota": 7}, {"span": 1}])
def test_a_task_that_needs_more_nodes_than_a_pool_gives_is_refused(limits: dict[str, int]) -> None:
    """Nodes of two pools never share a task."""
    pools = {name: NodePoolSection(slots=4, **limits) for name in ("a", "b")}
    seen = cell(*BUSY, wait=[waiting(9, slots=12, pe="fill")])
    found = plan(seen, pools)

    assert (found.add, [one.cause for one in found.refused]) == (0, [Cause.TOO_SPREAD])


def test_of_several_parallel_environments_one_that_can_split_the_slots_is_used() -> None:
    """Grid Engine chooses an environment whose fixed number divides the slots (sge_pe(5), allocation_rule)."""
    rules = {"p2": 2, "p3": 3}
    environments = {
        name: ParallelEnvironment(name=name, spread=ParallelSlotDistribution.FIXED, per_host=each, slots=99)
        for name, each in rules.items()
    }
    queue = replace(LAYOUT.queues["all.q"], environments=("p2", "p3"))
    layout = replace(LAYOUT, environments=environments, queues={"all.q": queue})
    odd = cell(*BUSY, wait=[waiting(1, slots=9, pe="p*")], layout=layout)
    range_ = replace(odd.cell.waiting[0].shape, slots=3, is_range=True)
    some = replace(odd.cell, waiting=(replace(odd.cell.waiting[0], shape=range_),))

    assert (plan(odd).add, plan(replace(odd, cell=some)).add) == (3, 2)


def test_only_tasks_with_available_licences_count_as_demand() -> None:
    wait = [waiting(1, tasks=99, licence="1")]

    assert plan(cell(*BUSY, wait=wait, licences={"licence": "6"})).add == 2


def test_best_effort_tasks_do_not_occupy_slots() -> None:
    seen = cell(instance("n1"), instance("n1", (4,), queue="be.q"), wait=[waiting(1, tasks=4)])

    assert plan(seen).verdict is Reason.ALL_FIT


def test_slots_of_transfer_queues_do_not_count_as_free() -> None:
    assert plan(cell(*BUSY, instance(MASTER, queue="far", slots=50), wait=[waiting(1)])).add


def test_the_waiting_time_starts_when_the_job_could_first_start() -> None:
    seen = cell(*BUSY, wait=[waiting(60)])
    released = cell(*BUSY, wait=[waiting(60)], eligible_since={7: ago(1)})

    assert plan(seen, wait_s=300).add == 1
    assert plan(released, wait_s=300).verdict is Reason.NOT_YET


AT_ONCE = {"plain": replace(PLAIN["plain"], boot_s=0.0)}


def soon(
    runs: Iterable[RunningTaskGroup], tasks: int = 8, usual_s: float = 60.0, target_s: float = 60.0
) -> BalancePlan:
    """Return the plan for a host of four slots with running tasks, and waiting tasks of known run time."""
    used = tuple(one.slots for one in runs)
    wait = [waiting(60, tasks=tasks)]
    known = {("alice", "job"): usual_s}
    seen = cell(instance(MASTER, used, begun=runs), wait=wait, runtimes=known)
    return plan(seen, AT_ONCE, target_wait_s=target_s)


def test_no_node_is_added_if_present_slots_finish_all_tasks_within_the_target_time() -> None:
    """The present slots need (4 * 30 + 8 * 60) / 4 s for all running and waiting tasks."""
    found = soon([begun(0.5)], target_s=150)

    assert (found.add, found.verdict, found.figures.backlog_s) == (0, Reason.SOON, 150)


@pytest.mark.parametrize(
    ("runs", "usual_s"),
    [
        pytest.param([begun(0)], 3600.0, id="what waits takes long"),
        pytest.param([begun(120)], 60.0, id="what runs is over its usual time by far"),
        pytest.param([begun(1, name="other")], 60.0, id="what runs is not known"),
    ],
)
def test_nodes_are_added_if_present_slots_cannot_finish_all_tasks_within_the_target_time(
    runs: list[RunningTaskGroup], usual_s: float
) -> None:
    assert soon(runs, usual_s=usual_s).add == 2


def test_nodes_are_added_only_for_tasks_that_present_slots_cannot_finish_in_time() -> None:
    """Four slots finish a quarter of 96 slot-minutes in six minutes; twelve further slots finish the remainder.

    Arriving nodes count as slots.
    """
    runs, rules = instance(MASTER, (4,), begun=[begun(0, slots=4)]), {"target_wait_s": 360.0}
    seen = cell(runs, wait=[waiting(60, tasks=92)], runtimes={("alice", "job"): 60.0})
    first = plan(seen, AT_ONCE, **rules)
    second = plan(after(seen, first), AT_ONCE, **rules)

    assert (first.add, first.verdict) == (3, Reason.MORE_WANTED)
    assert (second.add, second.verdict) == (0, Reason.SOON)


@pytest.mark.parametrize(("wait_s", "expected"), [(120.0, 0), (400.0, 1)])
def test_no_node_is_added_if_a_transfer_queue_starts_the_task_sooner(wait_s: float, expected: int) -> None:
    there = {"elsewhere": {"far": wait_s}}
    seen = cell(*BUSY, FAR, wait=[waiting(1)], **there)
    bound = cell(*BUSY, FAR, wait=[waiting(1, queues=("all.q",))], **there)

    assert (expected, 1) == (plan(seen).add, plan(bound).add)


@pytest.mark.parametrize(
    "wait",
    [
        waiting(1, remote="false"),
        waiting(1, slots=2, pe="smp"),
        waiting(1, mfree="4G"),
        waiting(1, queues=("far@t2", "all.q")),
    ],
    ids=["its value is another", "no such environment", "no memory there", "another host's"],
)
def test_a_transfer_queue_that_cannot_run_the_task_is_ignored(wait: WaitingJobGroup) -> None:
    """Values, environments, consumables and hosts of a transfer queue are checked as for any queue."""
    seen = cell(*BUSY, FAR, wait=[wait], elsewhere={"far": 30.0})

    assert (
        plan(seen, {"plain": NodePoolSection(slots=4, resources=QueueDefaultRequests(mfree="8G", remote="false"))}).add
        == 1
    )


@pytest.mark.parametrize(("minutes", "wait_s", "expected"), [(1.9, 0, 0), (2.1, 0, 1), (7, 300, 0)])
def test_nodes_are_added_if_a_transfer_queue_is_late(minutes: float, wait_s: float, expected: int) -> None:
    """A queue is late after its own delay, one round and two scheduling intervals, from `wait_s` on."""
    seen = cell(*BUSY, FAR, wait=[waiting(minutes)], elsewhere={"far": 30.0})

    assert plan(seen, wait_s=wait_s).add == expected


@pytest.mark.parametrize(("free", "expected"), [(0, 2), (1, 2), (2, 1), (6, 0)])
def test_a_transfer_queue_takes_only_as_many_tasks_as_it_has_free_slots(free: int, expected: int) -> None:
    there = {"elsewhere": {"far": 60.0}, "elsewhere_free": {"far": free}}
    seen = cell(*BUSY, FAR, wait=[waiting(1, tasks=6)], **there)

    assert plan(seen).add == expected
    assert plan(replace(seen, elsewhere_free={})).add == 0


def test_nodes_are_added_to_provide_the_configured_spare_slots_and_nodes() -> None:
    assert plan(cell(*BUSY), spare_slots=5).add == 2
    assert plan(cell(instance(MASTER, (1,))), spare_nodes=2).add == 2
    assert plan(cell(instance(MASTER)), spare_slots=4).add == 0


def test_silent_hosts_give_no_capacity_and_many_silent_hosts_stop_the_balancer() -> None:
    dead = [instance(f"n{place}", state="au") for place in range(4)]
    wait = [waiting(60, tasks=3)]

    assert plan(cell(*BUSY, *dead[:1], wait=wait)).add == 1
    assert plan(cell(*BUSY, *dead, wait=wait)).verdict is Reason.UNREADY
    alive = full(*(f"m{place}" for place in range(5)))
    assert plan(cell(*alive, *dead, wait=wait)).add == 1


@pytest.mark.parametrize(
    ("least", "month", "add"),
    [(1, 100.0, 2), (1, 98.0, 0), (3, 100.0, 0), (3, 1559.0, 0), (3, 1563.0, 3)],
    ids=["a unit each", "no unit more", "the least", "of all the month", "and more"],
)
@pytest.mark.parametrize("leaving", [(), ("n3",)])
def test_the_future_cost_of_present_nodes_is_reserved_from_the_month_budget(
    least: int, month: float, add: int, leaving: tuple[str, ...]
) -> None:
    """Each node reserves the cost of its next hour, and a leaving node nothing.

    A node that the minimum needs reserves all 732 hours until the month ends.
    """
    nodes = [node(name, 50, pool="paid") for name in ("n1", "n2")]
    nodes += [node(name, 50, state="draining") for name in leaving]
    seen = cell(*full(MASTER, "n1", "n2"), nodes=nodes, wait=[waiting(1, tasks=12)], spent=96.0)
    rules = BalanceSection(min_nodes=least, max_nodes=9)
    found = plan_balance_by_demand(seen, rules, DemandPolicySection(billing_s=3600, budget_month=month), PAID)

    assert found.add == add


@cases(
    ("instances", "nodes", "expected", "verdict"),
    {
        "on all hosts": (CLOSED, [], 0, Reason.QUEUE_CLOSED),
        "not on all": ((*CLOSED, *full("n2")), [], 1, Reason.MORE_WANTED),
        **{
            name: (
                tuple(instance(name, state=state) for name in hosts.split()),
                [],
                expected,
                Reason.MORE_WANTED if expected else Reason.QUEUE_CLOSED,
            )
            for name, state, hosts, expected in (
                ("its calendar disables it", "D", f"{MASTER} n1", 0),
                ("its calendar disables it on its only host", "D", "n1", 0),
                ("its calendar suspends it", "C", "n1", 0),
                ("suspended by hand", "s", f"{MASTER} n1", 0),
                ("suspended by hand on its only host", "s", "n1", 1),
                ("suspended by another queue of each host", "S", f"{MASTER} n1", 1),
                ("hosts that rest, of which nobody knows that", "du", f"{MASTER} n1", 1),
            )
        },
        "dead": ((*CLOSED, instance("n2", state="du")), [], 0, Reason.QUEUE_CLOSED),
        "its only host": (CLOSED[:1], [], 1, Reason.MORE_WANTED),
        "by the balancer": (
            (*BUSY, instance("n1", state="d"), instance("n2", state="d")),
            [node("n1", state="draining"), node("n2", state="standby")],
            1,
            Reason.MORE_WANTED,
        ),
    },
)
def test_no_node_is_added_to_a_queue_that_is_disabled_on_all_hosts(
    instances: tuple[CellQueueInstance, ...], nodes: list[ElasticNode], expected: int, verdict: Reason
) -> None:
    """An administrator who disables a queue on all hosts wants no task to start."""
    found = plan(cell(*instances, wait=[waiting(1)], nodes=nodes))

    assert (expected, verdict) == (found.add, found.verdict)


def test_a_queue_beside_a_disabled_queue_gets_nodes_for_its_own_tasks() -> None:
    pools = {"p": NodePoolSection(slots=4, queues="all.q htc.q")}
    own = [waiting(1, queues=("all.q",)), waiting(1, tasks=4, queues=HTC, jobs=(8,))]
    found = plan(cell(*CLOSED, wait=own), pools)

    assert found.add == 1
    assert [(one.job, one.cause) for one in found.refused] == [(7, Cause.NO_QUEUE)]


def test_no_spare_node_is_added_to_a_disabled_queue() -> None:
    found = plan(cell(*CLOSED), PLAIN, spare_nodes=1)

    assert (found.add, found.verdict) == (0, Reason.QUEUE_CLOSED)
