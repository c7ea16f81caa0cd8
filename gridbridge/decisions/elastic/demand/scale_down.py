"""Decide which idle nodes to remove: nodes that no task needs, and nodes that exceed a budget."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import ceil

from gridbridge.decisions.elastic.balancer_node_and_job_counts import (
    nodes_by_name_without_standby,
    reasons_never_to_remove_node,
)
from gridbridge.decisions.elastic.demand.demand_policy_round_facts import DemandPolicySituation, remaining_paid_time_s
from gridbridge.decisions.elastic.demand.free_capacity import has_running_or_reserved_slots
from gridbridge.decisions.elastic.demand.task_packing import HostBlocks
from gridbridge.decisions.elastic.node_costs_and_pool_choice import node_price_at_hour
from gridbridge.model.elastic.balance_plan import (
    BalancePlan,
    BalancePlanReason,
    NodeAddOrRemoveRefusal,
    NodeAddOrRemoveRefusalCause,
)
from gridbridge.model.elastic.elastic_nodes import ElasticNode, ElasticNodeState
from gridbridge.model.grid_engine_amounts import HOUR_S

BRIEF_S = 60.0  # a billing unit of at most this length does not delay the removal of a node


def _would_removal_waste_paid_time(node: ElasticNode, facts: DemandPolicySituation) -> bool:
    unit_s, left_s = facts.demand.billing_s, remaining_paid_time_s(node, facts.situation, facts.demand)
    return unit_s > BRIEF_S and left_s > unit_s * facts.demand.billing_window


def _names_of_removable_idle_nodes(facts: DemandPolicySituation) -> set[str]:
    """Return the ready and idle nodes that may be removed, and whose paid time is nearly over."""
    return {
        node.name
        for node in facts.situation.nodes
        if node.state is ElasticNodeState.READY
        and node.name in facts.instances_by_node
        and not has_running_or_reserved_slots(facts.instances_by_node[node.name])
        and next(reasons_never_to_remove_node(node, facts.situation), None) is None
        and not _would_removal_waste_paid_time(node, facts)
    }


def plan_node_removal(plan: BalancePlan, facts: DemandPolicySituation, packed: HostBlocks) -> BalancePlan:
    """Add the nodes to remove to a plan; `packed` is the capacity after waiting tasks were placed."""
    since = plan.figures.unchanged_s
    if since is not None and since < facts.demand.shrink_pause_s:
        return plan
    nodes = {node.name: node for node in facts.situation.nodes if node.state.is_in_cluster_or_coming}
    needed = {name for room, names in packed for name in names if room.is_used}
    spare = plan.figures.node_count_for_min_nodes - facts.least
    refused, idle = list[NodeAddOrRemoveRefusal](), list[str]()
    for node in (nodes[name] for name in dict.fromkeys(facts.removal_order) if name in nodes):
        cause = next(_refusals_to_remove_node(node, facts, needed), None)
        if cause is None and len(idle) >= spare:
            at_minimum = NodeAddOrRemoveRefusalCause.AT_MINIMUM
            cause = NodeAddOrRemoveRefusal(host=node.name, cause=at_minimum, wanted=str(facts.least))
        if cause is None:
            idle.append(node.name)
        else:
            refused.append(cause)
    above = _idle_nodes_above_maximum(plan, facts, spare, idle)
    verdict = BalancePlanReason.ABOVE_MAXIMUM if above else BalancePlanReason.SPARE if idle else plan.verdict
    refused = [refusal for refusal in refused if refusal.host not in above]
    return replace(plan, verdict=verdict, remove=(*idle, *above), refused=(*plan.refused, *refused))


def _idle_nodes_above_maximum(
    plan: BalancePlan, facts: DemandPolicySituation, spare: int, idle: list[str]
) -> tuple[str, ...]:
    over = min(plan.figures.nodes - plan.figures.leaving - facts.most, spare) - len(idle)
    if over <= 0:
        return ()
    removable = _names_of_removable_idle_nodes(facts).difference(idle)
    return tuple(name for name in facts.removal_order if name in removable)[:over]


def _refusals_to_remove_node(
    node: ElasticNode, facts: DemandPolicySituation, needed: set[str]
) -> Iterator[NodeAddOrRemoveRefusal]:
    """Yield why a node is not removed; if its idle time is unknown, the node counts as idle since its start."""
    situation, idle_timeout_s = facts.situation, facts.demand.idle_timeout_s
    yield from reasons_never_to_remove_node(node, situation)
    if node.state is not ElasticNodeState.READY:
        yield NodeAddOrRemoveRefusal(host=node.name, cause=NodeAddOrRemoveRefusalCause.NOT_READY, has=node.state.value)
    if node.name not in facts.instances_by_node:
        yield NodeAddOrRemoveRefusal(host=node.name, cause=NodeAddOrRemoveRefusalCause.NOT_LISTED)
    if has_running_or_reserved_slots(facts.instances_by_node.get(node.name, [])):
        yield NodeAddOrRemoveRefusal(host=node.name, cause=NodeAddOrRemoveRefusalCause.BUSY)
    if node.name in needed:
        yield NodeAddOrRemoveRefusal(host=node.name, cause=NodeAddOrRemoveRefusalCause.NEEDED)
    since = node.idle_since or node.up_since
    idle_s = (situation.now - since).total_seconds() if since else 0.0
    if idle_s < idle_timeout_s:
        cause = NodeAddOrRemoveRefusalCause.IDLE_BRIEFLY if since else NodeAddOrRemoveRefusalCause.UPTIME_UNKNOWN
        wanted, has = f"{idle_timeout_s:g}", f"{max(0.0, idle_s):.0f}"
        yield NodeAddOrRemoveRefusal(host=node.name, cause=cause, wanted=wanted, has=has)
    if _would_removal_waste_paid_time(node, facts):
        cause = NodeAddOrRemoveRefusalCause.PAID if node.up_since else NodeAddOrRemoveRefusalCause.UPTIME_UNKNOWN
        has = f"{remaining_paid_time_s(node, situation, facts.demand):.0f}"
        yield NodeAddOrRemoveRefusal(host=node.name, cause=cause, has=has)


ROUNDING = 1e-9  # tolerance for rounding errors of price sums


def month_budget_for_new_nodes(facts: DemandPolicySituation) -> float | None:
    """Return the part of the month's budget that is left for new nodes; None without a budget.

    Kept nodes, and the cheapest nodes up to the minimum, are paid until the month ends; all others only for their next
    billing unit.
    """
    if not facts.demand.budget_month:
        return None
    situation, unit_s = facts.situation, _billing_unit_s(facts)
    costly = _nodes_with_hourly_price(facts)
    free = sum(not node.state.is_leaving for node in nodes_by_name_without_standby(situation)) - len(costly)
    cost, staying = 0.0, max(0, facts.least - free)
    for at, (node, price) in enumerate(costly):
        over_s = _seconds_to_end_of_month(situation.now) - remaining_paid_time_s(node, situation, facts.demand)
        units = ceil(max(0.0, over_s) / unit_s)
        stays = node.is_kept or at < staying
        cost += price * unit_s / HOUR_S * (units if stays else min(units, 1))
    return facts.demand.budget_month - situation.spent - cost


def idle_nodes_beyond_month_budget(facts: DemandPolicySituation) -> tuple[str, ...]:
    """Return idle nodes to remove, late in their billing unit, until the month's budget pays the remaining nodes."""
    if not facts.demand.budget_month:
        return ()
    unit_s, situation = _billing_unit_s(facts), facts.situation
    ahead = {
        node.name: price * unit_s / HOUR_S
        for node, price in _nodes_with_hourly_price(facts)
        if remaining_paid_time_s(node, situation, facts.demand) < _seconds_to_end_of_month(situation.now)
    }
    return _idle_nodes_over_cost(facts.demand.budget_month - situation.spent, ahead, facts)


