"""Compare the balancer's nodes with machine lists and the cell; adopt machines by their owner tag."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime

from gridbridge.decisions.elastic import site_host_power_lifecycle
from gridbridge.model.elastic.elastic_nodes import (
    MASTER_TAG,
    BalancerNodeAct,
    BalancerNodesSnapshot,
    BalancerOwnedNode,
    DueNodeAct,
    ElasticNodeState,
    NodeStateCause,
    ProviderMachine,
    ProviderMachineState,
    is_host_reporting,
    short_host_name,
)

LISTED_S = 120.0  # a machine missing from the provider's list for longer counts as gone


class MachinesOfOwnedNodes:
    def __init__(self, world: BalancerNodesSnapshot) -> None:
        self._by_id = dict[tuple[str, str], ProviderMachine]()
        self._by_name = dict[tuple[str, str], ProviderMachine]()
        for pool in world.machines:
            # of two machines with one name, the older is used
            for machine in reversed(_machines_of_pool_owned_by_cluster(world, pool)):
                self._by_id[pool, machine.id] = self._by_name[pool, machine.name] = machine

    def find_machine_of_node(self, node: BalancerOwnedNode) -> ProviderMachine | None:
        """Return a node's machine, found by id or, while the id is unknown, by name."""
        if node.machine:
            return self._by_id.get((node.pool, node.machine))
        return self._by_name.get((node.pool, node.name))


def _machines_of_pool_owned_by_cluster(world: BalancerNodesSnapshot, pool: str) -> list[ProviderMachine]:
    """Return the pool's existing machines that this cluster owns, the oldest first."""
    own = (
        machine
        for machine in world.machines.get(pool, ())
        if machine.has_owner_tag_of_cluster(world.cluster)
        and machine.pool == pool
        and machine.state is not ProviderMachineState.GONE
        and MASTER_TAG not in machine.tags
    )
    return sorted(own, key=lambda machine: (machine.created is None, machine.created or world.now, machine.id))


def unique_node_key(node: BalancerOwnedNode) -> str:
    """Return a node key that is unique even while two machines have the same name."""
    return f"{node.name} {node.machine}"


def is_machine_missing_or_stopped(machine: ProviderMachine | None, pool: str, world: BalancerNodesSnapshot) -> bool:
    """Say whether a node's machine is missing; a stopped machine of a provider counts as missing."""
    return machine is None or (pool not in world.switched and machine.state is ProviderMachineState.STOPPED)


def machine_missing_since_by_node(
    world: BalancerNodesSnapshot, before: Mapping[str, datetime]
) -> Mapping[str, datetime]:
    """Return since when each node's machine has been missing or stopped in its provider's list.

    Without a list, the stored time is kept. The time matters because providers sometimes omit a machine from one list.
    """
    out_since, ours = dict[str, datetime](), MachinesOfOwnedNodes(world)
    for node in world.kept:
        since = before.get(unique_node_key(node))
        if node.pool in world.machines:
            is_out = is_machine_missing_or_stopped(ours.find_machine_of_node(node), node.pool, world)
            since = (since or world.now) if is_out else None
        if since is not None:
            out_since[unique_node_key(node)] = min(since, world.now)
    return out_since


def silent_since_by_host(world: BalancerNodesSnapshot, before: Mapping[str, datetime]) -> Mapping[str, datetime]:
    """Return since when each silent node, and each silent host without a node, has been silent."""
    nodes = (
        unique_node_key(node)
        for node in world.kept
        if node.pool not in world.switched and not is_host_reporting(world.host_state(node.name))
    )
    names = {short_host_name(node.name) for node in world.kept}
    hosts = (_silent_host_key(name) for name, host in world.hosts.items() if host.is_silent and name not in names)
    return {name: min(before.get(name, world.now), world.now) for name in (*nodes, *hosts)}


def _silent_host_key(name: str) -> str:
    return f"{name} "  # a key that no node has


def host_silent_for_s(name: str, world: BalancerNodesSnapshot) -> float:
    return (world.now - world.silent.get(_silent_host_key(name), world.now)).total_seconds()


def node_silent_for_s(node: BalancerOwnedNode, world: BalancerNodesSnapshot) -> float:
    return (world.now - world.silent.get(unique_node_key(node), world.now)).total_seconds()


def nodes_with_undeleted_machines(world: BalancerNodesSnapshot) -> tuple[BalancerOwnedNode, ...]:
    """Return the failed or removed nodes that have an undeleted machine at the provider."""
    ours = MachinesOfOwnedNodes(world)
    failed, removing = ElasticNodeState.FAILED, ElasticNodeState.REMOVING
    return tuple(
        node
        for node in world.kept
        if node.pool not in world.switched
        and (node.state is failed or (node.state is removing and world.host_state(node.name) is None))
        and (world.now - node.since).total_seconds() > LISTED_S
        and ours.find_machine_of_node(node) is not None
    )


def update_node_from_machine(
    node: BalancerOwnedNode, machine: ProviderMachine, world: BalancerNodesSnapshot
) -> BalancerOwnedNode:
    """Return a node with the id, address, host key and start time of its machine."""
    return replace(
        node,
        machine=machine.id,
        address=machine.address or node.address,
        host_key=machine.host_key or node.host_key,
        up_since=node.up_since or machine.created or world.now,
    )


def nodes_adopted_this_round(world: BalancerNodesSnapshot) -> tuple[BalancerOwnedNode, ...]:
    """Return the nodes of machines that this round adopts, without duplicate machines."""
    nodes = (act.node for act in acts_to_adopt_unknown_machines(world))
    return tuple(node for node in nodes if node.cause is not NodeStateCause.DOUBLE)


