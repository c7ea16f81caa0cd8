"""Decide a balancer round by policy demand: add nodes for waiting tasks, or remove nodes that no task needs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gridbridge.decisions.elastic.balancer_node_and_job_counts import (
    are_too_many_hosts_unready,
    count_expected_and_unready_hosts,
    elapsed_s,
    nodes_by_name_without_standby,
)
from gridbridge.decisions.elastic.demand import scale_down, waiting_tasks_as_demand
from gridbridge.decisions.elastic.demand.free_capacity import (
    capacity_of_arriving_nodes,
    capacity_of_typical_node,
    collect_cell_placement_rules,
    free_capacity_of_open_hosts,
    full_capacity_by_transfer_queue,
    full_capacity_of_unopened_hosts,
    is_node_arriving_in_time,
    most_slots_on_one_host,
    ordinary_queues_by_host,
    requested_host_patterns,
)
from gridbridge.decisions.elastic.demand.new_node_offers import (
    AS_USUAL,
    NewNodeLimits,
    PoolOrStandbyOffer,
    new_node_limits_by_budgets,
    offer_new_nodes_by_pool,
    offer_standby_hosts,
    why_no_new_node_could_run_task,
)
from gridbridge.decisions.elastic.demand.scale_down import plan_node_removal, rank_nodes_for_removal
from gridbridge.decisions.elastic.demand.scale_up import (
    ScaleUpProgress,
    plan_nodes_for_tasks_without_room,
    refuse_task_that_needs_too_many_nodes,
)
from gridbridge.decisions.elastic.demand.task_packing import (
    CellPlacementRules,
    FreeHostCapacity,
    HostBlocks,
    pack_tasks_first_fit,
    pack_tasks_with_alternative_needs,
)
from gridbridge.decisions.elastic.demand.task_requirements import TaskRequirement
from gridbridge.decisions.elastic.demand.waiting_tasks_as_demand import (
    StartableDemandOfEqualRequests,
    demand_without_stuck_jobs,
    jobs_still_stuck,
    mark_jobs_stuck_despite_room,
    repeat_refusal_for_jobs,
    startable_demand_and_refusals,
    stuck_job_refusals,
)
from gridbridge.decisions.elastic.node_costs_and_pool_choice import node_count_limits_at_hour
from gridbridge.model.elastic.balance_plan import (
    BalancePlan,
    BalancePlanFigures,
    BalancePlanReason,
    BalanceSituation,
    NodeAddOrRemoveRefusal,
    WaitingJobsHistory,
)
from gridbridge.model.elastic.balance_sections import BalanceSection, DemandPolicySection, NodePoolSection
from gridbridge.model.elastic.elastic_nodes import NodesByHostName


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandPolicyRoundFacts:
    """The facts by which policy demand decides one balancer round."""

    situation: BalanceSituation
    rules: BalanceSection
    demand: DemandPolicySection
    pools: Mapping[str, NodePoolSection]
    placement: CellPlacementRules
    offers: tuple[PoolOrStandbyOffer, ...]
    there: HostBlocks  # free capacity of hosts that accept tasks now
    rooms: HostBlocks  # free capacity of hosts that accept tasks now, and of nodes that boot or join
    arriving: int  # slots of nodes that boot or join
    order: tuple[str, ...]  # node names in the order in which nodes are removed
    least: int
    most: int


def compute_demand_round_facts(
    situation: BalanceSituation,
    rules: BalanceSection,
    demand: DemandPolicySection,
    pools: Mapping[str, NodePoolSection],
) -> DemandPolicyRoundFacts:
    """Compute the facts by which policy demand decides a balancer round."""
    placement = collect_cell_placement_rules(situation, rules.queue)
    patterns = requested_host_patterns(row.shape for row in situation.cell.waiting)
    order = rank_nodes_for_removal(situation, pools, demand)
    usual = capacity_of_typical_node(situation, placement, patterns)
    pool_offers = offer_new_nodes_by_pool(situation, pools, placement, patterns, usual, demand)
    rooms = {offer.name: offer.room for offer in pool_offers}
    if usual is not None:
        rooms.setdefault(AS_USUAL, usual)
    standing_rooms = free_capacity_of_open_hosts(situation, placement, patterns, tuple(reversed(order)))
    poolless = (node.name for node in situation.nodes if node.state.is_coming and node.pool not in rooms)
    own = full_capacity_of_unopened_hosts(situation, (*poolless, *(situation.standby or ())), placement, patterns)
    arriving = capacity_of_arriving_nodes(situation, rooms, own, demand.boot_timeout_s)
    least, most = node_count_limits_at_hour(rules, demand, situation.local_now)
    return DemandPolicyRoundFacts(
        situation=situation,
        rules=rules,
        demand=demand,
        pools=pools,
        placement=placement,
        offers=(*offer_standby_hosts(situation, own, placement), *pool_offers),
        there=standing_rooms,
        rooms=(*standing_rooms, *arriving),
        arriving=sum(len(names) * room.free for room, names in arriving),
        order=order,
        least=least,
        most=most,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingTaskPacking:
    """Which waiting tasks fit on the present nodes and on nodes that boot or join."""

    blocks: HostBlocks
    fit: int  # number of tasks with room
    left: tuple[tuple[StartableDemandOfEqualRequests, int], ...]  # tasks without room
    buffer: tuple[tuple[TaskRequirement, int], ...]  # spare capacity that is configured and missing


def plan_balance_by_demand(
    situation: BalanceSituation,
    rules: BalanceSection,
    demand: DemandPolicySection,
    pools: Mapping[str, NodePoolSection],
) -> BalancePlan:
    """Return the plan of a balancer round by policy demand.

    The same situation gives the same plan. The plan keeps `nodes + add <= maximum` and `nodes - removed >=
    minimum`.
    """
    context = compute_demand_round_facts(situation, rules, demand, pools)
    pending_shapes, refused, watched = _demand(context)
    packed = _packed(context, pending_shapes)
    plan = BalancePlan(
        verdict=BalancePlanReason.NO_NEED,
        figures=_figures(context, pending_shapes),
        refused=(*refused, *_impossible(context, packed)),
        wake=None if situation.standby is None else (),
        watched=watched,
    )
    if not rules.max_nodes:
        return replace(plan, verdict=BalancePlanReason.NO_MAXIMUM)
    if are_too_many_hosts_unready(situation):
        return replace(plan, verdict=BalancePlanReason.UNREADY)
    if unpaid := scale_down.idle_nodes_beyond_month_budget(situation, rules, demand, pools, context.order):
        return replace(plan, verdict=BalancePlanReason.MONTH_SPENT, remove=unpaid)
    if dear := scale_down.idle_nodes_over_hour_budget(situation, demand, pools, context.order):
        return replace(plan, verdict=BalancePlanReason.TOO_DEAR, remove=dear)
    plan = replace(plan, figures=replace(plan.figures, fit=packed.fit))
    grown = _grown(plan, context, packed, pending_shapes)
    if grown.add or grown.wake or grown.verdict is BalancePlanReason.BELOW_MINIMUM:
        return grown
    return plan_node_removal(grown, situation, demand, context.least, packed.blocks, context.order)


def _demand(
    context: DemandPolicyRoundFacts,
) -> tuple[
    tuple[StartableDemandOfEqualRequests, ...], tuple[NodeAddOrRemoveRefusal, ...], Mapping[int, WaitingJobsHistory]
]:
    """Return the waiting tasks for which nodes may be added, the refusals, and the new history of waiting jobs."""
    situation, after_s = context.situation, context.demand.stuck_after_s
    still = jobs_still_stuck(situation, after_s)
    demand, refused = startable_demand_and_refusals(
        situation, most_slots_on_one_host(situation.cell, [offer.room for offer in context.offers]), still.keys()
    )
    rows = {**still, **mark_jobs_stuck_despite_room(demand, situation, context.there, context.placement, after_s)}
    return (demand_without_stuck_jobs(demand, rows), (*refused, *stuck_job_refusals(situation, rows)), rows)


def _figures(context: DemandPolicyRoundFacts, demand: Sequence[StartableDemandOfEqualRequests]) -> BalancePlanFigures:
    situation = context.situation
    nodes, by_host = nodes_by_name_without_standby(situation), ordinary_queues_by_host(situation)
    usable = [instance for instances in by_host.values() for instance in instances if instance.is_usable]
    hosts, unready = count_expected_and_unready_hosts(situation)
    return BalancePlanFigures(
        nodes=len(nodes),
        running=sum(not node.state.is_coming for node in nodes),
        failed=sum(node.is_left_over for node in nodes),
        leaving=sum(node.state.is_leaving for node in nodes),
        jobs=sum(len(pending_shape.jobs) for pending_shape in demand),
        wanted=sum(pending_shape.slots for pending_shape in demand),
        free=sum(instance.free for instance in usable),
        slots=sum(instance.total for instance in usable),
        slots_per_node=None,
        waited_s=max((pending_shape.waited_s for pending_shape in demand), default=0.0),
        unchanged_s=None if situation.last_change is None else elapsed_s(situation.last_change, situation.now),
        tasks=sum(pending_shape.tasks for pending_shape in demand),
        coming=sum(
            is_node_arriving_in_time(node, situation, context.demand.boot_timeout_s) for node in situation.nodes
        ),
        most=context.most,
        least=context.least,
        hosts=hosts,
        unready=unready,
        boot_s=min((offer.pool.boot_s for offer in context.offers), default=0.0),
    )


def _packed(context: DemandPolicyRoundFacts, demand: Sequence[StartableDemandOfEqualRequests]) -> WaitingTaskPacking:
    """Pack waiting tasks into free capacity.

    Tasks that have waited long enough for new nodes are packed before all other tasks. In each group, tasks
    with large requirements are packed first.
    """
    blocks, fit, unplaced = context.rooms, 0, list[tuple[StartableDemandOfEqualRequests, int]]()
    in_order = sorted(
        demand, key=lambda pending_shape: (not _is_ripe(pending_shape, context.demand), _size(pending_shape.need))
    )
    for pending_shape in in_order:
        placed, blocks = pack_tasks_with_alternative_needs(
            pending_shape.needs, pending_shape.tasks, blocks, context.placement
        )
        fit += placed
        if placed < pending_shape.tasks:
            unplaced.append((pending_shape, pending_shape.tasks - placed))
    buffer = list[tuple[TaskRequirement, int]]()
    for need, number in _buffer(context):
        placed, blocks = pack_tasks_first_fit(need, number, blocks, context.placement)
        if placed < number:
            buffer.append((need, number - placed))
    return WaitingTaskPacking(blocks=blocks, fit=fit, left=_possible(unplaced, context), buffer=tuple(buffer))


def _possible(
    unplaced: Sequence[tuple[StartableDemandOfEqualRequests, int]], context: DemandPolicyRoundFacts
) -> tuple[tuple[StartableDemandOfEqualRequests, int], ...]:
    """Reduce the alternative requirements of each task to the smallest that a new node could meet."""
    rooms = _whole_host_rooms(context) if any(pending_shape.others for pending_shape, _ in unplaced) else ()

    def chosen(pending_shape: StartableDemandOfEqualRequests) -> StartableDemandOfEqualRequests:
        if not pending_shape.others:
            return pending_shape
        needs = (
            n
            for n in pending_shape.needs
            if not why_no_new_node_could_run_task(n, context.offers, context.placement, rooms)
        )
        return replace(pending_shape, need=next(needs, pending_shape.need), others=())

    return tuple((chosen(pending_shape), tasks) for pending_shape, tasks in unplaced)


def _impossible(context: DemandPolicyRoundFacts, packed: WaitingTaskPacking) -> Iterator[NodeAddOrRemoveRefusal]:
    rooms = _whole_host_rooms(context) if any(pending_shape.need.total > 1 for pending_shape, _ in packed.left) else ()
    for pending_shape, _ in packed.left:
        why = why_no_new_node_could_run_task(pending_shape.need, context.offers, context.placement, rooms)
        yield from repeat_refusal_for_jobs(why, pending_shape.jobs)


def _whole_host_rooms(context: DemandPolicyRoundFacts) -> tuple[tuple[str, FreeHostCapacity], ...]:
    """Return the pool and the capacity of each host, as if the host were empty."""
    situation, own = context.situation, NodesByHostName(context.situation.nodes)
    patterns = requested_host_patterns(row.shape for row in situation.cell.waiting)
    rooms = full_capacity_of_unopened_hosts(situation, ordinary_queues_by_host(situation), context.placement, patterns)
    return tuple((node.pool if (node := own.of_host(name)) else "", r) for name, r in rooms.items())


def _buffer(context: DemandPolicyRoundFacts) -> list[tuple[TaskRequirement, int]]:
    """Return the configured spare capacity as requirements: whole nodes and slots."""
    own = (context.rules.queue,)
    nodes = TaskRequirement(is_exclusive=True, queues=own), context.demand.spare_nodes
    return [share for share in (nodes, (TaskRequirement(queues=own), context.demand.spare_slots)) if share[1]]


def _is_ripe(pending_shape: StartableDemandOfEqualRequests, demand: DemandPolicySection) -> bool:
    return pending_shape.waited_s >= demand.wait_s


def _size(need: TaskRequirement) -> tuple[object, ...]:
    """Return a sort key by which exclusive and large requirements come first."""
    spent = tuple((name, -amount) for name, amount in need.amounts)
    return not need.is_exclusive, -need.slots, -need.pieces, -len(spent), spent, need.queues


def _grown(
    plan: BalancePlan,
    context: DemandPolicyRoundFacts,
    packed: WaitingTaskPacking,
    demand: Sequence[StartableDemandOfEqualRequests],
) -> BalancePlan:
    """Return the plan with the nodes to add, or with the reason why no node is added."""
    short = context.least - plan.figures.useful
    if not packed.left and not packed.buffer and short <= 0:
        return replace(plan, verdict=BalancePlanReason.ALL_FIT if demand else BalancePlanReason.NO_NEED)
    since = plan.figures.unchanged_s
    if since is not None and since < context.demand.grow_pause_s:
        return replace(plan, verdict=BalancePlanReason.NOT_STABLE)
    ripe = [ripe_claim for ripe_claim in packed.left if _is_ripe(ripe_claim[0], context.demand)]
    if packed.left and not ripe and not packed.buffer and short <= 0:
        return replace(plan, verdict=BalancePlanReason.NOT_YET)
    plan, ripe = _patient(plan, context, ripe, demand)
    if plan.verdict in (BalancePlanReason.SOON, BalancePlanReason.ELSEWHERE) and short <= 0 and not packed.buffer:
        return plan
    return _bought(plan, context, packed, ripe, short)


def _patient(
    plan: BalancePlan,
    context: DemandPolicyRoundFacts,
    ripe: list[tuple[StartableDemandOfEqualRequests, int]],
    pending_shapes: Sequence[StartableDemandOfEqualRequests],
) -> tuple[BalancePlan, list[tuple[StartableDemandOfEqualRequests, int]]]:
    """Leave out tasks that finish soon without new nodes, or start soon through a transfer queue."""
    figures, demand = plan.figures, context.demand
    slots = figures.slots + context.arriving
    if ripe and demand.target_wait_s and all(_could_run(pending_shape.need, context) for pending_shape, _ in ripe):
        slot_s, within_s = _slot_s(context, pending_shapes), demand.target_wait_s + figures.boot_s
        if slot_s is not None and slots:
            plan = replace(plan, figures=replace(figures, backlog_s=slot_s / slots))
            if slot_s <= slots * within_s:
                return replace(plan, verdict=BalancePlanReason.SOON), []
            ripe = waiting_tasks_as_demand.first_tasks_for_slots(ripe, slot_s / within_s - slots)
            figures = plan.figures
    unserved = list[tuple[StartableDemandOfEqualRequests, int]]()
    transfer_queues = _elsewhere(context)
    for pending_shape, tasks in ripe:
        late_s = pending_shape.waited_s - demand.wait_s - context.rules.interval_s
        sooner = transfer_queues.sooner(pending_shape, figures.boot_s, late_s)
        started = transfer_queues.take(sooner[0], pending_shape, tasks) if sooner else 0
        if started < tasks:
            unserved.append((pending_shape, tasks - started))
        if sooner and started:
            figures = replace(figures, elsewhere=sooner[0], elsewhere_s=sooner[1])
    verdict = BalancePlanReason.ELSEWHERE if ripe and not unserved else plan.verdict
    return replace(plan, figures=figures, verdict=verdict), unserved


def _slot_s(context: DemandPolicyRoundFacts, demand: Sequence[StartableDemandOfEqualRequests]) -> float | None:
    """Return the slot-seconds that running and waiting tasks need; None if a run time is unknown."""
    situation = context.situation
    usable = [
        instance
        for instances in ordinary_queues_by_host(situation).values()
        for instance in instances
        if instance.is_usable
    ]
    if any(instance.used > sum(tasks.slots for tasks in instance.begun) for instance in usable):
        return None  # the owners of the running tasks are unknown
    begun = (tasks for instance in usable for tasks in instance.begun)
    running_s = waiting_tasks_as_demand.running_tasks_slot_seconds_left(begun, situation.runtimes, situation.now)
    waiting_s = waiting_tasks_as_demand.waiting_tasks_slot_seconds(demand, situation.runtimes)
    return None if running_s is None or waiting_s is None else running_s + waiting_s


def _elsewhere(context: DemandPolicyRoundFacts) -> waiting_tasks_as_demand.TransferQueueSlotsAndDelays:
    situation = context.situation
    rooms = full_capacity_by_transfer_queue(
        situation, context.placement, requested_host_patterns(row.shape for row in situation.cell.waiting)
    )
    return waiting_tasks_as_demand.TransferQueueSlotsAndDelays(
        situation.elsewhere, situation.elsewhere_free, rooms, context.placement
    )


def _could_run(need: TaskRequirement, context: DemandPolicyRoundFacts) -> bool:
    return any(instance.total >= need.slots and instance.is_usable for instance in context.situation.cell.instances)


def _bought(
    plan: BalancePlan,
    context: DemandPolicyRoundFacts,
    packed: WaitingTaskPacking,
    ripe: list[tuple[StartableDemandOfEqualRequests, int]],
    short: int,
) -> BalancePlan:
    if not context.offers:
        return _first(plan, context, ripe, short)
    progress = ScaleUpProgress(
        limits=_purse(context, plan.figures.nodes),
        blocks=packed.blocks,
        offers=context.offers,
        placement=context.placement,
    )
    refused, refusals = {refusal.job for refusal in plan.refused}, list(plan.refused)
    for pending_shape, tasks in ripe:
        if plan_nodes_for_tasks_without_room(pending_shape.need, tasks, progress):
            jobs = [job for job in pending_shape.jobs if job not in refused]
            refusals.extend(
                repeat_refusal_for_jobs(refuse_task_that_needs_too_many_nodes(pending_shape.need, progress), jobs)
            )
    for need, number in packed.buffer:
        plan_nodes_for_tasks_without_room(need, number, progress)
    return _purchased(replace(plan, refused=tuple(refusals)), context, progress, short)


def _purse(context: DemandPolicyRoundFacts, nodes: int) -> NewNodeLimits:
    settings = context.rules, context.demand, context.pools
    return new_node_limits_by_budgets(context.situation, *settings, context.most, nodes, context.least)


def _first(
    plan: BalancePlan,
    context: DemandPolicyRoundFacts,
    ripe: list[tuple[StartableDemandOfEqualRequests, int]],
    short: int,
) -> BalancePlan:
    """Add the first nodes of a cluster; the size of new nodes is still unknown."""
    if plan.figures.coming:
        return replace(plan, verdict=BalancePlanReason.ON_THEIR_WAY)
    room = context.most - plan.figures.nodes
    nodes = max(short, 1 if ripe else 0)
    verdict = BalancePlanReason.BELOW_MINIMUM if short > 0 else BalancePlanReason.NO_SLOTS
    return replace(plan, verdict=verdict if room > 0 else BalancePlanReason.FULL, add=max(0, min(nodes, room)))


def _purchased(
    plan: BalancePlan, context: DemandPolicyRoundFacts, progress: ScaleUpProgress, short: int
) -> BalancePlan:
    """Return the plan with the chosen nodes of one pool, or with the hosts to wake.

    A round that wakes hosts adds no nodes.
    """
    pool = next(iter(progress.bought), None)
    bought = progress.bought.get(pool, []) if pool is not None else []
    wake = tuple(name for name in context.situation.standby or () if name in progress.woken)
    if len(wake) + sum(map(len, progress.bought.values())) < short:
        return _minimum(plan, context, short)
    if wake:
        return replace(plan, verdict=BalancePlanReason.MORE_WANTED, wake=wake)
    if pool is None:
        verdict = progress.hindrances[0] if progress.hindrances else BalancePlanReason.NO_NODE
        if progress.hindrances and progress.limits.closed:
            verdict = progress.limits.closed
        return replace(plan, verdict=verdict if plan.verdict is BalancePlanReason.NO_NEED else plan.verdict)
    price = next(offer.price for offer in context.offers if offer.name == pool)
    return replace(
        plan,
        verdict=BalancePlanReason.MORE_WANTED,
        add=len(bought),
        pool=pool,
        groups=tuple(bought) if any(bought) else (),
        figures=replace(plan.figures, price=price),
    )


def _minimum(plan: BalancePlan, context: DemandPolicyRoundFacts, short: int) -> BalancePlan:
    """Add to a plan the nodes that are missing for the minimum, or the reason why no node is added."""
    limits = _purse(context, plan.figures.nodes)
    for offer in context.offers:
        number = min(short, offer.most, limits.for_price(offer.price)[0])
        if number > 0 and offer.hosts:
            return replace(plan, verdict=BalancePlanReason.BELOW_MINIMUM, wake=offer.hosts[:number])
        if number > 0:
            figures = replace(plan.figures, price=offer.price)
            return replace(plan, verdict=BalancePlanReason.BELOW_MINIMUM, add=number, pool=offer.name, figures=figures)
    first = context.offers[0]
    hindrance = limits.closed or first.hindrance or limits.for_price(first.price)[1]
    return replace(plan, verdict=BalancePlanReason.BELOW_MINIMUM, hindrance=hindrance)
