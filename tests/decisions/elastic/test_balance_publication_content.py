"""The published figures of a round, in StarCluster's columns, and the sentence about a plan."""

from dataclasses import replace
from datetime import timedelta

import pytest

from gridbridge.decisions.elastic.balancer_round_reports import (
    LOOKBACK,
    BalancerRoundNodeChanges,
    balancer_figures_if_cell_observed,
    balancer_figures_if_cell_unobserved,
    count_balancer_round_figures,
    count_node_changes_by_pool,
    describe_balance_plan,
    extend_node_history,
)
from gridbridge.model.elastic.balance_plan import (
    BalancePlan,
    BalancePlanFigures,
    BalancePlanReason,
    BalanceSituation,
    NodeAddOrRemoveRefusal,
    NodeAddOrRemoveRefusalCause,
)
from gridbridge.model.elastic.balance_plan import BalancePlanReason as Reason
from gridbridge.model.elastic.balancer_config_sections import BalanceSection
from gridbridge.model.elastic.elastic_nodes import BalancerOwnedNode, ElasticNodeState, NodeStateCause
from gridbridge.model.elastic.grid_engine_cell import CellConfiguration, CellQueue
from gridbridge.model.elastic.published_balance import (
    BalanceRoundStatistics,
    PublishedBalancerFigures,
    PublishedNewNodeRefusalCount,
    PublishedNodeCount,
    PublishedNodeHistory,
    PublishedPoolNodeCounters,
    RecentlyEndedTasks,
    TasksEndedInMinute,
    minute_since_epoch,
)
from tests.decisions.elastic.cells import NOON, ago, instance, node, situation, waiting
from tests.measured import FIGURES

LATER, UNCHANGED = NOON + timedelta(minutes=1), BalancerRoundNodeChanges()


def shown(
    before: PublishedBalancerFigures | None,
    done: BalancerRoundNodeChanges,
    *refused: NodeAddOrRemoveRefusal,
    seen: BalanceSituation | None = None,
) -> PublishedBalancerFigures:
    looked = seen or situation(instance("n1", (1,)))
    plan = BalancePlan(verdict=BalancePlanReason.WAITS, figures=FIGURES, refused=refused)
    return balancer_figures_if_cell_observed(
        before, "alpha", looked, plan, count_balancer_round_figures(looked, RecentlyEndedTasks(), "all.q"), done
    )


def test_published_counters_continue_from_the_previous_round() -> None:
    first = shown(None, BalancerRoundNodeChanges(added={"usual": 2}, failed={"cheap": 1}))
    second = shown(first, BalancerRoundNodeChanges(added={"usual": 1}, removed={"usual": 1}))
    blind_one = balancer_figures_if_cell_unobserved(second, "alpha", LATER, "no answer")
    last = shown(blind_one, BalancerRoundNodeChanges(removed={"usual": 1}, failed={"cheap": 1}))

    assert [one.rounds for one in (first, second, blind_one, last)] == [1, 2, 3, 4]
    assert [one.blind_rounds for one in (second, blind_one, last)] == [0, 1, 1]
    assert last.pools == (
        PublishedPoolNodeCounters(pool="cheap", failed=2),
        PublishedPoolNodeCounters(pool="usual", added=3, removed=2),
    )


def test_published_counters_start_at_zero_for_another_cluster() -> None:
    other = PublishedBalancerFigures(
        cluster="beta", at=NOON, rounds=7, pools=(PublishedPoolNodeCounters(pool="x", added=9),)
    )

    assert (shown(other, UNCHANGED).rounds, shown(other, UNCHANGED).pools) == (1, ())


