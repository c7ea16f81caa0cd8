"""Why no new node could run a task: what it asks for that none would have."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gridbridge.decisions.elastic.demand.capacity import (
    HostRoom,
    QueueLayout,
    is_open,
    lacks,
    missing,
    pieces_in,
)
from gridbridge.decisions.elastic.demand.pool_offers import PoolOffer
from gridbridge.decisions.elastic.demand.requirements import Requirement
from gridbridge.model.elastic.access import ANYBODY
from gridbridge.model.elastic.balance_plan import RefusalKind, UnservedDemand
from gridbridge.model.request import QNAME


def lacking(
    need: Requirement,
    offers: Sequence[PoolOffer],
    ground: QueueLayout,
    rooms: Sequence[tuple[str, HostRoom]] = (),
) -> UnservedDemand | None:
    """Return what every pool's nodes lack, named for the pool that lacks the least.

    A parallel task may lie on new nodes and on present hosts. `there` has the present hosts with
    their pools, as if nothing ran on them.
    """
    if need.is_on_all:
        return UnservedDemand(cause=RefusalKind.ALL_HOSTS)
    if need.also:
        parts = (lacking(part, offers, ground, rooms) for part in need.parts)
        return next(filter(None, parts), None)
    if any(_could(need, offer, ground, rooms) for offer in offers):
        return None
    if any(pieces_in(need, offer.room, ground) for offer in offers):
        return UnservedDemand(cause=RefusalKind.TOO_SPREAD)
    causes = [refusal for offer in offers if (refusal := _lack(need, offer.room, ground))]
    return max(causes, key=lambda refusal: ORDER.index(refusal.cause), default=None)


ORDER = (
    RefusalKind.NO_QUEUE,
    RefusalKind.NO_ACCESS,
    RefusalKind.NO_VALUE,
    RefusalKind.TOO_WIDE,
    RefusalKind.TOO_MUCH,
)


def _could(
    need: Requirement, offer: PoolOffer, ground: QueueLayout, rooms: Sequence[tuple[str, HostRoom]]
) -> bool:
    """Say whether a task fits on nodes of a pool, if it has as many as it may together."""
    pieces_each, pool = _pieces_of_one(need, offer.room, ground), offer.pool
    if not pieces_each or need.pieces == 1:
        return pieces_each > 0
    limits = [limit for limit in (pool.span, pool.limit) if limit]
    limits += [pool.quota // pool.slots] if pool.quota else []
    limits += [0] if offer.hosts else []  # a pool of hosts on standby adds no node
    other_rooms = () if pool.span else (room for name, room in rooms if name != offer.name)
    beside = sum(_pieces_of_one(need, room, ground) for room in other_rooms)
    return not limits or min(limits) * pieces_each + beside >= need.pieces


def _pieces_of_one(need: Requirement, room: HostRoom, ground: QueueLayout) -> int:
    """Return the number of pieces of one task that fit on a host."""
    pieces = pieces_in(need, room, ground)
    return min(pieces, 1) if need.is_apart else pieces


def _lack(need: Requirement, room: HostRoom, ground: QueueLayout) -> UnservedDemand | None:
    return next(_lacks(need, room, ground), None)


def _lacks(need: Requirement, room: HostRoom, ground: QueueLayout) -> Iterator[UnservedDemand]:
    parts = [part for part in room.parts if is_open(need, part, room, ground)]
    if not parts:
        yield _no_queue(need, room, ground)
    widest = max((part.free for part in parts), default=0)
    if widest < need.slots:
        yield UnservedDemand(cause=RefusalKind.TOO_WIDE, wanted=str(need.slots), has=str(widest))
    has = dict(room.amounts) | dict(own for part in parts for own in part.amounts)
    for name, amount in need.amounts:
        if has.get(name, 0.0) < amount and (name in has or lacks(name, room, ground)):
            yield _too_much(name, amount, has.get(name, 0.0))
    texts = {requirement.name: requirement.value for requirement in need.values}
    missing_in = (missing(need, part, room, ground) for part in parts)
    for name in sorted(min(missing_in, key=len, default=())):
        yield UnservedDemand(cause=RefusalKind.NO_VALUE, name=name, wanted=texts.get(name, "TRUE"))
    for requirement in need.values:
        if requirement.name != QNAME:
            yield UnservedDemand(
                cause=RefusalKind.NO_VALUE, name=requirement.name, wanted=requirement.value
            )


def _no_queue(need: Requirement, room: HostRoom, ground: QueueLayout) -> UnservedDemand:
    if excluded := _kept_out(need, room, ground):
        return UnservedDemand(cause=RefusalKind.NO_ACCESS, wanted=excluded)
    words = (*need.queues, *need.named, need.pe, *_limited(need, room))
    return UnservedDemand(cause=RefusalKind.NO_QUEUE, wanted=" ".join(filter(None, words)) or "any")


def _kept_out(need: Requirement, room: HostRoom, ground: QueueLayout) -> str:
    """Return what the queues of a node do not admit of a task that they would have otherwise."""
    anybodys = replace(need, identity=ANYBODY)
    parts = (part for part in room.parts if is_open(anybodys, part, room, ground))
    lists = ground.layout.user_lists
    return next((part.access.obstacle(need.identity, lists) for part in parts), "")


def _limited(need: Requirement, room: HostRoom) -> Iterator[str]:
    """Give what a task asks for that its queues limit, such as a run time."""
    limits = {name for part in room.parts for name, _ in part.values}
    return (
        f"{requirement.name}={requirement.value}"
        for requirement in need.values
        if requirement.name in limits
    )


def _too_much(name: str, required: float, has: float) -> UnservedDemand:
    return UnservedDemand(
        cause=RefusalKind.TOO_MUCH, name=name, wanted=_amount(required), has=_amount(has)
    )


def _amount(number: float) -> str:
    """Write an amount; a large one is one of memory."""
    for unit, size in (("G", 2**30), ("M", 2**20)):
        if number >= size:
            return f"{number / size:.4g}{unit}"
    return f"{number:g}"
