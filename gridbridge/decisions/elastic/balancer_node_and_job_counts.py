"""Count the nodes, slots, startable jobs and unready hosts of a cell, for all balancer policies."""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from fnmatch import fnmatchcase

from gridbridge.decisions.elastic.demand.free_capacity import ordinary_queues_by_host
from gridbridge.decisions.elastic.demand.task_requirements import request_expression_matches
from gridbridge.model.elastic.balance_plan import (
    BalancePlanFigures,
    BalanceSituation,
    NodeAddOrRemoveRefusal,
    NodeAddOrRemoveRefusalCause,
)
from gridbridge.model.elastic.balancer_config_sections import BalanceSection
from gridbridge.model.elastic.elastic_nodes import ElasticNode, ElasticNodeState, is_same_host, short_host_name
from gridbridge.model.elastic.grid_engine_cell import CellQueueInstance, TaskResourceRequests, WaitingJobGroup
from gridbridge.model.job_and_queue_states import QueueStartBlocker
from gridbridge.model.job_request import QNAME, resource_long_name

UNREADY_PART, UNREADY_HOSTS = 0.45, 3
NOT_COUNTED = (ElasticNodeState.STANDBY, ElasticNodeState.DRAINING, ElasticNodeState.REMOVING)
BROKEN = frozenset((QueueStartBlocker.UNREACHABLE, QueueStartBlocker.ERROR))


def count_slots_and_startable_tasks(situation: BalanceSituation, queue: str) -> BalancePlanFigures:
    """Count a queue's slots on open, reporting hosts, and the waiting tasks that may use the queue."""
    own = [instance for instance in situation.cell.instances if instance.queue == queue]
    usable = [instance for instance in own if instance.is_usable]
    waiting = [
        row for row in startable_waiting_jobs(situation.cell.waiting) if do_requests_allow_queue(queue, row.shape)
    ]
    since = [moment for row in waiting if (moment := when_first_job_was_startable(row, situation)) is not None]
    nodes = nodes_by_name_without_standby(situation)
    return BalancePlanFigures(
        nodes=len(nodes),
        running=sum(not node.state.is_coming for node in nodes),
        coming=sum(node.state.is_coming for node in nodes),
        failed=sum(node.is_failed_with_machine for node in nodes),
        leaving=sum(node.state.is_leaving for node in nodes),
        jobs=sum(len(row.jobs) for row in waiting),
        wanted=sum(row.total_requested_slots for row in waiting),
        free=sum(instance.free_slots for instance in usable),
        slots=sum(instance.total for instance in usable),
        slots_per_node=_most_frequent_slots_per_host(own, situation.master),
        waited_s=max(0.0, seconds_between(min(since), situation.now)) if since else 0.0,
        unchanged_s=None if situation.last_change is None else seconds_between(situation.last_change, situation.now),
    )


def startable_waiting_jobs(waiting: Iterable[WaitingJobGroup]) -> list[WaitingJobGroup]:
    """Return the waiting jobs that may start now, except best-effort jobs and campaign tasks."""
    return [row for row in waiting if row.can_start and not row.uses_only_spare_slots]


def when_first_job_was_startable(row: WaitingJobGroup, situation: BalanceSituation) -> datetime | None:
    """Return when the first of these jobs became startable; if unrecorded, the oldest submission time."""
    since = {situation.eligible_since.get(job, row.oldest_since) for job in row.jobs}
    return min((moment for moment in since if moment is not None), default=None)


def do_requests_allow_queue(queue: str, shape: TaskResourceRequests) -> bool:
    """Say whether a task's -q and -l qname requests allow a queue."""
    listed = (name.partition("@")[0] for name in shape.queues)
    if shape.queues and not any(fnmatchcase(queue, name) for name in listed):
        return False
    return all(request_expression_matches(expression, (queue,)) for expression in requested_qname_expressions(shape))


def requested_qname_expressions(shape: TaskResourceRequests) -> tuple[str, ...]:
    """Return the expressions of a task's -l qname requests; a queue must match all expressions."""
    return tuple(text for name, text in shape.requests if resource_long_name(name) == QNAME)


