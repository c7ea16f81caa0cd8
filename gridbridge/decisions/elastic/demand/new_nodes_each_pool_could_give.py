"""List the new nodes that each pool could give now, and explain which tasks no new node could run."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from gridbridge.decisions.elastic.demand import task_packing
from gridbridge.decisions.elastic.demand.free_capacity import matching_host_patterns, queue_free_slots_on_host
from gridbridge.decisions.elastic.demand.task_requirements import DemandTaskRequirement
from gridbridge.decisions.elastic.node_costs_and_pool_choice import node_price_at_hour
from gridbridge.model.elastic.balance_plan import (
    BalancePlanReason,
    BalanceSituation,
    NodeAddOrRemoveRefusal,
    NodeAddOrRemoveRefusalCause,
)
from gridbridge.model.elastic.balancer_config_sections import DemandPolicySection, NodePoolSection
from gridbridge.model.elastic.grid_engine_cell import ANYBODY, ConsumableKind
from gridbridge.model.elastic.standby_and_wake_plan import STANDBY
from gridbridge.model.job_request import QNAME

AS_USUAL = ""  # pool name in a cluster without pools, whose new nodes resemble the present nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class AddableNodesOfPoolOrStandbyHosts:
    name: str
    pool: NodePoolSection
    price: float
    room: task_packing.FreeHostCapacity
    most: int  # number of nodes that the pool may still add
    hindrance: BalancePlanReason | None = None  # why `most` is 0
    groups: Mapping[str, int] = field(default_factory=dict)  # {node group: number of the pool's present nodes}
    hosts: tuple[str, ...] = ()  # powered-off hosts to wake, in place of new nodes

    @property
    def slot_price(self) -> float:
        """The price of one slot for an hour."""
        return self.price / max(1, self.room.free_slots_in_largest_queue)


UNLIMITED = 1_000_000


def offer_new_nodes_by_pool(
    cell: task_packing.CellPlacementRules,
    pools: Mapping[str, NodePoolSection],
    demand: DemandPolicySection,
    usual: task_packing.FreeHostCapacity | None,
) -> tuple[AddableNodesOfPoolOrStandbyHosts, ...]:
    """Return the new nodes that each pool could give now; without pools, nodes like the present nodes."""
    if not pools and usual:
        offer = AddableNodesOfPoolOrStandbyHosts(
            name=AS_USUAL, pool=NodePoolSection(), price=0.0, room=usual, most=UNLIMITED
        )
        return (_drop_closed_queues_of_new_nodes(offer),)
    unordered = [_new_nodes_of_pool(name, pool, cell, demand) for name, pool in pools.items()]
    return tuple(sorted(unordered, key=lambda offer: (-offer.pool.priority, offer.slot_price, offer.name)))


def _drop_closed_queues_of_new_nodes(offer: AddableNodesOfPoolOrStandbyHosts) -> AddableNodesOfPoolOrStandbyHosts:
    """Remove closed queues from an offer of new nodes; if no queue is left, the pool gives no node."""
    open_room = offer.room.without_closed_queues()
    if offer.room.parts and not open_room.parts:
        return replace(offer, most=0, hindrance=BalancePlanReason.QUEUE_CLOSED)
    return replace(offer, room=open_room)


def _new_nodes_of_pool(
    name: str, pool: NodePoolSection, cell: task_packing.CellPlacementRules, demand: DemandPolicySection
) -> AddableNodesOfPoolOrStandbyHosts:
    situation, layout = cell.situation, cell.observed_cell_configuration
    nodes_by_group = Counter(node.group for node in situation.nodes if node.pool == name and node.counts_towards_limits)
    host_groups = layout.add_enclosing_groups(frozenset(pool.hostgroups.split()))
    of_groups = (queue for queue in layout.queues.values() if host_groups.intersection(queue.hosts))
    ordinary = tuple(
        queue.name for queue in of_groups if not queue.with_values_of_host("", host_groups).is_ignored_by_balancer
    )
    queues = tuple(pool.queues.split()) or ordinary
    most, hindrance = _largest_number_of_new_nodes_of_pool(name, pool, nodes_by_group.total(), situation, demand)
    is_known = layout.queues.keys() | layout.groups.keys() >= {*pool.queues.split(), *pool.hostgroups.split()}
    if layout.queues and not (queues and is_known):
        most, hindrance = 0, BalancePlanReason.NO_SUCH_PLACE
    if not (layout.queues or queues):
        queues = (cell.queue,)
    offer = AddableNodesOfPoolOrStandbyHosts(
        name=name,
        pool=pool,
        price=node_price_at_hour(pool, situation.local_now),
        room=_capacity_of_new_node_of_pool(pool, queues, host_groups, cell),
        most=most,
        hindrance=hindrance,
        groups=nodes_by_group,
    )
    return offer if hindrance else _drop_closed_queues_of_new_nodes(offer)


def _largest_number_of_new_nodes_of_pool(
    name: str, pool: NodePoolSection, nodes: int, situation: BalanceSituation, demand: DemandPolicySection
) -> tuple[int, BalancePlanReason | None]:
    failed = situation.failed.get(name)
    if failed is not None and is_pool_paused_after_failure(failed, situation.now, demand.retry_s):
        return 0, BalancePlanReason.NO_CAPACITY
    most = pool.limit - nodes if pool.limit else UNLIMITED
    if most <= 0:
        return 0, BalancePlanReason.POOL_FULL
    allowed = pool.quota // pool.slots - nodes if pool.quota else UNLIMITED
    return (min(most, allowed), None) if allowed > 0 else (0, BalancePlanReason.OVER_QUOTA)


def is_pool_paused_after_failure(failed: datetime, now: datetime, retry_s: float) -> bool:
    return failed == now or 0 <= (now - failed).total_seconds() < retry_s


def _capacity_of_new_node_of_pool(
    pool: NodePoolSection, queues: tuple[str, ...], host_groups: frozenset[str], cell: task_packing.CellPlacementRules
) -> task_packing.FreeHostCapacity:
    known = cell.observed_cell_configuration.resources
    texts = {known[name].name if name in known else name: text for name, text in pool.resources.items()}
    counted = {name for name in texts if name in known and known[name].counted is not ConsumableKind.NO}
    return task_packing.FreeHostCapacity(
        cell=cell,
        parts=tuple(queue_free_slots_on_host(queue, pool.slots, cell, host_groups) for queue in queues),
        amounts=task_packing.parse_consumable_amounts((name, texts[name]) for name in counted),
        values=tuple(sorted((name, text) for name, text in texts.items() if name not in counted)),
        tags=matching_host_patterns("", host_groups, cell.patterns),
        is_told=bool(known),
        is_silent=cell.is_new_silent,
        is_new=True,
    )


def offer_standby_hosts(
    rooms: Mapping[str, task_packing.FreeHostCapacity], situation: BalanceSituation
) -> tuple[AddableNodesOfPoolOrStandbyHosts, ...]:
    """Return the site's own powered-off hosts as offers without a price, grouped by equal capacity."""
    asleep = ((rooms[name].without_closed_queues(), (name,)) for name in situation.standby or () if name in rooms)
    alike = task_packing.merge_hosts_of_equal_capacity((room, names) for room, names in asleep if room.parts)
    return tuple(
        AddableNodesOfPoolOrStandbyHosts(
            name=f"{STANDBY}{index:06}", pool=NodePoolSection(), price=0.0, room=room, most=len(names), hosts=names
        )
        for index, (room, names) in enumerate(alike)
    )


