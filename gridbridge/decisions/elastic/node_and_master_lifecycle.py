"""Decide the next act for each of the balancer's nodes, and when to destroy the master's machine.

Nodes of a pool without a complete machine list get no act.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from gridbridge.decisions.elastic import machine_list_reconciliation, site_host_power_lifecycle
from gridbridge.decisions.elastic.machine_list_reconciliation import LISTED_S
from gridbridge.model.elastic.balance_plan import BalancePlan, BalanceSituation
from gridbridge.model.elastic.balancer_config_sections import BalanceSection
from gridbridge.model.elastic.elastic_nodes import (
    MASTER_TAG,
    BalancerNodeAct,
    BalancerNodesSnapshot,
    BalancerOwnedNode,
    BusyOrSilentHostState,
    DueNodeAct,
    ElasticNodeState,
    HostJoinStep,
    NodeStateCause,
    ProviderMachine,
    ProviderMachineState,
    is_host_reporting,
    is_same_host,
)
from gridbridge.model.grid_engine_amounts import HOUR_S


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLifecycleTimeouts:
    boot_s: float
    join_s: float
    silent_s: float
    needs_key: bool = False  # True: a host key is required, because machines are prepared by ssh


def due_node_acts(world: BalancerNodesSnapshot, patience: NodeLifecycleTimeouts) -> tuple[DueNodeAct, ...]:
    """Return the acts that are due for all nodes, sorted by node name."""
    acts = [*_acts_of_known_nodes(world, patience), *machine_list_reconciliation.acts_to_adopt_unknown_machines(world)]
    return tuple(sorted(acts, key=lambda act: (act.node.name, act.node.machine)))


def _acts_of_known_nodes(world: BalancerNodesSnapshot, patience: NodeLifecycleTimeouts) -> Iterator[DueNodeAct]:
    successors = machine_list_reconciliation.replaced_nodes_with_successors(world)
    ours = machine_list_reconciliation.MachinesOfOwnedNodes(world)
    anothers = {  # listed machines without this cluster's owner tag
        (pool, machine.id)
        for pool, machines in world.machines.items()
        for machine in machines
        if not machine.has_owner_tag_of_cluster(world.cluster)
    }
    for node in world.kept:
        if (node.pool, node.machine) in anothers:
            gone = node.with_state(ElasticNodeState.GONE, world.now, NodeStateCause.ANOTHERS)
            yield DueNodeAct(node=gone, before=node, is_over=True)
        elif node.pool in world.released:
            yield replace(site_host_power_lifecycle.act_to_release_powered_host(node, world.now), before=node)
        elif node in successors:
            if not machine_list_reconciliation.is_machine_missing_briefly(node, world):
                yield replace(machine_list_reconciliation.act_to_adopt_node(successors[node]), before=node)
        elif node.pool in world.machines:
            case = _NodeAndMachineFacts(node, ours.find_machine_of_node(node), world, patience)
            rule = _act_of_site_owned_host if node.pool in world.switched else RULES.get(node.state)
            if rule is not None and (act := rule(case)):
                yield replace(act, before=node)


@dataclass(frozen=True, slots=True)
class _NodeAndMachineFacts:
    node: BalancerOwnedNode
    machine: ProviderMachine | None
    world: BalancerNodesSnapshot
    patience: NodeLifecycleTimeouts

    @property
    def seconds_in_present_state(self) -> float:
        return (self.world.now - self.node.since).total_seconds()

    @property
    def had_join_timed_out(self) -> bool:
        """Whether a node that joins the cell had already timed out in the last round."""
        last = self.world.last_round or self.node.since
        return (last - self.node.since).total_seconds() > self.patience.join_s

    @property
    def host_state_in_cell(self) -> BusyOrSilentHostState | None:
        return self.world.host_state(self.node.name)

    @property
    def is_machine_unavailable(self) -> bool:
        """Whether the machine is stopped, or missing from the provider's list."""
        return machine_list_reconciliation.is_machine_missing_or_stopped(self.machine, self.node.pool, self.world)

    @property
    def may_unlisted_machine_run(self) -> bool:
        return self.is_machine_unavailable and (
            is_host_reporting(self.host_state_in_cell) or self.is_machine_only_briefly_missing
        )

    @property
    def is_machine_only_briefly_missing(self) -> bool:
        """Whether the machine has been missing too briefly to count as gone."""
        return machine_list_reconciliation.is_machine_missing_briefly(self.node, self.world)

    def node_in_state(self, state: ElasticNodeState, cause: NodeStateCause = NodeStateCause.NONE) -> BalancerOwnedNode:
        return self.node.with_state(state, self.world.now, cause)


def _act_of_site_owned_host(case: _NodeAndMachineFacts) -> DueNodeAct | None:
    act = site_host_power_lifecycle.due_act_of_powered_host(
        site_host_power_lifecycle.PowerManagedHostFacts(
            node=case.node,
            machine=case.machine,
            host=case.host_state_in_cell,
            now=case.world.now,
            is_any_closed=bool(case.world.closed),
            boot_s=case.patience.boot_s,
        )
    )
    return site_host_power_lifecycle.add_standby_tag_to_act(act, case.world.tags) if act else None


