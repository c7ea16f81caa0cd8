"""List the new nodes that each pool could give now, and explain which tasks no new node could run."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from gridbridge.decisions.elastic.demand import scale_down
from gridbridge.decisions.elastic.demand.free_capacity import matching_host_patterns, queue_values_on_host
from gridbridge.decisions.elastic.demand.task_packing import (
    CellPlacementRules,
    FreeHostCapacity,
    count_task_pieces_fitting_host,
    host_lacks_consumable,
    merge_hosts_of_equal_capacity,
    parse_consumable_amounts,
    queue_accepts_task,
    requested_resources_queue_lacks,
)
from gridbridge.decisions.elastic.demand.task_requirements import TaskRequirement
from gridbridge.decisions.elastic.node_costs_and_pool_choice import (
    hourly_cost_of_nodes,
    node_price_at_hour,
)
from gridbridge.model.elastic.balance_plan import (
    BalancePlanReason,
    BalanceSituation,
    NodeAddOrRemoveRefusal,
    NodeAddOrRemoveRefusalCause,
)
from gridbridge.model.elastic.balance_sections import BalanceSection, DemandPolicySection, NodePoolSection
from gridbridge.model.elastic.elastic_nodes import ElasticNode
from gridbridge.model.elastic.grid_engine_cell import ANYBODY, CellConfiguration, ConsumableKind
from gridbridge.model.elastic.standby_hosts import STANDBY
from gridbridge.model.grid_engine_amounts import HOUR_S
from gridbridge.model.job_request import QNAME

AS_USUAL = ""  # pool name in a cluster without pools, where new nodes are like present nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOrStandbyOffer:
    """The new nodes that a pool could give now, or powered-off hosts, with their price and capacity."""

    name: str
    pool: NodePoolSection
    price: float
    room: FreeHostCapacity
    most: int  # number of nodes that the pool may still add
    hindrance: BalancePlanReason | None = None  # why `most` is 0
    groups: Mapping[str, int] = field(default_factory=dict)  # number of nodes, by node group
    hosts: tuple[str, ...] = ()  # powered-off hosts to wake, in place of new nodes

    @property
    def slot_price(self) -> float:
        """The price of one slot for an hour."""
        return self.price / max(1, slots_of_largest_queue(self.room))


def slots_of_largest_queue(room: FreeHostCapacity) -> int:
    """Return the number of free slots in a host's largest queue."""
    return max((part.free for part in room.parts), default=0)


def offer_new_nodes_by_pool(
    situation: BalanceSituation,
    pools: Mapping[str, NodePoolSection],
    placement: CellPlacementRules,
    patterns: frozenset[str],
    usual: FreeHostCapacity | None,
    demand: DemandPolicySection,
) -> tuple[PoolOrStandbyOffer, ...]:
    """Return what each pool could give now, sorted by priority and price.

    A cluster without pools could give nodes that are like the present nodes.
    """
    if not pools:
        return (_typical_offer(usual, placement),) if usual else ()
    unordered = [_pool_offer(name, pool, situation, placement, patterns, demand) for name, pool in pools.items()]
    return tuple(sorted(unordered, key=lambda offer: (-offer.pool.priority, offer.slot_price, offer.name)))


UNLIMITED = 1_000_000


def _typical_offer(room: FreeHostCapacity, placement: CellPlacementRules) -> PoolOrStandbyOffer:
    offer = PoolOrStandbyOffer(name=AS_USUAL, pool=NodePoolSection(), price=0.0, room=room, most=UNLIMITED)
    return _without_closed_queues(offer, placement)


def _without_closed_queues(offer: PoolOrStandbyOffer, placement: CellPlacementRules) -> PoolOrStandbyOffer:
    """Remove closed queues from a pool's new nodes; without an open queue the hindrance is QUEUE_CLOSED."""
    open_room = placement.without_closed(offer.room)
    if offer.room.parts and not open_room.parts:
        return replace(offer, most=0, hindrance=BalancePlanReason.QUEUE_CLOSED)
    return replace(offer, room=open_room)


