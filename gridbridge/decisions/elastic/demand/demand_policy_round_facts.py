"""Collect the facts by which policy demand decides a balancer round, and rank nodes for removal."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from gridbridge.decisions.elastic.balancer_node_and_job_counts import hosts_with_known_tasks, is_host_silent_or_in_error
from gridbridge.decisions.elastic.demand import free_capacity, new_nodes_each_pool_could_give
from gridbridge.decisions.elastic.demand.task_packing import CellPlacementRules, HostBlocks
from gridbridge.decisions.elastic.node_costs_and_pool_choice import node_count_limits_at_hour, node_price_at_hour
from gridbridge.model.elastic.balance_plan import BalanceSituation
from gridbridge.model.elastic.balancer_config_sections import BalanceSection, DemandPolicySection, NodePoolSection
from gridbridge.model.elastic.elastic_nodes import ElasticNode, is_same_host, short_host_name
from gridbridge.model.elastic.grid_engine_cell import CellQueueInstance


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandPolicySituation:
    situation: BalanceSituation
    rules: BalanceSection
    demand: DemandPolicySection
    pools: Mapping[str, NodePoolSection]
    cell: CellPlacementRules
    instances_by_node: Mapping[str, list[CellQueueInstance]]  # only nodes whose tasks the cell reports
    removal_order: tuple[str, ...]  # node names; the first node is removed first
    offers: tuple[new_nodes_each_pool_could_give.AddableNodesOfPoolOrStandbyHosts, ...]
    present: HostBlocks  # free capacity of hosts that accept tasks now
    arriving: HostBlocks  # free capacity of nodes that boot or join
    least: int
    most: int


def collect_demand_round_facts(
    situation: BalanceSituation,
    rules: BalanceSection,
    demand: DemandPolicySection,
    pools: Mapping[str, NodePoolSection],
) -> DemandPolicySituation:
    shapes = (row.shape for row in situation.cell.waiting)
    cell = free_capacity.collect_cell_placement_rules(situation, rules.queue, shapes)
    by_node = _queue_instances_by_node(cell)
    order = _rank_nodes_for_removal(situation, by_node, demand, pools)
    usual = free_capacity.capacity_of_typical_node(cell)
    pool_offers = new_nodes_each_pool_could_give.offer_new_nodes_by_pool(cell, pools, demand, usual)
    rooms = {offer.name: offer.room for offer in pool_offers}
    if usual is not None:
        rooms.setdefault(new_nodes_each_pool_could_give.AS_USUAL, usual)
    poolless = (node.name for node in situation.nodes if node.state.is_coming and node.pool not in rooms)
    own = free_capacity.full_capacity_of_unopened_hosts((*poolless, *(situation.standby or ())), cell)
    least, most = node_count_limits_at_hour(rules, demand, situation.local_now)
    return DemandPolicySituation(
        situation=situation,
        rules=rules,
        demand=demand,
        pools=pools,
        cell=cell,
        instances_by_node=by_node,
        removal_order=order,
        offers=(*new_nodes_each_pool_could_give.offer_standby_hosts(own, situation), *pool_offers),
        present=free_capacity.free_capacity_of_open_hosts(cell, tuple(reversed(order))),
        arriving=free_capacity.capacity_of_arriving_nodes(rooms, own, situation, demand.boot_timeout_s),
        least=least,
        most=most,
    )


def _queue_instances_by_node(cell: CellPlacementRules) -> dict[str, list[CellQueueInstance]]:
    listed = hosts_with_known_tasks(cell.situation)
    short = {short_host_name(name): name for name in cell.queues_by_host}
    by_node = dict[str, list[CellQueueInstance]]()
    for node in cell.situation.nodes:
        name = node.name if node.name in cell.queues_by_host else short.get(short_host_name(node.name), "")
        if name in listed and is_same_host(node.name, name):
            by_node[node.name] = cell.queues_by_host[name]
    return by_node


def _rank_nodes_for_removal(
    situation: BalanceSituation,
    by_node: Mapping[str, list[CellQueueInstance]],
    demand: DemandPolicySection,
    pools: Mapping[str, NodePoolSection],
) -> tuple[str, ...]:
    """Return the balancer's nodes in the order in which they are removed.

    Silent nodes and nodes in error come first. Among others, the order is by highest price, by soonest end of the paid
    time, and by fewest busy nodes in the pool.
    """
    is_busy = free_capacity.has_running_or_reserved_slots
    busy = Counter(node.pool for node in situation.nodes if is_busy(by_node.get(node.name, [])))

    def removal_sort_key(node: ElasticNode) -> tuple[bool, float, float, int, str]:
        price = node_price_at_hour(pools[node.pool], situation.local_now) if node.pool in pools else 0.0
        is_whole = not is_host_silent_or_in_error(by_node.get(node.name, []))
        return is_whole, -price, remaining_paid_time_s(node, situation, demand), busy[node.pool], node.name

    return tuple(node.name for node in sorted(situation.nodes, key=removal_sort_key))


def remaining_paid_time_s(node: ElasticNode, situation: BalanceSituation, demand: DemandPolicySection) -> float:
    """Return the seconds until the current billing unit of a node ends."""
    up_s = (situation.now - node.up_since).total_seconds() if node.up_since else 0.0
    return demand.billing_s - up_s % demand.billing_s
