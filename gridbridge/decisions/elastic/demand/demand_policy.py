"""Decide a balancer round by policy demand: add nodes for waiting tasks, or remove nodes that no task needs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gridbridge.decisions.elastic import balancer_node_and_job_counts
from gridbridge.decisions.elastic.demand import scale_down, scale_up, task_packing, waiting_tasks_as_demand
from gridbridge.decisions.elastic.demand.demand_policy_round_facts import (
    DemandPolicySituation,
    collect_demand_round_facts,
)
from gridbridge.decisions.elastic.demand.free_capacity import full_capacity_of_unopened_hosts, is_node_arriving_in_time
from gridbridge.decisions.elastic.demand.new_nodes_each_pool_could_give import why_no_new_node_could_run_task
from gridbridge.decisions.elastic.demand.task_requirements import DemandTaskRequirement
from gridbridge.decisions.elastic.demand.waiting_tasks_as_demand import StartableTasksOfEqualRequests
from gridbridge.model.elastic.balance_plan import (
    BalancePlan,
    BalancePlanFigures,
    BalancePlanReason,
    BalanceSituation,
    NodeAddOrRemoveRefusal,
)
from gridbridge.model.elastic.balancer_config_sections import BalanceSection, DemandPolicySection, NodePoolSection
from gridbridge.model.elastic.elastic_nodes import NodesByHostName

StartableDemand = Sequence[StartableTasksOfEqualRequests]
DemandWithTaskCounts = list[tuple[StartableTasksOfEqualRequests, int]]


def plan_balance_by_demand(
    situation: BalanceSituation,
    rules: BalanceSection,
    demand: DemandPolicySection,
    pools: Mapping[str, NodePoolSection],
) -> BalancePlan:
    """Return a plan that keeps `nodes + add <= maximum` and `nodes - removed >= minimum`."""
    facts = collect_demand_round_facts(situation, rules, demand, pools)
    shapes, refused, watched = waiting_tasks_as_demand.find_startable_demand(facts)
    packing = _pack_waiting_tasks(facts, shapes)
    plan = BalancePlan(
        verdict=BalancePlanReason.NO_NEED,
        figures=_figures_of_demand_policy_round(facts, shapes),
        refused=(*refused, *packing.refused),
        wake=None if situation.standby is None else (),
        watched=watched,
    )
    if not rules.max_nodes:
        return replace(plan, verdict=BalancePlanReason.NO_MAXIMUM)
    if balancer_node_and_job_counts.are_too_many_hosts_unready(situation):
        return replace(plan, verdict=BalancePlanReason.UNREADY)
    if unpaid := scale_down.idle_nodes_beyond_month_budget(facts):
        return replace(plan, verdict=BalancePlanReason.MONTH_SPENT, remove=unpaid)
    if dear := scale_down.idle_nodes_over_hour_budget(facts):
        return replace(plan, verdict=BalancePlanReason.TOO_DEAR, remove=dear)
    plan = replace(plan, figures=replace(plan.figures, fit=packing.fit))
    plan = _plan_new_nodes(plan, facts, packing, shapes)
    if plan.add or plan.wake or plan.verdict is BalancePlanReason.BELOW_MINIMUM:
        return plan
    return scale_down.plan_node_removal(plan, facts, packing.blocks)


def _figures_of_demand_policy_round(facts: DemandPolicySituation, shapes: StartableDemand) -> BalancePlanFigures:
    situation, nodes = facts.situation, balancer_node_and_job_counts.nodes_by_name_without_standby(facts.situation)
    instances = (instance for instances in facts.cell.queues_by_host.values() for instance in instances)
    usable = [instance for instance in instances if instance.is_usable]
    hosts, unready = balancer_node_and_job_counts.count_expected_and_unready_hosts(situation)
    timeout_s = facts.demand.boot_timeout_s
    return BalancePlanFigures(
        nodes=len(nodes),
        running=sum(not node.state.is_coming for node in nodes),
        failed=sum(node.is_failed_with_machine for node in nodes),
        leaving=sum(node.state.is_leaving for node in nodes),
        jobs=sum(len(shape.jobs) for shape in shapes),
        wanted=sum(shape.slots_of_all_tasks for shape in shapes),
        free=sum(instance.free_slots for instance in usable),
        slots=sum(instance.total for instance in usable),
        slots_per_node=None,
        waited_s=max((shape.waited_s for shape in shapes), default=0.0),
        unchanged_s=None
        if situation.last_change is None
        else balancer_node_and_job_counts.seconds_between(situation.last_change, situation.now),
        tasks=sum(shape.tasks for shape in shapes),
        coming=sum(is_node_arriving_in_time(node, situation, timeout_s) for node in situation.nodes),
        most=facts.most,
        least=facts.least,
        hosts=hosts,
        unready=unready,
        boot_s=min((offer.pool.boot_s for offer in facts.offers), default=0.0),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingTaskPacking:
    blocks: task_packing.HostBlocks
    fit: int  # number of waiting tasks that have room
    left: DemandWithTaskCounts  # tasks without room, each with the smallest requirement that a new node could meet
    refused: tuple[NodeAddOrRemoveRefusal, ...]  # tasks that no new node could run
    buffer: list[tuple[DemandTaskRequirement, int]]  # configured spare capacity for which no room is left


def _pack_waiting_tasks(facts: DemandPolicySituation, shapes: StartableDemand) -> WaitingTaskPacking:
    """Pack waiting tasks into free capacity, tasks with long waits first; then spare nodes and slots."""
    blocks, fit, unplaced = (*facts.present, *facts.arriving), 0, DemandWithTaskCounts()
    for shape in sorted(
        shapes, key=lambda shape: (not _has_task_waited_long_enough(shape, facts), _requirement_sort_key(shape.need))
    ):
        placed, blocks = task_packing.pack_tasks_with_alternative_needs(shape.possible_needs, shape.tasks, blocks)
        fit += placed
        if placed < shape.tasks:
            unplaced.append((shape, shape.tasks - placed))
    own, buffer = (facts.rules.queue,), list[tuple[DemandTaskRequirement, int]]()
    nodes = DemandTaskRequirement(is_exclusive=True, queues=own), facts.demand.spare_nodes
    for need, number in (nodes, (DemandTaskRequirement(queues=own), facts.demand.spare_slots)):
        placed, blocks = task_packing.pack_tasks_first_fit(need, number, blocks)
        if placed < number:
            buffer.append((need, number - placed))
    left, refused = DemandWithTaskCounts(), list[NodeAddOrRemoveRefusal]()
    rooms = (
        _full_capacity_with_pool_by_host(facts)
        if any(shape.others or shape.need.total_task_pieces > 1 for shape, _ in unplaced)
        else ()
    )
    for shape, tasks in unplaced:
        refusals = [(need, why_no_new_node_could_run_task(need, facts.offers, rooms)) for need in shape.possible_needs]
        need, refusal = next((pair for pair in refusals if not pair[1]), refusals[0])
        left.append((replace(shape, need=need, others=()), tasks))
        refused.extend(waiting_tasks_as_demand.repeat_refusal_for_jobs(refusal, shape.jobs))
    return WaitingTaskPacking(blocks=blocks, fit=fit, left=left, refused=tuple(refused), buffer=buffer)


def _full_capacity_with_pool_by_host(
    facts: DemandPolicySituation,
) -> tuple[tuple[str, task_packing.FreeHostCapacity], ...]:
    """Return each host's pool, and the host's capacity as if no task ran on the host."""
    own = NodesByHostName(facts.situation.nodes)
    rooms = full_capacity_of_unopened_hosts(facts.cell.queues_by_host, facts.cell)
    return tuple((node.pool if (node := own.find_node_of_host(name)) else "", room) for name, room in rooms.items())


def _has_task_waited_long_enough(shape: StartableTasksOfEqualRequests, facts: DemandPolicySituation) -> bool:
    return shape.waited_s >= facts.demand.wait_s


def _requirement_sort_key(need: DemandTaskRequirement) -> tuple[object, ...]:
    """Return a sort key by which exclusive and large requirements come first."""
    spent = tuple((name, -amount) for name, amount in need.amounts)
    return not need.is_exclusive, -need.slots, -need.pieces, -len(spent), spent, need.queues


def _plan_new_nodes(
    plan: BalancePlan, facts: DemandPolicySituation, packing: WaitingTaskPacking, shapes: StartableDemand
) -> BalancePlan:
    short = facts.least - plan.figures.useful_node_count
    is_lacking = short > 0 or bool(packing.buffer)
    if not packing.left and not is_lacking:
        return replace(plan, verdict=BalancePlanReason.ALL_FIT if shapes else BalancePlanReason.NO_NEED)
    since = plan.figures.unchanged_s
    if since is not None and since < facts.demand.grow_pause_s:
        return replace(plan, verdict=BalancePlanReason.NOT_STABLE)
    ripe = [claim for claim in packing.left if _has_task_waited_long_enough(claim[0], facts)]
    if not ripe and not is_lacking:
        return replace(plan, verdict=BalancePlanReason.NOT_YET)
    plan, ripe = _drop_tasks_that_need_no_new_node(plan, facts, ripe, shapes)
    if plan.verdict in (BalancePlanReason.SOON, BalancePlanReason.ELSEWHERE) and not is_lacking:
        return plan
    if facts.offers:
        return _choose_nodes_of_one_pool_or_standby(plan, facts, packing, ripe, short)
    if plan.figures.coming:  # the size of new nodes is unknown until the first nodes have joined
        return replace(plan, verdict=BalancePlanReason.ON_THEIR_WAY)
    room = facts.most - plan.figures.nodes
    verdict = BalancePlanReason.BELOW_MINIMUM if short > 0 else BalancePlanReason.NO_SLOTS
    nodes = max(0, min(max(short, 1 if ripe else 0), room))
    return replace(plan, verdict=verdict if room > 0 else BalancePlanReason.FULL, add=nodes)


def _drop_tasks_that_need_no_new_node(
    plan: BalancePlan, facts: DemandPolicySituation, ripe: DemandWithTaskCounts, shapes: StartableDemand
) -> tuple[BalancePlan, DemandWithTaskCounts]:
    """Drop tasks from `ripe` that would end soon without new nodes, or start soon through a transfer queue."""
    figures, target_s = plan.figures, facts.demand.target_wait_s
    slots = figures.slots + sum(len(names) * room.free_slots for room, names in facts.arriving)
    widest = max((instance.total for instance in facts.situation.cell.instances if instance.is_usable), default=0)
    if ripe and target_s and slots and all(shape.need.slots <= widest for shape, _ in ripe):
        slot_s = waiting_tasks_as_demand.slot_seconds_of_all_tasks(facts, shapes)
        if slot_s is not None:
            within_s = target_s + figures.boot_s
            figures = replace(figures, backlog_s=slot_s / slots)
            if slot_s <= slots * within_s:
                return replace(plan, figures=figures, verdict=BalancePlanReason.SOON), []
            ripe = waiting_tasks_as_demand.first_tasks_that_fill_slots(ripe, slot_s / within_s - slots)
    unserved, (queue, wait_s) = waiting_tasks_as_demand.tasks_no_transfer_queue_starts_sooner(
        ripe, facts, figures.boot_s
    )
    figures = replace(figures, elsewhere=queue, elsewhere_s=wait_s)
    verdict = BalancePlanReason.ELSEWHERE if ripe and not unserved else plan.verdict
    return replace(plan, figures=figures, verdict=verdict), unserved


def _choose_nodes_of_one_pool_or_standby(
    plan: BalancePlan,
    facts: DemandPolicySituation,
    packing: WaitingTaskPacking,
    ripe: DemandWithTaskCounts,
    short: int,
) -> BalancePlan:
    """Return the plan with new nodes of one pool, or with hosts to wake, but never with both."""
    limits = scale_up.new_node_limits_by_budgets(facts, plan.figures.nodes)
    progress = scale_up.ChosenNewNodes(limits=limits, blocks=packing.blocks, offers=facts.offers)
    refused_jobs, refused = {refusal.job for refusal in plan.refused}, list(plan.refused)
    for shape, tasks in ripe:
        if scale_up.plan_nodes_for_tasks_without_room(shape.need, tasks, progress):
            refusal = scale_up.refuse_task_that_needs_too_many_nodes(shape.need, progress)
            jobs = (job for job in shape.jobs if job not in refused_jobs)
            refused.extend(waiting_tasks_as_demand.repeat_refusal_for_jobs(refusal, jobs))
    for need, number in packing.buffer:
        scale_up.plan_nodes_for_tasks_without_room(need, number, progress)
    plan = replace(plan, refused=tuple(refused))
    wake = tuple(name for name in facts.situation.standby or () if name in progress.woken)
    if len(wake) + sum(map(len, progress.bought.values())) < short:
        return _add_nodes_up_to_minimum(plan, facts, limits, short)
    if wake:
        return replace(plan, verdict=BalancePlanReason.MORE_WANTED, wake=wake)
    if not progress.bought:
        hindrance = progress.hindrances[0] if progress.hindrances else BalancePlanReason.NO_NODE
        verdict = (progress.limits.exhausted_limit if progress.hindrances else None) or hindrance
        return replace(plan, verdict=verdict) if plan.verdict is BalancePlanReason.NO_NEED else plan
    pool, groups = next(iter(progress.bought.items()))
    price = next(offer.price for offer in facts.offers if offer.name == pool)
    return replace(
        plan,
        verdict=BalancePlanReason.MORE_WANTED,
        add=len(groups),
        pool=pool,
        groups=tuple(groups) if any(groups) else (),
        figures=replace(plan.figures, price=price),
    )


def _add_nodes_up_to_minimum(
    plan: BalancePlan, facts: DemandPolicySituation, limits: scale_up.NewNodeLimits, short: int
) -> BalancePlan:
    """Add the nodes that the minimum lacks to a plan, or record why no node is added."""
    plan = replace(plan, verdict=BalancePlanReason.BELOW_MINIMUM)
    for offer in facts.offers:
        number = min(short, offer.most, limits.nodes_at_price(offer.price)[0])
        if number > 0 and offer.hosts:
            return replace(plan, wake=offer.hosts[:number])
        if number > 0:
            return replace(plan, add=number, pool=offer.name, figures=replace(plan.figures, price=offer.price))
    first = facts.offers[0]
    return replace(plan, hindrance=limits.exhausted_limit or first.hindrance or limits.nodes_at_price(first.price)[1])
