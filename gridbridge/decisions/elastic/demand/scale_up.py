"""Adds nodes for the tasks that don't fit: from which pool, how many, and what forbids more."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from gridbridge.decisions.elastic.demand.capacity import (
    Blocks,
    HostRoom,
    QueueLayout,
    merged,
    pieces_in,
)
from gridbridge.decisions.elastic.demand.first_fit import fit_tasks, in_one_environment
from gridbridge.decisions.elastic.demand.pool_offers import PoolOffer, PurchaseLimits, waste
from gridbridge.decisions.elastic.demand.requirements import Requirement
from gridbridge.model.elastic.balance_plan import DemandVerdict, RefusalKind, UnservedDemand


@dataclass(slots=True, kw_only=True)
class ScaleUp:
    """The nodes that are bought so far, and the pools to buy from."""

    purse: PurchaseLimits
    blocks: Blocks
    offers: Sequence[PoolOffer]
    ground: QueueLayout
    woken: tuple[str, ...] = ()  # hosts on standby that are woken
    bought: dict[str, list[str]] = field(default_factory=dict)  # the group of each node, by pool
    hindrances: list[DemandVerdict] = field(default_factory=list)


def buy(need: Requirement, tasks: int, purchase: ScaleUp) -> int:
    """Add nodes for tasks that fit nowhere, and return how many of them have no place even so.

    Hosts on standby come before all pools, in the order of waking. Of pools those of the highest
    priority come first, then those with the lowest price of a slot, then those whose nodes nobody
    takes back, then those of which the least stays unused.
    """
    tasks -= _wake(need, tasks, purchase)
    for offer in sorted(
        _pools(need, purchase), key=lambda pool: _rank(pool, need, tasks, purchase)
    ):
        for choice in _choices(need, offer, purchase):
            tasks -= _from(offer, choice, tasks, purchase) if tasks else 0
    return tasks


def too_few(need: Requirement, purchase: ScaleUp) -> UnservedDemand | None:
    """Refuse a parallel task that needs more nodes at once than may be added now."""
    if need.pieces == 1:
        return None
    shortages = list[tuple[int, int]]()
    for offer in (pool for pool in _pools(need, purchase) if pool.hindrance is None):
        for group, room_for in _groups(offer, need, purchase):
            fit, nodes = _least(offer, group, need, 1, purchase, need.pieces)
            may, _ = _most(offer, group, room_for, need, purchase)
            if fit and nodes > may:
                shortages.append((nodes, may))
    if not shortages:
        return None
    nodes, may = min(shortages, key=lambda counts: counts[0] - counts[1])
    return UnservedDemand(cause=RefusalKind.TOO_FEW, wanted=str(nodes), has=str(may))


def _pools(need: Requirement, purchase: ScaleUp) -> Iterator[PoolOffer]:
    """Return the pools whose nodes could run a task, and pools whose nodes get no queue."""
    for offer in purchase.offers:
        is_nowhere = offer.hindrance is DemandVerdict.NO_SUCH_PLACE
        if not offer.hosts and (is_nowhere or _fits(need, offer.room, purchase.ground)):
            yield offer


def _fits(need: Requirement, room: HostRoom, ground: QueueLayout) -> bool:
    """Say whether a host has room for a piece of any part of a task."""
    return any(pieces_in(part, room, ground) for part in need.parts)


def _rank(offer: PoolOffer, need: Requirement, tasks: int, purchase: ScaleUp) -> tuple[object, ...]:
    unused, pool = waste(need, tasks, offer, purchase.ground), offer.pool
    return -pool.priority, offer.slot_price, pool.spot, unused, offer.name


def _choices(need: Requirement, offer: PoolOffer, purchase: ScaleUp) -> list[Requirement]:
    """Return a need for each environment of new nodes, the environment with most room first."""
    rooms = (offer.room, *(room for room, _ in purchase.blocks))
    choices = in_one_environment(need, rooms)
    if len(choices) == 1:
        return [need]
    usable = [choice for choice in choices if pieces_in(choice, offer.room, purchase.ground)]
    usable.sort(key=lambda choice: -_free_pieces(choice, purchase.blocks, purchase.ground))
    return usable or [need]


def _wake(need: Requirement, tasks: int, purchase: ScaleUp) -> int:
    """Wake the fewest first hosts that hold as many tasks as all; return how many tasks fit."""
    asleep, blocks = _asleep(need, purchase), purchase.blocks
    if not asleep:
        return 0

    def placed(hosts: int, tasks: int) -> tuple[int, Blocks]:
        return fit_tasks(need, tasks, merged((*blocks, *asleep[:hosts])), purchase.ground)

    fit, low, high = placed(len(asleep), tasks)[0], 0, len(asleep)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if placed(middle, fit)[0] == fit else (middle + 1, high)
    _take(purchase, placed(low, fit)[1], asleep)
    return fit


def _asleep(need: Requirement, purchase: ScaleUp) -> Blocks:
    """Return the hosts on standby that may be woken for a need, each of them a block."""
    blocks = (
        (offer.room, (host,))
        for offer in purchase.offers
        for host in offer.hosts
        if host not in purchase.woken and _fits(need, offer.room, purchase.ground)
    )
    return tuple(blocks)[: max(0, purchase.purse.for_price(0.0)[0])]


def _take(purchase: ScaleUp, blocks: Blocks, asleep: Blocks) -> None:
    """Wake the hosts on standby that tasks lie on; other hosts on standby count as no room."""
    names = {name for _, hosts in asleep for name in hosts}
    used = {name for room, hosts in blocks if room.is_used for name in hosts} & names
    still = names - used
    purchase.blocks = merged(
        (room, tuple(name for name in hosts if name not in still)) for room, hosts in blocks
    )
    purchase.woken += tuple(used)
    purchase.purse = purchase.purse.after(len(used), 0.0)


def _from(offer: PoolOffer, need: Requirement, tasks: int, purchase: ScaleUp) -> int:
    """Add nodes of one pool, and return how many tasks they, with what was free, have room for."""
    if offer.hindrance is not None:
        purchase.hindrances.append(offer.hindrance)
        return 0
    placed = 0
    for group, room_for in _groups(offer, need, purchase):
        if placed == tasks:
            break
        placed += _in_group(offer, group, room_for, need, tasks - placed, purchase)
    return placed


def _groups(offer: PoolOffer, need: Requirement, purchase: ScaleUp) -> list[tuple[str, int]]:
    """Return the groups in which tasks may get nodes, each with how many it may get.

    Parallel tasks stay within a group; of those that a pool has, the ones with room come first.
    """
    span = offer.pool.span
    if not span or need.pieces == 1:
        return [("", offer.most)]
    sizes = dict(offer.groups)
    for group in purchase.bought.get(offer.name, []):
        sizes[group] = sizes.get(group, 0) + 1
    sizes.pop("", None)
    existing = [(group, span - nodes) for group, nodes in sorted(sizes.items())]
    most = min(offer.most, purchase.purse.nodes)
    new = max(0, min(most, offer.pool.spans - len(sizes) if offer.pool.spans else most))
    names = (f"{offer.name}-{number}" for number in range(1, 1 + len(sizes) + new))
    return existing + [(name, span) for name in names if name not in sizes][:new]


def _in_group(
    offer: PoolOffer, group: str, room_for: int, need: Requirement, tasks: int, purchase: ScaleUp
) -> int:
    most, cause = _most(offer, group, room_for, need, purchase)
    fit, nodes = _least(offer, group, need, tasks, purchase, most)
    if fit < tasks and cause is not None:
        purchase.hindrances.append(cause)
    if not fit:
        return 0
    asleep = _beside(group, need, purchase)
    added = _with((*purchase.blocks, *asleep), offer, group, _own(offer, purchase), nodes)
    blocks = fit_tasks(need, fit, _first(added, group, need), purchase.ground)[1]
    purchase.purse = purchase.purse.after(nodes, offer.price)
    purchase.bought.setdefault(offer.name, []).extend([group] * nodes)
    _take(purchase, blocks, asleep)
    return fit


def _own(offer: PoolOffer, purchase: ScaleUp) -> int:
    """Return the number of nodes of a pool that are bought already."""
    return len(purchase.bought.get(offer.name, ()))


def _most(
    offer: PoolOffer, group: str, room_for: int, need: Requirement, purchase: ScaleUp
) -> tuple[int, DemandVerdict | None]:
    """Return how many nodes a group may get, and what forbids more; None: the group's size."""
    limit, cause = purchase.purse.for_price(offer.price)
    limit -= len(_beside(group, need, purchase))
    remaining = offer.most - _own(offer, purchase)
    most = max(0, min(limit, remaining, room_for))
    if most < min(limit, remaining):
        return most, None
    return most, cause if limit <= remaining else DemandVerdict.POOL_FULL


