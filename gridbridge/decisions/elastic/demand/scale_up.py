"""Choose the nodes to add for waiting tasks that fit on no present node."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from gridbridge.decisions.elastic.demand.new_node_offers import (
    NewNodeLimits,
    PoolOrStandbyOffer,
    unused_slot_share_of_offer,
)
from gridbridge.decisions.elastic.demand.task_packing import (
    CellPlacementRules,
    FreeHostCapacity,
    HostBlocks,
    count_task_pieces_fitting_host,
    merge_hosts_of_equal_capacity,
    pack_tasks_first_fit,
    split_by_parallel_environment,
)
from gridbridge.decisions.elastic.demand.task_requirements import TaskRequirement
from gridbridge.model.elastic.balance_plan import (
    BalancePlanReason,
    NodeAddOrRemoveRefusal,
    NodeAddOrRemoveRefusalCause,
)


@dataclass(slots=True, kw_only=True)
class ScaleUpProgress:
    """The new nodes chosen so far in a balancer round, and the pools and hosts that can still give nodes."""

    limits: NewNodeLimits
    blocks: HostBlocks
    offers: Sequence[PoolOrStandbyOffer]
    placement: CellPlacementRules
    woken: tuple[str, ...] = ()  # powered-off hosts to wake
    bought: dict[str, list[str]] = field(default_factory=dict)  # node group of each new node, by pool
    hindrances: list[BalancePlanReason] = field(default_factory=list)


def plan_nodes_for_tasks_without_room(need: TaskRequirement, tasks: int, progress: ScaleUpProgress) -> int:
    """Plan new nodes for waiting tasks; return the number of tasks that still find no node.

    Powered-off hosts are woken first. Then come pools by priority, price of a slot, reliability (spot nodes
    last) and number of slots that would stay unused.
    """
    tasks -= _wake_standby_hosts(need, tasks, progress)
    for offer in sorted(_usable_pool_offers(need, progress), key=lambda pool: _rank_offer(pool, need, tasks, progress)):
        for choice in _environment_choices(need, offer, progress):
            tasks -= _add_nodes_of_pool(offer, choice, tasks, progress) if tasks else 0
    return tasks


def refuse_task_that_needs_too_many_nodes(
    need: TaskRequirement, progress: ScaleUpProgress
) -> NodeAddOrRemoveRefusal | None:
    """Refuse a parallel task that needs more nodes at once than may be added now."""
    if need.pieces == 1:
        return None
    shortages = list[tuple[int, int]]()
    for offer in (pool for pool in _usable_pool_offers(need, progress) if pool.hindrance is None):
        for group, room_for in _groups_with_room(offer, need, progress):
            fit, nodes = _fewest_nodes(offer, group, need, 1, progress, need.pieces)
            may, _ = _most_nodes_in_group(offer, group, room_for, need, progress)
            if fit and nodes > may:
                shortages.append((nodes, may))
    if not shortages:
        return None
    nodes, may = min(shortages, key=lambda counts: counts[0] - counts[1])
    return NodeAddOrRemoveRefusal(cause=NodeAddOrRemoveRefusalCause.TOO_FEW, wanted=str(nodes), has=str(may))


def _usable_pool_offers(need: TaskRequirement, progress: ScaleUpProgress) -> Iterator[PoolOrStandbyOffer]:
    """Return the pools whose nodes could run a task, and pools whose nodes would be in no queue."""
    for offer in progress.offers:
        is_nowhere = offer.hindrance is BalancePlanReason.NO_SUCH_PLACE
        if not offer.hosts and (is_nowhere or _fits_any_part(need, offer.room, progress.placement)):
            yield offer


def _fits_any_part(need: TaskRequirement, room: FreeHostCapacity, placement: CellPlacementRules) -> bool:
    return any(count_task_pieces_fitting_host(part, room, placement) for part in need.parts)


def _rank_offer(
    offer: PoolOrStandbyOffer, need: TaskRequirement, tasks: int, progress: ScaleUpProgress
) -> tuple[object, ...]:
    unused, pool = unused_slot_share_of_offer(need, tasks, offer, progress.placement), offer.pool
    return -pool.priority, offer.slot_price, pool.spot, unused, offer.name


def _environment_choices(
    need: TaskRequirement, offer: PoolOrStandbyOffer, progress: ScaleUpProgress
) -> list[TaskRequirement]:
    """Return the requirement once for each parallel environment; environments with more room come first."""
    rooms = (offer.room, *(room for room, _ in progress.blocks))
    choices = split_by_parallel_environment(need, rooms)
    if len(choices) == 1:
        return [need]
    usable = [choice for choice in choices if count_task_pieces_fitting_host(choice, offer.room, progress.placement)]
    usable.sort(key=lambda choice: -_free_pieces(choice, progress.blocks, progress.placement))
    return usable or [need]


def _wake_standby_hosts(need: TaskRequirement, tasks: int, progress: ScaleUpProgress) -> int:
    """Wake powered-off hosts for tasks, but no more hosts than these tasks need."""
    asleep, blocks = _wakeable_hosts(need, progress), progress.blocks
    if not asleep:
        return 0

    def placed(hosts: int, tasks: int) -> tuple[int, HostBlocks]:
        return pack_tasks_first_fit(
            need, tasks, merge_hosts_of_equal_capacity((*blocks, *asleep[:hosts])), progress.placement
        )

    fit, low, high = placed(len(asleep), tasks)[0], 0, len(asleep)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if placed(middle, fit)[0] == fit else (middle + 1, high)
    _record_woken_hosts(progress, placed(low, fit)[1], asleep)
    return fit


def _wakeable_hosts(need: TaskRequirement, progress: ScaleUpProgress) -> HostBlocks:
    """Return the powered-off hosts that may be woken for a task, each host as a separate block."""
    blocks = (
        (offer.room, (host,))
        for offer in progress.offers
        for host in offer.hosts
        if host not in progress.woken and _fits_any_part(need, offer.room, progress.placement)
    )
    return tuple(blocks)[: max(0, progress.limits.for_price(0.0)[0])]


def _record_woken_hosts(progress: ScaleUpProgress, blocks: HostBlocks, asleep: HostBlocks) -> None:
    """Record the powered-off hosts that tasks use, and forget the capacity of unused hosts."""
    names = {name for _, hosts in asleep for name in hosts}
    used = {name for room, hosts in blocks if room.is_used for name in hosts} & names
    still = names - used
    progress.blocks = merge_hosts_of_equal_capacity(
        (room, tuple(name for name in hosts if name not in still)) for room, hosts in blocks
    )
    progress.woken += tuple(used)
    progress.limits = progress.limits.after(len(used), 0.0)


def _add_nodes_of_pool(offer: PoolOrStandbyOffer, need: TaskRequirement, tasks: int, progress: ScaleUpProgress) -> int:
    """Add nodes of one pool; return how many tasks have room on the added nodes."""
    if offer.hindrance is not None:
        progress.hindrances.append(offer.hindrance)
        return 0
    placed = 0
    for group, room_for in _groups_with_room(offer, need, progress):
        if placed == tasks:
            break
        placed += _add_nodes_to_group(offer, group, room_for, need, tasks - placed, progress)
    return placed


def _groups_with_room(
    offer: PoolOrStandbyOffer, need: TaskRequirement, progress: ScaleUpProgress
) -> list[tuple[str, int]]:
    """Return the node groups that may get new nodes, each with a limit of new nodes.

    All pieces of a parallel task run in one node group. Present groups come before new groups.
    """
    span = offer.pool.span
    if not span or need.pieces == 1:
        return [("", offer.most)]
    sizes = dict(offer.groups)
    for group in progress.bought.get(offer.name, []):
        sizes[group] = sizes.get(group, 0) + 1
    sizes.pop("", None)
    existing = [(group, span - nodes) for group, nodes in sorted(sizes.items())]
    most = min(offer.most, progress.limits.nodes)
    new = max(0, min(most, offer.pool.spans - len(sizes) if offer.pool.spans else most))
    names = (f"{offer.name}-{number}" for number in range(1, 1 + len(sizes) + new))
    return existing + [(name, span) for name in names if name not in sizes][:new]


def _add_nodes_to_group(
    offer: PoolOrStandbyOffer, group: str, room_for: int, need: TaskRequirement, tasks: int, progress: ScaleUpProgress
) -> int:
    most, cause = _most_nodes_in_group(offer, group, room_for, need, progress)
    fit, nodes = _fewest_nodes(offer, group, need, tasks, progress, most)
    if fit < tasks and cause is not None:
        progress.hindrances.append(cause)
    if not fit:
        return 0
    asleep = _shareable_standby_hosts(group, need, progress)
    added = _with_new_nodes((*progress.blocks, *asleep), offer, group, _nodes_added_of_pool(offer, progress), nodes)
    blocks = pack_tasks_first_fit(need, fit, _group_first(added, group, need), progress.placement)[1]
    progress.limits = progress.limits.after(nodes, offer.price)
    progress.bought.setdefault(offer.name, []).extend([group] * nodes)
    _record_woken_hosts(progress, blocks, asleep)
    return fit


def _nodes_added_of_pool(offer: PoolOrStandbyOffer, progress: ScaleUpProgress) -> int:
    return len(progress.bought.get(offer.name, ()))


def _most_nodes_in_group(
    offer: PoolOrStandbyOffer, group: str, room_for: int, need: TaskRequirement, progress: ScaleUpProgress
) -> tuple[int, BalancePlanReason | None]:
    limit, cause = progress.limits.for_price(offer.price)
    limit -= len(_shareable_standby_hosts(group, need, progress))
    remaining = offer.most - _nodes_added_of_pool(offer, progress)
    most = max(0, min(limit, remaining, room_for))
    if most < min(limit, remaining):
        return most, None
    return most, cause if limit <= remaining else BalancePlanReason.POOL_FULL


def _shareable_standby_hosts(group: str, need: TaskRequirement, progress: ScaleUpProgress) -> HostBlocks:
    """Return the powered-off hosts that a parallel task may use beside new nodes."""
    return _wakeable_hosts(need, progress) if need.pieces > 1 and not group else ()


def _group_first(blocks: HostBlocks, group: str, need: TaskRequirement) -> HostBlocks:
    if need.pieces == 1:
        return blocks
    own = (block for block in blocks if block[0].group == group)
    return (*own, *(block for block in blocks if block[0].group != group))


def _fewest_nodes(
    offer: PoolOrStandbyOffer, group: str, need: TaskRequirement, tasks: int, progress: ScaleUpProgress, most: int
) -> tuple[int, int]:
    """Return how many tasks fit on at most `most` new nodes, and the fewest nodes for these tasks."""
    most, blocks = min(most, tasks * need.total), progress.blocks
    if need.pieces > 1:
        own = (block for block in blocks if block[0].group == group)
        blocks = merge_hosts_of_equal_capacity((*own, *_shareable_standby_hosts(group, need, progress)))
    if need.also or (need.pieces > 1 and (need.is_apart or need.is_exclusive)):
        return _fewest_nodes_by_bisection(offer, group, need, tasks, blocks, most, progress.placement)
    free, pieces_each = (
        _free_pieces(need, blocks, progress.placement),
        _pieces_each(need, offer.room, progress.placement),
    )
    if not pieces_each:
        return 0, 0
    fit = min(tasks, (free + pieces_each * most) // need.pieces)
    return fit, max(0, -(-(fit * need.pieces - free) // pieces_each))


def _free_pieces(need: TaskRequirement, blocks: HostBlocks, placement: CellPlacementRules) -> int:
    return sum(len(names) * _pieces_each(need, room, placement) for room, names in blocks)


def _pieces_each(need: TaskRequirement, room: FreeHostCapacity, placement: CellPlacementRules) -> int:
    pieces = count_task_pieces_fitting_host(need, room, placement)
    return min(pieces, 1) if need.is_exclusive else pieces


def _fewest_nodes_by_bisection(
    offer: PoolOrStandbyOffer,
    group: str,
    need: TaskRequirement,
    tasks: int,
    blocks: HostBlocks,
    most: int,
    placement: CellPlacementRules,
) -> tuple[int, int]:
    """Find the fewest nodes by bisection, for tasks whose pieces need separate hosts."""
    fit, _ = pack_tasks_first_fit(need, tasks, _with_new_nodes(blocks, offer, group, 0, most), placement)
    low, high = 0, most
    while low < high:
        middle = (low + high) // 2
        placed, _ = pack_tasks_first_fit(need, fit, _with_new_nodes(blocks, offer, group, 0, middle), placement)
        low, high = (low, middle) if placed == fit else (middle + 1, high)
    return fit, low


def _with_new_nodes(blocks: HostBlocks, offer: PoolOrStandbyOffer, group: str, first: int, nodes: int) -> HostBlocks:
    names = tuple(f"{offer.name}+{number}" for number in range(first, first + nodes))
    return merge_hosts_of_equal_capacity((*blocks, (replace(offer.room, group=group), names)))
