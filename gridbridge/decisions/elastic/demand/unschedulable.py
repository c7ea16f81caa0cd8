"""Why no new node could run a task: what it asks for that none would have."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gridbridge.decisions.elastic.demand.capacity import (
    CellPlacementRules,
    FreeHostCapacity,
    count_pieces_that_fit_host,
    host_lacks_consumable,
    missing_queue_resources,
    queue_accepts_task,
)
from gridbridge.decisions.elastic.demand.pool_offers import PoolOffer
from gridbridge.decisions.elastic.demand.requirements import TaskRequirement
from gridbridge.model.elastic.access import ANYBODY
from gridbridge.model.elastic.balance_plan import BalanceRefusal, BalanceRefusalCause
from gridbridge.model.request import QNAME


def explain_unschedulable_task(
    need: TaskRequirement,
    offers: Sequence[PoolOffer],
    ground: CellPlacementRules,
    rooms: Sequence[tuple[str, FreeHostCapacity]] = (),
) -> BalanceRefusal | None:
    """Return what every pool's nodes lack, named for the pool that lacks the least.

    A parallel task may lie on new nodes and on present hosts. `there` has the present hosts with
    their pools, as if nothing ran on them.
    """
    if need.is_on_all:
        return BalanceRefusal(cause=BalanceRefusalCause.ALL_HOSTS)
    if need.also:
        parts = (explain_unschedulable_task(part, offers, ground, rooms) for part in need.parts)
        return next(filter(None, parts), None)
    if any(_fits_with_more_nodes(need, offer, ground, rooms) for offer in offers):
        return None
    if any(count_pieces_that_fit_host(need, offer.room, ground) for offer in offers):
        return BalanceRefusal(cause=BalanceRefusalCause.TOO_SPREAD)
    causes = [refusal for offer in offers if (refusal := _first_missing(need, offer.room, ground))]
    return max(causes, key=lambda refusal: ORDER.index(refusal.cause), default=None)


ORDER = (
    BalanceRefusalCause.NO_QUEUE,
    BalanceRefusalCause.NO_ACCESS,
    BalanceRefusalCause.NO_VALUE,
    BalanceRefusalCause.TOO_WIDE,
    BalanceRefusalCause.TOO_MUCH,
)


def _fits_with_more_nodes(
    need: TaskRequirement,
    offer: PoolOffer,
    ground: CellPlacementRules,
    rooms: Sequence[tuple[str, FreeHostCapacity]],
) -> bool:
    """Say whether a task fits on nodes of a pool, if it has as many as it may together."""
    pieces_each, pool = _pieces_of_one_task(need, offer.room, ground), offer.pool
    if not pieces_each or need.pieces == 1:
        return pieces_each > 0
    limits = [limit for limit in (pool.span, pool.limit) if limit]
    limits += [pool.quota // pool.slots] if pool.quota else []
    limits += [0] if offer.hosts else []  # a pool of hosts on standby adds no node
    other_rooms = () if pool.span else (room for name, room in rooms if name != offer.name)
    beside = sum(_pieces_of_one_task(need, room, ground) for room in other_rooms)
    return not limits or min(limits) * pieces_each + beside >= need.pieces


def _pieces_of_one_task(
    need: TaskRequirement, room: FreeHostCapacity, ground: CellPlacementRules
) -> int:
    """Return the number of pieces of one task that fit on a host."""
    pieces = count_pieces_that_fit_host(need, room, ground)
    return min(pieces, 1) if need.is_apart else pieces


def _first_missing(
    need: TaskRequirement, room: FreeHostCapacity, ground: CellPlacementRules
) -> BalanceRefusal | None:
    return next(_missing_on_host(need, room, ground), None)


def _missing_on_host(
    need: TaskRequirement, room: FreeHostCapacity, ground: CellPlacementRules
) -> Iterator[BalanceRefusal]:
    parts = [part for part in room.parts if queue_accepts_task(need, part, room, ground)]
    if not parts:
        yield _explain_missing_queue(need, room, ground)
    widest = max((part.free for part in parts), default=0)
    if widest < need.slots:
        yield BalanceRefusal(
            cause=BalanceRefusalCause.TOO_WIDE, wanted=str(need.slots), has=str(widest)
        )
    has = dict(room.amounts) | dict(own for part in parts for own in part.amounts)
    for name, amount in need.amounts:
        if has.get(name, 0.0) < amount and (
            name in has or host_lacks_consumable(name, room, ground)
        ):
            yield _amount_refusal(name, amount, has.get(name, 0.0))
    texts = {requirement.name: requirement.value for requirement in need.values}
    missing_in = (missing_queue_resources(need, part, room, ground) for part in parts)
    for name in sorted(min(missing_in, key=len, default=())):
        yield BalanceRefusal(
            cause=BalanceRefusalCause.NO_VALUE, name=name, wanted=texts.get(name, "TRUE")
        )
    for requirement in need.values:
        if requirement.name != QNAME:
            yield BalanceRefusal(
                cause=BalanceRefusalCause.NO_VALUE, name=requirement.name, wanted=requirement.value
            )


def _explain_missing_queue(
    need: TaskRequirement, room: FreeHostCapacity, ground: CellPlacementRules
) -> BalanceRefusal:
    if excluded := _access_obstacle(need, room, ground):
        return BalanceRefusal(cause=BalanceRefusalCause.NO_ACCESS, wanted=excluded)
    words = (*need.queues, *need.named, need.pe, *_requests_with_queue_limits(need, room))
    return BalanceRefusal(
        cause=BalanceRefusalCause.NO_QUEUE, wanted=" ".join(filter(None, words)) or "any"
    )


def _access_obstacle(
    need: TaskRequirement, room: FreeHostCapacity, ground: CellPlacementRules
) -> str:
    """Return what the queues of a node do not admit of a task that they would have otherwise."""
    anybodys = replace(need, identity=ANYBODY)
    parts = (part for part in room.parts if queue_accepts_task(anybodys, part, room, ground))
    lists = ground.layout.user_lists
    return next((part.access.obstacle(need.identity, lists) for part in parts), "")


def _requests_with_queue_limits(need: TaskRequirement, room: FreeHostCapacity) -> Iterator[str]:
    """Give what a task asks for that its queues limit, such as a run time."""
    limits = {name for part in room.parts for name, _ in part.values}
    return (
        f"{requirement.name}={requirement.value}"
        for requirement in need.values
        if requirement.name in limits
    )


def _amount_refusal(name: str, required: float, has: float) -> BalanceRefusal:
    return BalanceRefusal(
        cause=BalanceRefusalCause.TOO_MUCH,
        name=name,
        wanted=_format_amount(required),
        has=_format_amount(has),
    )


def _format_amount(number: float) -> str:
    """Write an amount; a large one is one of memory."""
    for unit, size in (("G", 2**30), ("M", 2**20)):
        if number >= size:
            return f"{number / size:.4g}{unit}"
    return f"{number:g}"