def _act_of_requested_node(case: _NodeAndMachineFacts) -> DueNodeAct | None:
    """Let a listed machine boot.

    If the machine is not listed, forget the node after LISTED_S, or repeat a postponed request.
    """
    if case.machine is not None:
        booting = case.node_in_state(ElasticNodeState.BOOTING)
        node = machine_list_reconciliation.update_node_from_machine(booting, case.machine, case.world)
        return _act_of_booting_node(replace(case, node=node))
    if case.seconds_in_present_state > LISTED_S:
        return DueNodeAct(node=case.node_in_state(ElasticNodeState.GONE, NodeStateCause.NOT_GRANTED), is_over=True)
    if case.node.cause is NodeStateCause.LATER:
        return DueNodeAct(node=replace(case.node, cause=NodeStateCause.NONE), act=BalancerNodeAct.CREATE)
    return None


def _act_of_booting_node(case: _NodeAndMachineFacts) -> DueNodeAct | None:
    """Let a running machine join the cell; destroy a machine that does not boot in time."""
    if case.machine is None:
        if case.may_unlisted_machine_run:
            return DueNodeAct(node=case.node)
        return DueNodeAct(node=case.node_in_state(ElasticNodeState.GONE, NodeStateCause.NOT_THERE), is_over=True)
    node = machine_list_reconciliation.update_node_from_machine(case.node, case.machine, case.world)
    has_key = bool(node.host_key) or not case.patience.needs_key
    if case.machine.state is ProviderMachineState.RUNNING and node.address and has_key:
        joining = replace(node, state=ElasticNodeState.JOINING, since=case.world.now)
        return DueNodeAct(node=joining, act=BalancerNodeAct.JOIN)
    if case.seconds_in_present_state > case.patience.boot_s:
        failed = node.with_state(ElasticNodeState.FAILED, case.world.now, NodeStateCause.NEVER_BOOTED)
        return DueNodeAct(node=failed, act=BalancerNodeAct.DESTROY)
    return DueNodeAct(node=node)


def _act_of_joining_node(case: _NodeAndMachineFacts) -> DueNodeAct | None:
    """Continue to add a node to the cell; remove the node after the timeout, or if the machine is gone.

    A busy node never times out, because an earlier round may have stopped after the last step.
    """
    if case.may_unlisted_machine_run:
        return None
    if case.machine is None or case.is_machine_unavailable:
        return _act_after_machine_loss(case)
    is_busy = case.host_state_in_cell is not None and case.host_state_in_cell.is_busy
    if case.had_join_timed_out and not is_busy:
        removing = case.node_in_state(ElasticNodeState.REMOVING, NodeStateCause.NEVER_JOINED)
        return DueNodeAct(node=removing, act=BalancerNodeAct.EVICT)
    node = machine_list_reconciliation.update_node_from_machine(case.node, case.machine, case.world)
    return DueNodeAct(node=node, act=BalancerNodeAct.JOIN)


def _act_of_ready_node(case: _NodeAndMachineFacts) -> DueNodeAct | None:
    """Record the start of a node's idle time, and remove a node whose machine is gone.

    A silent node may still run tasks. So it is removed only if it has long been idle and silent, and few other hosts
    are silent. A closed node is reopened, unless a queue is disabled on all hosts.
    """
    node, host, now = case.node, case.host_state_in_cell, case.world.now
    if case.may_unlisted_machine_run:
        return None
    if case.is_machine_unavailable:
        return _act_after_machine_loss(case)
    is_busy = host is not None and host.is_busy
    node = replace(node, idle_since=None if is_busy else node.idle_since or now)
    idle_s = (now - node.idle_since).total_seconds() if node.idle_since else 0.0
    silent_s = min(idle_s, machine_list_reconciliation.node_silent_for_s(node, case.world))
    is_long = silent_s > case.patience.silent_s and not case.world.is_unready
    if not is_host_reporting(host) and is_long and not node.is_kept:
        leaving = node.with_state(ElasticNodeState.REMOVING, now, NodeStateCause.SILENT)
        return DueNodeAct(node=leaving, act=BalancerNodeAct.EVICT)
    if node.step is HostJoinStep.CLOSED and is_host_reporting(host) and not case.world.closed:
        return DueNodeAct(node=node, act=BalancerNodeAct.JOIN)
    return DueNodeAct(node=node) if node != case.node else None


def _act_of_draining_node(case: _NodeAndMachineFacts) -> DueNodeAct | None:
    """Close a node, and remove the node if the node is still idle or the machine is gone."""
    if case.may_unlisted_machine_run:
        return None
    if case.is_machine_unavailable:
        return _act_after_machine_loss(case)
    return DueNodeAct(node=case.node, act=BalancerNodeAct.REMOVE)


