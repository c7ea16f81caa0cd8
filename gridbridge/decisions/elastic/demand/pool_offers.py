"""Where new nodes come from: which pools can be used now, and in which order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from gridbridge.decisions.elastic.demand import budget
from gridbridge.decisions.elastic.demand.capacity import (
    HostRoom,
    QueueLayout,
    amounts_of,
    pieces_in,
)
from gridbridge.decisions.elastic.demand.free_capacity import part_of, tags_of
from gridbridge.decisions.elastic.demand.requirements import Requirement
from gridbridge.decisions.elastic.demand.time_of_day import hourly, price_at
from gridbridge.model.amounts import HOUR_S
from gridbridge.model.elastic.balance_plan import BalanceSituation, DemandVerdict
from gridbridge.model.elastic.balance_sections import Balance, Demand, Pool
from gridbridge.model.elastic.cell_layout import CellLayout, ConsumableKind
from gridbridge.model.elastic.node import Node

AS_USUAL = ""  # the pool of a cluster that has none: its nodes are as those that are there


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOffer:
    """A pool as it is now."""

    name: str
    pool: Pool
    price: float
    room: HostRoom
    most: int  # nodes that it may still give
    hindrance: DemandVerdict | None = None  # why that is none
    groups: Mapping[str, int] = field(default_factory=dict)  # nodes in each that is there
    hosts: tuple[str, ...] = ()  # on standby, which are woken, and no node is made

    @property
    def slot_price(self) -> float:
        """What a slot costs an hour."""
        return self.price / max(1, slots_in(self.room))


def slots_in(room: HostRoom) -> int:
    """Return how many slots a host has: those of its largest queue."""
    return max((part.free for part in room.parts), default=0)


def offers(
    situation: BalanceSituation,
    pools: Mapping[str, Pool],
    ground: QueueLayout,
    patterns: frozenset[str],
    usual: HostRoom | None,
    demand: Demand,
) -> tuple[PoolOffer, ...]:
    """Return pools in the order of priority and price; without any, one as nodes usually are."""
    if not pools:
        return (_usual(usual, ground),) if usual else ()
    unordered = [
        _offer(name, pool, situation, ground, patterns, demand) for name, pool in pools.items()
    ]
    return tuple(
        sorted(unordered, key=lambda offer: (-offer.pool.priority, offer.slot_price, offer.name))
    )


UNLIMITED = 1_000_000


def _usual(room: HostRoom, ground: QueueLayout) -> PoolOffer:
    offer = PoolOffer(name=AS_USUAL, pool=Pool(), price=0.0, room=room, most=UNLIMITED)
    return _open(offer, ground)


def _open(offer: PoolOffer, ground: QueueLayout) -> PoolOffer:
    """Return an offer without the queues that are closed; where that is all, with why."""
    open_room = ground.without_closed(offer.room)
    if offer.room.parts and not open_room.parts:
        return replace(offer, most=0, hindrance=DemandVerdict.QUEUE_CLOSED)
    return replace(offer, room=open_room)


def _offer(
    name: str,
    pool: Pool,
    situation: BalanceSituation,
    ground: QueueLayout,
    patterns: frozenset[str],
    demand: Demand,
) -> PoolOffer:
    own = [node for node in situation.nodes if node.pool == name and node.counts]
    groups = dict[str, int]()
    for node in own:
        groups[node.group] = groups.get(node.group, 0) + 1
    most, hindrance = _most(name, pool, own, situation, demand)
    if not _has_place(pool, ground.layout):
        most, hindrance = 0, DemandVerdict.NO_SUCH_PLACE
    offer = PoolOffer(
        name=name,
        pool=pool,
        price=price_at(pool, situation.local_now),
        room=room_of(pool, ground, patterns),
        most=most,
        hindrance=hindrance,
        groups=groups,
    )
    return offer if hindrance else _open(offer, ground)


def _most(
    name: str, pool: Pool, own: Sequence[Node], situation: BalanceSituation, demand: Demand
) -> tuple[int, DemandVerdict | None]:
    """Return how many nodes a pool may still give, and why it is none."""
    failed = situation.failed.get(name)
    if failed is not None and is_left_out(failed, situation.now, demand.retry_s):
        return 0, DemandVerdict.NO_CAPACITY
    most = pool.limit - len(own) if pool.limit else UNLIMITED
    if most <= 0:
        return 0, DemandVerdict.POOL_FULL
    allowed = pool.quota // pool.slots - len(own) if pool.quota else UNLIMITED
    return (min(most, allowed), None) if allowed > 0 else (0, DemandVerdict.OVER_QUOTA)


def _has_place(pool: Pool, layout: CellLayout) -> bool:
    """Say whether the cell has what a pool's nodes join, and a queue among that."""
    if not layout.queues:
        return True  # nobody knows
    named = (*pool.queues.split(), *pool.hostgroups.split())
    is_there = layout.queues.keys() | layout.groups.keys() >= {*named}
    return is_there and bool(pool.queues.split() or _joined(_groups(pool, layout), layout))


def is_left_out(failed: datetime, now: datetime, retry_s: float) -> bool:
    """Say whether a pool that failed then gives nothing now; one that fails now never does."""
    return failed == now or 0 <= (now - failed).total_seconds() < retry_s


