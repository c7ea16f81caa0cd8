"""Decide which idle nodes to remove: nodes that no task needs, and nodes that exceed a budget.

Providers bill whole units of time, so each node is paid until the end of its current unit. A busy node is never
removed for a budget.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import ceil

from gridbridge.decisions.elastic.balancer_node_and_job_counts import (
    hosts_with_known_tasks,
    is_host_silent_or_in_error,
    nodes_by_name_without_standby,
    reasons_never_to_remove_node,
)
from gridbridge.decisions.elastic.demand.free_capacity import has_running_or_reserved_slots, ordinary_queues_by_host
from gridbridge.decisions.elastic.demand.task_packing import HostBlocks
from gridbridge.decisions.elastic.node_costs_and_pool_choice import node_price_at_hour
from gridbridge.model.elastic.balance_plan import (
    BalancePlan,
    BalancePlanReason,
    BalanceSituation,
    NodeAddOrRemoveRefusal,
    NodeAddOrRemoveRefusalCause,
)
from gridbridge.model.elastic.balance_sections import BalanceSection, DemandPolicySection, NodePoolSection
from gridbridge.model.elastic.elastic_nodes import ElasticNode, ElasticNodeState, is_same_host, short_host_name
from gridbridge.model.elastic.grid_engine_cell import QueueInstance
from gridbridge.model.grid_engine_amounts import HOUR_S

BRIEF_S = 60.0  # a billing unit up to this length is not worth waiting for


def rank_nodes_for_removal(
    situation: BalanceSituation, pools: Mapping[str, NodePoolSection], demand: DemandPolicySection
) -> tuple[str, ...]:
    """Return the balancer's nodes in the order in which they are removed.

    Nodes that are silent or in error come first. Then nodes are sorted by price (highest first), end of the
    paid time (soonest first), and busy nodes of the same pool (fewest first).
    """
    by_host = _queue_instances_by_node(situation)
    busy = Counter(node.pool for node in situation.nodes if has_running_or_reserved_slots(by_host.get(node.name, [])))

    def rank(node: ElasticNode) -> tuple[bool, float, float, int, str]:
        pool = pools.get(node.pool)
        price = node_price_at_hour(pool, situation.local_now) if pool else 0.0
        is_whole = not is_host_silent_or_in_error(by_host.get(node.name, []))
        return (is_whole, -price, remaining_paid_time_s(node, situation.now, demand), busy[node.pool], node.name)

    return tuple(node.name for node in sorted(situation.nodes, key=rank))


def remaining_paid_time_s(node: ElasticNode, now: datetime, demand: DemandPolicySection) -> float:
    """Return the seconds until the current billing unit of a node ends."""
    if node.up_since is None:
        return demand.billing_s
    return demand.billing_s - (now - node.up_since).total_seconds() % demand.billing_s


def would_removal_waste_paid_time(node: ElasticNode, situation: BalanceSituation, demand: DemandPolicySection) -> bool:
    """Say whether removing a node now would waste time that is already paid for."""
    unit_s = demand.billing_s
    return unit_s > BRIEF_S and remaining_paid_time_s(node, situation.now, demand) > unit_s * demand.billing_window


def find_removable_idle_nodes(situation: BalanceSituation) -> tuple[ElasticNode, ...]:
    """Return the ready and idle nodes that may be removed."""
    by_host = _queue_instances_by_node(situation)
    return tuple(
        node
        for node in situation.nodes
        if node.state is ElasticNodeState.READY
        and node.name in by_host
        and not has_running_or_reserved_slots(by_host[node.name])
        and next(reasons_never_to_remove_node(node, situation), None) is None
    )


def _queue_instances_by_node(situation: BalanceSituation) -> dict[str, list[QueueInstance]]:
    """Return the queue instances of each node whose tasks the cell reports."""
    listed = hosts_with_known_tasks(situation)
    by_host = ordinary_queues_by_host(situation)
    short = {short_host_name(name): name for name in by_host}
    by_node = dict[str, list[QueueInstance]]()
    for node in situation.nodes:
        name = node.name if node.name in by_host else short.get(short_host_name(node.name), "")
        if name in listed and is_same_host(node.name, name):
            by_node[node.name] = by_host[name]
    return by_node


def plan_node_removal(
    plan: BalancePlan,
    situation: BalanceSituation,
    demand: DemandPolicySection,
    least: int,
    packed: HostBlocks,
    order: tuple[str, ...],
) -> BalancePlan:
    """Extend a plan by the nodes to remove; `packed` shows which nodes waiting tasks need."""
    since = plan.figures.unchanged_s
    if since is not None and since < demand.shrink_pause_s:
        return plan
    by_host, nodes = (
        _queue_instances_by_node(situation),
        {node.name: node for node in situation.nodes if node.state.is_there},
    )
    needed = {name for room, names in packed for name in names if room.is_used}
    spare = plan.figures.staying - least
    refused, idle = list[NodeAddOrRemoveRefusal](), list[str]()
    for node in (nodes[name] for name in dict.fromkeys(order) if name in nodes):
        cause = next(_demand_removal_hindrances(node, situation, demand, by_host.get(node.name), needed), None)
        if cause is None and len(idle) >= spare:
            cause = NodeAddOrRemoveRefusal(
                host=node.name, cause=NodeAddOrRemoveRefusalCause.AT_MINIMUM, wanted=str(least)
            )
        if cause is None:
            idle.append(node.name)
        else:
            refused.append(cause)
    above = _idle_nodes_above_maximum(plan, situation, demand, spare, idle, order)
    verdict = BalancePlanReason.ABOVE_MAXIMUM if above else BalancePlanReason.SPARE if idle else plan.verdict
    refused = [refusal for refusal in refused if refusal.host not in above]
    remove = (*idle, *above)
    return replace(plan, verdict=verdict, remove=remove, refused=(*plan.refused, *refused))


def _idle_nodes_above_maximum(
    plan: BalancePlan,
    situation: BalanceSituation,
    demand: DemandPolicySection,
    spare: int,
    idle: list[str],
    order: tuple[str, ...],
) -> tuple[str, ...]:
    """Return the idle nodes beyond the largest number of nodes, even if waiting tasks would use them.

    So the maximum of a schedule applies even while tasks wait. Nodes are removed only late in their billing
    unit.
    """
    staying = plan.figures.nodes - plan.figures.leaving
    most = staying if plan.figures.most is None else plan.figures.most
    over = min(staying - most, spare) - len(idle)
    if over <= 0:
        return ()
    free = {
        node.name
        for node in find_removable_idle_nodes(situation)
        if not would_removal_waste_paid_time(node, situation, demand)
    }
    removable = free.difference(idle)
    return tuple(name for name in order if name in removable)[:over]


def _demand_removal_hindrances(
    node: ElasticNode,
    situation: BalanceSituation,
    demand: DemandPolicySection,
    instances: list[QueueInstance] | None,
    needed: set[str],
) -> Iterator[NodeAddOrRemoveRefusal]:
    yield from reasons_never_to_remove_node(node, situation)
    if node.state is not ElasticNodeState.READY:
        yield NodeAddOrRemoveRefusal(host=node.name, cause=NodeAddOrRemoveRefusalCause.NOT_READY, has=node.state.value)
    if instances is None:
        yield NodeAddOrRemoveRefusal(host=node.name, cause=NodeAddOrRemoveRefusalCause.NOT_LISTED)
    if has_running_or_reserved_slots(instances or []):
        yield NodeAddOrRemoveRefusal(host=node.name, cause=NodeAddOrRemoveRefusalCause.BUSY)
    if node.name in needed:
        yield NodeAddOrRemoveRefusal(host=node.name, cause=NodeAddOrRemoveRefusalCause.NEEDED)
    yield from _time_hindrances(node, situation, demand)


def _time_hindrances(
    node: ElasticNode, situation: BalanceSituation, demand: DemandPolicySection
) -> Iterator[NodeAddOrRemoveRefusal]:
    """Return the reasons why it is too early to remove a node.

    A node whose idle time is unknown counts as idle since its start.
    """
    since = node.idle_since or node.up_since
    idle_s = (situation.now - since).total_seconds() if since else 0.0
    if idle_s < demand.idle_timeout_s:
        cause = NodeAddOrRemoveRefusalCause.IDLE_BRIEFLY if since else NodeAddOrRemoveRefusalCause.UPTIME_UNKNOWN
        yield NodeAddOrRemoveRefusal(
            host=node.name, cause=cause, wanted=f"{demand.idle_timeout_s:g}", has=f"{max(0.0, idle_s):.0f}"
        )
    if would_removal_waste_paid_time(node, situation, demand):
        yield NodeAddOrRemoveRefusal(
            host=node.name,
            cause=NodeAddOrRemoveRefusalCause.PAID if node.up_since else NodeAddOrRemoveRefusalCause.UPTIME_UNKNOWN,
            has=f"{remaining_paid_time_s(node, situation.now, demand):.0f}",
        )


ROUNDING = 1e-9  # tolerance for rounding errors of price sums


def remaining_month_budget(situation: BalanceSituation, demand: DemandPolicySection) -> float | None:
    """Return the unspent part of the month's budget; None if the month has no budget."""
    return demand.budget_month - situation.spent if demand.budget_month else None