def _pool_offer(
    name: str,
    pool: NodePoolSection,
    situation: BalanceSituation,
    placement: CellPlacementRules,
    patterns: frozenset[str],
    demand: DemandPolicySection,
) -> PoolOrStandbyOffer:
    own = [node for node in situation.nodes if node.pool == name and node.counts]
    groups = dict[str, int]()
    for node in own:
        groups[node.group] = groups.get(node.group, 0) + 1
    most, hindrance = _most_new_nodes(name, pool, own, situation, demand)
    if not _joins_known_queue(pool, placement.layout):
        most, hindrance = 0, BalancePlanReason.NO_SUCH_PLACE
    offer = PoolOrStandbyOffer(
        name=name,
        pool=pool,
        price=node_price_at_hour(pool, situation.local_now),
        room=capacity_of_new_pool_node(pool, placement, patterns),
        most=most,
        hindrance=hindrance,
        groups=groups,
    )
    return offer if hindrance else _without_closed_queues(offer, placement)


def _most_new_nodes(
    name: str,
    pool: NodePoolSection,
    own: Sequence[ElasticNode],
    situation: BalanceSituation,
    demand: DemandPolicySection,
) -> tuple[int, BalancePlanReason | None]:
    failed = situation.failed.get(name)
    if failed is not None and is_pool_paused_after_failure(failed, situation.now, demand.retry_s):
        return 0, BalancePlanReason.NO_CAPACITY
    most = pool.limit - len(own) if pool.limit else UNLIMITED
    if most <= 0:
        return 0, BalancePlanReason.POOL_FULL
    allowed = pool.quota // pool.slots - len(own) if pool.quota else UNLIMITED
    return (min(most, allowed), None) if allowed > 0 else (0, BalancePlanReason.OVER_QUOTA)


def _joins_known_queue(pool: NodePoolSection, layout: CellConfiguration) -> bool:
    """Say whether all queues and host groups of a pool exist, and whether the pool's nodes get a queue."""
    if not layout.queues:
        return True  # the configuration is unknown
    named = (*pool.queues.split(), *pool.hostgroups.split())
    is_there = layout.queues.keys() | layout.groups.keys() >= {*named}
    return is_there and bool(pool.queues.split() or _queues_of_host_groups(_host_groups(pool, layout), layout))


def is_pool_paused_after_failure(failed: datetime, now: datetime, retry_s: float) -> bool:
    """Say whether the pause of a pool after a failure at time `failed` still lasts."""
    return failed == now or 0 <= (now - failed).total_seconds() < retry_s


def capacity_of_new_pool_node(
    pool: NodePoolSection, placement: CellPlacementRules, patterns: frozenset[str]
) -> FreeHostCapacity:
    """Return the free capacity of a new node of a pool."""
    layout = placement.layout
    groups = _host_groups(pool, layout)
    texts = {_resource_name(name, layout): text for name, text in pool.resources.items()}
    counted = {name for name in texts if _is_counted(name, layout)}
    return FreeHostCapacity(
        parts=tuple(
            queue_values_on_host(queue, pool.slots, layout, groups)
            for queue in queues_of_pool_nodes(pool, groups, placement)
        ),
        amounts=parse_consumable_amounts((name, texts[name]) for name in counted),
        values=tuple(sorted((name, text) for name, text in texts.items() if name not in counted)),
        tags=matching_host_patterns("", groups, patterns),
        is_told=bool(layout.resources),
        is_silent=placement.is_new_silent,
        is_new=True,
    )


def _resource_name(name: str, layout: CellConfiguration) -> str:
    resource = layout.resources.get(name)
    return resource.name if resource else name


def _is_counted(name: str, layout: CellConfiguration) -> bool:
    resource = layout.resources.get(name)
    return resource is not None and resource.counted is not ConsumableKind.NO