def _beside(group: str, need: Requirement, purchase: ScaleUp) -> Blocks:
    """Return the hosts on standby that a parallel task may share with new nodes."""
    return _asleep(need, purchase) if need.pieces > 1 and not group else ()


def _first(blocks: Blocks, group: str, need: Requirement) -> Blocks:
    """Put a group's hosts before all others, when tasks are to lie in it."""
    if need.pieces == 1:
        return blocks
    own = (block for block in blocks if block[0].group == group)
    return (*own, *(block for block in blocks if block[0].group != group))


def _least(
    offer: PoolOffer, group: str, need: Requirement, tasks: int, purchase: ScaleUp, most: int
) -> tuple[int, int]:
    """Return how many tasks fit with at most so many new nodes, and the fewest that do for them."""
    most, blocks = min(most, tasks * need.total), purchase.blocks
    if need.pieces > 1:
        own = (block for block in blocks if block[0].group == group)
        blocks = merged((*own, *_beside(group, need, purchase)))
    if need.also or (need.pieces > 1 and (need.is_apart or need.is_exclusive)):
        return _halved(offer, group, need, tasks, blocks, most, purchase.ground)
    free, pieces_each = (
        _free_pieces(need, blocks, purchase.ground),
        _pieces_each(need, offer.room, purchase.ground),
    )
    if not pieces_each:
        return 0, 0
    fit = min(tasks, (free + pieces_each * most) // need.pieces)
    return fit, max(0, -(-(fit * need.pieces - free) // pieces_each))


def _free_pieces(need: Requirement, blocks: Blocks, ground: QueueLayout) -> int:
    """Return the number of pieces that fit."""
    return sum(len(names) * _pieces_each(need, room, ground) for room, names in blocks)


def _pieces_each(need: Requirement, room: HostRoom, ground: QueueLayout) -> int:
    """Return how many pieces a host gets."""
    pieces = pieces_in(need, room, ground)
    return min(pieces, 1) if need.is_exclusive else pieces


def _halved(
    offer: PoolOffer,
    group: str,
    need: Requirement,
    tasks: int,
    blocks: Blocks,
    most: int,
    ground: QueueLayout,
) -> tuple[int, int]:
    """Return the same, found by halving, where tasks want several hosts of their own."""
    fit, _ = fit_tasks(need, tasks, _with(blocks, offer, group, 0, most), ground)
    low, high = 0, most
    while low < high:
        middle = (low + high) // 2
        placed, _ = fit_tasks(need, fit, _with(blocks, offer, group, 0, middle), ground)
        low, high = (low, middle) if placed == fit else (middle + 1, high)
    return fit, low


def _with(blocks: Blocks, offer: PoolOffer, group: str, first: int, nodes: int) -> Blocks:
    """Return the blocks with new nodes behind them."""
    names = tuple(f"{offer.name}+{number}" for number in range(first, first + nodes))
    return merged((*blocks, (replace(offer.room, group=group), names)))