def remaining_month_cost_of_nodes(
    situation: BalanceSituation,
    rules: BalanceSection,
    demand: DemandPolicySection,
    pools: Mapping[str, NodePoolSection],
    least: int,
) -> float:
    """Return what the present nodes will still cost in this month.

    Nodes that must be kept, and the cheapest nodes up to the minimum `least`, count until the month ends. Of
    every other node only the next billing unit is included.
    """
    unit_s = _billed_unit_s(rules, demand)
    costly = _priced_nodes(situation, pools)
    free = sum(not node.state.is_leaving for node in nodes_by_name_without_standby(situation)) - len(costly)
    cost, staying = 0.0, max(0, least - free)
    for at, (node, price) in enumerate(costly):
        over_s = _remaining_month_s(situation.now) - remaining_paid_time_s(node, situation.now, demand)
        units = ceil(max(0.0, over_s) / unit_s)
        stays = node.is_kept or at < staying
        cost += price * unit_s / HOUR_S * (units if stays else min(units, 1))
    return cost


def idle_nodes_beyond_month_budget(
    situation: BalanceSituation,
    rules: BalanceSection,
    demand: DemandPolicySection,
    pools: Mapping[str, NodePoolSection],
    order: tuple[str, ...],
) -> tuple[str, ...]:
    """Return the idle nodes to remove so that the month's budget pays for the remaining nodes.

    Nodes are taken in the given order, and only late in their billing unit. The result is empty while the rest
    of the budget pays for the next unit of all nodes.
    """
    month = remaining_month_budget(situation, demand)
    if month is None:
        return ()
    unit_s = _billed_unit_s(rules, demand)
    ahead = {
        node.name: price * unit_s / HOUR_S
        for node, price in _priced_nodes(situation, pools)
        if remaining_paid_time_s(node, situation.now, demand) < _remaining_month_s(situation.now)
    }
    return _idle_nodes_beyond_limit(month, ahead, situation, demand, order)


