"""Compute the prices and costs of nodes, choose the pool of new nodes, and pause pools after failures."""

from collections.abc import Iterable, Mapping, Set
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import inf

from gridbridge.decisions.elastic import machine_list_reconciliation
from gridbridge.model.elastic.balance_plan import BalancePlan
from gridbridge.model.elastic.balancer_config_sections import BalanceSection, DemandPolicySection, NodePoolSection
from gridbridge.model.elastic.elastic_nodes import (
    BalancerNodesSnapshot,
    BalancerOwnedNode,
    ElasticNodeState,
    NodeStateCause,
    PoolFailureRecord,
)
from gridbridge.model.grid_engine_amounts import HOUR_S

HOURS = 24
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def node_price_at_hour(pool: NodePoolSection, local: datetime) -> float:
    """Return a node's price per hour at a local time: `22-6=0.12` holds from 22 to 6 o'clock."""
    for entry in pool.prices.split():
        hours, _, price = entry.partition("=")
        if _is_hour_in_entry(hours, local.hour):
            return float(price)
    return pool.price


def hourly_cost_of_nodes(of_nodes: Iterable[str], pools: Mapping[str, NodePoolSection], local: datetime) -> float:
    """Return the price of nodes per hour, given the pool of each node; an unknown pool costs 0."""
    return sum(node_price_at_hour(pools[name], local) for name in of_nodes if name in pools)


def node_count_limits_at_hour(rules: BalanceSection, demand: DemandPolicySection, local: datetime) -> tuple[int, int]:
    """Return the smallest and largest node count at a local time, by the first matching schedule entry.

    `mon-fri 8-20 2-10, 0-24 0-5` is 2 to 10 nodes in working hours, else at most 5. max_nodes always holds.
    """
    for entry in filter(None, demand.schedule.split(", ")):
        *days, hours, nodes = entry.split(" ")
        if _is_weekday_in_entry(days, local.weekday()) and _is_hour_in_entry(hours, local.hour):
            least, _, most = nodes.partition("-")
            most_nodes = min(int(most), rules.max_nodes)
            return min(int(least), most_nodes), most_nodes
    return rules.min_nodes, rules.max_nodes


def _is_weekday_in_entry(days: list[str], today: int) -> bool:
    if not days:
        return True
    first, _, last = days[0].partition("-")
    start, end = DAYS.index(first), DAYS.index(last or first)
    return _is_value_in_wrapping_range(today, start, (end + 1) % len(DAYS), len(DAYS))


def _is_hour_in_entry(hours: str, hour: int) -> bool:
    start, _, end = hours.partition("-")
    return _is_value_in_wrapping_range(hour, int(start), int(end), HOURS)


def _is_value_in_wrapping_range(value: int, start: int, end: int, around: int) -> bool:
    """Say whether a value is in [start, end), a range that may wrap around."""
    length = (end - start) % around or around
    return (value - start) % around < length


def node_costs_since_last_round(
    before: datetime,
    now: datetime,
    nodes: Iterable[BalancerOwnedNode],
    after: Iterable[BalancerOwnedNode],
    pools: Mapping[str, NodePoolSection],
    unit_s: float,
    local: datetime,
) -> float:
    """Return the cost of this month's billing units that began since the last round.

    A new machine is billed for all its units of this month. `nodes` and `after` are from before and after the round.
    """
    month = now.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    began = month - timedelta(microseconds=1)
    paid = [node for node in nodes if node.machine and node.as_elastic_node.counts_towards_limits]
    keys = {(node.pool, node.machine) for node in nodes if node.machine}
    new = [
        node
        for node in after
        if node.machine and node.as_elastic_node.counts_towards_limits and (node.pool, node.machine) not in keys
    ]
    units = [(node, _count_billing_units_begun(node, max(before, began), now, unit_s, counted=1)) for node in paid]
    units += [(node, _count_billing_units_begun(node, began, now, unit_s, counted=0)) for node in new]
    hours = unit_s / HOUR_S
    return sum(
        count * hours * node_price_at_hour(pools[node.pool], local) for node, count in units if node.pool in pools
    )


