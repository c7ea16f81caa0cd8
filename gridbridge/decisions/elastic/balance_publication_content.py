"""What a round shows everybody, made from the one before it: counters go on from there."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from gridbridge.model.elastic.balance_plan import BalancePlan, BalanceSituation
from gridbridge.model.elastic.node import NodeState
from gridbridge.model.elastic.owned_nodes import NodeCause, OwnedNode
from gridbridge.model.elastic.published_balance import (
    BalanceStatistics,
    PublishedBalance,
    ShownNodes,
    ShownPool,
    ShownRefusal,
)

GIVEN_BACK = (NodeState.READY, NodeState.DRAINING, NodeState.REMOVING)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundOutcome:
    """What a round did, in nodes by pool, and how it went about it."""

    took_s: float = 0.0
    sentence: str = ""
    is_acting: bool = False
    min_nodes: int = 0
    max_nodes: int = 0
    cost_hour: float = 0.0
    added: Mapping[str, int] = field(default_factory=dict)
    removed: Mapping[str, int] = field(default_factory=dict)
    failed: Mapping[str, int] = field(default_factory=dict)


def counted(
    changes: Iterable[tuple[OwnedNode | None, OwnedNode]], so_far: RoundOutcome
) -> RoundOutcome:
    """Return what a round did with the nodes that came, went and failed in it, by pool.

    A change is a node as it was, None for a new one, and as it is. A node comes when it is ready,
    goes when its machine is given back, and fails once, when it gets the cause that ends it.
    """
    added, removed, failed = Counter[str](), Counter[str](), Counter[str]()
    for before, node in changes:
        was = before.state if before else None
        added[node.pool] += node.state is NodeState.READY and was is NodeState.JOINING
        is_lost = node.cause is NodeCause.VANISHED
        removed[node.pool] += node.state is NodeState.GONE and was in GIVEN_BACK and not is_lost
        is_new_cause = before is None or before.cause is not node.cause
        failed[node.pool] += is_new_cause and _is_failure(node.cause)
    return replace(so_far, added=+added, removed=+removed, failed=+failed)


def _is_failure(cause: NodeCause) -> bool:
    return cause.is_boot_failure or cause in (NodeCause.VANISHED, NodeCause.SILENT)


def after(
    before: PublishedBalance | None,
    cluster: str,
    seen: BalanceSituation,
    plan: BalancePlan,
    numbers: BalanceStatistics,
    done: RoundOutcome,
) -> PublishedBalance:
    """Return what is shown after a round that saw the whole cell."""
    last = _begun(before, cluster, seen.now)
    figures = plan.figures
    return replace(
        last,
        at=seen.now,
        seen_at=seen.now,
        took_s=done.took_s,
        trouble="",
        sentence=done.sentence,
        is_acting=done.is_acting,
        rounds=last.rounds + 1,
        statistics=numbers,
        wanted_slots=figures.wanted,
        free_slots=figures.free,
        longest_wait_s=figures.waited_s,
        min_nodes=figures.least if figures.least is not None else done.min_nodes,
        max_nodes=figures.most if figures.most is not None else done.max_nodes,
        cost_hour=done.cost_hour,
        cost_month=seen.spent,
        nodes=_nodes(seen),
        pools=_pools(last, done),
        refused=_refused(plan),
    )


def blind(
    before: PublishedBalance | None, cluster: str, now: datetime, trouble: str
) -> PublishedBalance:
    """Return what is shown after a round that saw nothing: the rest is as it was."""
    last = _begun(before, cluster, now)
    return replace(
        last,
        at=now,
        took_s=0.0,
        trouble=trouble,
        rounds=last.rounds + 1,
        blind_rounds=last.blind_rounds + 1,
    )


def _begun(before: PublishedBalance | None, cluster: str, now: datetime) -> PublishedBalance:
    """Return the round before; one without any where there was none of this cluster."""
    if before and before.cluster == cluster:
        return before
    return PublishedBalance(cluster=cluster, at=now)


def _nodes(seen: BalanceSituation) -> tuple[ShownNodes, ...]:
    counts = Counter((one.pool, one.state.value) for one in seen.nodes)
    return tuple(
        ShownNodes(pool=pool, state=state, nodes=counts[pool, state])
        for pool, state in sorted(counts)
    )


def _pools(last: PublishedBalance, done: RoundOutcome) -> tuple[ShownPool, ...]:
    known = {one.pool: one for one in last.pools}
    names = sorted({*known, *done.added, *done.removed, *done.failed})
    return tuple(_grown(known.get(name, ShownPool(pool=name)), done) for name in names)


def _grown(one: ShownPool, done: RoundOutcome) -> ShownPool:
    return ShownPool(
        pool=one.pool,
        added=one.added + done.added.get(one.pool, 0),
        removed=one.removed + done.removed.get(one.pool, 0),
        failed=one.failed + done.failed.get(one.pool, 0),
    )


def _refused(plan: BalancePlan) -> tuple[ShownRefusal, ...]:
    counts = Counter(one.cause.name.lower() for one in plan.refused if one.job)
    return tuple(ShownRefusal(cause=cause, jobs=counts[cause]) for cause in sorted(counts))
