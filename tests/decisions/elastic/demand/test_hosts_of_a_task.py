"""Policy demand: the hosts of a task, and the pending tasks that count as demand."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, combinations_with_replacement, count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gridbridge.decisions.elastic.balancer_round_reports import explain_no_new_node_or_removal
from gridbridge.decisions.elastic.demand.task_packing import count_exclusive_tasks_and_hosts
from gridbridge.decisions.elastic.demand.waiting_tasks_as_demand import startable_demand_and_refusals
from gridbridge.model.config_key_descriptions import QueueDefaultRequests
from gridbridge.model.elastic import balance_plan
from gridbridge.model.elastic.balance_plan import NodeAddOrRemoveRefusalCause as Cause
from gridbridge.model.elastic.balancer_config_sections import NodePoolSection
from gridbridge.model.elastic.grid_engine_cell import (
    CellConfiguration,
    CellExecutionHost,
    CellResourceDefinition,
    ConsumableKind,
    ParallelEnvironment,
    ParallelSlotDistribution,
    WaitingJobGroup,
    parse_cell_queue,
)
from tests.decisions.elastic.cells import MASTER, instance, node, waiting
from tests.decisions.elastic.demand_cells import LAYOUT, RULES, cell, full, plan, with_standby

NEW = {"plain": NodePoolSection(slots=4, resources=QueueDefaultRequests(mfree="8G"))}


def unlike(*sizes: int, memory: Sequence[str] = (), **more: Any) -> balance_plan.BalanceSituation:
    names = [f"n{place}" for place, _ in enumerate(sizes)]
    seen = cell(*full(MASTER), *(instance(name, slots=slots) for name, slots in zip(names, sizes, strict=True)), **more)
    left = dict(zip(names, memory or ["8G"] * len(sizes), strict=True))
    values = (("arch", "lx-amd64"),)
    hosts = (CellExecutionHost(name=name, left=(("mfree", text),), values=values) for name, text in left.items())
    return replace(seen, cell=replace(seen.cell, hosts=(seen.cell.hosts[0], *hosts)))


@pytest.mark.parametrize(
    ("pe", "slots", "sizes", "memory", "added"),
    [
        ("pairs", 4, (4,), ["7.5G"], 1),
        ("pairs", 4, (4, 4), ["8G", "7.5G"], 0),
        ("pairs", 8, (4, 4), ["8G", "8G"], 2),
        ("pairs", 4, (2, 4), ["8G", "8G"], 0),
        ("fill", 6, (4, 2), ["8G", "7.5G"], 0),
        ("fill", 8, (4, 2), ["8G", "7.5G"], 1),
        ("round", 10, (3, 2), ["8G", "7.5G"], 2),
    ],
)
def test_an_exclusive_parallel_task_may_use_hosts_of_different_sizes(
    pe: str, slots: int, sizes: Sequence[int], memory: Sequence[str], added: int
) -> None:
    wait = [waiting(5, slots=slots, pe=pe, exclusive="true")]

    assert plan(unlike(*sizes, memory=memory, wait=wait), NEW).add == added


def test_new_nodes_for_an_exclusive_task_complement_idle_hosts_up_to_max_nodes() -> None:
    seen = unlike(4, 4, wait=[waiting(5, slots=8, pe="pairs", exclusive="true")])
    few = plan(seen, NEW, 4)

    assert plan(seen, NEW, 5).add == 2
    assert (few.add, few.verdict) == (0, balance_plan.BalancePlanReason.FULL)
    assert [(one.job, explain_no_new_node_or_removal(one, RULES)) for one in few.refused] == [
        (7, "the job needs 2 new nodes at once, and 1 may be added now")
    ]


def test_a_new_node_joins_the_node_group_of_an_idle_node_for_a_shared_task() -> None:
    pools = {"hpc": NodePoolSection(slots=4, hostgroups="@hpc", span=5, spans=3)}
    own = replace(node("n1", pool="hpc"), group="g1")
    wait = [waiting(5, slots=4, pe="pairs", queues=("hpc.q",), exclusive="true")]
    seen = cell(*full(MASTER), instance("n1", queue="hpc.q"), nodes=[own], wait=wait)
    found = plan(seen, pools)

    assert (found.add, found.groups) == (1, ("g1",))


def test_all_hosts_of_a_parallel_task_offer_one_and_the_same_parallel_environment() -> None:
    """If a wildcard matches several environments, Grid Engine chooses one for a task (sge_pe(5))."""
    names = ("mpi1", "mpi2")
    environments = {n: ParallelEnvironment(name=n, spread=ParallelSlotDistribution.ANY_HOSTS, slots=99) for n in names}
    queue = parse_cell_queue("all.q", {"hostlist": "@allhosts", "pe_list": "mpi2,[n0=mpi1]"})
    layout = replace(LAYOUT, environments=environments, queues={"all.q": queue})

    def added(slots: int, *sizes: int) -> int:
        wait = [waiting(5, slots=slots, pe="mpi*")]
        return plan(unlike(*sizes, wait=wait, layout=layout), NEW).add

    assert added(8, 4, 4) == 1
    assert added(8, 4, 4, 4) == 0
    assert added(4, 4) == 0


def rested(slots: int, *asleep: int, pools: Any = None, idle: int = 0, most: int = 99) -> balance_plan.BalancePlan:
    """Return the plan for an exclusive task while hosts of the given sizes are powered off."""
    sizes = {f"s{place}": slots for place, slots in enumerate(asleep)}
    wait = [waiting(5, slots=slots, pe="fill", exclusive="true")]
    seen = with_standby(sizes, *full(MASTER), *(instance(f"n{place}") for place in range(idle)), wait=wait)
    return plan(seen, pools, most)


def test_powered_off_hosts_of_different_sizes_are_woken_together() -> None:
    assert rested(6, 4, 2).wake == ("s0", "s1")
    assert rested(10, 4, 2, idle=1).wake == ("s0", "s1")
    assert rested(6, 4, 2, idle=1).wake == ("s0",)


def test_powered_off_hosts_are_woken_before_nodes_are_added() -> None:
    """The next round counts the woken hosts, and adds the missing nodes."""
    few = rested(10, 4, 2, pools={"p": NodePoolSection(slots=4, limit=1)}, most=3)
    none = rested(14, 4, 2, pools={"p": NodePoolSection(slots=4, limit=1)})

    assert (rested(10, 4, 2).wake, rested(10, 4, 2).add) == (("s0", "s1"), 0)
    assert (few.wake, few.add) == ((), 0)
    assert [one.cause for one in few.refused] == [balance_plan.NodeAddOrRemoveRefusalCause.TOO_FEW]
    assert (none.wake, none.add) == ((), 0)


def test_a_job_that_fits_on_present_and_new_nodes_together_is_not_refused_as_too_large() -> None:
    pools = {"p": NodePoolSection(slots=4, limit=1)}
    wait = [waiting(5, slots=12, pe="pairs", exclusive="true")]
    busy = cell(*(instance(f"n{place}", (4,)) for place in range(5)), wait=wait)

    assert [one.cause for one in plan(busy, pools).refused] == [balance_plan.NodeAddOrRemoveRefusalCause.TOO_FEW]


def _splits(sizes: Sequence[int], pieces: int, tasks: int) -> bool:
    """Return by trial whether every task can get hosts of its own for `pieces` pieces."""
    if not tasks:
        return True
    places = range(len(sizes))
    groups = (group for number in places for group in combinations(places, number + 1))
    return any(
        sum(sizes[place] for place in group) >= pieces
        and _splits([sizes[place] for place in places if place not in group], pieces, tasks - 1)
        for group in groups
    )


@pytest.mark.parametrize("pieces", range(2, 7))
def test_as_many_exclusive_tasks_as_possible_get_hosts_of_their_own(pieces: int) -> None:
    for number in range(1, 7):
        for sizes in combinations_with_replacement(range(1, pieces + 1), number):
            there = Counter(sizes)
            done, used = count_exclusive_tasks_and_hosts(pieces, 9, there)

            assert used <= there
            assert sum(size * hosts for size, hosts in used.items()) >= done * pieces
            assert not _splits(sizes, pieces, done + 1)


@given(some.lists(some.integers(1, 40), min_size=1, max_size=8), some.integers(2, 150))
def test_an_exclusive_task_uses_the_largest_host_and_leaves_fewest_slots_unused(hosts: list[int], pieces: int) -> None:
    sizes = [min(size, pieces) for size in hosts]
    places = range(len(sizes))
    groups = (group for number in places for group in combinations(places, number + 1))
    sums = [sum(sizes[place] for place in group) for group in groups if _has_largest(sizes, group)]
    done, used = count_exclusive_tasks_and_hosts(pieces, 1, Counter(sizes))

    room = sum(size * number for size, number in used.items())
    assert (done, room) == next(((1, n) for n in sorted(sums) if n >= pieces), (0, 0))


def _has_largest(sizes: Sequence[int], group: Iterable[int]) -> bool:
    return max(sizes) in [sizes[place] for place in group]


@pytest.mark.parametrize(
    ("pieces", "there", "used"),
    [
        (12, {6: 2, 3: 4}, {6: 2}),
        (13, {6: 2, 3: 4}, {6: 2, 3: 1}),
        (14_000, {7: 300, 11: 300, 13: 300, 17: 300}, {17: 300, 13: 300, 11: 298, 7: 246}),
        (14_401, {7: 300, 11: 300, 13: 300, 17: 300}, {}),
    ],
)
def test_an_exclusive_task_prefers_larger_hosts(pieces: int, there: dict[int, int], used: dict[int, int]) -> None:
    assert count_exclusive_tasks_and_hosts(pieces, 1, there) == (bool(used), used)


def _pieces(pe: str, slots: int, memory: float, asked: float) -> int:
    """Return how many pieces fit on a host; a piece has two slots in `pairs`, else one."""
    each = 2 if pe == "pairs" else 1
    by_memory = int(memory / (asked * each)) if asked else slots
    return min(slots // each, by_memory)


def _fits(hosts: Iterable[int], pe: str, slots: int, tasks: int, *, is_exclusive: bool) -> bool:
    sizes = [size for size in hosts if size]
    pieces = slots // 2 if pe == "pairs" else slots
    if is_exclusive:
        return _splits([1 if pe == "pairs" else size for size in sizes], pieces, tasks)
    most = tasks if pe == "pairs" else pieces * tasks
    return sum(min(size, most) for size in sizes) >= tasks * pieces


HOSTS = some.lists(some.tuples(some.integers(1, 5), some.sampled_from((2, 6, 8))), max_size=4)


@given(
    HOSTS,
    some.sampled_from(("fill", "round", "pairs")),
    some.integers(1, 3),
    some.integers(1, 2),
    some.booleans(),
    some.sampled_from((0, 1, 2)),
)
def test_only_needed_nodes_are_added_for_parallel_tasks(
    hosts: list[tuple[int, int]], pe: str, pairs: int, tasks: int, is_exclusive: bool, memory: int
) -> None:
    """A trial of all placements gives the smallest number of nodes for one task.

    If some of several tasks start at once on present hosts, the number of added nodes is at most the
    number that the other tasks need on new nodes alone.
    """
    slots = 2 * pairs
    asks: dict[str, Any] = {"exclusive": "true"} if is_exclusive else {}
    asks |= {"mfree": f"{memory}G"} if memory else {}
    seen = unlike(
        *(size for size, _ in hosts),
        memory=[f"{left}G" for _, left in hosts],
        wait=[waiting(5, slots=slots, tasks=tasks, pe=pe, **asks)],
    )
    there = [_pieces(pe, size, left, memory) for size, left in hosts]

    def needed(there: list[int], tasks: int) -> int:
        new = _pieces(pe, 4, 8, memory)
        found = ([*there, *[new] * number] for number in count())
        ways = (_fits(one, pe, slots, tasks, is_exclusive=is_exclusive) for one in found)
        return next(number for number, does in enumerate(ways) if does)

    now = max(n for n in range(tasks + 1) if _fits(there, pe, slots, n, is_exclusive=is_exclusive))
    added = plan(seen, NEW).add

    assert needed(there, tasks) <= added <= needed([], tasks - now)
    assert tasks > 1 or added == needed(there, 1)


SEAT = CellResourceDefinition(name="seat", counted=ConsumableKind.BY_JOB, default="1")
TOKEN = CellResourceDefinition(name="token", counted=ConsumableKind.BY_JOB)
WIDEST = 4


def environment(name: str, slots: int) -> ParallelEnvironment:
    return ParallelEnvironment(name=name, spread=ParallelSlotDistribution.ONE_HOST, slots=slots)


def more(*of: CellResourceDefinition | ParallelEnvironment) -> CellConfiguration:
    resources = {one.name: one for one in of if isinstance(one, CellResourceDefinition)}
    environments = {one.name: one for one in of if isinstance(one, ParallelEnvironment)}
    return replace(
        LAYOUT, resources={**LAYOUT.resources, **resources}, environments={**LAYOUT.environments, **environments}
    )


def claimed(
    wait: list[WaitingJobGroup], layout: CellConfiguration, licences: Mapping[str, str]
) -> tuple[list[int], list[tuple[Cause | None, str]]]:
    """Return how many tasks of each job count as demand, and the refusals of the other tasks."""
    seen = cell(*full(MASTER), wait=wait, licences=licences, layout=layout)
    found, refused = startable_demand_and_refusals(seen, WIDEST)
    return [one.tasks for one in found], [(one.cause, one.name) for one in refused]


def test_the_scarcer_of_two_licences_limits_the_demand() -> None:
    wait = [waiting(1, tasks=10, licence="1", token="1")]

    for licences in ({"licence": "5", "token": "1"}, {"licence": "1", "token": "5"}):
        short = min(licences, key=lambda name: licences[name])
        assert claimed(wait, more(TOKEN), licences) == ([1], [(Cause.LICENCE, short)])


def test_tasks_that_lack_one_licence_do_not_use_up_another_licence() -> None:
    wait = [waiting(2, tasks=10, licence="1", token="1"), waiting(1, tasks=5, licence="1", jobs=(8,))]

    counts, _ = claimed(wait, more(TOKEN), {"licence": "10", "token": "1"})

    assert counts == [1, 5]


def test_a_job_without_a_licence_request_uses_the_default_amount_of_the_licence() -> None:
    assert claimed([waiting(1, tasks=10)], more(SEAT), {"seat": "3"}) == ([3], [(Cause.LICENCE, "seat")])
    assert claimed([waiting(1, tasks=10, seat="0")], more(SEAT), {"seat": "3"}) == ([10], [])


def test_the_slots_of_matching_parallel_environments_are_filled_one_after_the_other() -> None:
    both = more(environment("mpi1", 4), environment("mpi2", 5))

    assert claimed([waiting(1, tasks=4, slots=2, pe="mpi*")], both, {}) == ([4], [])
    assert claimed([waiting(1, tasks=9, slots=2, pe="mpi*")], both, {}) == ([4], [(Cause.ENVIRONMENT_FULL, "mpi2")])


def test_tasks_without_slots_in_a_parallel_environment_use_no_licences() -> None:
    wait = [waiting(2, tasks=3, slots=2, pe="mpi1", licence="1"), waiting(1, tasks=2, licence="1", jobs=(8,))]

    assert claimed(wait, more(environment("mpi1", 2)), {"licence": "3"})[0] == [1, 2]