def newly_adopted_site_hosts(world: BalancerNodesSnapshot) -> tuple[BalancerOwnedNode, ...]:
    return tuple(node for node in nodes_adopted_this_round(world) if node.pool in world.switched)


def acts_to_adopt_unknown_machines(world: BalancerNodesSnapshot) -> Iterator[DueNodeAct]:
    """Yield the acts that adopt this cluster's machines without a node, or destroy duplicate machines.

    No act touches a machine with a lost node's name, because the machine may run the node's tasks.
    """
    names, unseen = {node.name for node in world.kept}, _node_by_name_of_unlisted_machines(world)
    waiting = {(node.pool, node.name) for node in world.kept if not node.machine}
    for pool, machine in _machines_without_node(world):
        if pool in world.switched:
            host = world.host_state(machine.name)
            site_host = site_host_power_lifecycle.node_of_adopted_powered_host(
                machine, pool, host, world.now, world.tags
            )
            if site_host is not None and machine.name not in names:
                names.add(machine.name)
                yield DueNodeAct(node=site_host)
        elif (pool, machine.name) in waiting:
            waiting.discard((pool, machine.name))  # the machine belongs to the waiting node
        elif machine.name in unseen or _is_name_of_other_host(machine, world):
            continue
        elif machine.name in names:
            node = _new_node_for_machine(machine, pool, world)
            duplicate = replace(node, state=ElasticNodeState.FAILED, cause=NodeStateCause.DOUBLE)
            yield DueNodeAct(node=duplicate, act=BalancerNodeAct.DESTROY)
        else:
            names.add(machine.name)
            yield act_to_adopt_node(_new_node_for_machine(machine, pool, world))


def _machines_without_node(world: BalancerNodesSnapshot) -> Iterator[tuple[str, ProviderMachine]]:
    keys = {world.machine_key(node.pool, node.machine) for node in world.kept if node.machine}
    for pool in sorted(world.machines):
        for machine in _machines_of_pool_owned_by_cluster(world, pool):
            if world.machine_key(pool, machine.id) not in keys:
                yield pool, machine


def _node_by_name_of_unlisted_machines(world: BalancerNodesSnapshot) -> Mapping[str, BalancerOwnedNode]:
    """Return a node for each name, if no node of this name has a listed machine; failed nodes come last."""
    nodes = [node for node in world.kept if node.pool not in world.switched]
    ours = MachinesOfOwnedNodes(world)
    listed = {node.name for node in nodes if ours.find_machine_of_node(node) is not None}
    without_machine = [node for node in nodes if node.name not in listed]
    without_machine.sort(key=lambda node: node.state is not ElasticNodeState.FAILED)
    return {node.name: node for node in without_machine}


def replaced_nodes_with_successors(world: BalancerNodesSnapshot) -> Mapping[BalancerOwnedNode, BalancerOwnedNode]:
    """Return the nodes whose machine is no longer listed, each with the new node of the same name."""
    unseen, by_node = _node_by_name_of_unlisted_machines(world), dict[BalancerOwnedNode, BalancerOwnedNode]()
    for pool, machine in _machines_without_node(world):
        node = unseen.get(machine.name)
        if node is not None and node.machine and node.pool in world.machines:
            successor = replace(_new_node_for_machine(machine, pool, world), is_kept=node.is_kept)
            by_node.setdefault(node, successor)
    return by_node


def act_to_adopt_node(node: BalancerOwnedNode) -> DueNodeAct:
    """Return the act that stores an adopted node, and joins the node to the cell if the node is joining."""
    return DueNodeAct(node=node, act=BalancerNodeAct.JOIN if node.state is ElasticNodeState.JOINING else None)


def is_machine_missing_briefly(node: BalancerOwnedNode, world: BalancerNodesSnapshot) -> bool:
    """Say whether a machine has been missing from the provider's lists for less than LISTED_S."""
    since = world.unlisted.get(unique_node_key(node), world.now)
    return (world.now - since).total_seconds() < LISTED_S


def machines_without_node_named_as_hosts(world: BalancerNodesSnapshot) -> tuple[ProviderMachine, ...]:
    names = {node.name for node in world.kept}
    return tuple(
        machine
        for pool in sorted(world.machines.keys() - world.switched)
        for machine in _machines_of_pool_owned_by_cluster(world, pool)
        if machine.name not in names and world.host_state(machine.name) is not None
    )


def machines_named_as_host_with_other_address(world: BalancerNodesSnapshot) -> tuple[ProviderMachine, ...]:
    return tuple(
        machine for machine in machines_without_node_named_as_hosts(world) if _is_name_of_other_host(machine, world)
    )


def _is_name_of_other_host(machine: ProviderMachine, world: BalancerNodesSnapshot) -> bool:
    is_known = any(node.name == machine.name for node in world.kept)
    is_host = not is_known and world.host_state(machine.name) is not None
    return is_host and not (machine.address and world.addresses.get(machine.name) == machine.address)


def _new_node_for_machine(machine: ProviderMachine, pool: str, world: BalancerNodesSnapshot) -> BalancerOwnedNode:
    """Return a new node for a machine that the state file lacks; a reporting host joins the cell again."""
    host = world.host_state(machine.name)
    state = ElasticNodeState.JOINING if is_host_reporting(host) else ElasticNodeState.BOOTING
    if machine.state is ProviderMachineState.STOPPED:
        state = ElasticNodeState.STANDBY
    return update_node_from_machine(
        BalancerOwnedNode(name=machine.name, pool=pool, state=state, since=world.now), machine, world
    )
