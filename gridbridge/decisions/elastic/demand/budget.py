"""What is left of a month's budget, and which idle nodes that and an hour's do not pay for.

Of each node its next unit of billing counts: a unit is paid for as a whole when it begins, and
what runs keeps its node.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from math import ceil

from gridbridge.decisions.elastic.demand.scale_down import idle_nodes, is_paid_for, paid_s
from gridbridge.decisions.elastic.demand.time_of_day import price_at
from gridbridge.decisions.elastic.starcluster_counts import nodes_of
from gridbridge.model.amounts import HOUR_S
from gridbridge.model.elastic.balance_plan import BalanceSituation
from gridbridge.model.elastic.balance_sections import Balance, Demand, Pool
from gridbridge.model.elastic.node import Node

ROUNDING = 1e-9  # of sums of prices


def month_left(situation: BalanceSituation, demand: Demand) -> float | None:
    """Return what of the month's budget is not spent; None: there is no limit."""
    return demand.budget_month - situation.spent if demand.budget_month else None


def set_aside(
    situation: BalanceSituation,
    rules: Balance,
    demand: Demand,
    pools: Mapping[str, Pool],
    least: int,
) -> float:
    """Return what nodes that are there go on to cost.

    The least and the kept ones stay until the month is over, the cheapest first; each other may go
    after its next unit.
    """
    unit_s = _unit_s(rules, demand)
    costly = _costly(situation, pools)
    free = sum(not node.state.is_leaving for node in nodes_of(situation)) - len(costly)
    cost, staying = 0.0, max(0, least - free)
    for at, (node, price) in enumerate(costly):
        over_s = _month_left_s(situation.now) - paid_s(node, situation.now, demand)
        units = ceil(max(0.0, over_s) / unit_s)
        stays = node.is_kept or at < staying
        cost += price * unit_s / HOUR_S * (units if stays else min(units, 1))
    return cost


def unpaid(
    situation: BalanceSituation,
    rules: Balance,
    demand: Demand,
    pools: Mapping[str, Pool],
    order: tuple[str, ...],
) -> tuple[str, ...]:
    """Return the idle nodes that have to go, so that what is left pays the next unit of the rest.

    They go in this order, and late in the unit that is paid for; none where that is enough.
    """
    month = month_left(situation, demand)
    if month is None:
        return ()
    unit_s = _unit_s(rules, demand)
    ahead = {
        node.name: price * unit_s / HOUR_S
        for node, price in _costly(situation, pools)
        if paid_s(node, situation.now, demand) < _month_left_s(situation.now)
    }
    return _beyond(month, ahead, situation, demand, order)


def too_dear(
    situation: BalanceSituation, demand: Demand, pools: Mapping[str, Pool], order: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the idle nodes that have to go, so that the rest cost an hour what they may.

    They were added when their price was another, or the budget was.
    """
    if not demand.budget_hour:
        return ()
    ahead = {node.name: price for node, price in _costly(situation, pools)}
    return _beyond(demand.budget_hour + ROUNDING, ahead, situation, demand, order)


def _beyond(
    most: float,
    ahead: Mapping[str, float],
    situation: BalanceSituation,
    demand: Demand,
    order: tuple[str, ...],
) -> tuple[str, ...]:
    """Return idle nodes, late in what is paid for, whose going brings costs ahead down to this."""
    idle = {node.name for node in idle_nodes(situation) if not is_paid_for(node, situation, demand)}
    total, leaving = sum(ahead.values()), list[str]()
    for name in order:
        if total > most and name in idle and name in ahead:
            leaving.append(name)
            total -= ahead[name]
    return tuple(leaving)


def _costly(situation: BalanceSituation, pools: Mapping[str, Pool]) -> list[tuple[Node, float]]:
    """Return the nodes that go on to cost something, and how much an hour, the cheapest first."""
    staying = (node for node in situation.nodes if node.counts and not node.state.is_leaving)
    priced = (
        (node, price_at(pools[node.pool], situation.local_now))
        for node in staying
        if node.pool in pools
    )
    return sorted(
        (priced_node for priced_node in priced if priced_node[1] > 0),
        key=lambda priced_node: (priced_node[1], priced_node[0].name),
    )


def _unit_s(rules: Balance, demand: Demand) -> float:
    """Return what is paid for at once, and no less than passes until the round after the next."""
    return max(demand.billing_s, 2 * rules.interval_s)


def _month_left_s(now: datetime) -> float:
    """Return how long the month goes on by which the budget counts (spending.py)."""
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    after = (today.replace(day=28) + timedelta(days=4)).replace(day=1)
    return (after - now).total_seconds()