def _act_of_removing_node(case: _NodeAndMachineFacts) -> DueNodeAct | None:
    """Repeat the removal until neither the cell nor the provider has the node.

    The node's name and file export are removed last. A node whose machine seemed gone joins the cell again if the
    machine runs or the daemon reports.
    """
    if case.node.cause is NodeStateCause.VANISHED and (
        not case.is_machine_unavailable or is_host_reporting(case.host_state_in_cell)
    ):
        returning = replace(case.node_in_state(ElasticNodeState.JOINING), idle_since=None, step=HostJoinStep.NONE)
        if case.machine is not None:
            returning = machine_list_reconciliation.update_node_from_machine(returning, case.machine, case.world)
        return DueNodeAct(node=returning, act=BalancerNodeAct.JOIN)
    has_left = case.host_state_in_cell is None and case.node.step is HostJoinStep.LEFT
    if case.machine is None and has_left:
        return DueNodeAct(node=case.node_in_state(ElasticNodeState.GONE, case.node.cause), is_over=True)
    return DueNodeAct(node=case.node, act=BalancerNodeAct.EVICT)


def _act_after_machine_loss(case: _NodeAndMachineFacts) -> DueNodeAct:
    """Remove a node whose machine is gone or stopped; a stopped node that is kept goes into standby."""
    if case.machine is not None and case.node.is_kept:
        return DueNodeAct(node=case.node_in_state(ElasticNodeState.STANDBY))
    return DueNodeAct(
        node=case.node_in_state(ElasticNodeState.REMOVING, NodeStateCause.VANISHED), act=BalancerNodeAct.EVICT
    )


def _act_of_failed_node(case: _NodeAndMachineFacts) -> DueNodeAct | None:
    """Destroy the machine of a failed node, but keep the host, which may belong to another node."""
    if case.machine is None:
        if case.is_machine_only_briefly_missing:
            return None
        return DueNodeAct(node=case.node_in_state(ElasticNodeState.GONE, case.node.cause), is_over=True)
    return DueNodeAct(node=case.node, act=BalancerNodeAct.DESTROY)


def _act_of_standby_node(case: _NodeAndMachineFacts) -> DueNodeAct | None:
    """Let a restarted node join the cell again; remove a stopped node that is not kept.

    A restarted node gets its new address, because another machine may have the old one.
    """
    if case.may_unlisted_machine_run:
        return None
    if case.machine is None or (case.is_machine_unavailable and not case.node.is_kept):
        return _act_after_machine_loss(case)
    if case.machine.state is ProviderMachineState.RUNNING and case.machine.address:
        joining = replace(case.node_in_state(ElasticNodeState.JOINING), step=HostJoinStep.NONE)
        node = machine_list_reconciliation.update_node_from_machine(joining, case.machine, case.world)
        return DueNodeAct(node=node, act=BalancerNodeAct.JOIN)
    return None


RULES: Mapping[ElasticNodeState, Callable[[_NodeAndMachineFacts], DueNodeAct | None]] = {
    ElasticNodeState.REQUESTED: _act_of_requested_node,
    ElasticNodeState.BOOTING: _act_of_booting_node,
    ElasticNodeState.JOINING: _act_of_joining_node,
    ElasticNodeState.READY: _act_of_ready_node,
    ElasticNodeState.DRAINING: _act_of_draining_node,
    ElasticNodeState.REMOVING: _act_of_removing_node,
    ElasticNodeState.FAILED: _act_of_failed_node,
    ElasticNodeState.STANDBY: _act_of_standby_node,
}


def master_machine_to_terminate(
    situation: BalanceSituation, world: BalancerNodesSnapshot, plan: BalancePlan, rules: BalanceSection
) -> tuple[str, ProviderMachine] | None:
    """Return the master's pool and machine if the machine must be destroyed; otherwise None.

    The cell must have no job, no node and no other host, and the master's paid hour must be nearly over. Exactly
    one machine must have this cluster's master tag.
    """
    is_needed = plan.add or plan.wake or world.kept or situation.cell.waiting or _is_cell_in_use(situation)
    if is_needed or not rules.kill_master:
        return None
    master, machines = world.host_state(situation.master), machines_tagged_as_master(world)
    if master is None or len(machines) != 1:
        return None
    ((pool, machine),) = machines.values()
    if machine.created is None:
        return None
    minute = (world.now - machine.created).total_seconds() % HOUR_S // 60
    return (pool, machine) if minute >= rules.kill_after_min else None


def machines_tagged_as_master(world: BalancerNodesSnapshot) -> dict[str, tuple[str, ProviderMachine]]:
    """Return the machines tagged as this cluster's master, each with a pool, by machine id."""
    return {
        machine.id: (pool, machine)
        for pool, machines in world.machines.items()
        for machine in machines
        if machine.tags.get(MASTER_TAG) == world.cluster
    }


def _is_cell_in_use(situation: BalanceSituation) -> bool:
    instances = situation.cell.instances
    hosts = [*(host.name for host in situation.cell.hosts), *(instance.host for instance in instances)]
    has_others = not all(is_same_host(host, situation.master) for host in hosts)
    return has_others or any(instance.has_tasks_or_reserved_slots for instance in instances)