def idle_nodes_over_hour_budget(
    situation: BalanceSituation,
    demand: DemandPolicySection,
    pools: Mapping[str, NodePoolSection],
    order: tuple[str, ...],
) -> tuple[str, ...]:
    """Return the idle nodes to remove so that the remaining nodes cost no more than the hourly budget.

    The budget may be exceeded after a change of a price or of the budget.
    """
    if not demand.budget_hour:
        return ()
    ahead = {node.name: price for node, price in _priced_nodes(situation, pools)}
    return _idle_nodes_beyond_limit(demand.budget_hour + ROUNDING, ahead, situation, demand, order)


def _idle_nodes_beyond_limit(
    most: float,
    ahead: Mapping[str, float],
    situation: BalanceSituation,
    demand: DemandPolicySection,
    order: tuple[str, ...],
) -> tuple[str, ...]:
    idle = {
        node.name
        for node in find_removable_idle_nodes(situation)
        if not would_removal_waste_paid_time(node, situation, demand)
    }
    total, leaving = sum(ahead.values()), list[str]()
    for name in order:
        if total > most and name in idle and name in ahead:
            leaving.append(name)
            total -= ahead[name]
    return tuple(leaving)


def _priced_nodes(situation: BalanceSituation, pools: Mapping[str, NodePoolSection]) -> list[tuple[ElasticNode, float]]:
    """Return the nodes that cost money and their hourly prices, the cheapest first."""
    staying = (node for node in situation.nodes if node.counts and not node.state.is_leaving)
    priced = (
        (node, node_price_at_hour(pools[node.pool], situation.local_now)) for node in staying if node.pool in pools
    )
    return sorted(
        (priced_node for priced_node in priced if priced_node[1] > 0),
        key=lambda priced_node: (priced_node[1], priced_node[0].name),
    )


def _billed_unit_s(rules: BalanceSection, demand: DemandPolicySection) -> float:
    """Return the billing unit in seconds, or the time of two rounds if longer."""
    return max(demand.billing_s, 2 * rules.interval_s)


def _remaining_month_s(now: datetime) -> float:
    """Return the seconds until the end of the current month in UTC."""
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    after = (today.replace(day=28) + timedelta(days=4)).replace(day=1)
    return (after - now).total_seconds()
