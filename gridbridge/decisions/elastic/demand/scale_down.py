"""Which nodes are given back: idle ones of the balancer's that no waiting task needs."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime

from gridbridge.decisions.elastic.demand.capacity import Blocks
from gridbridge.decisions.elastic.demand.free_capacity import instances_of, is_busy
from gridbridge.decisions.elastic.demand.time_of_day import price_at
from gridbridge.decisions.elastic.starcluster_counts import told_hosts
from gridbridge.decisions.elastic.starcluster_removal import lasting
from gridbridge.model.elastic.balance_plan import (
    BalancePlan,
    BalanceSituation,
    DemandVerdict,
    RefusalKind,
    UnservedDemand,
)
from gridbridge.model.elastic.balance_sections import Demand, Pool
from gridbridge.model.elastic.cell import QueueInstance
from gridbridge.model.elastic.node import Node, NodeState, is_same_host, short_name
from gridbridge.model.states import QueueFact

BRIEF_S = 60.0  # a unit that is paid for and not longer is worth no wait
BROKEN = frozenset((QueueFact.UNREACHABLE, QueueFact.ERROR))


def preference(
    situation: BalanceSituation, pools: Mapping[str, Pool], demand: Demand
) -> tuple[str, ...]:
    """Return the balancer's nodes in the order in which they are removed.

    Broken ones come first, then those with the worst price, those whose paid time is over soonest,
    and those of the pool that has the fewest busy nodes.
    """
    by_host = _by_node(situation)
    busy = Counter(node.pool for node in situation.nodes if is_busy(by_host.get(node.name, [])))

    def rank(node: Node) -> tuple[bool, float, float, int, str]:
        pool = pools.get(node.pool)
        price = price_at(pool, situation.local_now) if pool else 0.0
        is_whole = not is_broken(by_host.get(node.name, []))
        return is_whole, -price, paid_s(node, situation.now, demand), busy[node.pool], node.name

    return tuple(node.name for node in sorted(situation.nodes, key=rank))


def paid_s(node: Node, now: datetime, demand: Demand) -> float:
    """Return how much of a node's time is paid for already."""
    if node.up_since is None:
        return demand.billing_s
    return demand.billing_s - (now - node.up_since).total_seconds() % demand.billing_s


def is_paid_for(node: Node, situation: BalanceSituation, demand: Demand) -> bool:
    """Say whether so much of a node's unit is left that nothing is saved by its going now."""
    unit_s = demand.billing_s
    return unit_s > BRIEF_S and paid_s(node, situation.now, demand) > unit_s * demand.billing_window


def idle_nodes(situation: BalanceSituation) -> tuple[Node, ...]:
    """Return the nodes that are ready, may go, and on which nothing runs that counts."""
    by_host = _by_node(situation)
    return tuple(
        node
        for node in situation.nodes
        if node.state is NodeState.READY
        and node.name in by_host
        and not is_busy(by_host[node.name])
        and next(lasting(node, situation), None) is None
    )


def is_broken(instances: list[QueueInstance]) -> bool:
    """Say whether a host is silent, or all its queues are in error."""
    return bool(instances) and all(instance.state.facts & BROKEN for instance in instances)


def _by_node(situation: BalanceSituation) -> dict[str, list[QueueInstance]]:
    """Return the queues of each node of which it is known whether it is idle."""
    listed = told_hosts(situation)
    by_host = instances_of(situation)
    short = {short_name(name): name for name in by_host}
    by_node = dict[str, list[QueueInstance]]()
    for node in situation.nodes:
        name = node.name if node.name in by_host else short.get(short_name(node.name), "")
        if name in listed and is_same_host(node.name, name):
            by_node[node.name] = by_host[name]
    return by_node


def shrunk(
    plan: BalancePlan,
    situation: BalanceSituation,
    demand: Demand,
    least: int,
    packed: Blocks,
    order: tuple[str, ...],
) -> BalancePlan:
    """Return the plan with the nodes to remove."""
    since = plan.figures.unchanged_s
    if since is not None and since < demand.shrink_pause_s:
        return plan
    by_host, nodes = (
        _by_node(situation),
        {node.name: node for node in situation.nodes if node.state.is_there},
    )
    needed = {name for room, names in packed for name in names if room.is_used}
    spare = plan.figures.staying - least
    refused, idle = list[UnservedDemand](), list[str]()
    for node in (nodes[name] for name in dict.fromkeys(order) if name in nodes):
        cause = next(_hindrances(node, situation, demand, by_host.get(node.name), needed), None)
        if cause is None and len(idle) >= spare:
            cause = UnservedDemand(host=node.name, cause=RefusalKind.AT_MINIMUM, wanted=str(least))
        if cause is None:
            idle.append(node.name)
        else:
            refused.append(cause)
    above = _above(plan, situation, demand, spare, idle, order)
    verdict = (
        DemandVerdict.ABOVE_MAXIMUM if above else DemandVerdict.SPARE if idle else plan.verdict
    )
    refused = [refusal for refusal in refused if refusal.host not in above]
    remove = (*idle, *above)
    return replace(plan, verdict=verdict, remove=remove, refused=(*plan.refused, *refused))


def _above(
    plan: BalancePlan,
    situation: BalanceSituation,
    demand: Demand,
    spare: int,
    idle: list[str],
    order: tuple[str, ...],
) -> tuple[str, ...]:
    """Return the other idle nodes beyond the most: they go though what waits would have them.

    So a schedule holds while tasks wait. Those whose unit is paid for go late in it.
    """
    staying = plan.figures.nodes - plan.figures.leaving
    most = staying if plan.figures.most is None else plan.figures.most
    over = min(staying - most, spare) - len(idle)
    if over <= 0:
        return ()
    free = {node.name for node in idle_nodes(situation) if not is_paid_for(node, situation, demand)}
    removable = free.difference(idle)
    return tuple(name for name in order if name in removable)[:over]


def _hindrances(
    node: Node,
    situation: BalanceSituation,
    demand: Demand,
    instances: list[QueueInstance] | None,
    needed: set[str],
) -> Iterator[UnservedDemand]:
    """Give what keeps a node from being removed."""
    yield from lasting(node, situation)
    if node.state is not NodeState.READY:
        yield UnservedDemand(host=node.name, cause=RefusalKind.NOT_READY, has=node.state.value)
    if instances is None:
        yield UnservedDemand(host=node.name, cause=RefusalKind.NOT_LISTED)
    if is_busy(instances or []):
        yield UnservedDemand(host=node.name, cause=RefusalKind.BUSY)
    if node.name in needed:
        yield UnservedDemand(host=node.name, cause=RefusalKind.NEEDED)
    yield from _times(node, situation, demand)


def _times(node: Node, situation: BalanceSituation, demand: Demand) -> Iterator[UnservedDemand]:
    """Give what is too early.

    A node of which nobody noted since when it is idle has been so since it is up.
    """
    since = node.idle_since or node.up_since
    idle_s = (situation.now - since).total_seconds() if since else 0.0
    if idle_s < demand.idle_timeout_s:
        cause = RefusalKind.IDLE_BRIEFLY if since else RefusalKind.UPTIME_UNKNOWN
        yield UnservedDemand(
            host=node.name,
            cause=cause,
            wanted=f"{demand.idle_timeout_s:g}",
            has=f"{max(0.0, idle_s):.0f}",
        )
    if is_paid_for(node, situation, demand):
        yield UnservedDemand(
            host=node.name,
            cause=RefusalKind.PAID if node.up_since else RefusalKind.UPTIME_UNKNOWN,
            has=f"{paid_s(node, situation.now, demand):.0f}",
        )
