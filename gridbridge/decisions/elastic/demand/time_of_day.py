"""What holds at this hour: a pool's price, and how many nodes there may be."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from gridbridge.model.elastic.balance_sections import BalanceSection, DemandSection, PoolSection

HOURS = 24
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def node_price_at_hour(pool: PoolSection, local: datetime) -> float:
    """Return what a node costs an hour: `22-6=0.12` holds from 22 o'clock to 6."""
    for entry in pool.prices.split():
        hours, _, price = entry.partition("=")
        if _is_in_hours(hours, local.hour):
            return float(price)
    return pool.price


def hourly_cost_of_nodes(
    of_nodes: Iterable[str], pools: Mapping[str, PoolSection], local: datetime
) -> float:
    """Return what nodes of these pools cost an hour together; pools that nobody knows are left."""
    return sum(node_price_at_hour(pools[name], local) for name in of_nodes if name in pools)


def node_count_limits_at_hour(
    rules: BalanceSection, demand: DemandSection, local: datetime
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
