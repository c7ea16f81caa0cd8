"""Decide a balancer round by the rules of StarCluster's load balancer.

Sources: StarCluster's guide (Criteria for Adding a Node, Criteria for Removing a Node, The 45 Minutes Past the
Hour Rule), and the SGE balancer of StarCluster 0.95.6.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import timedelta

from gridbridge.decisions.elastic import balancer_node_and_job_counts
from gridbridge.decisions.elastic.demand.free_capacity import queues_closed_everywhere
from gridbridge.model.elastic.balance_plan import (
    BalancePlan,
    BalancePlanFigures,
    BalancePlanReason,
    BalanceSituation,
    NodeAddOrRemoveRefusal,
    NodeAddOrRemoveRefusalCause,
)
from gridbridge.model.elastic.balancer_config_sections import BalanceSection
from gridbridge.model.elastic.elastic_nodes import ElasticNode, ElasticNodeState, is_same_host, short_host_name
from gridbridge.model.grid_engine_amounts import DAY_S


def plan_balance_by_starcluster(
    situation: BalanceSituation, rules: BalanceSection, *, is_faithful: bool = False
) -> BalancePlan:
    """Return the plan of a balancer round by StarCluster's rules, within min_nodes and max_nodes.

    With `is_faithful`, StarCluster's counting errors are repeated, and `max_nodes` may be exceeded.
    """
    count = (
        count_slots_like_starcluster if is_faithful else balancer_node_and_job_counts.count_slots_and_startable_tasks
    )
    figures, refused = count(situation, rules.queue), _refusals_to_add_nodes_for_jobs(situation, rules.queue)
    if rules.max_nodes and not is_faithful and balancer_node_and_job_counts.are_too_many_hosts_unready(situation):
        hosts, unready = balancer_node_and_job_counts.count_expected_and_unready_hosts(situation)
        counts = replace(figures, hosts=hosts, unready=unready)
        return BalancePlan(verdict=BalancePlanReason.UNREADY, figures=counts, refused=refused)
    verdict, nodes = _number_of_nodes_to_add(figures, rules, situation, is_faithful=is_faithful)
    plan = BalancePlan(verdict=verdict, figures=figures, add=nodes, refused=refused)
    if nodes or figures.jobs or verdict in (BalancePlanReason.NO_MAXIMUM, BalancePlanReason.BELOW_MINIMUM):
        return plan
    return plan_starcluster_idle_removal(situation, rules, plan, is_faithful=is_faithful)


def _number_of_nodes_to_add(
    figures: BalancePlanFigures, rules: BalanceSection, situation: BalanceSituation, *, is_faithful: bool
) -> tuple[BalancePlanReason, int]:
    if not rules.max_nodes:
        return BalancePlanReason.NO_MAXIMUM, 0
    if figures.nodes >= rules.max_nodes:
        return BalancePlanReason.FULL, 0
    if not figures.jobs and figures.useful_node_count >= rules.min_nodes:
        return BalancePlanReason.NONE_IDLE, 0
    if not is_faithful and rules.queue in queues_closed_everywhere(situation):
        return BalancePlanReason.CLOSED, 0
    if figures.slots > 0 and not balancer_node_and_job_counts.is_pause_after_node_change_over(figures, rules):
        return BalancePlanReason.NOT_STABLE, 0
    if figures.slots_per_node is None:
        return BalancePlanReason.SEVERAL_SLOT_COUNTS, 0
    verdict, needed = _number_of_nodes_needed(figures, rules, situation, is_faithful=is_faithful)
    room = rules.max_nodes - (figures.running if is_faithful else figures.nodes)
    return verdict, max(0, min(rules.add_nodes_per_iteration, needed, room))


def _number_of_nodes_needed(
    figures: BalancePlanFigures, rules: BalanceSection, situation: BalanceSituation, *, is_faithful: bool
) -> tuple[BalancePlanReason, int]:
    """Return how many new nodes would be needed without limits, and why."""
    if figures.useful_node_count < rules.min_nodes:
        return BalancePlanReason.BELOW_MINIMUM, rules.min_nodes - figures.useful_node_count
    if figures.slots == 0:
        is_coming = any(node.state.is_coming for node in situation.nodes)
        return (BalancePlanReason.ON_THEIR_WAY, 0) if is_coming and not is_faithful else (BalancePlanReason.NO_SLOTS, 1)
    if figures.wanted <= figures.free:
        return BalancePlanReason.FITS, 0
    if figures.waited_s <= rules.job_wait_time_s:
        return BalancePlanReason.WAITS, 0
    node_slots = figures.slots_per_node or 0
    if not is_faithful and figures.wanted <= figures.free + figures.coming * node_slots:
        return BalancePlanReason.FITS_SOON, 0
    if not node_slots:
        return BalancePlanReason.WAITS_TOO_LONG, 1
    if is_faithful:
        return BalancePlanReason.WAITS_TOO_LONG, figures.wanted // node_slots
    # StarCluster waits for nodes that boot or join; here these nodes are subtracted
    return BalancePlanReason.WAITS_TOO_LONG, max(1, -(-figures.wanted // node_slots) - figures.coming)


def _refusals_to_add_nodes_for_jobs(situation: BalanceSituation, queue: str) -> tuple[NodeAddOrRemoveRefusal, ...]:
    refused = list[NodeAddOrRemoveRefusal]()
    for row in situation.cell.waiting:
        cause = balancer_node_and_job_counts.why_no_node_is_added_for_jobs(row)
        if (
            cause is None
            and row.can_start
            and not balancer_node_and_job_counts.do_requests_allow_queue(queue, row.shape)
        ):
            cause = NodeAddOrRemoveRefusalCause.OTHER_QUEUE
        refused += [NodeAddOrRemoveRefusal(job=job, cause=cause) for job in row.jobs if cause]
    return tuple(refused)


def count_slots_like_starcluster(situation: BalanceSituation, queue: str) -> BalancePlanFigures:
    """Count slots and jobs as StarCluster 0.95.6 does, with its counting errors, for comparison."""
    own = [instance for instance in situation.cell.instances if instance.queue == queue]
    waiting = [row for row in situation.cell.waiting if row.state.can_start]
    slots, host_slots = sum(instance.total for instance in own), own[0].total if own else 0
    is_uniform = host_slots * len(situation.cell.hosts) == slots
    used = sum(sum(instance.running) for instance in situation.cell.instances)
    nodes = balancer_node_and_job_counts.nodes_by_name_without_standby(situation)
    since, changed = waiting[0].first_since if waiting else None, situation.last_change
    return BalancePlanFigures(
        nodes=len(nodes),
        running=sum(not node.state.is_coming for node in nodes),
        leaving=sum(node.state.is_leaving for node in nodes),
        jobs=sum(len(row.jobs) for row in waiting),
        wanted=sum(row.total_requested_slots for row in waiting),
        free=slots - used,
        slots=slots,
        slots_per_node=host_slots if slots and is_uniform else None if slots else 0,
        waited_s=_seconds_beyond_whole_days(situation.now - since) if since else 0.0,
        unchanged_s=_seconds_beyond_whole_days(situation.now - changed) if changed else None,
    )


def _seconds_beyond_whole_days(time: timedelta) -> float:
    """Return the seconds of a duration beyond its whole days, as StarCluster does."""
    return time.total_seconds() // 1 % DAY_S


HOUR_MIN = 60


def plan_starcluster_idle_removal(
    situation: BalanceSituation, rules: BalanceSection, plan: BalancePlan, *, is_faithful: bool
) -> BalancePlan:
    """Plan the removal of the balancer's idle nodes, sorted by name; remove none while a job waits."""
    if not balancer_node_and_job_counts.is_pause_after_node_change_over(plan.figures, rules):
        return replace(plan, verdict=BalancePlanReason.NOT_STABLE)
    spare = plan.figures.node_count_for_min_nodes - rules.min_nodes
    if spare <= 0:
        return replace(plan, verdict=BalancePlanReason.AT_MINIMUM)
    own, instances = {node.name for node in situation.nodes}, situation.cell.instances
    wanted = (instance.host for instance in instances if instance.has_tasks_or_reserved_slots)
    listed = _nodes_among_hosts(balancer_node_and_job_counts.hosts_with_known_tasks(situation), situation)
    busy = _nodes_among_hosts(wanted, situation)
    if is_faithful:  # StarCluster searches the names of busy queue instances for each node's name
        in_use = [f"{instance.queue}@{instance.host}" for instance in instances if instance.running]
        listed, busy = own, {name for name in own if any(name in instance for instance in in_use)}
    refused, idle = list[NodeAddOrRemoveRefusal](), list[str]()
    for node in (
        node for node in balancer_node_and_job_counts.nodes_by_name_without_standby(situation) if node.name in own
    ):
        if hindrance := next(_starcluster_removal_hindrances(node, situation, rules, listed, busy), None):
            refused.append(hindrance)
        elif len(idle) == spare:
            refused.append(NodeAddOrRemoveRefusal(host=node.name, cause=NodeAddOrRemoveRefusalCause.AT_MINIMUM))
        else:
            idle.append(node.name)
    return replace(
        plan,
        verdict=BalancePlanReason.IDLE if idle else BalancePlanReason.NONE_IDLE,
        remove=tuple(idle),
        refused=(*plan.refused, *refused),
    )