def test_a_round_that_could_not_read_the_cell_publishes_the_last_known_figures() -> None:
    """An unreadable cell is never published as an idle cell."""
    first = shown(None, BalancerRoundNodeChanges(sentence="1 job waits: add 1", added={"usual": 1}))
    second = balancer_figures_if_cell_unobserved(first, "alpha", LATER, "alpha: qstat: no answer in time")

    assert (second.at, second.seen_at) == (LATER, NOON)
    assert (second.trouble, second.rounds, second.blind_rounds) == ("alpha: qstat: no answer in time", 2, 1)
    assert second.statistics == first.statistics
    assert shown(second, UNCHANGED).trouble == ""
    none = balancer_figures_if_cell_unobserved(None, "alpha", NOON, "no answer")
    assert (none.seen_at, none.statistics, none.blind_rounds) == (None, None, 1)


def test_nodes_are_counted_by_pool_and_state() -> None:
    nodes = [node("n1", pool="a"), node("n2", pool="a"), node("n3", state="booting", pool="b")]

    assert shown(None, UNCHANGED, seen=situation(nodes=nodes)).nodes == (
        PublishedNodeCount(pool="a", state="ready", nodes=2),
        PublishedNodeCount(pool="b", state="booting", nodes=1),
    )


def test_refused_jobs_are_counted_by_cause_and_refused_hosts_are_not_counted() -> None:
    held = [NodeAddOrRemoveRefusal(job=number, cause=NodeAddOrRemoveRefusalCause.HELD) for number in (1, 2)]
    busy = NodeAddOrRemoveRefusal(host="n1", cause=NodeAddOrRemoveRefusalCause.BUSY)

    assert shown(None, UNCHANGED, *held, busy).refused == (PublishedNewNodeRefusalCount(cause="held", jobs=2),)


def test_the_published_node_limits_are_those_of_the_schedule_at_this_hour() -> None:
    found = shown(None, BalancerRoundNodeChanges(min_nodes=1, max_nodes=50))

    assert (found.min_nodes, found.max_nodes) == (FIGURES.least, FIGURES.most)


def owned(state: ElasticNodeState, cause: NodeStateCause = NodeStateCause.NONE) -> BalancerOwnedNode:
    return BalancerOwnedNode(name="n3", pool="usual", state=state, since=NOON, cause=cause)


JOINING, READY = owned(ElasticNodeState.JOINING), owned(ElasticNodeState.READY)
REMOVING = owned(ElasticNodeState.REMOVING, NodeStateCause.NOT_NEEDED)
DEAD = owned(ElasticNodeState.REMOVING, NodeStateCause.NEVER_BOOTED)


@pytest.mark.parametrize(
    ("before", "node", "expected"),
    [
        (None, owned(ElasticNodeState.REQUESTED), (0, 0, 0)),
        (JOINING, READY, (1, 0, 0)),
        (READY, READY, (0, 0, 0)),
        (READY, owned(ElasticNodeState.DRAINING, NodeStateCause.NOT_NEEDED), (0, 0, 0)),
        (owned(ElasticNodeState.DRAINING), READY, (0, 0, 0)),
        (REMOVING, owned(ElasticNodeState.GONE, NodeStateCause.NOT_NEEDED), (0, 1, 0)),
        (owned(ElasticNodeState.BOOTING), DEAD, (0, 0, 1)),
        (DEAD, owned(ElasticNodeState.GONE, NodeStateCause.NEVER_BOOTED), (0, 1, 0)),
        (READY, owned(ElasticNodeState.GONE, NodeStateCause.VANISHED), (0, 0, 1)),
        (owned(ElasticNodeState.REQUESTED), owned(ElasticNodeState.GONE, NodeStateCause.NO_CAPACITY), (0, 0, 0)),
    ],
    ids=[
        *("asked for", "came", "stays", "drains", "opened again", "went"),
        *("never booted", "went then", "vanished", "no capacity"),
    ],
)
def test_each_node_counts_once_as_added_removed_and_failed(
    before: BalancerOwnedNode | None, node: BalancerOwnedNode, expected: tuple[int, int, int]
) -> None:
    done = count_node_changes_by_pool([(before, node)], UNCHANGED)

    found = tuple(each.get("usual", 0) for each in (done.added, done.removed, done.failed))
    assert found == expected


