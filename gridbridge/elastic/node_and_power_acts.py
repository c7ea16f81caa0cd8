"""Carries out a balancer round's acts on nodes and hosts; each act may be repeated, also after a kill.

Only closed and idle nodes and hosts are removed or switched off. Only best-effort tasks are ended; on request
a squeeze reschedules rerunnable tasks.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from gridbridge import errors
from gridbridge.batch.optional_adapter_protocols import ExecutionHostMembership
from gridbridge.elastic.providers.provider_protocol_and_validation import HostPowerControl, MachineProvider
from gridbridge.model.elastic import elastic_nodes
from gridbridge.model.elastic.balancer_config_sections import NodePoolSection
from gridbridge.model.elastic.standby_and_wake_plan import STANDBY_AUTO

_log = logging.getLogger(__name__)

PATIENT = (
    elastic_nodes.NodeStateCause.DRAINED,
    elastic_nodes.NodeStateCause.CONDENSED,
)  # causes for which a host stays closed until the tasks of the host have ended
ChangeHostTag = Callable[[str, str, bool], object]  # arguments: host, tag, and whether to add the tag
LEAVES_S = 600.0  # a removal that takes longer is logged
LOST = (
    elastic_nodes.NodeStateCause.VANISHED,
    elastic_nodes.NodeStateCause.SILENT,
)  # after a removal for one of these causes the node's daemon does not answer


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeActRunner:
    """Carries out acts on nodes, and switches hosts off and on; acts on several nodes may run in parallel."""

    cluster: str
    pools: Mapping[str, NodePoolSection]
    providers: Mapping[str, MachineProvider]
    supplies: Mapping[str, HostPowerControl]  # power controls of the site's own hosts, by pool
    membership: ExecutionHostMembership
    now: Callable[[], datetime]
    tag: ChangeHostTag
    fill_first: bool = False
    closed: frozenset[str] = frozenset()  # queues that somebody disabled on all hosts

    def carry_out_node_act(self, due_act: elastic_nodes.DueNodeAct) -> elastic_nodes.BalancerOwnedNode:
        """Carry out a due act and return the changed node; raise GridbridgeError if a round must retry."""
        if due_act.act is None:
            return due_act.node
        if due_act.act in POWER_ACTS:
            return POWER_ACTS[due_act.act](self, due_act)
        return NODE_ACTS[due_act.act](self, due_act.node)

    def destroy_machine(self, pool: str, machine: elastic_nodes.ProviderMachine) -> None:
        """Destroy the machine of a stopped master, which is no node; raise GridbridgeError if a round must retry."""
        self.providers[pool].destroy_machine(machine)

    def _power_off_host(self, due_act: elastic_nodes.DueNodeAct) -> elastic_nodes.BalancerOwnedNode:
        """Close a host; switch the host off if it is still idle, otherwise open it again or wait for a later round.

        The standby tag is set before the power-off, because a host that is off and has no tag is never woken. After a
        failed power-off the host counts as off; a later round opens a host that is still on.
        """
        node = due_act.node
        if node.is_kept:
            return self._enable_queues_of_node(node)
        self.membership.close_host_to_new_tasks(node.name)
        idleness = self.membership.check_host_before_removal(node.name)
        if not (idleness.is_listed and idleness.is_idle and idleness.is_closed):
            return node if self._must_host_wait_for_tasks(node, idleness) else self._enable_queues_of_node(node)
        if not self.membership.preempt_best_effort_tasks(node.name):
            return node
        if due_act.tag:
            self.tag(node.name, due_act.tag, True)
        self.membership.prepare_power_off(node.name)
        try:
            self._power_control_of_node(node).power_off_host(_provider_machine_of_node(node))
        except errors.GridbridgeError as error:
            if node.cause is elastic_nodes.NodeStateCause.DRAINED:  # an administrator wants the host off
                raise
            _log.warning("event=not_done node=%s act=rest why=%r", node.name, str(error))
        return node.with_state(elastic_nodes.ElasticNodeState.STANDBY, self.now(), node.cause)

    def _must_host_wait_for_tasks(
        self, node: elastic_nodes.BalancerOwnedNode, idleness: elastic_nodes.HostCheckBeforeRemoval
    ) -> bool:
        """Return whether a busy host stays closed until its tasks end; if requested, first reschedule the tasks."""
        if node.cause is not elastic_nodes.NodeStateCause.MOVED:
            return node.cause in PATIENT
        return idleness.is_listed and idleness.is_closed and self.membership.reschedule_host_tasks(node.name)

    def _power_on_host(self, due_act: elastic_nodes.DueNodeAct) -> elastic_nodes.BalancerOwnedNode:
        """Switch a host on; later rounds check whether the host is on, and may repeat the request."""
        self._power_control_of_node(due_act.node).power_on_host(_provider_machine_of_node(due_act.node))
        return due_act.node

    def _enable_queues_of_powered_host(self, due_act: elastic_nodes.DueNodeAct) -> elastic_nodes.BalancerOwnedNode:
        """Enable a host's queues; remove the standby tag only if a squeeze wrote the tag."""
        self.tag(due_act.node.name, STANDBY_AUTO, False)
        works = self._enable_queues_of_node(due_act.node)
        return replace(works, up_since=works.up_since or self.now())

    def _power_off_unreachable_host(self, due_act: elastic_nodes.DueNodeAct) -> elastic_nodes.BalancerOwnedNode:
        """Switch off a host that failed to boot or to go off; the host keeps its tags.

        The host counts as up until a provider reports it off. Raises SilentHostMayRunTasks while the cell lists a task
        on the host.
        """
        idleness = self.membership.check_host_before_removal(due_act.node.name)
        if idleness.is_listed and not idleness.is_idle:
            raise errors.SilentHostMayRunTasks(due_act.node.name)
        if due_act.before is not None and due_act.before.state is elastic_nodes.ElasticNodeState.STANDBY:
            _log.warning("event=still_on node=%s", due_act.node.name)
        self._power_control_of_node(due_act.node).power_off_host(_provider_machine_of_node(due_act.node))
        node = due_act.node.with_state(elastic_nodes.ElasticNodeState.STANDBY, self.now(), due_act.node.cause)
        return replace(node, up_since=node.up_since or self.now())

    def _create_machine(self, node: elastic_nodes.BalancerOwnedNode) -> elastic_nodes.BalancerOwnedNode:
        """Have a provider create the node's machine.

        After an unknown outcome the node stays `requested` until the provider's next list shows the outcome; only
        after ProviderRequestRepeatable does the next round repeat the request.
        """
        tags = {elastic_nodes.OWNER_TAG: self.cluster, elastic_nodes.POOL_TAG: node.pool}
        try:
            machine = self._provider_of_node(node).create_machine(node.name, tags)
        except (errors.ProviderOutOfMachines, errors.ProviderPermanentFailure) as error:
            _log.warning("event=not_made node=%s pool=%s why=%r", node.name, node.pool, str(error))
            is_full = isinstance(error, errors.ProviderOutOfMachines)
            cause = elastic_nodes.NodeStateCause.NO_CAPACITY if is_full else elastic_nodes.NodeStateCause.NOT_GRANTED
            return node.with_state(elastic_nodes.ElasticNodeState.GONE, self.now(), cause)
        except errors.ProviderRequestRepeatable as error:
            _log.warning("event=not_done node=%s act=create why=%r", node.name, str(error))
            return replace(node, cause=elastic_nodes.NodeStateCause.LATER)
        return replace(
            node.with_state(elastic_nodes.ElasticNodeState.BOOTING, self.now()),
            machine=machine.id,
            address=machine.address,
            host_key=machine.host_key,
            up_since=machine.created or self.now(),  # the machine costs money from this moment
        )

    def _join_node(self, node: elastic_nodes.BalancerOwnedNode) -> elastic_nodes.BalancerOwnedNode:
        """Continue to add a node to the cell; a machine with a wrong host key is destroyed."""
        try:
            step = self.membership.join_host_to_cluster(self._join_settings_of_node(node))
        except errors.SshAccessRejected:
            return node.with_state(
                elastic_nodes.ElasticNodeState.REMOVING, self.now(), elastic_nodes.NodeStateCause.WRONG_HOST_KEY
            )
        except errors.HostNotReached as error:
            _log.info("event=not_reached node=%s why=%r", node.name, str(error))
            return node
        if step in (elastic_nodes.HostJoinStep.JOINED, elastic_nodes.HostJoinStep.CLOSED):
            return replace(
                node.with_state(elastic_nodes.ElasticNodeState.READY, self.now()), step=step, idle_since=None
            )
        return replace(node, step=step)

    def _remove_idle_node(self, node: elastic_nodes.BalancerOwnedNode) -> elastic_nodes.BalancerOwnedNode:
        """Close a node; remove the node if it is still idle, otherwise open the node again."""
        if node.is_kept:
            return self._enable_queues_of_node(node)
        self.membership.close_host_to_new_tasks(node.name)
        idleness = self.membership.check_host_before_removal(node.name)
        if not idleness.is_listed or (idleness.is_idle and idleness.is_closed):
            return self._evict_node_and_destroy_machine(
                node.with_state(elastic_nodes.ElasticNodeState.REMOVING, self.now(), node.cause)
            )
        if node.cause is elastic_nodes.NodeStateCause.DRAINED:
            return node
        return self._enable_queues_of_node(node)

    def _evict_node_and_destroy_machine(self, node: elastic_nodes.BalancerOwnedNode) -> elastic_nodes.BalancerOwnedNode:
        """Remove a node from the cell, then destroy its machine; the next round checks the result.

        A host that may be alive is queried first, because an administrator may have opened the host.
        """
        if node.cause is not elastic_nodes.NodeStateCause.VANISHED and self._is_closed_host_in_use(node):
            if node.cause is elastic_nodes.NodeStateCause.SILENT:
                return self._enable_queues_of_node(node)
            joining = node.with_state(elastic_nodes.ElasticNodeState.JOINING, self.now())
            return replace(joining, idle_since=None, step=elastic_nodes.HostJoinStep.NONE)
        referrers = self.membership.remove_host(node.name, is_dead=node.cause in LOST)
        if not referrers:
            return self._destroy_machine_of_node(replace(node, step=elastic_nodes.HostJoinStep.LEFT))
        if (self.now() - node.since).total_seconds() > LEAVES_S:
            _log.warning("event=not_left node=%s why=%r", node.name, referrers)
        return node

    def _is_closed_host_in_use(self, node: elastic_nodes.BalancerOwnedNode) -> bool:
        """Close a host, and return whether the host still runs a task."""
        idleness = self.membership.check_host_before_removal(node.name)
        if idleness.is_listed and not idleness.is_closed:
            self.membership.close_host_to_new_tasks(node.name)
            idleness = self.membership.check_host_before_removal(node.name)
        return idleness.is_listed and not (idleness.is_idle and idleness.is_closed)

    def _enable_queues_of_node(self, node: elastic_nodes.BalancerOwnedNode) -> elastic_nodes.BalancerOwnedNode:
        """Enable a node's queues, but leave queues in `closed` disabled; return the node as ready."""
        step = self.membership.open_host_to_tasks(node.name, self.closed)
        return replace(node.with_state(elastic_nodes.ElasticNodeState.READY, self.now()), idle_since=None, step=step)

    def _destroy_machine_of_node(self, node: elastic_nodes.BalancerOwnedNode) -> elastic_nodes.BalancerOwnedNode:
        if node.machine:
            self._provider_of_node(node).destroy_machine(_provider_machine_of_node(node))
        return node

    def _power_control_of_node(self, node: elastic_nodes.BalancerOwnedNode) -> HostPowerControl:
        if node.pool not in self.supplies:
            raise errors.ProviderPermanentFailure(
                f"{node.name}: no provider can switch the host on or off; expected a section [power.{node.name}]"
            )
        return self.supplies[node.pool]

    def _provider_of_node(self, node: elastic_nodes.BalancerOwnedNode) -> MachineProvider:
        if node.pool not in self.providers:
            raise errors.ProviderPermanentFailure(
                f"{node.name}: pool {node.pool} has no provider; expected a key `provider` in [pool.{node.pool}]"
            )
        return self.providers[node.pool]

    def _join_settings_of_node(self, node: elastic_nodes.BalancerOwnedNode) -> elastic_nodes.MachineToJoinCell:
        pool = self.pools[node.pool]
        return elastic_nodes.MachineToJoinCell(
            name=node.name,
            address=node.address,
            host_key=node.host_key,
            slots=pool.slots,
            resources=tuple(sorted(pool.resources.items())),
            hostgroups=tuple(pool.hostgroups.split()),
            queues=tuple(pool.queues.split()),
            is_filled_last=self.fill_first,
            closed=self.closed,
        )