def _count_billing_units_begun(
    node: BalancerOwnedNode, after: datetime, until: datetime, unit_s: float, *, counted: int
) -> int:
    """Count a node's billing units that begin later than `after` and not later than `until`.

    The `counted` units are billed already. A node's first unit counts even if the node began after `until`.
    """
    since = node.up_since or until
    before = max(counted, _count_billing_units_until(since, after, unit_s))
    return max(0, max(1, _count_billing_units_until(since, until, unit_s)) - before)


def _count_billing_units_until(since: datetime, moment: datetime, unit_s: float) -> int:
    passed_s = (moment - since).total_seconds()
    return int(passed_s // unit_s) + 1 if passed_s >= 0 else 0


def choose_pool_for_new_nodes(
    plan: BalancePlan,
    pools: Mapping[str, NodePoolSection],
    usable: Set[str],
    nodes: Iterable[BalancerOwnedNode],
    local_now: datetime,
) -> BalancePlan:
    """Choose the pool of a plan's new nodes, if still open; without a usable pool the plan adds no node."""
    if not plan.add or plan.pool:
        return plan if plan.pool in usable else replace(plan, add=0)
    pools_of_nodes = [node.pool for node in nodes if node.as_elastic_node.counts_towards_limits]
    by_rank = sorted(
        (-pool.priority, node_price_at_hour(pool, local_now) / pool.slots, name)
        for name, pool in pools.items()
        if name in usable
    )
    for _, _, name in by_rank:
        pool, own = pools[name], pools_of_nodes.count(name)
        by_limit = pool.limit - own if pool.limit else plan.add
        by_quota = pool.quota // pool.slots - own if pool.quota else plan.add
        most = min(plan.add, by_limit, by_quota)
        if most > 0:
            return replace(plan, pool=name, add=most)
    return replace(plan, add=0)


NO_MACHINE_CAUSES = (NodeStateCause.NO_CAPACITY, NodeStateCause.NOT_GRANTED)


def paused_pools(
    records: Mapping[str, PoolFailureRecord], rules: BalanceSection, retry_s: float, now: datetime
) -> Mapping[str, datetime]:
    """Return the pools that are paused after consecutive failures of nodes, with the start of each pause."""
    since = dict[str, datetime]()
    for pool, record in records.items():
        if record.no_capacity_at:
            since[pool] = record.no_capacity_at
        failed_s = (now - record.failed_at).total_seconds() if record.failed_at else inf
        if record.failures >= rules.protect_after and failed_s < rules.protected_s:
            since[pool] = now
        elif record.failures and record.failed_at and retry_s:
            since[pool] = max(record.failed_at, since.get(pool, record.failed_at))
    return since


def pools_closed_to_new_nodes(world: BalancerNodesSnapshot) -> frozenset[str]:
    """Return the pools whose provider sent no machine list, or does not delete machines."""
    stuck = {node.pool for node in machine_list_reconciliation.nodes_with_undeleted_machines(world)}
    return frozenset(stuck | world.pools - world.machines.keys())


def update_pool_failure_records(
    records: Mapping[str, PoolFailureRecord],
    changes: Iterable[tuple[BalancerOwnedNode | None, BalancerOwnedNode]],
    now: datetime,
) -> Mapping[str, PoolFailureRecord]:
    updated = dict(records)
    for before, node in changes:
        record = updated.get(node.pool, PoolFailureRecord())
        is_new_cause = before is None or before.cause is not node.cause
        is_lost = node.cause is NodeStateCause.ANOTHERS and before is not None and before.state.is_coming
        if (node.cause.is_boot_failure or is_lost) and is_new_cause:
            record = replace(record, failures=record.failures + 1, failed_at=now)
        elif node.cause in NO_MACHINE_CAUSES and is_new_cause:
            record = replace(record, no_capacity_at=now)
        elif node.state is ElasticNodeState.READY and before and before.state is ElasticNodeState.JOINING:
            record = replace(record, failures=0, failed_at=None)
        updated[node.pool] = record
    return updated
