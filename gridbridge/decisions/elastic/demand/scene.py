"""What a round is decided from by policy demand, worked out once."""

from collections.abc import Mapping
from dataclasses import dataclass

from gridbridge.decisions.elastic.demand.asleep import resting_offers
from gridbridge.decisions.elastic.demand.hours import bounds_at
from gridbridge.decisions.elastic.demand.keeping import preference
from gridbridge.decisions.elastic.demand.pools import AS_USUAL, Offer, offers
from gridbridge.decisions.elastic.demand.rooms import Blocks, Ground
from gridbridge.decisions.elastic.demand.standing import (
    coming,
    ground_of,
    patterns_of,
    standing,
    usual_room,
    whole_rooms,
)
from gridbridge.model.elastic.plan import Situation
from gridbridge.model.elastic.sections import Balance, Demand, Pool


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A cell, the rules, what is free there, and what new nodes there may be."""

    seen: Situation
    rules: Balance
    demand: Demand
    pools: Mapping[str, Pool]
    ground: Ground
    offers: tuple[Offer, ...]
    there: Blocks  # on hosts that take work now
    rooms: Blocks  # with those of nodes that are on their way
    arriving: int  # slots of nodes that are on their way
    order: tuple[str, ...]  # in which nodes are removed
    least: int
    most: int


def scene_of(seen: Situation, rules: Balance, demand: Demand, pools: Mapping[str, Pool]) -> Scene:
    """Work out the scene of a round."""
    ground = ground_of(seen, rules.queue)
    patterns = patterns_of(one.shape for one in seen.cell.waiting)
    order = preference(seen, pools, demand)
    usual = usual_room(seen, ground, patterns)
    found = offers(seen, pools, ground, patterns, usual, demand)
    rooms = {one.name: one.room for one in found}
    if usual is not None:
        rooms.setdefault(AS_USUAL, usual)
    there = standing(seen, ground, patterns, tuple(reversed(order)))
    poolless = (one.name for one in seen.nodes if one.state.is_coming and one.pool not in rooms)
    own = whole_rooms(seen, (*poolless, *(seen.standby or ())), ground, patterns)
    arriving = coming(seen, rooms, own, demand.boot_timeout_s)
    least, most = bounds_at(rules, demand, seen.local_now)
    return Scene(
        seen=seen,
        rules=rules,
        demand=demand,
        pools=pools,
        ground=ground,
        offers=(*resting_offers(seen, own, ground), *found),
        there=there,
        rooms=(*there, *arriving),
        arriving=sum(len(names) * room.free for room, names in arriving),
        order=order,
        least=least,
        most=most,
    )
