"""Turn the plan of a balancer round into the acts that are due for nodes."""

import itertools
import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from datetime import datetime

from gridbridge.decisions.elastic import (
    machine_list_reconciliation,
    node_and_master_lifecycle,
    site_host_power_lifecycle,
)
from gridbridge.decisions.elastic.demand.free_capacity import has_running_or_reserved_slots, ordinary_queues_by_host
from gridbridge.decisions.elastic.node_and_master_lifecycle import NodeLifecycleTimeouts
from gridbridge.model.elastic.balance_plan import BalancePlan, BalanceSituation
from gridbridge.model.elastic.balancer_config_sections import BalanceSection
from gridbridge.model.elastic.elastic_nodes import (
    BalancerNodeAct,
    BalancerNodesSnapshot,
    BalancerOwnedNode,
    BusyOrSilentHostState,
    DueNodeAct,
    ElasticNode,
    ElasticNodeState,
    NodeStateCause,
    short_host_name,
)
from gridbridge.model.elastic.standby_and_wake_plan import StandbyOrWakePlan, StandbyOrWakePlanCause
from gridbridge.model.job_and_queue_states import QueueStartBlocker


@dataclass(frozen=True, slots=True, kw_only=True)
class AdministratorNodeRequests:
    drained: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()
    freed: frozenset[str] = frozenset()  # nodes whose request to keep or drain is withdrawn


NO_ADMINISTRATOR_REQUESTS = AdministratorNodeRequests()
NO_SQUEEZE = StandbyOrWakePlan(cause=StandbyOrWakePlanCause.BETWEEN)
LEAVING_STATES = (ElasticNodeState.REMOVING, ElasticNodeState.GONE)  # states in which a node can no longer be kept


def busy_or_silent_state_by_host(situation: BalanceSituation) -> Mapping[str, BusyOrSilentHostState]:
    """Return whether each host is busy and whether its daemon is silent, by short host name.

    Best-effort tasks do not make a host busy. A host without a queue is silent until it reports a load.
    """
    by_name = {
        short_host_name(host.name): BusyOrSilentHostState(is_busy=False, is_silent=host.load is None)
        for host in situation.cell.hosts
    }
    for name, instances in ordinary_queues_by_host(situation).items():
        if instances:
            by_name[short_host_name(name)] = BusyOrSilentHostState(
                is_busy=has_running_or_reserved_slots(instances),
                is_silent=all(QueueStartBlocker.UNREACHABLE in instance.state.facts for instance in instances),
            )
    return by_name


def plan_due_node_acts(
    world: BalancerNodesSnapshot,
    plan: BalancePlan,
    rules: BalanceSection,
    patience: NodeLifecycleTimeouts,
    requests: AdministratorNodeRequests = NO_ADMINISTRATOR_REQUESTS,
    standby_plan: StandbyOrWakePlan | None = None,
) -> tuple[DueNodeAct, ...]:
    """Return the due acts for all nodes; a node with another due act is not removed in the same round."""
    wished = {apply_administrator_node_request(node, world, requests): node for node in world.kept}
    first = node_and_master_lifecycle.due_node_acts(replace(world, kept=tuple(wished)), patience)
    due_acts = {act.before: act for act in first if act.before}
    remove, decided = frozenset(plan.remove), dict[BalancerOwnedNode, DueNodeAct]()
    squeeze = standby_plan or NO_SQUEEZE
    sources = (task.source for task in squeeze.moved)
    hosts = [frozenset(map(short_host_name, names)) for names in (squeeze.off, squeeze.on, sources)]
    for node in wished:
        is_under_way = node in due_acts and bool(due_acts[node].act or due_acts[node].is_over)
        is_free = node.state is ElasticNodeState.READY and not is_under_way
        is_given_back = node.name in remove and not (node.is_kept or world.is_unready)
        if is_given_back and is_free and node.pool in world.machines:
            decided[node] = _drain_act_of_node(node, world, NodeStateCause.NOT_NEEDED)
        elif not is_under_way and (act := _power_act_of_squeeze(node, world, *hosts)):
            decided[node] = act
        elif node not in due_acts and node != wished[node]:
            decided[node] = DueNodeAct(node=node, before=node)
    due = [*(act for act in first if act.before not in decided), *decided.values()]
    due = [replace(act, before=wished[act.before]) if act.before else act for act in due]
    for name in unused_names_for_new_nodes(world, rules.node_name_prefix(world.cluster), plan.add):
        node = BalancerOwnedNode(name=name, pool=plan.pool, state=ElasticNodeState.REQUESTED, since=world.now)
        due.append(DueNodeAct(node=node, act=BalancerNodeAct.CREATE))
    return tuple(due)


