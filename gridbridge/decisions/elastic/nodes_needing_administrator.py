"""Find elastic nodes and machines that need an administrator, and describe the remedies."""

import json
import re
import shlex
from collections.abc import Container, Iterable, Mapping

from gridbridge.decisions.elastic import machine_list_reconciliation
from gridbridge.model.elastic.balancer_config_sections import MachineProviderSection, ProviderKind
from gridbridge.model.elastic.elastic_nodes import (
    MASTER_TAG,
    BalancerNodesSnapshot,
    BalancerOwnedNode,
    ElasticNodeState,
    NodeStateCause,
    ProviderMachine,
    ProviderMachineState,
    is_host_reporting,
    short_host_name,
)
from gridbridge.model.elastic.standby_and_wake_plan import has_standby_tag

HOSTS = (ElasticNodeState.JOINING, ElasticNodeState.READY, ElasticNodeState.DRAINING, ElasticNodeState.STANDBY)


def silent_nodes_with_tasks(world: BalancerNodesSnapshot, silent_s: float) -> tuple[BalancerOwnedNode, ...]:
    """Return the nodes that have tasks and a running machine, but a silent execution daemon.

    The balancer does not remove these nodes, because the tasks may still run. The result is empty while many hosts are
    silent.
    """
    ours = machine_list_reconciliation.MachinesOfOwnedNodes(world)
    return tuple(
        node
        for node in (() if world.is_unready else world.kept)
        if node.pool not in world.switched
        and (machine := ours.find_machine_of_node(node)) is not None
        and machine.state is ProviderMachineState.RUNNING
        and (host := world.host_state(node.name)) is not None
        and host.is_busy
        and host.is_silent
        and machine_list_reconciliation.node_silent_for_s(node, world) > silent_s
    )


def find_powered_off_hosts_with_tasks(world: BalancerNodesSnapshot) -> tuple[BalancerOwnedNode, ...]:
    """Return the site's own hosts that a person powered off while the cell still lists their tasks."""
    off = {
        (pool, machine.id)
        for pool in world.switched
        for machine in world.machines.get(pool, ())
        if machine.state is ProviderMachineState.STOPPED
    }
    return tuple(
        node
        for node in world.kept
        if (node.pool, node.machine) in off
        and node.state is not ElasticNodeState.BOOTING
        and (host := world.host_state(node.name)) is not None
        and host.is_busy
        and host.is_silent
    )


def find_silent_hosts_without_machine(
    world: BalancerNodesSnapshot, prefix: str, silent_s: float, own: Container[str] = ()
) -> tuple[str, ...]:
    """Return hosts named like the balancer's nodes that have long been silent and have no machine.

    The balancer does not touch these hosts, because they may be the site's own. The result is empty while a machine
    list is missing or many hosts are silent.
    """
    if world.is_unready or not world.pools or not world.pools <= world.machines.keys():
        return ()
    listed_ = {short_host_name(machine.name) for machines in world.machines.values() for machine in machines}
    names = listed_ | {short_host_name(node.name) for node in world.kept}
    named = re.compile(f"{re.escape(prefix)}[0-9]+")
    return tuple(
        name
        for name, host in sorted(world.hosts.items())
        if host.is_silent
        and named.fullmatch(name)
        and not (name in names or name in own)
        and machine_list_reconciliation.host_silent_for_s(name, world) > silent_s
    )


def find_reporting_nodes_without_listed_machine(world: BalancerNodesSnapshot) -> tuple[BalancerOwnedNode, ...]:
    successors = machine_list_reconciliation.replaced_nodes_with_successors(world)
    ours = machine_list_reconciliation.MachinesOfOwnedNodes(world)
    return tuple(
        node
        for node in world.kept
        if node.state in HOSTS
        and node.machine
        and node.pool in world.machines
        and node.pool not in world.switched
        and ours.find_machine_of_node(node) is None
        and is_host_reporting(world.host_state(node.name))
        and not (machine_list_reconciliation.is_machine_missing_briefly(node, world) or node in successors)
    )


def find_machines_of_unknown_pools(world: BalancerNodesSnapshot) -> tuple[tuple[str, ProviderMachine], ...]:
    """Return this cluster's machines without a node and without a configured pool, each once."""
    pools = world.pools | world.switched
    machine_ids = {node.machine for node in world.kept}
    unowned = {
        (machine.id, machine.name): (pool, machine)
        for pool in sorted(world.machines)
        for machine in world.machines[pool]
        if machine.has_owner_tag_of_cluster(world.cluster)
        and machine.state is not ProviderMachineState.GONE
        and machine.pool not in pools
        and machine.id not in machine_ids
        and MASTER_TAG not in machine.tags
    }
    return tuple(unowned.values())


def standby_hosts_no_longer_configured(
    world: BalancerNodesSnapshot, nodes: Iterable[BalancerOwnedNode]
) -> tuple[BalancerOwnedNode, ...]:
    """Return powered-off hosts no longer configured; this round deletes them from the state file."""
    names = {machine.name for pool in world.switched for machine in world.machines.get(pool, ())}
    unswitched = world.released | (world.switched & world.machines.keys())
    return tuple(
        node
        for node in nodes
        if node.state is ElasticNodeState.STANDBY and node.pool in unswitched and node.name not in names
    )


def manual_machine_removal_command(machine: str, provider: str, section: MachineProviderSection | None) -> str:
    """Return the command by which an administrator destroys a machine, or a text that names the machine."""
    if section is not None and section.kind is ProviderKind.COMMAND and section.program:
        request = shlex.quote(json.dumps({"id": machine}))
        return f"`echo {request} | {shlex.quote(section.program)} destroy`"
    if section is not None and section.kind is ProviderKind.EC2:
        settings = {"--region": section.region, "--endpoint-url": section.endpoint}
        options = "".join(f" {option} {shlex.quote(value)}" for option, value in settings.items() if value)
        return f"`aws ec2 terminate-instances{options} --instance-ids {shlex.quote(machine)}`"
    driver_and_region = " ".join((section.driver, section.region)).strip() if section else ""
    suffix = f" ({driver_and_region})" if driver_and_region else ""
    return f"end machine {machine} of provider {provider}{suffix} with the cloud's own tools"


def is_site_owned_host(node: BalancerOwnedNode) -> bool:
    return node.machine == node.name


def explain_how_to_wake_host(node: BalancerOwnedNode, tags: Mapping[str, tuple[str, ...]]) -> str:
    tag = f"`gridbridge balance tag {node.name} SUFFIX`"
    lacks_tag = not has_standby_tag(node.name, tags)
    if node.cause is NodeStateCause.DRAINED:
        more = f", then {tag}" if lacks_tag else ""
        free = f"`gridbridge balance keep --free {node.name}`{more}"
        return f"the host is off and is not woken, because an administrator drained the host; {free} allows a wake"
    if lacks_tag:
        return f"the host is off and is not woken, because the host has no tag; {tag} adds a tag"
    if node.cause is NodeStateCause.UNDER_TASKS:
        return f"the host is off: {node.cause}"
    return "the host is off, and is woken when needed"