def why_no_node_is_added_for_jobs(row: WaitingJobGroup) -> NodeAddOrRemoveRefusalCause | None:
    state = row.state
    if row.is_inner and state.can_start:
        return NodeAddOrRemoveRefusalCause.INNER
    if row.can_start and row.uses_only_spare_slots:
        return NodeAddOrRemoveRefusalCause.CAMPAIGN if row.is_campaign else NodeAddOrRemoveRefusalCause.BEST_EFFORT
    if state.can_start:
        return NodeAddOrRemoveRefusalCause.FUTURE if row.is_deferred else None
    if state.is_deleting:
        return NodeAddOrRemoveRefusalCause.DELETED
    if state.is_error:
        return NodeAddOrRemoveRefusalCause.ERROR
    if row.is_dependent:
        return NodeAddOrRemoveRefusalCause.DEPENDENT
    return NodeAddOrRemoveRefusalCause.HELD if state.is_held else None


def is_pause_after_node_change_over(figures: BalancePlanFigures, rules: BalanceSection) -> bool:
    return figures.unchanged_s is None or figures.unchanged_s >= rules.stabilization_s


def nodes_by_name_without_standby(situation: BalanceSituation) -> tuple[ElasticNode, ...]:
    """Return all nodes and hosts of the cluster sorted by name, except powered-off standby hosts."""
    nodes = sorted(
        (node for node in situation.nodes if node.counts_towards_limits), key=lambda node: node.is_failed_with_machine
    )
    asleep = {short_host_name(node.name) for node in situation.nodes if node.state is ElasticNodeState.STANDBY}
    listed = (host.name for host in situation.cell.hosts if short_host_name(host.name) not in asleep)
    hosts = [situation.master, *listed]
    by_name, by_short = dict[str, ElasticNode](), dict[str, list[str]]()
    for node in (*nodes, *(ElasticNode(name=host) for host in hosts if host)):
        alike = by_short.setdefault(short_host_name(node.name), [])
        if not any(is_same_host(node.name, name) for name in alike):
            by_name[node.name] = node
            alike.append(node.name)
    return tuple(by_name[name] for name in sorted(by_name))


def hosts_with_known_tasks(situation: BalanceSituation) -> frozenset[str]:
    """Return the hosts whose tasks are known: qstat lists their queues, or no queue contains the host."""
    listed = frozenset(instance.host for instance in situation.cell.instances)
    unlisted = {host.name for host in situation.cell.hosts} - listed
    if not unlisted or not situation.layout.queues:
        return listed
    placed = situation.layout.hosts_with_queue
    return listed | {host for host in unlisted if short_host_name(host) not in placed}


def seconds_between(since: datetime, now: datetime) -> float:
    return (now - since).total_seconds()


def _most_frequent_slots_per_host(own: Iterable[CellQueueInstance], master: str) -> int:
    """Return the most frequent number of slots per host, the largest in a tie, ignoring the master."""
    with_slots = [instance for instance in own if instance.total]
    counts = Counter(instance.total for instance in with_slots if not is_same_host(instance.host, master))
    counts = counts or Counter(instance.total for instance in with_slots)
    return max(counts, key=lambda slots: (counts[slots], slots), default=0)


def count_expected_and_unready_hosts(situation: BalanceSituation) -> tuple[int, int]:
    """Return the number of hosts that should be ready, and how many of these are silent or in error."""
    by_host = ordinary_queues_by_host(situation)
    states = {short_host_name(node.name): node.state for node in situation.nodes}
    unexpected = {name for name, state in states.items() if state.is_coming or state in NOT_COUNTED}
    names = [name for name in by_host if short_host_name(name) not in unexpected]
    return len(names), sum(is_host_silent_or_in_error(by_host[name]) for name in names)


def are_too_many_hosts_unready(situation: BalanceSituation) -> bool:
    """Say whether more than 45 % of the hosts, and more than three hosts, are silent or in error.

    The network or the master has probably failed, so nothing is changed, as in Kubernetes' autoscaler.
    """
    hosts, unready = count_expected_and_unready_hosts(situation)
    return unready > UNREADY_HOSTS and unready > UNREADY_PART * hosts


def is_host_silent_or_in_error(instances: list[CellQueueInstance]) -> bool:
    """Say whether a host is silent, or all queues of the host are in error."""
    return bool(instances) and all(instance.state.facts & BROKEN for instance in instances)


def reasons_never_to_remove_node(node: ElasticNode, situation: BalanceSituation) -> Iterator[NodeAddOrRemoveRefusal]:
    if is_same_host(node.name, situation.master):
        yield NodeAddOrRemoveRefusal(host=node.name, cause=NodeAddOrRemoveRefusalCause.MASTER)
    if node.is_kept:
        yield NodeAddOrRemoveRefusal(host=node.name, cause=NodeAddOrRemoveRefusalCause.KEPT)
    if node.is_unreachable:
        yield NodeAddOrRemoveRefusal(host=node.name, cause=NodeAddOrRemoveRefusalCause.UNREACHABLE)
