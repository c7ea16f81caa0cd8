"""What a round shows everybody, made from the one before it."""

from datetime import timedelta

import pytest

from gridbridge.decisions.elastic.balance_publication_content import (
    RoundOutcome,
    after,
    blind,
    counted,
)
from gridbridge.decisions.elastic.starcluster_statistics import statistics
from gridbridge.model.elastic.balance_plan import (
    BalancePlan,
    BalanceSituation,
    DemandVerdict,
    RefusalKind,
    UnservedDemand,
)
from gridbridge.model.elastic.node import NodeState
from gridbridge.model.elastic.owned_nodes import NodeCause, OwnedNode
from gridbridge.model.elastic.published_balance import (
    PublishedBalance,
    RecentEnds,
    ShownNodes,
    ShownPool,
    ShownRefusal,
)
from tests.decisions.elastic.cells import NOON, instance, node, situation
from tests.measured import FIGURES

LATER = NOON + timedelta(minutes=1)


def shown(
    before: PublishedBalance | None,
    done: RoundOutcome,
    *refused: UnservedDemand,
    seen: BalanceSituation | None = None,
) -> PublishedBalance:
    """Return what is shown after a round."""
    looked = seen or situation(instance("n1", (1,)))
    plan = BalancePlan(verdict=DemandVerdict.WAITS, figures=FIGURES, refused=refused)
    return after(before, "alpha", looked, plan, statistics(looked, RecentEnds(), "all.q"), done)


def test_counters_go_on_from_the_round_before() -> None:
    first = shown(None, RoundOutcome(added={"usual": 2}, failed={"cheap": 1}))
    second = shown(first, RoundOutcome(added={"usual": 1}, removed={"usual": 1}))
    blind_one = blind(second, "alpha", LATER, "no answer")
    last = shown(blind_one, RoundOutcome(removed={"usual": 1}, failed={"cheap": 1}))

    assert [one.rounds for one in (first, second, blind_one, last)] == [1, 2, 3, 4]
    assert [one.blind_rounds for one in (second, blind_one, last)] == [0, 1, 1]
    assert last.pools == (
        ShownPool(pool="cheap", failed=2),
        ShownPool(pool="usual", added=3, removed=2),
    )


def test_counters_begin_anew_for_another_cluster() -> None:
    other = PublishedBalance(
        cluster="beta", at=NOON, rounds=7, pools=(ShownPool(pool="x", added=9),)
    )

    assert (shown(other, RoundOutcome()).rounds, shown(other, RoundOutcome()).pools) == (1, ())


def test_a_round_that_saw_nothing_leaves_what_was_seen() -> None:
    """Nothing known is never shown as an idle cell."""
    first = shown(None, RoundOutcome(sentence="1 job waits: add 1", added={"usual": 1}))
    second = blind(first, "alpha", LATER, "alpha: qstat: no answer in time")

    assert (second.at, second.seen_at) == (LATER, NOON)
    assert (second.trouble, second.rounds, second.blind_rounds) == (
        "alpha: qstat: no answer in time",
        2,
        1,
    )
    assert second.statistics == first.statistics
    assert shown(second, RoundOutcome()).trouble == ""


def test_the_very_first_round_may_see_nothing() -> None:
    first = blind(None, "alpha", NOON, "no answer")

    assert (first.seen_at, first.statistics, first.blind_rounds) == (None, None, 1)


def test_nodes_are_told_by_pool_and_state() -> None:
    nodes = [node("n1", pool="a"), node("n2", pool="a"), node("n3", state="booting", pool="b")]

    assert shown(None, RoundOutcome(), seen=situation(nodes=nodes)).nodes == (
        ShownNodes(pool="a", state="ready", nodes=2),
        ShownNodes(pool="b", state="booting", nodes=1),
    )


def test_jobs_are_told_by_cause_and_hosts_are_not() -> None:
    held = [UnservedDemand(job=number, cause=RefusalKind.HELD) for number in (1, 2)]
    found = shown(None, RoundOutcome(), *held, UnservedDemand(host="n1", cause=RefusalKind.BUSY))

    assert found.refused == (ShownRefusal(cause="held", jobs=2),)


def test_limits_are_those_of_the_hour_where_a_schedule_has_some() -> None:
    found = shown(None, RoundOutcome(min_nodes=1, max_nodes=50))

    assert (found.min_nodes, found.max_nodes) == (FIGURES.least, FIGURES.most)


def owned(state: NodeState, cause: NodeCause = NodeCause.NONE) -> OwnedNode:
    """Return a node of a pool."""
    return OwnedNode(name="n3", pool="usual", state=state, since=NOON, cause=cause)


JOINING, READY = owned(NodeState.JOINING), owned(NodeState.READY)
REMOVING = owned(NodeState.REMOVING, NodeCause.NOT_NEEDED)
DEAD = owned(NodeState.REMOVING, NodeCause.NEVER_BOOTED)


@pytest.mark.parametrize(
    ("before", "node", "expected"),
    [
        (None, owned(NodeState.REQUESTED), (0, 0, 0)),
        (JOINING, READY, (1, 0, 0)),
        (READY, READY, (0, 0, 0)),
        (READY, owned(NodeState.DRAINING, NodeCause.NOT_NEEDED), (0, 0, 0)),
        (owned(NodeState.DRAINING), READY, (0, 0, 0)),
        (REMOVING, owned(NodeState.GONE, NodeCause.NOT_NEEDED), (0, 1, 0)),
        (owned(NodeState.BOOTING), DEAD, (0, 0, 1)),
        (DEAD, owned(NodeState.GONE, NodeCause.NEVER_BOOTED), (0, 1, 0)),
        (READY, owned(NodeState.GONE, NodeCause.VANISHED), (0, 0, 1)),
        (owned(NodeState.REQUESTED), owned(NodeState.GONE, NodeCause.NO_CAPACITY), (0, 0, 0)),
    ],
    ids=[
        *("asked for", "came", "stays", "drains", "opened again", "went"),
        *("never booted", "went then", "vanished", "no capacity"),
    ],
)
def test_a_node_comes_goes_and_fails_once(
    before: OwnedNode | None, node: OwnedNode, expected: tuple[int, int, int]
) -> None:
    done = counted([(before, node)], RoundOutcome())

    found = tuple(each.get("usual", 0) for each in (done.added, done.removed, done.failed))
    assert found == expected