DAY_S = 86400.0
NO_ENDS = RecentlyEndedTasks()


def ends(*rows: tuple[float, int, float, float]) -> RecentlyEndedTasks:
    """Return ended tasks from rows of minutes ago, tasks, total run time and total waiting time."""
    return RecentlyEndedTasks(
        minutes=tuple(
            TasksEndedInMinute(minute=minute_since_epoch(ago(minutes)), tasks=tasks, run_s=run_s, wait_s=wait_s)
            for minutes, tasks, run_s, wait_s in rows
        )
    )


def counted(
    seen: BalanceSituation, ended: RecentlyEndedTasks = NO_ENDS, lookback: timedelta = LOOKBACK
) -> BalanceRoundStatistics:
    return count_balancer_round_figures(seen, ended, "all.q", lookback)


def loaded(seen: BalanceSituation, *loads: float | None) -> BalanceSituation:
    hosts = tuple(replace(host, load=load) for host, load in zip(seen.cell.hosts, loads, strict=True))
    return replace(seen, cell=replace(seen.cell, hosts=hosts))


def test_hosts_slots_and_tasks_are_counted() -> None:
    seen = situation(
        instance("n1", (1, 2)),
        instance("n2", (1,)),
        instance("n3", state="au"),
        wait=[waiting(5, tasks=40), waiting(9, tasks=3, state="hqw"), waiting(1, state="Eqw")],
        hosts=("bare",),
    )
    found = counted(seen)

    assert (found.at, found.hosts, found.running, found.queued, found.slots) == (NOON, 4, 3, 40, 8)


def test_best_effort_and_transferred_tasks_do_not_count_as_running() -> None:
    """The cell configuration or the saved round input names the best-effort queues."""
    queues = {name: CellQueue(name=name, is_away=name == "away") for name in ("all.q", "away")}
    running = [instance("n1", (1,), queue=name) for name in ("all.q", "away", "spare")]
    seen = replace(situation(*running), layout=CellConfiguration(queues=queues))

    assert counted(seen).running == 2
    assert counted(replace(seen, best_effort=frozenset({"spare"}))).running == 1


@pytest.mark.parametrize(
    ("ended", "expected"),
    [
        (ends((10, 1, DAY_S + 60, 2 * DAY_S + 30)), (86460, 172830)),  # StarCluster lets 24 h and 1 min be 60 s
        (ends((10, 1, 100, 0), (20, 2, 5, 5)), (35, 2)),
        (NO_ENDS, (0, 0)),
    ],
    ids=["more than a day", "each task weighs the same", "no end"],
)
def test_mean_times_are_rounded(ended: RecentlyEndedTasks, expected: tuple[int, int]) -> None:
    found = counted(situation(), ended)

    assert (found.duration_s, found.wait_s) == expected


@pytest.mark.parametrize(("minutes", "expected"), [(179, 60), (181, 0), (-2, 0)])
def test_only_tasks_that_ended_within_the_lookback_count(minutes: float, expected: int) -> None:
    assert counted(situation(), ends((minutes, 1, 60, 0))).duration_s == expected
    assert counted(situation(), ends((600, 1, 60, 0)), timedelta(hours=11)).duration_s == 60


def test_the_load_is_the_mean_of_the_hosts_that_report_a_load() -> None:
    seen = loaded(situation(hosts=("n1", "n2", "n3")), 1200.0, 0.5, None)

    assert counted(seen).load == 600.25
    idle = loaded(situation(hosts=("n1", "n2")), 0.0, 0.5)
    assert (counted(idle).load, counted(situation()).load) == (0.25, 0.0)


