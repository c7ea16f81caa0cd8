"""What a balancer round publishes, based on the figures of the previous round."""

from datetime import timedelta

import pytest

from gridbridge.decisions.elastic.balancer_round_reports import (
    BalancerRoundNodeChanges,
    balancer_figures_if_cell_observed,
    balancer_figures_if_cell_unobserved,
    count_balancer_round_figures,
    count_node_changes_by_pool,
)
from gridbridge.model.elastic.balance_plan import (
    BalancePlan,
    BalancePlanReason,
    BalanceSituation,
    NodeAddOrRemoveRefusal,
    NodeAddOrRemoveRefusalCause,
)
from gridbridge.model.elastic.elastic_nodes import BalancerOwnedNode, ElasticNodeState, NodeStateCause
from gridbridge.model.elastic.published_balance import (
    PublishedBalancerFigures,
    PublishedNewNodeRefusalCount,
    PublishedNodeCount,
    PublishedPoolNodeCounters,
    RecentlyEndedTasks,
)
from tests.decisions.elastic.cells import NOON, instance, node, situation
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
