"""Apply the hourly and monthly budgets: cost of running nodes, idle nodes to remove.

Providers bill whole units of time, so each node counts until the end of its current unit. A busy
node is never removed for a budget.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from math import ceil

from gridbridge.decisions.elastic.balancer_node_and_job_counts import nodes_by_name_without_standby
from gridbridge.decisions.elastic.demand.node_costs_by_hour import node_price_at_hour
from gridbridge.decisions.elastic.demand.scale_down import (
    find_removable_idle_nodes,
    remaining_paid_time_s,
    would_removal_waste_paid_time,
)
from gridbridge.model.elastic.balance_plan import BalanceSituation
from gridbridge.model.elastic.balance_sections import BalanceSection, DemandPolicySection, NodePoolSection
from gridbridge.model.elastic.elastic_nodes import ElasticNode
from gridbridge.model.grid_engine_amounts import HOUR_S

ROUNDING = 1e-9  # tolerance for rounding errors of price sums


def remaining_month_budget(situation: BalanceSituation, demand: DemandPolicySection) -> float | None:
    """Return the unspent part of the month's budget; None means no limit."""
    return demand.budget_month - situation.spent if demand.budget_month else None


def remaining_month_cost_of_nodes(
    situation: BalanceSituation,
    rules: BalanceSection,
    demand: DemandPolicySection,
    pools: Mapping[str, NodePoolSection],
    least: int,
) -> float:
    """Return what the existing nodes will still cost in this month.

    The `least` nodes that must stay, and nodes marked as kept, count until the month ends; the
    cheapest nodes are taken for the least. Every other node counts for its next billed unit
    only.
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
    """Return the idle nodes to remove so that the month's budget pays for the rest.

    Nodes are taken in the given order, and only late in their paid billing unit. The result is
    empty while the remaining budget pays for the next unit of all nodes.
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
    """Return the idle nodes to remove so that the rest stay within the hourly budget.

    The budget may be exceeded after a price or the setting itself has changed.
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
    """Return idle nodes whose removal brings the total cost down to the limit `most`."""
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
    """Return the billing unit in seconds, but at least the time of two rounds."""
    return max(demand.billing_s, 2 * rules.interval_s)


def _remaining_month_s(now: datetime) -> float:
    """Return the seconds until the end of the current month in UTC."""
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    after = (today.replace(day=28) + timedelta(days=4)).replace(day=1)
    return (after - now).total_seconds()
