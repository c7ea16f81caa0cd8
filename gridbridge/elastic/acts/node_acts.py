"""Carry out a round's act on one node: create, join, remove, evict or destroy.

Each act may be repeated, also after a kill, and skips the steps that are already done. Only
best-effort tasks are ever ended: a node is removed only when it is closed and still idle.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from gridbridge.elastic.acts import power_acts
from gridbridge.elastic.acts.cell_host_membership import ExecutionHostMembership, enable_node_queues
from gridbridge.elastic.acts.power_acts import ChangeHostTag, HostPowerActRunner, ignore_host_tag
from gridbridge.elastic.providers.provider_protocol import HostPowerControl, MachineProvider
from gridbridge.errors import (
    HostNotReached,
    ProviderOutOfMachines,
    ProviderPermanentFailure,
    ProviderRequestRepeatable,
    SshAccessRejected,
)
from gridbridge.model.elastic.balance_sections import NodePoolSection
from gridbridge.model.elastic.elastic_nodes import (
    OWNER_TAG,
    POOL_TAG,
    ElasticNodeState,
    HostJoinStep,
    HostRemovalResult,
    MachineToJoinCell,
    ProviderMachine,
    ProviderMachineState,
)
from gridbridge.model.elastic.owned_nodes import BalancerNodeAct, BalancerOwnedNode, DueNodeAct, NodeStateCause

_log = logging.getLogger(__name__)

LEAVES_S = 600.0  # after this time a host that has not left the cell is logged
LOST = (NodeStateCause.VANISHED, NodeStateCause.SILENT)  # the node's daemon does not answer


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeActRunner:
    """Carries out acts on the nodes of one site; acts on different nodes may run in parallel."""

    cluster: str
    pools: Mapping[str, NodePoolSection]
    providers: Mapping[str, MachineProvider]  # machine providers, by pool
    supplies: Mapping[str, HostPowerControl]  # power controls of the site's own hosts, by pool
    membership: ExecutionHostMembership
    now: Callable[[], datetime]
    tag: ChangeHostTag = ignore_host_tag  # changes the tags of power-managed hosts
    fill_first: bool = False  # the scheduler fills nodes one after the other
    closed: frozenset[str] = frozenset()  # queues that somebody disabled on all hosts

    def do(self, due: DueNodeAct) -> BalancerOwnedNode:
        """Carry out a due act and return the node's new state.

        Raises GridbridgeError when the next round has to retry the act.
        """
        if due.act is None:
            return due.node
        if due.act in power_acts.POWER_ACTS:
            return self._switching.do(due)
        return ACTS[due.act](self, due.node)

    def end(self, pool: str, machine: ProviderMachine) -> None:
        """Destroy a pool's machine that belongs to no node, such as the master's machine.

        Raises GridbridgeError when a later round has to retry.
        """
        self.providers[pool].destroy(machine)

    @property
    def _switching(self) -> HostPowerActRunner:
        return HostPowerActRunner(
            supplies=self.supplies, membership=self.membership, tag=self.tag, now=self.now, closed=self.closed
        )

    def _create(self, node: BalancerOwnedNode) -> BalancerOwnedNode:
        """Have the node's machine created by its provider.

        When the outcome is unknown the node stays requested, and the provider's next list decides.
        After ProviderRequestRepeatable the next round repeats the request.
        """
        tags = {OWNER_TAG: self.cluster, POOL_TAG: node.pool}
        try:
            machine = self._provider(node).create(node.name, tags)
        except (ProviderOutOfMachines, ProviderPermanentFailure) as error:
            _log.warning("event=not_made node=%s pool=%s why=%r", node.name, node.pool, str(error))
            is_full = isinstance(error, ProviderOutOfMachines)
            cause = NodeStateCause.NO_CAPACITY if is_full else NodeStateCause.NOT_GRANTED
            return node.entering(ElasticNodeState.GONE, self.now(), cause)
        except ProviderRequestRepeatable as error:
            _log.warning("event=not_done node=%s act=create why=%r", node.name, str(error))
            return replace(node, cause=NodeStateCause.LATER)
        return replace(
            node.entering(ElasticNodeState.BOOTING, self.now()),
            machine=machine.id,
            address=machine.address,
            host_key=machine.host_key,
            up_since=machine.created or self.now(),  # the machine costs money from now on
        )

    def _join(self, node: BalancerOwnedNode) -> BalancerOwnedNode:
        """Continue the joining of a node; a machine with a wrong host key is destroyed."""
        try:
            step = self.membership.join(self._joining(node))
        except SshAccessRejected:
            return node.entering(ElasticNodeState.REMOVING, self.now(), NodeStateCause.WRONG_HOST_KEY)
        except HostNotReached as error:
            _log.info("event=not_reached node=%s why=%r", node.name, str(error))
            return node
        if step in (HostJoinStep.JOINED, HostJoinStep.CLOSED):
            ready = node.entering(ElasticNodeState.READY, self.now())
            return replace(ready, step=step, idle_since=None)
        return replace(node, step=step)

    def _remove(self, node: BalancerOwnedNode) -> BalancerOwnedNode:
        """Close a node; evict it if it is still idle, else open it again."""
        if node.is_kept:  # an administrator wants to keep the node meanwhile
            return enable_node_queues(node, self.membership, self.closed, self.now())
        self.membership.close(node.name)
        idleness = self.membership.look(node.name)
        if not idleness.is_listed or (idleness.is_idle and idleness.is_closed):
            return self._evict(node.entering(ElasticNodeState.REMOVING, self.now(), node.cause))
        if node.cause is NodeStateCause.DRAINED:
            return node
        return enable_node_queues(node, self.membership, self.closed, self.now())

    def _evict(self, node: BalancerOwnedNode) -> BalancerOwnedNode:
        """Remove a node from the cell, then destroy its machine; the next round checks the result.

        A host that may be alive is inspected first, because it may run tasks: an administrator may
        have opened it, or it may have joined at the last moment. Only a vanished machine runs
        nothing for sure.
        """
        if node.cause is not NodeStateCause.VANISHED and self._is_in_use(node):
            return self._put_back(node)
        leaving = self.membership.leave(node.name, is_dead=node.cause in LOST)
        if leaving.step is HostRemovalResult.LEFT:
            return self._destroy(replace(node, step=HostJoinStep.LEFT))
        if (self.now() - node.since).total_seconds() > LEAVES_S:
            _log.warning("event=not_left node=%s why=%r", node.name, leaving.refused_by)
        return node

    def _put_back(self, node: BalancerOwnedNode) -> BalancerOwnedNode:
        """Keep a node in the cell; a new join restores the queues and groups that the node lost."""
        if node.cause is NodeStateCause.SILENT:
            return enable_node_queues(node, self.membership, self.closed, self.now())
        return replace(node.entering(ElasticNodeState.JOINING, self.now()), idle_since=None, step=HostJoinStep.NONE)

    def _is_in_use(self, node: BalancerOwnedNode) -> bool:
        """Close a host and say whether the host still runs a task."""
        idleness = self.membership.look(node.name)
        if idleness.is_listed and not idleness.is_closed:
            self.membership.close(node.name)
            idleness = self.membership.look(node.name)
        return idleness.is_listed and not (idleness.is_idle and idleness.is_closed)

    def _destroy(self, node: BalancerOwnedNode) -> BalancerOwnedNode:
        """Destroy the node's machine; do nothing for a node without a machine id."""
        if node.machine:
            self._provider(node).destroy(_machine(node))
        return node

    def _provider(self, node: BalancerOwnedNode) -> MachineProvider:
        if node.pool not in self.providers:
            raise ProviderPermanentFailure(f"{node.name}: pool {node.pool} has no provider now")
        return self.providers[node.pool]

    def _joining(self, node: BalancerOwnedNode) -> MachineToJoinCell:
        pool = self.pools[node.pool]
        return MachineToJoinCell(
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


def _machine(node: BalancerOwnedNode) -> ProviderMachine:
    return ProviderMachine(id=node.machine, name=node.name, state=ProviderMachineState.UNKNOWN, address=node.address)


ACTS: Mapping[BalancerNodeAct, Callable[[NodeActRunner, BalancerOwnedNode], BalancerOwnedNode]] = {
    BalancerNodeAct.CREATE: NodeActRunner._create,
    BalancerNodeAct.JOIN: NodeActRunner._join,
    BalancerNodeAct.REMOVE: NodeActRunner._remove,
    BalancerNodeAct.EVICT: NodeActRunner._evict,
    BalancerNodeAct.DESTROY: NodeActRunner._destroy,
}
