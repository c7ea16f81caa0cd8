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


def left(seen: BalanceSituation, demand: Demand) -> float | None:
    """Return what of the month's budget is not spent; None: there is no limit."""
    return demand.budget_month - seen.spent if demand.budget_month else None


def set_aside(
    seen: BalanceSituation, rules: Balance, demand: Demand, pools: Mapping[str, Pool], least: int
) -> float:
    """Return what nodes that are there go on to cost.

    The least and the kept ones stay until the month is over, the cheapest first; each other may go
    after its next unit.
    """
    unit_s = _unit_s(rules, demand)
    costly = _costly(seen, pools)
    free = sum(not one.state.is_leaving for one in nodes_of(seen)) - len(costly)
    cost, staying = 0.0, max(0, least - free)
    for at, (node, price) in enumerate(costly):
        over_s = _month_left_s(seen.now) - paid_s(node, seen.now, demand)
        units = ceil(max(0.0, over_s) / unit_s)
        stays = node.is_kept or at < staying
        cost += price * unit_s / HOUR_S * (units if stays else min(units, 1))
    return cost


def unpaid(
    seen: BalanceSituation,
    rules: Balance,
    demand: Demand,
    pools: Mapping[str, Pool],
    order: tuple[str, ...],
) -> tuple[str, ...]:
    """Return the idle nodes that have to go, so that what is left pays the next unit of the rest.

    They go in this order, and late in the unit that is paid for; none where that is enough.
    """
    month = left(seen, demand)
    if month is None:
        return ()
    unit_s = _unit_s(rules, demand)
    ahead = {
        node.name: price * unit_s / HOUR_S
        for node, price in _costly(seen, pools)
        if paid_s(node, seen.now, demand) < _month_left_s(seen.now)
    }
    return _beyond(month, ahead, seen, demand, order)


def too_dear(
    seen: BalanceSituation, demand: Demand, pools: Mapping[str, Pool], order: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the idle nodes that have to go, so that the rest cost an hour what they may.

    They were added when their price was another, or the budget was.
    """
    if not demand.budget_hour:
        return ()
    ahead = {node.name: price for node, price in _costly(seen, pools)}
    return _beyond(demand.budget_hour + ROUNDING, ahead, seen, demand, order)


def _beyond(
    most: float,
    ahead: Mapping[str, float],
    seen: BalanceSituation,
    demand: Demand,
    order: tuple[str, ...],
) -> tuple[str, ...]:
    """Return idle nodes, late in what is paid for, whose going brings costs ahead down to this."""
    idle = {one.name for one in idle_nodes(seen) if not is_paid_for(one, seen, demand)}
    total, gone = sum(ahead.values()), list[str]()
    for name in order:
        if total > most and name in idle and name in ahead:
            gone.append(name)
            total -= ahead[name]
    return tuple(gone)


def _costly(seen: BalanceSituation, pools: Mapping[str, Pool]) -> list[tuple[Node, float]]:
    """Return the nodes that go on to cost something, and how much an hour, the cheapest first."""
    there = (one for one in seen.nodes if one.counts and not one.state.is_leaving)
    priced = (
        (one, price_at(pools[one.pool], seen.local_now)) for one in there if one.pool in pools
    )
    return sorted((one for one in priced if one[1] > 0), key=lambda one: (one[1], one[0].name))


def _unit_s(rules: Balance, demand: Demand) -> float:
    """Return what is paid for at once, and no less than passes until the round after the next."""
    return max(demand.billing_s, 2 * rules.interval_s)


def _month_left_s(now: datetime) -> float:
    """Return how long the month goes on by which the budget counts (spending.py)."""
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    after = (today.replace(day=28) + timedelta(days=4)).replace(day=1)
    return (after - now).total_seconds()
