"""What lists and cell tell of nodes, and which machines nobody knows yet.

Who owns a machine is said by its provider's tags alone.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime

from gridbridge.decisions.elastic import powered_host_lifecycle
from gridbridge.model.elastic.elastic_nodes import (
    MASTER_TAG,
    ElasticNodeState,
    ProviderMachine,
    ProviderMachineState,
    short_host_name,
)
from gridbridge.model.elastic.owned_nodes import (
    BalancerNodesSnapshot,
    DueNodeAct,
    NodeAct,
    NodeStateCause,
    OwnedNode,
    is_host_reporting,
)

LISTED_S = 120.0  # a new machine is in its provider's list by then, and one left out by mistake


class MachinesOfOwnedNodes:
    """The machines that are ours and not gone, by the nodes that they are."""

    def __init__(self, world: BalancerNodesSnapshot) -> None:
        self._by_id = dict[tuple[str, str], ProviderMachine]()
        self._by_name = dict[tuple[str, str], ProviderMachine]()
        for pool in world.machines:
            for machine in reversed(
                _machines_owned_in_pool(world, pool)
            ):  # of two with one name the older counts
                self._by_id[pool, machine.id] = self._by_name[pool, machine.name] = machine

    def of(self, node: OwnedNode) -> ProviderMachine | None:
        """Return a node's machine: by its id, or by its name where no id is known yet."""
        if node.machine:
            return self._by_id.get((node.pool, node.machine))
        return self._by_name.get((node.pool, node.name))


def _machines_owned_in_pool(world: BalancerNodesSnapshot, pool: str) -> list[ProviderMachine]:
    """Return the machines of a pool that are ours and not gone, the oldest first."""
    own = (
        machine
        for machine in world.machines.get(pool, ())
        if machine.belongs_to(world.cluster)
        and machine.pool == pool
        and machine.state is not ProviderMachineState.GONE
        and MASTER_TAG not in machine.tags
    )
    return sorted(
        own, key=lambda machine: (machine.created is None, machine.created or world.now, machine.id)
    )


def node_key(node: OwnedNode) -> str:
    """Return what tells a node from all others: two machines may have one name for a while."""
    return f"{node.name} {node.machine}"


def has_no_usable_machine(
    machine: ProviderMachine | None, pool: str, world: BalancerNodesSnapshot
) -> bool:
    """Say whether a node has no machine that could run: a made one that was stopped is dead."""
    is_made = pool not in world.switched
    return machine is None or (is_made and machine.state is ProviderMachineState.STOPPED)


def track_unlisted_nodes(
    world: BalancerNodesSnapshot, before: Mapping[str, datetime]
) -> Mapping[str, datetime]:
    """Return since when each node's machine is in no list, or stopped there.

    A list that did not come tells nothing. A right one that leaves nodes out can't be told from one
    of nodes that are gone: more than one has to say so.
    """
    out_since, ours = dict[str, datetime](), MachinesOfOwnedNodes(world)
    for node in world.kept:
        since = before.get(node_key(node))
        if node.pool in world.machines:
            is_out = has_no_usable_machine(ours.of(node), node.pool, world)
            since = (since or world.now) if is_out else None
        if since is not None:
            out_since[node_key(node)] = min(since, world.now)
    return out_since


def track_silent_hosts(
    world: BalancerNodesSnapshot, before: Mapping[str, datetime]
) -> Mapping[str, datetime]:
    """Return since when each node's execution daemon is silent, or the node's host unknown.

    Other silent hosts of the cell are included: just after a start of the qmaster all are silent.
    """
    nodes = (
        node_key(node)
        for node in world.kept
        if node.pool not in world.switched and not is_host_reporting(world.host_of(node.name))
    )
    names = {short_host_name(node.name) for node in world.kept}
    hosts = (
        _host_key(name)
        for name, host in world.hosts.items()
        if host.is_silent and name not in names
    )
    return {name: min(before.get(name, world.now), world.now) for name in (*nodes, *hosts)}


def _host_key(name: str) -> str:
    return f"{name} "  # a name that no node has


