"""Choose the pool that gives new nodes, and pause pools that failed."""

from collections.abc import Iterable, Mapping, Set
from dataclasses import replace
from datetime import datetime

from gridbridge.decisions.elastic import machine_list_reconciliation
from gridbridge.decisions.elastic.demand.node_costs_by_hour import node_price_at_hour
from gridbridge.model.elastic.balance_plan import BalancePlan
from gridbridge.model.elastic.balance_sections import BalanceSection, NodePoolSection
from gridbridge.model.elastic.elastic_nodes import ElasticNodeState
from gridbridge.model.elastic.owned_nodes import (
    BalancerNodesSnapshot,
    BalancerOwnedNode,
    NodeStateCause,
    PoolFailureRecord,
)


def choose_pool_for_new_nodes(
    plan: BalancePlan,
    pools: Mapping[str, NodePoolSection],
    usable: Set[str],
    nodes: Iterable[BalancerOwnedNode],
    local_now: datetime,
) -> BalancePlan:
    """Return the plan with a pool for its new nodes; without a usable pool, nothing is added.

    Pools are tried by priority and price of a slot, within their limits and quotas.
    StarCluster's rules do not choose a pool.
    """
    if not plan.add or plan.pool:
        return plan if plan.pool in usable else replace(plan, add=0)
    pools_of_nodes = [node.pool for node in nodes if node.node.counts]
    by_rank = sorted(
        (-pool.priority, node_price_at_hour(pool, local_now) / pool.slots, name)
        for name, pool in pools.items()
        if name in usable
    )
    for _, _, name in by_rank:
        most = _most_nodes_of_pool(pools[name], pools_of_nodes.count(name), plan.add)
        if most > 0:
            return replace(plan, pool=name, add=most)
    return replace(plan, add=0)


def _most_nodes_of_pool(pool: NodePoolSection, own: int, nodes: int) -> int:
    by_limit = pool.limit - own if pool.limit else nodes
    by_quota = pool.quota // pool.slots - own if pool.quota else nodes
    return min(nodes, by_limit, by_quota)


NO_MACHINE_CAUSES = (NodeStateCause.NO_CAPACITY, NodeStateCause.NOT_GRANTED)  # after such a cause the pool is paused


def paused_pools(
    records: Mapping[str, PoolFailureRecord], rules: BalanceSection, retry_s: float, now: datetime
) -> Mapping[str, datetime]:
    """Return the pools that are paused after failures, with the start of each pause.

    A pool is paused for `protected_s` after `protect_after` consecutive failures of its nodes.
    """
    since = dict[str, datetime]()
    for pool, record in records.items():
        if record.no_capacity_at:
            since[pool] = record.no_capacity_at
        if is_pool_paused_for_failures(record, rules, now):
            since[pool] = now
        elif record.failures and record.failed_at and retry_s:
            since[pool] = max(record.failed_at, since.get(pool, record.failed_at))
    return since


def pools_closed_to_new_nodes(world: BalancerNodesSnapshot) -> frozenset[str]:
    """Return the pools that get no new nodes in this round.

    Their provider is missing, sent no list, or does not delete machines.
    """
    stuck = {node.pool for node in machine_list_reconciliation.nodes_with_undeleted_machines(world)}
    return frozenset(stuck | world.pools - world.machines.keys())


def is_pool_paused_for_failures(record: PoolFailureRecord, rules: BalanceSection, now: datetime) -> bool:
    """Say whether a pool has failed so often that it is paused."""
    if record.failures < rules.protect_after or record.failed_at is None:
        return False
    return (now - record.failed_at).total_seconds() < rules.protected_s


def update_pool_failure_records(
    records: Mapping[str, PoolFailureRecord],
    changes: Iterable[tuple[BalancerOwnedNode | None, BalancerOwnedNode]],
    now: datetime,
) -> Mapping[str, PoolFailureRecord]:
    """Return the failure records of pools after the node changes of a round."""
    updated = dict(records)
    for before, node in changes:
        record = updated.get(node.pool, PoolFailureRecord())
        is_new_cause = before is None or before.cause is not node.cause
        if _is_new_boot_failure(before, node) and is_new_cause:
            record = replace(record, failures=record.failures + 1, failed_at=now)
        elif node.cause in NO_MACHINE_CAUSES and is_new_cause:
            record = replace(record, no_capacity_at=now)
        elif node.state is ElasticNodeState.READY and before and before.state is ElasticNodeState.JOINING:
            record = replace(record, failures=0, failed_at=None)
        updated[node.pool] = record
    return updated


def _is_new_boot_failure(before: BalancerOwnedNode | None, node: BalancerOwnedNode) -> bool:
    """Say whether a node failed to boot, or its machine lost the owner tag before joining."""
    is_lost = node.cause is NodeStateCause.ANOTHERS and before is not None and before.state.is_coming
    return node.cause.is_boot_failure or is_lost