def idle_nodes_over_hour_budget(facts: DemandPolicySituation) -> tuple[str, ...]:
    if not facts.demand.budget_hour:
        return ()
    ahead = {node.name: price for node, price in _nodes_with_hourly_price(facts)}
    return _idle_nodes_over_cost(facts.demand.budget_hour + ROUNDING, ahead, facts)


def _idle_nodes_over_cost(most: float, ahead: Mapping[str, float], facts: DemandPolicySituation) -> tuple[str, ...]:
    idle, total, leaving = _names_of_removable_idle_nodes(facts), sum(ahead.values()), list[str]()
    for name in facts.removal_order:
        if total > most and name in idle and name in ahead:
            leaving.append(name)
            total -= ahead[name]
    return tuple(leaving)


def _nodes_with_hourly_price(facts: DemandPolicySituation) -> list[tuple[ElasticNode, float]]:
    """Return the nodes that cost money and their hourly prices, the cheapest first."""
    priced = [
        (node, price)
        for node in facts.situation.nodes
        if node.counts_towards_limits
        and not node.state.is_leaving
        and node.pool in facts.pools
        and (price := node_price_at_hour(facts.pools[node.pool], facts.situation.local_now)) > 0
    ]
    return sorted(priced, key=lambda priced_node: (priced_node[1], priced_node[0].name))


def _billing_unit_s(facts: DemandPolicySituation) -> float:
    """Return the billing unit in seconds, but at least two intervals between rounds."""
    return max(facts.demand.billing_s, 2 * facts.rules.interval_s)


def _seconds_to_end_of_month(now: datetime) -> float:
    """Return the seconds until the end of the current month in UTC."""
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    after = (today.replace(day=28) + timedelta(days=4)).replace(day=1)
    return (after - now).total_seconds()