def host_silent_for_s(name: str, world: BalancerNodesSnapshot) -> float:
    """Return how long rounds have found a host without node silent; 0 in the first round."""
    return (world.now - world.silent.get(_host_key(name), world.now)).total_seconds()


def node_silent_for_s(node: OwnedNode, world: BalancerNodesSnapshot) -> float:
    """Return how long rounds have found a node silent; 0 in the first one."""
    return (world.now - world.silent.get(node_key(node), world.now)).total_seconds()


def nodes_with_undeleted_machines(world: BalancerNodesSnapshot) -> tuple[OwnedNode, ...]:
    """Return the nodes whose machines are of no use, and that their provider does not end."""
    ours = MachinesOfOwnedNodes(world)
    return tuple(
        node for node in world.kept if _is_useless(node, world) and ours.of(node) is not None
    )


def _is_useless(node: OwnedNode, world: BalancerNodesSnapshot) -> bool:
    is_out = node.state is ElasticNodeState.REMOVING and world.host_of(node.name) is None
    is_late = (world.now - node.since).total_seconds() > LISTED_S
    is_own = node.pool not in world.switched
    return is_own and is_late and (is_out or node.state is ElasticNodeState.FAILED)


def update_node_from_machine(
    node: OwnedNode, machine: ProviderMachine, world: BalancerNodesSnapshot
) -> OwnedNode:
    """Return a node with what its machine tells."""
    return replace(
        node,
        machine=machine.id,
        address=machine.address or node.address,
        host_key=machine.host_key or node.host_key,
        up_since=node.up_since or machine.created or world.now,
    )


def nodes_adopted_this_round(world: BalancerNodesSnapshot) -> tuple[OwnedNode, ...]:
    """Return the nodes of machines that this round takes in: limits count them before it is over.

    Not those that are made twice: they are given back.
    """
    nodes = (act.node for act in adopt_unknown_machines(world))
    return tuple(node for node in nodes if node.cause is not NodeStateCause.DOUBLE)


def newly_adopted_site_hosts(world: BalancerNodesSnapshot) -> tuple[OwnedNode, ...]:
    """Return the nodes of the site's own hosts that nobody has kept yet."""
    return tuple(node for node in nodes_adopted_this_round(world) if node.pool in world.switched)


def adopt_unknown_machines(world: BalancerNodesSnapshot) -> Iterator[DueNodeAct]:
    """Take in machines of ours that nobody knows, and give back those that were made twice.

    One that has the name of a node whose own machine is not listed is left alone: it may be the
    host of that name, and run tasks.
    """
    names, unseen = {node.name for node in world.kept}, _unlisted_nodes_by_name(world)
    waiting = {(node.pool, node.name) for node in world.kept if not node.machine}
    for pool, machine in _unknown_machines(world):
        if pool in world.switched:
            yield from _adopt_site_host(machine, pool, world, names)
        elif (pool, machine.name) in waiting:
            waiting.discard((pool, machine.name))  # it is that node's machine
        elif machine.name in unseen or _is_other_host(machine, world):
            continue
        elif machine.name in names:
            yield _give_back_duplicate(machine, pool, world)
        else:
            names.add(machine.name)
            node = _node_of_unknown_machine(machine, pool, world)
            yield DueNodeAct(node=node, act=act_for_adopted_node(node))


def _unknown_machines(world: BalancerNodesSnapshot) -> Iterator[tuple[str, ProviderMachine]]:
    """Return the machines of ours that nobody knows, with their pools."""
    keys = {world.machine_key(node.pool, node.machine) for node in world.kept if node.machine}
    for pool in sorted(world.machines):
        for machine in _machines_owned_in_pool(world, pool):
            if world.machine_key(pool, machine.id) not in keys:
                yield pool, machine


def _unlisted_nodes_by_name(world: BalancerNodesSnapshot) -> Mapping[str, OwnedNode]:
    """Return the nodes whose machines are not listed, by their names: one of each name.

    A name of which another node's machine is listed is not among them. Failed nodes come last.
    """
    nodes = [node for node in world.kept if node.pool not in world.switched]
    ours = MachinesOfOwnedNodes(world)
    listed = {node.name for node in nodes if ours.of(node) is not None}
    without_machine = [node for node in nodes if node.name not in listed]
    without_machine.sort(key=lambda node: node.state is not ElasticNodeState.FAILED)
    return {node.name: node for node in without_machine}


