"""Which pool gives the nodes of a plan that names none, as StarCluster's rules know no pools."""

from collections.abc import Iterable, Mapping, Set
from dataclasses import replace
from datetime import datetime

from gridbridge.decisions.elastic.demand.time_of_day import node_price_at_hour
from gridbridge.model.elastic.balance_plan import BalancePlan
from gridbridge.model.elastic.balance_sections import PoolSection
from gridbridge.model.elastic.owned_nodes import OwnedNode


def choose_pool_for_new_nodes(
    plan: BalancePlan,
    pools: Mapping[str, PoolSection],
    usable: Set[str],
    nodes: Iterable[OwnedNode],
    local_now: datetime,
) -> BalancePlan:
    """Return the plan with a pool that may give its nodes; without any it adds none.

    Pools come by priority and by the price of a slot; limit and quota of each are kept.
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


def _most_nodes_of_pool(pool: PoolSection, own: int, nodes: int) -> int:
    by_limit = pool.limit - own if pool.limit else nodes
    by_quota = pool.quota // pool.slots - own if pool.quota else nodes
    return min(nodes, by_limit, by_quota)