def _power_act_of_squeeze(
    node: BalancerOwnedNode, world: BalancerNodesSnapshot, off: Set[str], on: Set[str], hosts_to_empty: Set[str]
) -> DueNodeAct | None:
    """Return the act that powers a host off or on, if a squeeze requests it.

    All sets have short host names; the tasks of hosts in `hosts_to_empty` are moved to other hosts.
    """
    if node.pool not in world.switched or node.pool not in world.machines:
        return None
    name = short_host_name(node.name)
    if node.state is ElasticNodeState.READY and name in off and not node.is_kept:
        host = world.host_state(node.name)
        is_busy = host is not None and host.is_busy
        due = site_host_power_lifecycle.act_to_put_host_on_standby(
            node, world.now, is_busy=is_busy, is_moved=name in hosts_to_empty
        )
        return site_host_power_lifecycle.add_standby_tag_to_act(due, world.tags)
    if node.state is ElasticNodeState.STANDBY and name in on:
        return site_host_power_lifecycle.act_to_wake_host(node, world.now)
    return None


def apply_administrator_node_request(
    node: BalancerOwnedNode, world: BalancerNodesSnapshot, requests: AdministratorNodeRequests
) -> BalancerOwnedNode:
    """Return a node after an administrator's request; a joining node is drained only once it is ready."""
    if node.name in requests.kept:
        return replace(node, is_kept=True)
    if node.name in requests.freed:
        cause = NodeStateCause.NONE if node.cause is NodeStateCause.DRAINED else node.cause
        if node.state is ElasticNodeState.DRAINING:
            cause = NodeStateCause.NOT_NEEDED  # a draining node with this cause is reopened if it is busy again
        return replace(node, is_kept=False, cause=cause)
    if node.name in requests.drained and node.state is ElasticNodeState.READY:
        return _drain_act_of_node(node, world, NodeStateCause.DRAINED).node
    if node.name in requests.drained and node.state is ElasticNodeState.STANDBY:
        is_own = node.pool in world.switched
        state = ElasticNodeState.STANDBY if is_own else ElasticNodeState.REMOVING
        return replace(node.with_state(state, world.now, NodeStateCause.DRAINED), is_kept=False)
    return node


def elastic_nodes_for_policies(
    nodes: Iterable[BalancerOwnedNode], world: BalancerNodesSnapshot
) -> tuple[ElasticNode, ...]:
    """Return the facts about nodes for policies; a ready node whose machine is not listed counts as unreachable."""
    ours = machine_list_reconciliation.MachinesOfOwnedNodes(world)

    def is_machine_listed_or_on_its_way(node: BalancerOwnedNode) -> bool:
        is_on_its_way = node.state is not ElasticNodeState.READY
        return node.pool in world.machines and (is_on_its_way or ours.find_machine_of_node(node) is not None)

    return tuple(
        replace(node_with_idle_time(node, world.now), is_unreachable=not is_machine_listed_or_on_its_way(node))
        for node in nodes
    )


def node_with_idle_time(node: BalancerOwnedNode, now: datetime) -> ElasticNode:
    """Return the facts about a node; the idle time of a ready node starts now if it was unknown."""
    if node.state is not ElasticNodeState.READY:
        return node.as_elastic_node
    return replace(node.as_elastic_node, idle_since=node.idle_since or now)


def fulfilled_administrator_requests(
    requests: AdministratorNodeRequests, after: Iterable[BalancerOwnedNode]
) -> AdministratorNodeRequests:
    not_drained = {node.name for node in after if node.cause is not NodeStateCause.DRAINED}
    return replace(requests, drained=requests.drained - not_drained)


def reopen_nodes_asked_to_be_kept(dues: Iterable[DueNodeAct], names: Set[str]) -> tuple[DueNodeAct, ...]:
    """Mark leaving nodes as kept if an administrator has requested this; kept nodes are reopened."""
    return tuple(
        replace(act, node=replace(act.node, is_kept=True))
        if act.act in (BalancerNodeAct.REMOVE, BalancerNodeAct.REST) and act.node.name in names
        else act
        for act in dues
    )


def nodes_with_late_keep_request(
    requests: AdministratorNodeRequests, after: Iterable[BalancerOwnedNode]
) -> tuple[str, ...]:
    staying = {node.name for node in after if node.state not in LEAVING_STATES}
    return tuple(sorted(requests.kept - staying))


def _drain_act_of_node(node: BalancerOwnedNode, world: BalancerNodesSnapshot, cause: NodeStateCause) -> DueNodeAct:
    draining = replace(node.with_state(ElasticNodeState.DRAINING, world.now, cause), is_kept=False)
    act = BalancerNodeAct.REST if node.pool in world.switched else BalancerNodeAct.REMOVE
    return DueNodeAct(node=draining, before=node, act=act)


def unused_names_for_new_nodes(world: BalancerNodesSnapshot, prefix: str, count: int) -> tuple[str, ...]:
    """Return unused names, numbered upwards from the highest number in a host or machine name."""
    named = re.compile(f"{re.escape(prefix)}0*([0-9]{{1,9}})")
    machines = (machine.name for machines in world.machines.values() for machine in machines)
    names = [*(node.name for node in world.kept), *world.hosts, *machines]
    short = set(map(short_host_name, names))
    numbers = (named.fullmatch(taken_name) for taken_name in short)
    highest = max((int(match[1]) for match in numbers if match), default=0)
    free = (name for at in itertools.count(highest + 1) if (name := f"{prefix}{at}") not in short)
    return tuple(itertools.islice(free, count))