def _provider_machine_of_node(node: elastic_nodes.BalancerOwnedNode) -> elastic_nodes.ProviderMachine:
    return elastic_nodes.ProviderMachine(
        id=node.machine, name=node.name, state=elastic_nodes.ProviderMachineState.UNKNOWN, address=node.address
    )


NODE_ACTS: Mapping[
    elastic_nodes.BalancerNodeAct,
    Callable[[NodeActRunner, elastic_nodes.BalancerOwnedNode], elastic_nodes.BalancerOwnedNode],
] = {
    elastic_nodes.BalancerNodeAct.CREATE: NodeActRunner._create_machine,
    elastic_nodes.BalancerNodeAct.JOIN: NodeActRunner._join_node,
    elastic_nodes.BalancerNodeAct.REMOVE: NodeActRunner._remove_idle_node,
    elastic_nodes.BalancerNodeAct.EVICT: NodeActRunner._evict_node_and_destroy_machine,
    elastic_nodes.BalancerNodeAct.DESTROY: NodeActRunner._destroy_machine_of_node,
}
POWER_ACTS: Mapping[
    elastic_nodes.BalancerNodeAct, Callable[[NodeActRunner, elastic_nodes.DueNodeAct], elastic_nodes.BalancerOwnedNode]
] = {
    elastic_nodes.BalancerNodeAct.REST: NodeActRunner._power_off_host,
    elastic_nodes.BalancerNodeAct.WAKE: NodeActRunner._power_on_host,
    elastic_nodes.BalancerNodeAct.OPEN: NodeActRunner._enable_queues_of_powered_host,
    elastic_nodes.BalancerNodeAct.STOP: NodeActRunner._power_off_unreachable_host,
}