def room_of(pool: Pool, ground: QueueLayout, patterns: frozenset[str]) -> HostRoom:
    """Return what a new node of a pool has."""
    layout = ground.layout
    groups = _groups(pool, layout)
    texts = {_name(name, layout): text for name, text in pool.resources.items()}
    counted = {name for name in texts if _is_counted(name, layout)}
    return HostRoom(
        parts=tuple(
            part_of(queue, pool.slots, layout, groups) for queue in queues_of(pool, groups, ground)
        ),
        amounts=amounts_of((name, texts[name]) for name in counted),
        values=tuple(sorted((name, text) for name, text in texts.items() if name not in counted)),
        tags=tags_of("", groups, patterns),
        is_told=bool(layout.resources),
        is_silent=ground.is_new_silent,
        is_new=True,
    )


def _name(name: str, layout: CellLayout) -> str:
    resource = layout.resources.get(name)
    return resource.name if resource else name


def _is_counted(name: str, layout: CellLayout) -> bool:
    resource = layout.resources.get(name)
    return resource is not None and resource.counted is not ConsumableKind.NO


def queues_of(pool: Pool, groups: frozenset[str], ground: QueueLayout) -> tuple[str, ...]:
    """Return the queues that a pool's nodes join: those named, or else those of its host groups.

    Where no layout is known, that is the one to which tasks go that ask for none.
    """
    if named := pool.queues.split():
        return tuple(named)
    return _joined(groups, ground.layout) if ground.layout.queues else (ground.queue,)


def _groups(pool: Pool, layout: CellLayout) -> frozenset[str]:
    """Return the host groups of a pool's nodes, with those around them."""
    return layout.around(frozenset(pool.hostgroups.split()))


def _joined(groups: frozenset[str], layout: CellLayout) -> tuple[str, ...]:
    """Return the queues of host groups, without those whose tasks make way or are sent away."""
    return tuple(
        queue.name
        for queue in layout.queues.values()
        if groups.intersection(queue.hosts) and not queue.on("", groups).is_left_out
    )


def waste(need: Requirement, tasks: int, offer: PoolOffer, ground: QueueLayout) -> float:
    """Return the share of the slots of as many nodes as tasks need that would stay unused."""
    pieces_each = pieces_in(need, offer.room, ground)
    if not pieces_each:
        return 1.0
    pieces = tasks * need.pieces
    nodes = -(-pieces // pieces_each)
    return 1 - pieces * need.slots / max(1, nodes * slots_in(offer.room))


@dataclass(frozen=True, slots=True, kw_only=True)
class PurchaseLimits:
    """How many nodes may still be added, and what they may cost."""

    nodes: int  # below the maximum, and no more than one round may add
    booting: int
    hour: float | None  # what may be spent more an hour; None: there is no limit
    month: float | None
    unit_s: float = HOUR_S  # what is paid for at once

    def for_price(self, price: float) -> tuple[int, DemandVerdict]:
        """Return how many nodes of a price may be added, and what would be said of none.

        Of a month's budget an hour of each new node has to be left, or the unit that is paid for.
        """
        if self.nodes <= 0:
            return 0, DemandVerdict.FULL
        if self.booting <= 0:
            return 0, DemandVerdict.ENOUGH_BOOTING
        budgets = [budget for budget in (self.hour, self._hourly_left) if budget is not None]
        if not budgets or price <= 0:
            return min(self.nodes, self.booting), DemandVerdict.FULL
        least = min(budgets)
        affordable = max(0, int(least / price + 1e-9))
        cause = DemandVerdict.OVER_BUDGET if least == self.hour else DemandVerdict.OVER_MONTH
        return min(self.nodes, self.booting, affordable), cause

    @property
    def closed(self) -> DemandVerdict | None:
        """Say what forbids any more nodes, of whatever pool; None: nothing does."""
        number, cause = self.for_price(0.0)
        return None if number else cause

    @property
    def _hourly_left(self) -> float | None:
        """What is left of the month, for an hour of it or the longer unit."""
        return None if self.month is None else self.month / max(1.0, self.unit_s / HOUR_S)

    def after(self, nodes: int, price: float) -> "PurchaseLimits":
        """Return what is left when nodes were bought."""
        cost = nodes * price
        return replace(
            self,
            nodes=self.nodes - nodes,
            booting=self.booting - nodes,
            hour=None if self.hour is None else self.hour - cost,
            month=None
            if self.month is None
            else self.month - cost * max(1.0, self.unit_s / HOUR_S),
        )


def purse(
    situation: BalanceSituation,
    rules: Balance,
    demand: Demand,
    pools: Mapping[str, Pool],
    most: int,
    nodes: int,
    least: int,
) -> PurchaseLimits:
    """Return what may be added, by limits, by what is paid already, and by what is set aside."""
    month = budget.month_left(situation, demand)
    paid = hourly(
        (node.pool for node in situation.nodes if node.counts), pools, situation.local_now
    )
    on_way = sum(node.state.is_coming for node in situation.nodes)
    room = most - nodes
    at_once = demand.add_at_once or room
    return PurchaseLimits(
        nodes=min(room, at_once),
        booting=demand.max_booting - on_way if demand.max_booting else UNLIMITED,
        hour=demand.budget_hour - paid if demand.budget_hour else None,
        month=None
        if month is None
        else month - budget.set_aside(situation, rules, demand, pools, least),
        unit_s=demand.billing_s,
    )
