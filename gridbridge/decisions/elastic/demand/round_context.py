"""The facts from which policy demand decides a round, worked out once."""

from collections.abc import Mapping
from dataclasses import dataclass

from gridbridge.decisions.elastic.demand.capacity import Blocks, QueueLayout
from gridbridge.decisions.elastic.demand.free_capacity import (
    coming,
    ground_of,
    patterns_of,
    standing,
    usual_room,
    whole_rooms,
)
from gridbridge.decisions.elastic.demand.pool_offers import AS_USUAL, PoolOffer, offers
from gridbridge.decisions.elastic.demand.scale_down import preference
from gridbridge.decisions.elastic.demand.standby_offers import resting_offers
from gridbridge.decisions.elastic.demand.time_of_day import bounds_at
from gridbridge.model.elastic.balance_plan import BalanceSituation
from gridbridge.model.elastic.balance_sections import Balance, Demand, Pool


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundContext:
    """A cell, the rules, the free room, and the possible new nodes."""

    situation: BalanceSituation
    rules: Balance
    demand: Demand
    pools: Mapping[str, Pool]
    ground: QueueLayout
    offers: tuple[PoolOffer, ...]
    there: Blocks  # room on hosts that take work now
    rooms: Blocks  # `there`, and the room of nodes on their way
    arriving: int  # slots of nodes on their way
    order: tuple[str, ...]  # names of nodes, in the order of removal
    least: int
    most: int


def scene_of(
    situation: BalanceSituation, rules: Balance, demand: Demand, pools: Mapping[str, Pool]
) -> RoundContext:
    """Return the scene of a round."""
    ground = ground_of(situation, rules.queue)
    patterns = patterns_of(row.shape for row in situation.cell.waiting)
    order = preference(situation, pools, demand)
    usual = usual_room(situation, ground, patterns)
    pool_offers = offers(situation, pools, ground, patterns, usual, demand)
    rooms = {offer.name: offer.room for offer in pool_offers}
    if usual is not None:
        rooms.setdefault(AS_USUAL, usual)
    standing_rooms = standing(situation, ground, patterns, tuple(reversed(order)))
    poolless = (
        node.name for node in situation.nodes if node.state.is_coming and node.pool not in rooms
    )
    own = whole_rooms(situation, (*poolless, *(situation.standby or ())), ground, patterns)
    arriving = coming(situation, rooms, own, demand.boot_timeout_s)
    least, most = bounds_at(rules, demand, situation.local_now)
    return RoundContext(
        situation=situation,
        rules=rules,
        demand=demand,
        pools=pools,
        ground=ground,
        offers=(*resting_offers(situation, own, ground), *pool_offers),
        there=standing_rooms,
        rooms=(*standing_rooms, *arriving),
        arriving=sum(len(names) * room.free for room, names in arriving),
        order=order,
        least=least,
        most=most,
    )
