"""Compute what nodes cost by the hour of the day, and what they have cost since the last round."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from gridbridge.model.elastic.balance_sections import (
    BalanceSection,
    DemandPolicySection,
    NodePoolSection,
)
from gridbridge.model.elastic.owned_nodes import BalancerOwnedNode
from gridbridge.model.grid_engine_amounts import HOUR_S

HOURS = 24
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def node_price_at_hour(pool: NodePoolSection, local: datetime) -> float:
    """Return what a node costs an hour: `22-6=0.12` holds from 22 o'clock to 6."""
    for entry in pool.prices.split():
        hours, _, price = entry.partition("=")
        if _is_in_hours(hours, local.hour):
            return float(price)
    return pool.price


def hourly_cost_of_nodes(
    of_nodes: Iterable[str], pools: Mapping[str, NodePoolSection], local: datetime
) -> float:
    """Return what nodes of these pools cost an hour together; pools that nobody knows are left."""
    return sum(node_price_at_hour(pools[name], local) for name in of_nodes if name in pools)


def node_count_limits_at_hour(
    rules: BalanceSection, demand: DemandPolicySection, local: datetime
) -> tuple[int, int]:
    """Return how many nodes there are at least and at most: the first entry that fits holds.

    `mon-fri 8-20 2-10, 0-24 0-5` is 2 to 10 nodes on working days, and at most 5 otherwise. An
    entry never allows more than max_nodes.
    """
    for entry in filter(None, demand.schedule.split(", ")):
        *days, hours, nodes = entry.split(" ")
        if _is_day(days, local.weekday()) and _is_in_hours(hours, local.hour):
            least, _, most = nodes.partition("-")
            most_nodes = min(int(most), rules.max_nodes)
            return min(int(least), most_nodes), most_nodes
    return rules.min_nodes, rules.max_nodes


def _is_day(days: list[str], today: int) -> bool:
    if not days:
        return True
    first, _, last = days[0].partition("-")
    start, end = DAYS.index(first), DAYS.index(last or first)
    return _is_between(today, start, (end + 1) % len(DAYS), len(DAYS))


def _is_in_hours(hours: str, hour: int) -> bool:
    start, _, end = hours.partition("-")
    return _is_between(hour, int(start), int(end), HOURS)


def _is_between(value: int, start: int, end: int, around: int) -> bool:
    """Say whether a value is in [start, end), also where that goes past midnight."""
    length = (end - start) % around or around
    return (value - start) % around < length


def node_cost_since_round(
    before: datetime,
    now: datetime,
    nodes: Iterable[BalancerOwnedNode],
    after: Iterable[BalancerOwnedNode],
    pools: Mapping[str, NodePoolSection],
    unit_s: float,
    local: datetime,
) -> float:
    """Return what the units of this month cost that began after one round, and until this one.

    Of a node whose machine was not known before, all of this month count. `kept` are the nodes as
    they were before this round, `after` as they are by now.
    """
    began = _before_month_start(now)
    paid = [node for node in nodes if node.machine and node.node.counts]
    keys = {(node.pool, node.machine) for node in nodes if node.machine}
    new = [
        node
        for node in after
        if node.machine and node.node.counts and (node.pool, node.machine) not in keys
    ]
    units = [
        (node, _billed_units_begun(node, max(before, began), now, unit_s, counted=1))
        for node in paid
    ]
    units += [(node, _billed_units_begun(node, began, now, unit_s, counted=0)) for node in new]
    hours = unit_s / HOUR_S
    return sum(
        count * hours * node_price_at_hour(pools[node.pool], local)
        for node, count in units
        if node.pool in pools
    )


def _before_month_start(now: datetime) -> datetime:
    """Return the last moment before the month began by which the budget counts."""
    begin = now.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return begin - timedelta(microseconds=1)


def _billed_units_begun(
    node: BalancerOwnedNode, after: datetime, until: datetime, unit_s: float, *, counted: int
) -> int:
    """Return how many units of a node begin after a moment, and not after another.

    The first one, which begins when the machine is made, counts in the round that hears of it: a
    round that has it made has looked at its clock some seconds before.
    """
    since = node.up_since or until
    before = max(counted, _units_until(since, after, unit_s))
    return max(0, max(1, _units_until(since, until, unit_s)) - before)


def _units_until(since: datetime, moment: datetime, unit_s: float) -> int:
    """Return how many units have begun."""
    passed_s = (moment - since).total_seconds()
    return int(passed_s // unit_s) + 1 if passed_s >= 0 else 0
