"""What nodes have cost since a round: a unit of billing counts as a whole when it begins."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from gridbridge.decisions.elastic.demand.time_of_day import node_price_at_hour
from gridbridge.model.amounts import HOUR_S
from gridbridge.model.elastic.balance_sections import PoolSection
from gridbridge.model.elastic.owned_nodes import OwnedNode


def node_cost_since_round(
    before: datetime,
    now: datetime,
    nodes: Iterable[OwnedNode],
    after: Iterable[OwnedNode],
    pools: Mapping[str, PoolSection],
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
    node: OwnedNode, after: datetime, until: datetime, unit_s: float, *, counted: int
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