def _starcluster_removal_hindrances(
    node: ElasticNode, situation: BalanceSituation, rules: BalanceSection, listed: set[str], busy: set[str]
) -> Iterator[NodeAddOrRemoveRefusal]:
    yield from balancer_node_and_job_counts.reasons_never_to_remove_node(node, situation)
    if node.state is not ElasticNodeState.READY:
        yield NodeAddOrRemoveRefusal(host=node.name, cause=NodeAddOrRemoveRefusalCause.NOT_READY, has=node.state.value)
    if node.name not in listed:
        yield NodeAddOrRemoveRefusal(host=node.name, cause=NodeAddOrRemoveRefusalCause.NOT_LISTED)
    if node.name in busy:
        yield NodeAddOrRemoveRefusal(host=node.name, cause=NodeAddOrRemoveRefusalCause.BUSY)
    if node.up_since is None:
        yield NodeAddOrRemoveRefusal(host=node.name, cause=NodeAddOrRemoveRefusalCause.UPTIME_UNKNOWN)
        return
    minute = int(balancer_node_and_job_counts.seconds_between(node.up_since, situation.now) // 60) % HOUR_MIN
    if minute < rules.kill_after_min:
        yield NodeAddOrRemoveRefusal(host=node.name, cause=NodeAddOrRemoveRefusalCause.HOUR_IS_PAID, minute=minute)


def _nodes_among_hosts(hosts: Iterable[str], situation: BalanceSituation) -> set[str]:
    """Return the names of the nodes among the hosts; names match with or without the domain."""
    by_short = defaultdict[str, set[str]](set)
    for host in hosts:
        by_short[short_host_name(host)].add(host)
    candidates = ((node.name, by_short.get(short_host_name(node.name), ())) for node in situation.nodes)
    return {name for name, alike in candidates if any(is_same_host(name, host) for host in alike)}
