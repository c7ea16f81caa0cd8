"""Adds nodes for the tasks that don't fit: from which pool, how many, and what forbids more."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from gridbridge.decisions.elastic.demand.needs import Need
from gridbridge.decisions.elastic.demand.placing import place
from gridbridge.decisions.elastic.demand.pools import Offer, Purse, waste
from gridbridge.decisions.elastic.demand.rooms import Blocks, Ground, Room, merged, pieces_in
from gridbridge.model.elastic.plan import Verdict


@dataclass(slots=True, kw_only=True)
class Purchase:
    """What is bought so far."""

    purse: Purse
    blocks: Blocks
    bought: dict[str, list[str]] = field(default_factory=dict)  # the group of each node, by pool
    hindrances: list[Verdict] = field(default_factory=list)


def buy(need: Need, tasks: int, purchase: Purchase, offers: Sequence[Offer], ground: Ground) -> int:
    """Add nodes for tasks that fit nowhere, and return how many of them have no place even so.

    Hosts on standby come before all pools, in the order of waking. Of pools those of the highest
    priority come first, then those with the lowest price of a slot, then those whose nodes nobody
    takes back, then those of which the least stays unused.
    """
    fit = [
        one
        for one in offers
        if one.hindrance is Verdict.NO_SUCH_PLACE or pieces_in(need, one.room, ground)
    ]
    fit.sort(key=lambda one: _rank(one, need, tasks, ground))
    for offer in fit:
        if not tasks:
            break
        tasks -= _from(offer, need, tasks, purchase, ground)
    return tasks


def _rank(offer: Offer, need: Need, tasks: int, ground: Ground) -> tuple[object, ...]:
    if offer.hosts:
        return False, offer.name
    unused, pool = waste(need, tasks, offer, ground), offer.pool
    return True, -pool.priority, offer.slot_price, pool.spot, unused, offer.name


def _from(offer: Offer, need: Need, tasks: int, purchase: Purchase, ground: Ground) -> int:
    """Add nodes of one pool, and return how many tasks they, with what was free, have room for."""
    if offer.hindrance is not None:
        purchase.hindrances.append(offer.hindrance)
        return 0
    done = 0
    for group, room_for in _groups(offer, need, purchase):
        if done == tasks:
            break
        done += _in_group(offer, group, room_for, need, tasks - done, purchase, ground)
    return done


def _groups(offer: Offer, need: Need, purchase: Purchase) -> list[tuple[str, int]]:
    """Return the groups in which tasks may get nodes, each with how many it may get.

    Parallel tasks stay within a group; of those that a pool has, the ones with room come first.
    """
    span = offer.pool.span
    if not span or need.pieces == 1:
        return [("", offer.most)]
    there = dict(offer.groups)
    for group in purchase.bought.get(offer.name, []):
        there[group] = there.get(group, 0) + 1
    there.pop("", None)
    known = [(group, span - nodes) for group, nodes in sorted(there.items())]
    most = min(offer.most, purchase.purse.nodes)
    new = max(0, min(most, offer.pool.spans - len(there) if offer.pool.spans else most))
    names = (f"{offer.name}-{number}" for number in range(1, 1 + len(there) + new))
    return known + [(name, span) for name in names if name not in there][:new]


def _in_group(
    offer: Offer,
    group: str,
    room_for: int,
    need: Need,
    tasks: int,
    purchase: Purchase,
    ground: Ground,
) -> int:
    own = len(purchase.bought.get(offer.name, []))
    limit, cause = purchase.purse.for_price(offer.price)
    most = max(0, min(limit, offer.most - own, room_for))
    blocks = purchase.blocks
    if need.pieces > 1:
        blocks = tuple(one for one in blocks if one[0].group == group)
    fit, nodes = _least(offer, group, need, tasks, blocks, most, ground)
    if fit < tasks and most == min(limit, offer.most - own):
        purchase.hindrances.append(cause if limit <= offer.most - own else Verdict.POOL_FULL)
    if not fit:
        return 0
    added = _with(purchase.blocks, offer, group, own, nodes)
    purchase.blocks = place(need, fit, _first(added, group, need), ground)[1]
    purchase.purse = purchase.purse.after(nodes, offer.price)
    purchase.bought.setdefault(offer.name, []).extend([group] * nodes)
    return fit


def _first(blocks: Blocks, group: str, need: Need) -> Blocks:
    """Put a group's hosts before all others, when tasks are to lie in it."""
    if need.pieces == 1:
        return blocks
    own = (one for one in blocks if one[0].group == group)
    return (*own, *(one for one in blocks if one[0].group != group))


def _least(
    offer: Offer, group: str, need: Need, tasks: int, blocks: Blocks, most: int, ground: Ground
) -> tuple[int, int]:
    """Return how many tasks fit with at most so many new nodes, and the fewest that do for them."""
    most = min(most, tasks * need.pieces)
    if need.pieces > 1 and (need.is_apart or need.is_exclusive):
        return _halved(offer, group, need, tasks, blocks, most, ground)
    there = sum(len(names) * _each(need, room, ground) for room, names in blocks)
    each = _each(need, offer.room, ground)
    fit = min(tasks, (there + each * most) // need.pieces)
    return fit, max(0, -(-(fit * need.pieces - there) // each))


def _each(need: Need, room: Room, ground: Ground) -> int:
    """Return how many pieces a host gets."""
    pieces = pieces_in(need, room, ground)
    return min(pieces, 1) if need.is_exclusive else pieces


def _halved(
    offer: Offer, group: str, need: Need, tasks: int, blocks: Blocks, most: int, ground: Ground
) -> tuple[int, int]:
    """Return the same, found by halving, where tasks want several hosts of their own."""
    fit, _ = place(need, tasks, _with(blocks, offer, group, 0, most), ground)
    low, high = 0, most
    while low < high:
        middle = (low + high) // 2
        done, _ = place(need, fit, _with(blocks, offer, group, 0, middle), ground)
        low, high = (low, middle) if done == fit else (middle + 1, high)
    return fit, low


def _with(blocks: Blocks, offer: Offer, group: str, first: int, nodes: int) -> Blocks:
    """Return the blocks with new nodes behind them."""
    names = tuple(f"{offer.name}+{number}" for number in range(first, first + nodes))
    return merged((*blocks, (replace(offer.room, group=group), names)))
