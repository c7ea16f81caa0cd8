"""Choose the nodes to add for waiting tasks that fit on no present node."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from gridbridge.decisions.elastic.demand import task_packing
from gridbridge.decisions.elastic.demand.demand_policy_round_facts import DemandPolicySituation
from gridbridge.decisions.elastic.demand.new_nodes_each_pool_could_give import (
    UNLIMITED,
    AddableNodesOfPoolOrStandbyHosts,
)
from gridbridge.decisions.elastic.demand.scale_down import month_budget_for_new_nodes
from gridbridge.decisions.elastic.demand.task_requirements import DemandTaskRequirement
from gridbridge.decisions.elastic.node_costs_and_pool_choice import hourly_cost_of_nodes
from gridbridge.model.elastic.balance_plan import BalancePlanReason, NodeAddOrRemoveRefusal, NodeAddOrRemoveRefusalCause
from gridbridge.model.grid_engine_amounts import HOUR_S


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNodeLimits:
    nodes: int  # number of new nodes that max_nodes and the limit on one round allow
    booting: int
    hour: float | None  # unused part of the hourly budget; None: no budget
    month: float | None
    hours: float  # the month's budget must pay each new node for these hours: a billing unit, at least one hour

    def nodes_at_price(self, price: float) -> tuple[int, BalancePlanReason]:
        """Return how many nodes may be added at a given hourly price, and which limit decides."""
        if self.nodes <= 0:
            return 0, BalancePlanReason.FULL
        if self.booting <= 0:
            return 0, BalancePlanReason.ENOUGH_BOOTING
        month = None if self.month is None else self.month / self.hours
        budgets = [budget for budget in (self.hour, month) if budget is not None]
        if not budgets or price <= 0:
            return min(self.nodes, self.booting), BalancePlanReason.FULL
        least = min(budgets)
        affordable = max(0, int(least / price + 1e-9))
        cause = BalancePlanReason.OVER_BUDGET if least == self.hour else BalancePlanReason.OVER_MONTH
        return min(self.nodes, self.booting, affordable), cause

    @property
    def exhausted_limit(self) -> BalancePlanReason | None:
        number, cause = self.nodes_at_price(0.0)
        return None if number else cause

    def limits_after_adding_nodes(self, nodes: int, price: float) -> "NewNodeLimits":
        cost = nodes * price
        return replace(
            self,
            nodes=self.nodes - nodes,
            booting=self.booting - nodes,
            hour=None if self.hour is None else self.hour - cost,
            month=None if self.month is None else self.month - cost * self.hours,
        )


def new_node_limits_by_budgets(facts: DemandPolicySituation, nodes: int) -> NewNodeLimits:
    """Return the limits on new nodes from max_nodes and from what present nodes leave of the budgets."""
    situation, demand, room = facts.situation, facts.demand, facts.most - nodes
    pools_of_nodes = (node.pool for node in situation.nodes if node.counts_towards_limits)
    paid = hourly_cost_of_nodes(pools_of_nodes, facts.pools, situation.local_now)
    on_way = sum(node.state.is_coming for node in situation.nodes)
    return NewNodeLimits(
        nodes=min(room, demand.add_at_once or room),
        booting=demand.max_booting - on_way if demand.max_booting else UNLIMITED,
        hour=demand.budget_hour - paid if demand.budget_hour else None,
        month=month_budget_for_new_nodes(facts),
        hours=max(1.0, demand.billing_s / HOUR_S),
    )


@dataclass(slots=True, kw_only=True)
class ChosenNewNodes:
    """The new nodes chosen so far in a balancer round, and the pools and hosts that can still give nodes."""

    limits: NewNodeLimits
    blocks: task_packing.HostBlocks
    offers: Sequence[AddableNodesOfPoolOrStandbyHosts]
    woken: tuple[str, ...] = ()
    # {pool: node group of each chosen new node}
    bought: dict[str, list[str]] = field(default_factory=dict)
    hindrances: list[BalancePlanReason] = field(default_factory=list)


def plan_nodes_for_tasks_without_room(need: DemandTaskRequirement, tasks: int, progress: ChosenNewNodes) -> int:
    """Wake hosts, then plan new nodes of the best pools; return the number of tasks without a node."""
    tasks -= _plan_host_wakes(need, tasks, progress)

    def pool_sort_key(offer: AddableNodesOfPoolOrStandbyHosts) -> tuple[object, ...]:
        return -offer.pool.priority, offer.slot_price, offer.pool.spot, _idle_slot_share(need, tasks, offer), offer.name

    for offer in sorted(_pools_whose_new_nodes_fit_task(need, progress), key=pool_sort_key):
        for choice in _requirement_by_parallel_environment(need, offer, progress):
            tasks -= _add_nodes_of_pool(offer, choice, tasks, progress) if tasks else 0
    return tasks


def _idle_slot_share(need: DemandTaskRequirement, tasks: int, offer: AddableNodesOfPoolOrStandbyHosts) -> float:
    """Return the share (0 to 1) of the new nodes' slots that stay unused if the tasks run on new nodes of the pool."""
    pieces_each = task_packing.count_task_pieces_fitting_host(need, offer.room)
    if not pieces_each:
        return 1.0
    pieces = tasks * need.pieces
    nodes = -(-pieces // pieces_each)
    return 1 - pieces * need.slots / max(1, nodes * offer.room.free_slots_in_largest_queue)


def refuse_task_that_needs_too_many_nodes(
    need: DemandTaskRequirement, progress: ChosenNewNodes
) -> NodeAddOrRemoveRefusal | None:
    if need.pieces == 1:
        return None
    shortages = list[tuple[int, int]]()
    for offer in (pool for pool in _pools_whose_new_nodes_fit_task(need, progress) if pool.hindrance is None):
        for group, room_for in _node_groups_with_room_for_task(offer, need, progress):
            fit, nodes = _fewest_new_nodes_for_tasks(offer, group, need, 1, progress, need.pieces)
            may, _ = _largest_number_of_new_nodes_in_group(offer, group, room_for, need, progress)
            if fit and nodes > may:
                shortages.append((nodes, may))
    if not shortages:
        return None
    nodes, may = min(shortages, key=lambda counts: counts[0] - counts[1])
    return NodeAddOrRemoveRefusal(cause=NodeAddOrRemoveRefusalCause.TOO_FEW, wanted=str(nodes), has=str(may))


def _pools_whose_new_nodes_fit_task(
    need: DemandTaskRequirement, progress: ChosenNewNodes
) -> Iterator[AddableNodesOfPoolOrStandbyHosts]:
    """Yield the pools whose new nodes could run a task, and pools whose new nodes are in no queue."""
    for offer in progress.offers:
        is_nowhere = offer.hindrance is BalancePlanReason.NO_SUCH_PLACE
        if not offer.hosts and (is_nowhere or _does_any_task_part_fit_host(need, offer.room)):
            yield offer


def _does_any_task_part_fit_host(need: DemandTaskRequirement, room: task_packing.FreeHostCapacity) -> bool:
    return any(task_packing.count_task_pieces_fitting_host(part, room) for part in need.part_requirements)


def _requirement_by_parallel_environment(
    need: DemandTaskRequirement, offer: AddableNodesOfPoolOrStandbyHosts, progress: ChosenNewNodes
) -> list[DemandTaskRequirement]:
    """Return the requirement for each parallel environment; the environment with the most room is first."""
    choices = task_packing.split_by_parallel_environment(need, (offer.room, *(room for room, _ in progress.blocks)))
    if len(choices) == 1:
        return [need]
    usable = [choice for choice in choices if task_packing.count_task_pieces_fitting_host(choice, offer.room)]
    return sorted(usable, key=lambda choice: -_count_task_pieces_fitting_blocks(choice, progress.blocks)) or [need]


def _plan_host_wakes(need: DemandTaskRequirement, tasks: int, progress: ChosenNewNodes) -> int:
    """Plan to wake the fewest powered-off hosts that tasks need; return how many tasks fit."""
    asleep = _wakeable_standby_hosts_for_task(need, progress)
    if not asleep:
        return 0

    def pack_after_waking(hosts: int, tasks: int) -> tuple[int, task_packing.HostBlocks]:
        blocks = task_packing.merge_hosts_of_equal_capacity((*progress.blocks, *asleep[:hosts]))
        return task_packing.pack_tasks_first_fit(need, tasks, blocks)

    fit, _ = pack_after_waking(len(asleep), tasks)
    hosts = bisect_left(range(len(asleep)), True, key=lambda hosts: pack_after_waking(hosts, fit)[0] == fit)
    _record_woken_standby_hosts(progress, pack_after_waking(hosts, fit)[1], asleep)
    return fit


def _wakeable_standby_hosts_for_task(need: DemandTaskRequirement, progress: ChosenNewNodes) -> task_packing.HostBlocks:
    """Return the powered-off hosts that may be woken for a task, each host as a separate block."""
    blocks = (
        (offer.room, (host,))
        for offer in progress.offers
        for host in offer.hosts
        if host not in progress.woken and _does_any_task_part_fit_host(need, offer.room)
    )
    return tuple(blocks)[: max(0, progress.limits.nodes_at_price(0.0)[0])]


def _record_woken_standby_hosts(
    progress: ChosenNewNodes, blocks: task_packing.HostBlocks, asleep: task_packing.HostBlocks
) -> None:
    """Record that hosts used by tasks are woken; drop the capacity of powered-off hosts without a task."""
    names = {name for _, hosts in asleep for name in hosts}
    used = {name for room, hosts in blocks if room.is_used for name in hosts} & names
    still = names - used
    progress.blocks = task_packing.merge_hosts_of_equal_capacity(
        (room, tuple(name for name in hosts if name not in still)) for room, hosts in blocks
    )
    progress.woken += tuple(used)
    progress.limits = progress.limits.limits_after_adding_nodes(len(used), 0.0)


def _add_nodes_of_pool(
    offer: AddableNodesOfPoolOrStandbyHosts, need: DemandTaskRequirement, tasks: int, progress: ChosenNewNodes
) -> int:
    """Add nodes of one pool; return how many tasks have room on the added nodes."""
    if offer.hindrance is not None:
        progress.hindrances.append(offer.hindrance)
        return 0
    placed = 0
    for group, room_for in _node_groups_with_room_for_task(offer, need, progress):
        if placed < tasks:
            placed += _add_new_nodes_to_node_group(offer, group, room_for, need, tasks - placed, progress)
    return placed


def _node_groups_with_room_for_task(
    offer: AddableNodesOfPoolOrStandbyHosts, need: DemandTaskRequirement, progress: ChosenNewNodes
) -> list[tuple[str, int]]:
    """Return the node groups for a task, present groups first, and how many nodes each group may get."""
    span = offer.pool.span
    if not span or need.pieces == 1:
        return [("", offer.most)]
    sizes = Counter(offer.groups) + Counter(progress.bought.get(offer.name, ()))
    sizes.pop("", None)
    existing = [(group, span - nodes) for group, nodes in sorted(sizes.items())]
    most = min(offer.most, progress.limits.nodes)
    new = max(0, min(most, offer.pool.spans - len(sizes) if offer.pool.spans else most))
    names = (f"{offer.name}-{number}" for number in range(1, 1 + len(sizes) + new))
    return existing + [(name, span) for name in names if name not in sizes][:new]


def _add_new_nodes_to_node_group(
    offer: AddableNodesOfPoolOrStandbyHosts,
    group: str,
    room_for: int,
    need: DemandTaskRequirement,
    tasks: int,
    progress: ChosenNewNodes,
) -> int:
    most, cause = _largest_number_of_new_nodes_in_group(offer, group, room_for, need, progress)
    fit, nodes = _fewest_new_nodes_for_tasks(offer, group, need, tasks, progress, most)
    if fit < tasks and cause is not None:
        progress.hindrances.append(cause)
    if not fit:
        return 0
    asleep, bought = _shareable_standby_hosts(group, need, progress), progress.bought.setdefault(offer.name, [])
    blocks = _append_new_nodes((*progress.blocks, *asleep), offer, group, nodes, first=len(bought))
    if need.pieces > 1:  # pieces of one task run in one node group
        blocks = tuple(sorted(blocks, key=lambda block: block[0].group != group))
    blocks = task_packing.pack_tasks_first_fit(need, fit, blocks)[1]
    progress.limits = progress.limits.limits_after_adding_nodes(nodes, offer.price)
    bought.extend([group] * nodes)
    _record_woken_standby_hosts(progress, blocks, asleep)
    return fit


def _largest_number_of_new_nodes_in_group(
    offer: AddableNodesOfPoolOrStandbyHosts,
    group: str,
    room_for: int,
    need: DemandTaskRequirement,
    progress: ChosenNewNodes,
) -> tuple[int, BalancePlanReason | None]:
    limit, cause = progress.limits.nodes_at_price(offer.price)
    limit -= len(_shareable_standby_hosts(group, need, progress))
    remaining = offer.most - len(progress.bought.get(offer.name, ()))
    most = max(0, min(limit, remaining, room_for))
    if most < min(limit, remaining):
        return most, None
    return most, cause if limit <= remaining else BalancePlanReason.POOL_FULL


def _shareable_standby_hosts(
    group: str, need: DemandTaskRequirement, progress: ChosenNewNodes
) -> task_packing.HostBlocks:
    return _wakeable_standby_hosts_for_task(need, progress) if need.pieces > 1 and not group else ()


def _fewest_new_nodes_for_tasks(
    offer: AddableNodesOfPoolOrStandbyHosts,
    group: str,
    need: DemandTaskRequirement,
    tasks: int,
    progress: ChosenNewNodes,
    most: int,
) -> tuple[int, int]:
    """Return how many tasks fit on at most `most` new nodes, and how few new nodes these tasks need."""
    most, blocks = min(most, tasks * need.total_task_pieces), progress.blocks
    if need.pieces > 1:
        own = (block for block in blocks if block[0].group == group)
        blocks = task_packing.merge_hosts_of_equal_capacity((*own, *_shareable_standby_hosts(group, need, progress)))
    if need.also or (need.pieces > 1 and (need.is_apart or need.is_exclusive)):  # pieces need separate hosts

        def count_tasks_fitting(nodes: int, tasks: int) -> int:
            return task_packing.pack_tasks_first_fit(need, tasks, _append_new_nodes(blocks, offer, group, nodes))[0]

        fit = count_tasks_fitting(most, tasks)
        return fit, bisect_left(range(most), True, key=lambda nodes: count_tasks_fitting(nodes, fit) == fit)
    free, pieces_each = _count_task_pieces_fitting_blocks(need, blocks), _task_pieces_per_host(need, offer.room)
    if not pieces_each:
        return 0, 0
    fit = min(tasks, (free + pieces_each * most) // need.pieces)
    return fit, max(0, -(-(fit * need.pieces - free) // pieces_each))


def _count_task_pieces_fitting_blocks(need: DemandTaskRequirement, blocks: task_packing.HostBlocks) -> int:
    return sum(len(names) * _task_pieces_per_host(need, room) for room, names in blocks)


def _task_pieces_per_host(need: DemandTaskRequirement, room: task_packing.FreeHostCapacity) -> int:
    pieces = task_packing.count_task_pieces_fitting_host(need, room)
    return min(pieces, 1) if need.is_exclusive else pieces


def _append_new_nodes(
    blocks: task_packing.HostBlocks, offer: AddableNodesOfPoolOrStandbyHosts, group: str, nodes: int, first: int = 0
) -> task_packing.HostBlocks:
    names = tuple(f"{offer.name}+{number}" for number in range(first, first + nodes))
    return task_packing.merge_hosts_of_equal_capacity((*blocks, (replace(offer.room, group=group), names)))