def why_no_new_node_could_run_task(
    need: DemandTaskRequirement,
    offers: Sequence[AddableNodesOfPoolOrStandbyHosts],
    rooms: Sequence[tuple[str, task_packing.FreeHostCapacity]],
) -> NodeAddOrRemoveRefusal | None:
    """Return why no new node could run a task; None if a node could. `rooms` has the present hosts as if empty."""
    if need.is_on_all:
        return NodeAddOrRemoveRefusal(cause=NodeAddOrRemoveRefusalCause.ALL_HOSTS)
    if need.also:
        parts = (why_no_new_node_could_run_task(part, offers, rooms) for part in need.part_requirements)
        return next(filter(None, parts), None)
    if any(_does_task_fit_with_more_nodes_of_pool(need, offer, rooms) for offer in offers):
        return None
    if any(task_packing.count_task_pieces_fitting_host(need, offer.room) for offer in offers):
        return NodeAddOrRemoveRefusal(cause=NodeAddOrRemoveRefusalCause.TOO_SPREAD)
    causes = [refusal for offer in offers if (refusal := next(_refusals_for_what_host_lacks(need, offer.room), None))]
    return max(causes, key=lambda refusal: ORDER.index(refusal.cause), default=None)


ORDER = (
    NodeAddOrRemoveRefusalCause.NO_QUEUE,
    NodeAddOrRemoveRefusalCause.NO_ACCESS,
    NodeAddOrRemoveRefusalCause.NO_VALUE,
    NodeAddOrRemoveRefusalCause.TOO_WIDE,
    NodeAddOrRemoveRefusalCause.TOO_MUCH,
)


