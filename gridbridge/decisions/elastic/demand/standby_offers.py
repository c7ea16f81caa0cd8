"""Hosts of the site's own that rest: they are offers that cost nothing, before all pools."""

from collections.abc import Mapping

from gridbridge.decisions.elastic.demand.capacity import (
    CellPlacementRules,
    FreeHostCapacity,
    merge_equal_hosts,
)
from gridbridge.decisions.elastic.demand.pool_offers import PoolOffer
from gridbridge.model.elastic.balance_plan import BalanceSituation
from gridbridge.model.elastic.balance_sections import PoolSection
from gridbridge.model.elastic.standby_hosts import STANDBY


def offer_standby_hosts(
    situation: BalanceSituation, rooms: Mapping[str, FreeHostCapacity], ground: CellPlacementRules
) -> tuple[PoolOffer, ...]:
    """Return an offer for all hosts on standby that are alike, in the order of waking.

    None is woken for queues that somebody closed.
    """
    open_ = {name: ground.without_closed(room) for name, room in rooms.items()}
    asleep = (name for name in situation.standby or () if name in open_ and open_[name].parts)
    alike = merge_equal_hosts((open_[name], (name,)) for name in asleep)
    return tuple(
        PoolOffer(
            name=f"{STANDBY}{index:06}",
            pool=PoolSection(),
            price=0.0,
            room=room,
            most=len(names),
            hosts=names,
        )
        for index, (room, names) in enumerate(alike)
    )
