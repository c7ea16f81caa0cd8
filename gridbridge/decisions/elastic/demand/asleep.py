"""Hosts of the site's own that rest: they are offers that cost nothing, before all pools."""

from collections.abc import Mapping, Sequence

from gridbridge.decisions.elastic.demand.pools import Offer
from gridbridge.decisions.elastic.demand.rooms import Room, merged
from gridbridge.model.elastic.plan import Situation
from gridbridge.model.elastic.sections import Pool
from gridbridge.model.elastic.standby import STANDBY


def resting_offers(seen: Situation, rooms: Mapping[str, Room]) -> tuple[Offer, ...]:
    """Return an offer for all hosts on standby that are alike, in the order of waking."""
    alike = merged((rooms[name], (name,)) for name in seen.standby or () if name in rooms)
    return tuple(
        Offer(
            name=f"{STANDBY}{place:06}",
            pool=Pool(),
            price=0.0,
            room=room,
            most=len(names),
            hosts=names,
        )
        for place, (room, names) in enumerate(alike)
    )


def woken(
    seen: Situation, bought: Mapping[str, Sequence[str]], offers: Sequence[Offer]
) -> tuple[str, ...]:
    """Return the hosts on standby that are among what is bought, in the order of waking."""
    found = {
        name for one in offers if one.hosts for name in one.hosts[: len(bought.get(one.name, ()))]
    }
    return tuple(name for name in seen.standby or () if name in found)