def _does_task_fit_with_more_nodes_of_pool(
    need: DemandTaskRequirement,
    offer: AddableNodesOfPoolOrStandbyHosts,
    rooms: Sequence[tuple[str, task_packing.FreeHostCapacity]],
) -> bool:
    pieces_each, pool = _pieces_of_one_task_fitting_host(need, offer.room), offer.pool
    if not pieces_each or need.pieces == 1:
        return pieces_each > 0
    limits = [limit for limit in (pool.span, pool.limit) if limit]
    limits += [pool.quota // pool.slots] if pool.quota else []
    limits += [0] if offer.hosts else []  # an offer of powered-off hosts adds no node
    other_rooms = () if pool.span else (room for name, room in rooms if name != offer.name)
    beside = sum(_pieces_of_one_task_fitting_host(need, room) for room in other_rooms)
    return not limits or min(limits) * pieces_each + beside >= need.pieces


def _pieces_of_one_task_fitting_host(need: DemandTaskRequirement, room: task_packing.FreeHostCapacity) -> int:
    pieces = task_packing.count_task_pieces_fitting_host(need, room)
    return min(pieces, 1) if need.is_apart else pieces


def _refusals_for_what_host_lacks(
    need: DemandTaskRequirement, room: task_packing.FreeHostCapacity
) -> Iterator[NodeAddOrRemoveRefusal]:
    parts = [part for part in room.parts if task_packing.queue_accepts_task(need, part, room)]
    if not parts:
        yield _refusal_of_new_node_queues(need, room)
    widest = max((part.free for part in parts), default=0)
    if widest < need.slots:
        cause = NodeAddOrRemoveRefusalCause.TOO_WIDE
        yield NodeAddOrRemoveRefusal(cause=cause, wanted=str(need.slots), has=str(widest))
    has = dict(room.amounts) | dict(own for part in parts for own in part.amounts)
    for name, amount in need.amounts:
        if has.get(name, 0.0) < amount and (name in has or task_packing.host_lacks_consumable(name, room)):
            wanted, left = _format_resource_amount(amount), _format_resource_amount(has.get(name, 0.0))
            cause = NodeAddOrRemoveRefusalCause.TOO_MUCH
            yield NodeAddOrRemoveRefusal(cause=cause, name=name, wanted=wanted, has=left)
    texts = {requirement.name: requirement.value for requirement in need.values}
    missing_in = (task_packing.requested_resources_queue_lacks(need, part, room) for part in parts)
    missing = [(name, texts.get(name, "TRUE")) for name in sorted(min(missing_in, key=len, default=()))]
    for name, text in (*missing, *((value.name, value.value) for value in need.values if value.name != QNAME)):
        yield NodeAddOrRemoveRefusal(cause=NodeAddOrRemoveRefusalCause.NO_VALUE, name=name, wanted=text)


def _refusal_of_new_node_queues(
    need: DemandTaskRequirement, room: task_packing.FreeHostCapacity
) -> NodeAddOrRemoveRefusal:
    """Return a refusal that names the user or project that a queue refuses, or the unmet queue requests."""
    anybodys, lists = replace(need, identity=ANYBODY), room.cell.observed_cell_configuration.user_lists
    open_to_others = (part for part in room.parts if task_packing.queue_accepts_task(anybodys, part, room))
    if excluded := next((part.access.refused_user_or_project(need.identity, lists) for part in open_to_others), ""):
        return NodeAddOrRemoveRefusal(cause=NodeAddOrRemoveRefusalCause.NO_ACCESS, wanted=excluded)
    limits = {name for part in room.parts for name, _ in part.values}  # names of limits, such as h_rt
    limited = (f"{value.name}={value.value}" for value in need.values if value.name in limits)
    words = " ".join(filter(None, (*need.queues, *need.qname_queue_expressions, need.pe, *limited)))
    return NodeAddOrRemoveRefusal(cause=NodeAddOrRemoveRefusalCause.NO_QUEUE, wanted=words or "any")


def _format_resource_amount(number: float) -> str:
    """Format an amount; a large amount counts as memory and gets a unit."""
    for unit, size in (("G", 2**30), ("M", 2**20)):
        if number >= size:
            return f"{number / size:.4g}{unit}"
    return f"{number:g}"