def queues_of_pool_nodes(
    pool: NodePoolSection, groups: frozenset[str], placement: CellPlacementRules
) -> tuple[str, ...]:
    """Return the queues that a pool's nodes join: the configured queues, or the queues of the host groups.

    If the cell's configuration is unknown, the result is the default queue.
    """
    if named := pool.queues.split():
        return tuple(named)
    return _queues_of_host_groups(groups, placement.layout) if placement.layout.queues else (placement.queue,)


def _host_groups(pool: NodePoolSection, layout: CellConfiguration) -> frozenset[str]:
    """Return the host groups that a pool's nodes join, including enclosing groups."""
    return layout.around(frozenset(pool.hostgroups.split()))


def _queues_of_host_groups(groups: frozenset[str], layout: CellConfiguration) -> tuple[str, ...]:
    """Return the queues of host groups, without best-effort and transfer queues."""
    return tuple(
        queue.name
        for queue in layout.queues.values()
        if groups.intersection(queue.hosts) and not queue.on("", groups).is_left_out
    )


def unused_slot_share_of_offer(
    need: TaskRequirement, tasks: int, offer: PoolOrStandbyOffer, placement: CellPlacementRules
) -> float:
    """Return the unused share (0 to 1) of the slots of new nodes that run the given number of tasks."""
    pieces_each = count_task_pieces_fitting_host(need, offer.room, placement)
    if not pieces_each:
        return 1.0
    pieces = tasks * need.pieces
    nodes = -(-pieces // pieces_each)
    return 1 - pieces * need.slots / max(1, nodes * slots_of_largest_queue(offer.room))


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNodeLimits:
    """The limits on the number and the cost of nodes that a round may still add."""

    nodes: int  # number of new nodes that max_nodes and the limit of a round allow
    booting: int
    hour: float | None  # rest of the hourly budget; None: no limit
    month: float | None
    unit_s: float = HOUR_S  # the billing unit

    def for_price(self, price: float) -> tuple[int, BalancePlanReason]:
        """Return how many nodes of a price may be added, and which limit decides.

        The month's budget must pay for one hour of each new node, or for one billing unit if a unit is
        longer.
        """
        if self.nodes <= 0:
            return 0, BalancePlanReason.FULL
        if self.booting <= 0:
            return 0, BalancePlanReason.ENOUGH_BOOTING
        budgets = [budget for budget in (self.hour, self._hourly_left) if budget is not None]
        if not budgets or price <= 0:
            return min(self.nodes, self.booting), BalancePlanReason.FULL
        least = min(budgets)
        affordable = max(0, int(least / price + 1e-9))
        cause = BalancePlanReason.OVER_BUDGET if least == self.hour else BalancePlanReason.OVER_MONTH
        return min(self.nodes, self.booting, affordable), cause

    @property
    def closed(self) -> BalancePlanReason | None:
        """The limit that forbids new nodes of any pool; None if no limit does."""
        number, cause = self.for_price(0.0)
        return None if number else cause

    @property
    def _hourly_left(self) -> float | None:
        """The rest of the month's budget per hour of a billing unit."""
        return None if self.month is None else self.month / max(1.0, self.unit_s / HOUR_S)

    def after(self, nodes: int, price: float) -> "NewNodeLimits":
        """Return the limits that remain after some nodes were added."""
        cost = nodes * price
        return replace(
            self,
            nodes=self.nodes - nodes,
            booting=self.booting - nodes,
            hour=None if self.hour is None else self.hour - cost,
            month=None if self.month is None else self.month - cost * max(1.0, self.unit_s / HOUR_S),
        )


def new_node_limits_by_budgets(
    situation: BalanceSituation,
    rules: BalanceSection,
    demand: DemandPolicySection,
    pools: Mapping[str, NodePoolSection],
    most: int,
    nodes: int,
    least: int,
) -> NewNodeLimits:
    """Return how many nodes may be added, by the largest number of nodes and by the budgets.

    The cost of present nodes is first subtracted from the budgets.
    """
    month = scale_down.remaining_month_budget(situation, demand)
    paid = hourly_cost_of_nodes((node.pool for node in situation.nodes if node.counts), pools, situation.local_now)
    on_way = sum(node.state.is_coming for node in situation.nodes)
    room = most - nodes
    at_once = demand.add_at_once or room
    return NewNodeLimits(
        nodes=min(room, at_once),
        booting=demand.max_booting - on_way if demand.max_booting else UNLIMITED,
        hour=demand.budget_hour - paid if demand.budget_hour else None,
        month=None
        if month is None
        else month - scale_down.remaining_month_cost_of_nodes(situation, rules, demand, pools, least),
        unit_s=demand.billing_s,
    )


def offer_standby_hosts(
    situation: BalanceSituation, rooms: Mapping[str, FreeHostCapacity], placement: CellPlacementRules
) -> tuple[PoolOrStandbyOffer, ...]:
    """Return the site's own powered-off hosts as offers, equal hosts in one offer.

    These hosts cost nothing. Tasks of closed queues wake no host.
    """
    open_ = {name: placement.without_closed(room) for name, room in rooms.items()}
    asleep = (name for name in situation.standby or () if name in open_ and open_[name].parts)
    alike = merge_hosts_of_equal_capacity((open_[name], (name,)) for name in asleep)
    return tuple(
        PoolOrStandbyOffer(
            name=f"{STANDBY}{index:06}", pool=NodePoolSection(), price=0.0, room=room, most=len(names), hosts=names
        )
        for index, (room, names) in enumerate(alike)
    )


def why_no_new_node_could_run_task(
    need: TaskRequirement,
    offers: Sequence[PoolOrStandbyOffer],
    placement: CellPlacementRules,
    rooms: Sequence[tuple[str, FreeHostCapacity]] = (),
) -> NodeAddOrRemoveRefusal | None:
    """Return why no new node could run a task; None if a new node could.

    The reason is that of the pool whose nodes come closest to the task's needs. A parallel task may use new and
    present hosts together; `rooms` has the present hosts as if they were empty.
    """
    if need.is_on_all:
        return NodeAddOrRemoveRefusal(cause=NodeAddOrRemoveRefusalCause.ALL_HOSTS)
    if need.also:
        parts = (why_no_new_node_could_run_task(part, offers, placement, rooms) for part in need.parts)
        return next(filter(None, parts), None)
    if any(_fits_with_more_nodes(need, offer, placement, rooms) for offer in offers):
        return None
    if any(count_task_pieces_fitting_host(need, offer.room, placement) for offer in offers):
        return NodeAddOrRemoveRefusal(cause=NodeAddOrRemoveRefusalCause.TOO_SPREAD)
    causes = [refusal for offer in offers if (refusal := _first_missing(need, offer.room, placement))]
    return max(causes, key=lambda refusal: ORDER.index(refusal.cause), default=None)


ORDER = (
    NodeAddOrRemoveRefusalCause.NO_QUEUE,
    NodeAddOrRemoveRefusalCause.NO_ACCESS,
    NodeAddOrRemoveRefusalCause.NO_VALUE,
    NodeAddOrRemoveRefusalCause.TOO_WIDE,
    NodeAddOrRemoveRefusalCause.TOO_MUCH,
)


def _fits_with_more_nodes(
    need: TaskRequirement,
    offer: PoolOrStandbyOffer,
    placement: CellPlacementRules,
    rooms: Sequence[tuple[str, FreeHostCapacity]],
) -> bool:
    pieces_each, pool = _pieces_of_one_task(need, offer.room, placement), offer.pool
    if not pieces_each or need.pieces == 1:
        return pieces_each > 0
    limits = [limit for limit in (pool.span, pool.limit) if limit]
    limits += [pool.quota // pool.slots] if pool.quota else []
    limits += [0] if offer.hosts else []  # standby hosts add no node
    other_rooms = () if pool.span else (room for name, room in rooms if name != offer.name)
    beside = sum(_pieces_of_one_task(need, room, placement) for room in other_rooms)
    return not limits or min(limits) * pieces_each + beside >= need.pieces


def _pieces_of_one_task(need: TaskRequirement, room: FreeHostCapacity, placement: CellPlacementRules) -> int:
    pieces = count_task_pieces_fitting_host(need, room, placement)
    return min(pieces, 1) if need.is_apart else pieces


def _first_missing(
    need: TaskRequirement, room: FreeHostCapacity, placement: CellPlacementRules
) -> NodeAddOrRemoveRefusal | None:
    return next(_missing_on_host(need, room, placement), None)


def _missing_on_host(
    need: TaskRequirement, room: FreeHostCapacity, placement: CellPlacementRules
) -> Iterator[NodeAddOrRemoveRefusal]:
    parts = [part for part in room.parts if queue_accepts_task(need, part, room, placement)]
    if not parts:
        yield _explain_missing_queue(need, room, placement)
    widest = max((part.free for part in parts), default=0)
    if widest < need.slots:
        yield NodeAddOrRemoveRefusal(
            cause=NodeAddOrRemoveRefusalCause.TOO_WIDE, wanted=str(need.slots), has=str(widest)
        )
    has = dict(room.amounts) | dict(own for part in parts for own in part.amounts)
    for name, amount in need.amounts:
        if has.get(name, 0.0) < amount and (name in has or host_lacks_consumable(name, room, placement)):
            yield _amount_refusal(name, amount, has.get(name, 0.0))
    texts = {requirement.name: requirement.value for requirement in need.values}
    missing_in = (requested_resources_queue_lacks(need, part, room, placement) for part in parts)
    for name in sorted(min(missing_in, key=len, default=())):
        yield NodeAddOrRemoveRefusal(
            cause=NodeAddOrRemoveRefusalCause.NO_VALUE, name=name, wanted=texts.get(name, "TRUE")
        )
    for requirement in need.values:
        if requirement.name != QNAME:
            yield NodeAddOrRemoveRefusal(
                cause=NodeAddOrRemoveRefusalCause.NO_VALUE, name=requirement.name, wanted=requirement.value
            )


def _explain_missing_queue(
    need: TaskRequirement, room: FreeHostCapacity, placement: CellPlacementRules
) -> NodeAddOrRemoveRefusal:
    if excluded := _access_obstacle(need, room, placement):
        return NodeAddOrRemoveRefusal(cause=NodeAddOrRemoveRefusalCause.NO_ACCESS, wanted=excluded)
    words = (*need.queues, *need.named, need.pe, *_requests_with_queue_limits(need, room))
    return NodeAddOrRemoveRefusal(
        cause=NodeAddOrRemoveRefusalCause.NO_QUEUE, wanted=" ".join(filter(None, words)) or "any"
    )


def _access_obstacle(need: TaskRequirement, room: FreeHostCapacity, placement: CellPlacementRules) -> str:
    """Return the user, project or checkpointing environment that a new node's queue refuses; else empty."""
    anybodys = replace(need, identity=ANYBODY)
    parts = (part for part in room.parts if queue_accepts_task(anybodys, part, room, placement))
    lists = placement.layout.user_lists
    return next((part.access.obstacle(need.identity, lists) for part in parts), "")


def _requests_with_queue_limits(need: TaskRequirement, room: FreeHostCapacity) -> Iterator[str]:
    """Return the task's requests for which queues have limits, such as run times."""
    limits = {name for part in room.parts for name, _ in part.values}
    return (f"{requirement.name}={requirement.value}" for requirement in need.values if requirement.name in limits)


def _amount_refusal(name: str, required: float, has: float) -> NodeAddOrRemoveRefusal:
    return NodeAddOrRemoveRefusal(
        cause=NodeAddOrRemoveRefusalCause.TOO_MUCH, name=name, wanted=_format_amount(required), has=_format_amount(has)
    )


def _format_amount(number: float) -> str:
    """Format an amount; large amounts are memory, and get a unit."""
    for unit, size in (("G", 2**30), ("M", 2**20)):
        if number >= size:
            return f"{number / size:.4g}{unit}"
    return f"{number:g}"
