"""Prepare the facts from which policy demand decides a round, computed once."""

from collections.abc import Mapping
from dataclasses import dataclass

from gridbridge.decisions.elastic.demand.free_capacity import (
    capacity_of_arriving_nodes,
    capacity_of_typical_node,
    collect_cell_placement_rules,
    free_capacity_of_open_hosts,
    full_capacity_of_unopened_hosts,
    requested_host_patterns,
)
from gridbridge.decisions.elastic.demand.new_node_offers import (
    AS_USUAL,
    PoolOrStandbyOffer,
    offer_new_nodes_by_pool,
    offer_standby_hosts,
)
from gridbridge.decisions.elastic.demand.node_costs_by_hour import node_count_limits_at_hour
from gridbridge.decisions.elastic.demand.scale_down import rank_nodes_for_removal
from gridbridge.decisions.elastic.demand.tasks_that_fit_on_host import CellPlacementRules, HostBlocks
from gridbridge.model.elastic.balance_plan import BalanceSituation
from gridbridge.model.elastic.balance_sections import BalanceSection, DemandPolicySection, NodePoolSection


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandPolicyRoundFacts:
    """The cell, rules, free capacity and new-node offers of one round."""

    situation: BalanceSituation
    rules: BalanceSection
    demand: DemandPolicySection
    pools: Mapping[str, NodePoolSection]
    placement: CellPlacementRules
    offers: tuple[PoolOrStandbyOffer, ...]
    there: HostBlocks  # free capacity of hosts that accept tasks now
    rooms: HostBlocks  # `there`, with the capacity of arriving nodes
    arriving: int  # slots of arriving nodes
    order: tuple[str, ...]  # node names in the order of removal
    least: int
    most: int


def compute_demand_round_facts(
    situation: BalanceSituation,
    rules: BalanceSection,
    demand: DemandPolicySection,
    pools: Mapping[str, NodePoolSection],
) -> DemandPolicyRoundFacts:
    """Compute the facts from which policy demand decides a round."""
    placement = collect_cell_placement_rules(situation, rules.queue)
    patterns = requested_host_patterns(row.shape for row in situation.cell.waiting)
    order = rank_nodes_for_removal(situation, pools, demand)
    usual = capacity_of_typical_node(situation, placement, patterns)
    pool_offers = offer_new_nodes_by_pool(situation, pools, placement, patterns, usual, demand)
    rooms = {offer.name: offer.room for offer in pool_offers}
    if usual is not None:
        rooms.setdefault(AS_USUAL, usual)
    standing_rooms = free_capacity_of_open_hosts(situation, placement, patterns, tuple(reversed(order)))
    poolless = (node.name for node in situation.nodes if node.state.is_coming and node.pool not in rooms)
    own = full_capacity_of_unopened_hosts(situation, (*poolless, *(situation.standby or ())), placement, patterns)
    arriving = capacity_of_arriving_nodes(situation, rooms, own, demand.boot_timeout_s)
    least, most = node_count_limits_at_hour(rules, demand, situation.local_now)
    return DemandPolicyRoundFacts(
        situation=situation,
        rules=rules,
        demand=demand,
        pools=pools,
        placement=placement,
        offers=(*offer_standby_hosts(situation, own, placement), *pool_offers),
        there=standing_rooms,
        rooms=(*standing_rooms, *arriving),
        arriving=sum(len(names) * room.free for room, names in arriving),
        order=order,
        least=least,
        most=most,
    )
