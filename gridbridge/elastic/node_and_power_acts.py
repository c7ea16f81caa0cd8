"""Carries out the acts of a balancer round on nodes and on the site's hosts.

Each act may be repeated, also after a kill. A node is removed, and a host switched off, only if the node or
host is closed to new tasks and still idle. Only best-effort tasks are ended; on request a squeeze reschedules
rerunnable tasks.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from gridbridge.elastic.host_membership_and_tags import ExecutionHostMembership
from gridbridge.elastic.providers.provider_protocol_and_validation import HostPowerControl, MachineProvider
from gridbridge.errors import (
    GridbridgeError,
    HostNotReached,
    ProviderOutOfMachines,
    ProviderPermanentFailure,
    ProviderRequestRepeatable,
    SilentHostMayRunTasks,
    SshAccessRejected,
)
from gridbridge.model.elastic.balance_sections import NodePoolSection
from gridbridge.model.elastic.elastic_nodes import (
    OWNER_TAG,
    POOL_TAG,
    BalancerNodeAct,
    BalancerOwnedNode,
    DueNodeAct,
    ElasticNodeState,
    HostCheckBeforeRemoval,
    HostJoinStep,
    HostRemovalResult,
    MachineToJoinCell,
    NodeStateCause,
    ProviderMachine,
    ProviderMachineState,
)
from gridbridge.model.elastic.standby_hosts import STANDBY_AUTO

_log = logging.getLogger(__name__)

PATIENT = (NodeStateCause.DRAINED, NodeStateCause.CONDENSED)  # a host stays closed until its tasks have ended
ChangeHostTag = Callable[[str, str, bool], object]  # host, tag, and whether to add or remove the tag
LEAVES_S = 600.0  # time after which a host that is still in the cell is logged
LOST = (NodeStateCause.VANISHED, NodeStateCause.SILENT)  # causes of nodes whose daemon does not answer


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeActRunner:
    """Carries out acts on nodes, and switches hosts off and on; acts on several nodes may run in parallel."""

    cluster: str
    pools: Mapping[str, NodePoolSection]
    providers: Mapping[str, MachineProvider]  # machine providers, by pool
    supplies: Mapping[str, HostPowerControl]  # power controls of the site's own hosts, by pool
    membership: ExecutionHostMembership
    now: Callable[[], datetime]
    tag: ChangeHostTag
    fill_first: bool = False  # whether the scheduler fills one node after another
    closed: frozenset[str] = frozenset()  # queues that somebody disabled on all hosts

    def do(self, due: DueNodeAct) -> BalancerOwnedNode:
        """Carry out a due act, and return the node in its new state; raise GridbridgeError for a retry."""
        if due.act is None:
            return due.node
        if due.act in POWER_ACTS:
            return POWER_ACTS[due.act](self, due)
        return NODE_ACTS[due.act](self, due.node)

    def end(self, pool: str, machine: ProviderMachine) -> None:
        """Destroy a machine that belongs to no node, such as the master's; raise GridbridgeError for a retry."""
        self.providers[pool].destroy(machine)

    def _rest(self, due: DueNodeAct) -> BalancerOwnedNode:
        """Close a host; switch the host off if it is still idle, else open the host again.

        Preemption of best-effort tasks may take several rounds. The standby tag is written before
        power-off, because a host that is off and has no tag is never woken. After a failed power-off
        request the host counts as off; a later round opens a host that is still on.
        """
        node = due.node
        if node.is_kept:  # an administrator has asked to keep the host
            return self._opened(node)
        self.membership.close(node.name)
        idleness = self.membership.look(node.name)
        if not (idleness.is_listed and idleness.is_idle and idleness.is_closed):
            return node if self._is_to_wait(node, idleness) else self._opened(node)
        if not self.membership.make_way(node.name):
            return node
        if due.tag:
            self.tag(node.name, due.tag, True)
        self.membership.halt(node.name)
        try:
            self._supply(node).stop(_machine(node))
        except GridbridgeError as error:
            if node.cause is NodeStateCause.DRAINED:  # an administrator wants the host off
                raise
            _log.warning("event=not_done node=%s act=rest why=%r", node.name, str(error))
        return node.entering(ElasticNodeState.STANDBY, self.now(), node.cause)

    def _is_to_wait(self, node: BalancerOwnedNode, idleness: HostCheckBeforeRemoval) -> bool:
        """Return whether a busy host stays closed until its tasks end; reschedule tasks if the squeeze moves tasks."""
        if node.cause is not NodeStateCause.MOVED:
            return node.cause in PATIENT
        return idleness.is_listed and idleness.is_closed and self.membership.put_elsewhere(node.name)

    def _wake(self, due: DueNodeAct) -> BalancerOwnedNode:
        """Switch a host on; later rounds check whether the host is on, and may repeat the request."""
        self._supply(due.node).start(_machine(due.node))
        return due.node

    def _open(self, due: DueNodeAct) -> BalancerOwnedNode:
        """Enable a host's queues; remove the standby tag only if a squeeze wrote the tag."""
        self.tag(due.node.name, STANDBY_AUTO, False)
        works = self._opened(due.node)
        return replace(works, up_since=works.up_since or self.now())

    def _stop(self, due: DueNodeAct) -> BalancerOwnedNode:
        """Switch off a host that did not come up or did not go off; the host keeps its tags.

        The host counts as up until a provider reports that it is off. Raises SilentHostMayRunTasks while the cell
        lists a task on the host.
        """
        idleness = self.membership.look(due.node.name)
        if idleness.is_listed and not idleness.is_idle:
            raise SilentHostMayRunTasks(due.node.name)
        if due.before is not None and due.before.state is ElasticNodeState.STANDBY:
            _log.warning("event=still_on node=%s", due.node.name)
        self._supply(due.node).stop(_machine(due.node))
        node = due.node.entering(ElasticNodeState.STANDBY, self.now(), due.node.cause)
        return replace(node, up_since=node.up_since or self.now())

    def _create(self, node: BalancerOwnedNode) -> BalancerOwnedNode:
        """Have a provider create the node's machine.

        If the outcome is unknown, the node's state stays `requested` until the provider's next list shows the
        outcome. After ProviderRequestRepeatable the next round repeats the request.
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
        """Continue the steps by which a node joins; a machine with a wrong host key is destroyed."""
        try:
            step = self.membership.join(self._joining(node))
        except SshAccessRejected:
            return node.entering(ElasticNodeState.REMOVING, self.now(), NodeStateCause.WRONG_HOST_KEY)
        except HostNotReached as error:
            _log.info("event=not_reached node=%s why=%r", node.name, str(error))
            return node
        if step in (HostJoinStep.JOINED, HostJoinStep.CLOSED):
            return replace(node.entering(ElasticNodeState.READY, self.now()), step=step, idle_since=None)
        return replace(node, step=step)

    def _remove(self, node: BalancerOwnedNode) -> BalancerOwnedNode:
        """Close a node; remove the node if it is still idle, else open the node again."""
        if node.is_kept:  # an administrator has asked to keep the node
            return self._opened(node)
        self.membership.close(node.name)
        idleness = self.membership.look(node.name)
        if not idleness.is_listed or (idleness.is_idle and idleness.is_closed):
            return self._evict(node.entering(ElasticNodeState.REMOVING, self.now(), node.cause))
        if node.cause is NodeStateCause.DRAINED:
            return node
        return self._opened(node)

    def _evict(self, node: BalancerOwnedNode) -> BalancerOwnedNode:
        """Remove a node from the cell, then destroy the machine; the next round checks the result.

        A host that may be alive is inspected first, because an administrator may have opened the host. Only the node
        of a vanished machine surely runs no task.
        """
        if node.cause is not NodeStateCause.VANISHED and self._is_in_use(node):
            if node.cause is NodeStateCause.SILENT:
                return self._opened(node)
            joining = node.entering(ElasticNodeState.JOINING, self.now())
            return replace(joining, idle_since=None, step=HostJoinStep.NONE)
        leaving = self.membership.leave(node.name, is_dead=node.cause in LOST)
        if leaving.step is HostRemovalResult.LEFT:
            return self._destroy(replace(node, step=HostJoinStep.LEFT))
        if (self.now() - node.since).total_seconds() > LEAVES_S:
            _log.warning("event=not_left node=%s why=%r", node.name, leaving.refused_by)
        return node

    def _is_in_use(self, node: BalancerOwnedNode) -> bool:
        """Close a host, and return whether the host still runs a task."""
        idleness = self.membership.look(node.name)
        if idleness.is_listed and not idleness.is_closed:
            self.membership.close(node.name)
            idleness = self.membership.look(node.name)
        return idleness.is_listed and not (idleness.is_idle and idleness.is_closed)

    def _opened(self, node: BalancerOwnedNode) -> BalancerOwnedNode:
        """Enable a node's queues except those in `closed`; return the node as ready."""
        step = self.membership.open(node.name, self.closed)
        return replace(node.entering(ElasticNodeState.READY, self.now()), idle_since=None, step=step)

    def _destroy(self, node: BalancerOwnedNode) -> BalancerOwnedNode:
        if node.machine:
            self._provider(node).destroy(_machine(node))
        return node

    def _supply(self, node: BalancerOwnedNode) -> HostPowerControl:
        if node.pool not in self.supplies:
            raise ProviderPermanentFailure(f"{node.name}: no provider switches this host now")
        return self.supplies[node.pool]

    def _provider(self, node: BalancerOwnedNode) -> MachineProvider:
        if node.pool not in self.providers:
            raise ProviderPermanentFailure(f"{node.name}: pool {node.pool} has no provider any more")
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


NODE_ACTS: Mapping[BalancerNodeAct, Callable[[NodeActRunner, BalancerOwnedNode], BalancerOwnedNode]] = {
    BalancerNodeAct.CREATE: NodeActRunner._create,
    BalancerNodeAct.JOIN: NodeActRunner._join,
    BalancerNodeAct.REMOVE: NodeActRunner._remove,
    BalancerNodeAct.EVICT: NodeActRunner._evict,
    BalancerNodeAct.DESTROY: NodeActRunner._destroy,
}
POWER_ACTS: Mapping[BalancerNodeAct, Callable[[NodeActRunner, DueNodeAct], BalancerOwnedNode]] = {
    BalancerNodeAct.REST: NodeActRunner._rest,
    BalancerNodeAct.WAKE: NodeActRunner._wake,
    BalancerNodeAct.OPEN: NodeActRunner._open,
    BalancerNodeAct.STOP: NodeActRunner._stop,
}