def replaced_nodes_with_successors(world: BalancerNodesSnapshot) -> Mapping[OwnedNode, OwnedNode]:
    """Return the nodes whose machines their lists lack while another one has their name.

    With each comes the node of that other machine. Names are used again, so an old state file that
    was restored knows machines that are long gone in the place of those that run.
    """
    unseen, by_node = _unlisted_nodes_by_name(world), dict[OwnedNode, OwnedNode]()
    for pool, machine in _unknown_machines(world):
        node = unseen.get(machine.name)
        if node is not None and node.machine and node.pool in world.machines:
            successor = replace(
                _node_of_unknown_machine(machine, pool, world), is_kept=node.is_kept
            )
            by_node.setdefault(node, successor)
    return by_node


def act_for_adopted_node(node: OwnedNode) -> NodeAct | None:
    """Return what is done with a node that is taken in: one whose daemon reports joins anew."""
    return NodeAct.JOIN if node.state is ElasticNodeState.JOINING else None


def is_unlisted_only_briefly(node: OwnedNode, world: BalancerNodesSnapshot) -> bool:
    """Say whether too few lists have told that a node's machine is not there."""
    since = world.unlisted.get(node_key(node), world.now)
    return (world.now - since).total_seconds() < LISTED_S


def _adopt_site_host(
    machine: ProviderMachine, pool: str, world: BalancerNodesSnapshot, names: set[str]
) -> Iterator[DueNodeAct]:
    """Take in a host of the site's own; one whose name a node has already is left alone."""
    host = world.host_of(machine.name)
    node = powered_host_lifecycle.adopt_powered_host(machine, pool, host, world.now, world.tags)
    if node is not None and machine.name not in names:
        names.add(machine.name)
        yield DueNodeAct(node=node)


def unknown_machines_named_as_hosts(world: BalancerNodesSnapshot) -> tuple[ProviderMachine, ...]:
    """Return the machines of ours that nobody knows, and that have the name of a host."""
    names = {node.name for node in world.kept}
    return tuple(
        machine
        for pool in sorted(world.machines.keys() - world.switched)
        for machine in _machines_owned_in_pool(world, pool)
        if machine.name not in names and world.host_of(machine.name) is not None
    )


def machines_that_share_a_host_name(world: BalancerNodesSnapshot) -> tuple[ProviderMachine, ...]:
    """Return those of them that are not that host: its name leads to another address."""
    return tuple(
        machine
        for machine in unknown_machines_named_as_hosts(world)
        if _is_other_host(machine, world)
    )


def _is_other_host(machine: ProviderMachine, world: BalancerNodesSnapshot) -> bool:
    """Say whether an unknown machine is left alone, as its name is that of a host of the site."""
    is_known = any(node.name == machine.name for node in world.kept)
    is_host = not is_known and world.host_of(machine.name) is not None
    return is_host and not (
        machine.address and world.addresses.get(machine.name) == machine.address
    )


def _give_back_duplicate(
    machine: ProviderMachine, pool: str, world: BalancerNodesSnapshot
) -> DueNodeAct:
    """Give back a machine that was made twice: nobody uses it, and somebody pays for it."""
    node = replace(
        _node_of_unknown_machine(machine, pool, world),
        state=ElasticNodeState.FAILED,
        cause=NodeStateCause.DOUBLE,
    )
    return DueNodeAct(node=node, act=NodeAct.DESTROY)


def _node_of_unknown_machine(
    machine: ProviderMachine, pool: str, world: BalancerNodesSnapshot
) -> OwnedNode:
    """Return the node of a machine that is ours, though the state file does not know it.

    One whose daemon reports may have been joining or leaving, and so be closed: it joins anew.
    """
    host = world.host_of(machine.name)
    state = ElasticNodeState.JOINING if is_host_reporting(host) else ElasticNodeState.BOOTING
    if machine.state is ProviderMachineState.STOPPED:
        state = ElasticNodeState.STANDBY
    return update_node_from_machine(
        OwnedNode(name=machine.name, pool=pool, state=state, since=world.now), machine, world
    )