ONE = replace(FIGURES, nodes=1, tasks=1, fit=1, free=1, coming=1, most=1, least=1, waited_s=60.0)
NONE = replace(ONE, tasks=0, fit=0, coming=0)
WAITS = "1 task waits 60 s, 1 fits in 1 free slot and 1 node on its way"


@pytest.mark.parametrize(
    ("verdict", "figures", "told"),
    [
        (Reason.MORE_WANTED, ONE, f"{WAITS}, 1 of 1 node exists"),
        (Reason.MORE_WANTED, NONE, "no task waits, 1 slot is free, 1 of 1 node exists"),
        (Reason.ABOVE_MAXIMUM, ONE, f"{WAITS}, 1 node exists, and at most 1 may exist"),
        (Reason.FULL, ONE, "1 of at most 1 node exists"),
        (Reason.BELOW_MINIMUM, ONE, "1 of at least 1 node exists"),
        (Reason.AT_MINIMUM, NONE, "no job waits, 1 of at least 1 node stays"),
        (Reason.NO_CAPACITY, ONE, f"{WAITS}, and pools had no capacity in the last 600 s"),
        (Reason.MONTH_SPENT, ONE, "1 task waits, and the rest of the month's budget does not pay for 1 node"),
        (Reason.TOO_DEAR, ONE, "1 task waits, and 1 node costs more than the hourly budget"),
        (Reason.TOO_DEAR, replace(NONE, nodes=2), "no task waits, and 2 nodes cost more than the hourly budget"),
    ],
)
def test_one_item_is_described_in_the_singular(verdict: Reason, figures: BalancePlanFigures, told: str) -> None:
    plan = BalancePlan(verdict=verdict, figures=figures)

    assert describe_balance_plan(plan, BalanceSection()) == f"{told}: no node is added or removed"


def sampled(*rounds: tuple[float, int, int], before: PublishedNodeHistory | None = None) -> list[tuple[int, int, int]]:
    """Return (minutes, nodes, waiting tasks) of the samples after rounds with these numbers."""
    history = before
    for minutes, nodes, queued in rounds:
        figures = shown(None, UNCHANGED)
        assert figures.statistics
        at, numbers = NOON + timedelta(minutes=minutes), replace(figures.statistics, queued=queued)
        ready = PublishedNodeCount(pool="usual", state="ready", nodes=nodes)
        gone = replace(ready, state="failed", nodes=9)
        counted = replace(figures, at=at, seen_at=at, statistics=numbers, nodes=(ready, gone))
        history = extend_node_history(history, counted)
    assert history
    return [((one.begin - NOON) // timedelta(minutes=1), one.nodes, one.queued) for one in history.samples]


WEEK = 7 * 24 * 60


@pytest.mark.parametrize(
    ("rounds", "samples"),
    [
        ([(0, 1, 2), (1, 3, 1), (29.9, 2, 0)], [(0, 3, 2)]),
        ([(0, 1, 2), (30, 3, 1)], [(0, 1, 2), (30, 3, 1)]),
        ([(0, 1, 2), (30, 1, 1), (WEEK, 2, 1)], [(30, 1, 1), (WEEK, 2, 1)]),
        ([(90, 1, 2), (0, 3, 1)], [(0, 3, 1)]),
    ],
    ids=["largest of half an hour", "next half hour", "seven days", "clock set back"],
)
def test_the_node_history_keeps_the_largest_numbers_of_each_half_hour_for_seven_days(
    rounds: list[tuple[float, int, int]], samples: list[tuple[int, int, int]]
) -> None:
    assert sampled(*rounds) == samples


def test_a_round_that_could_not_read_the_cell_adds_no_sample() -> None:
    seen = shown(None, UNCHANGED)
    unseen = balancer_figures_if_cell_unobserved(seen, "alpha", LATER, "no answer")
    history = extend_node_history(None, seen)

    assert extend_node_history(history, unseen) == history
    assert extend_node_history(history, replace(seen, cluster="beta")).cluster == "beta"
