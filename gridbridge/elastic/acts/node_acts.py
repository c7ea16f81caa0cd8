"""What a round does with one node: at its provider, and in the cell.

Each act may be repeated, after a kill too: what is done already is left as it is. No task is ended
by any of them but best-effort ones: a node is taken out only when it is closed and still idle.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from gridbridge.elastic.acts import power_acts
from gridbridge.elastic.acts.host_opening import opened
from gridbridge.elastic.acts.membership_protocol import Membership
from gridbridge.elastic.acts.power_acts import PowerActs, Tagging, no_tags
from gridbridge.elastic.providers.provider_protocol import MachineProvider, PowerSupply
from gridbridge.errors import AskAgain, NoCapacity, NotAdmitted, NotReached, ProviderFailed
from gridbridge.model.elastic.balance_sections import PoolSection
from gridbridge.model.elastic.elastic_nodes import (
    OWNER_TAG,
    POOL_TAG,
    ElasticNodeState,
    HostJoinStep,
    HostLeaveStep,
    JoiningMachine,
    ProviderMachine,
    ProviderMachineState,
)
from gridbridge.model.elastic.owned_nodes import DueNodeAct, NodeAct, NodeStateCause, OwnedNode

_log = logging.getLogger(__name__)

LEAVES_S = 600.0  # best-effort tasks have made way by then, and nothing names the host any more
LOST = (NodeStateCause.VANISHED, NodeStateCause.SILENT)  # its own daemon does not answer


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeActs:
    """The acts of one site; several may be under way side by side, each of another node."""

    cluster: str
    pools: Mapping[str, PoolSection]
    providers: Mapping[str, MachineProvider]  # by pool
    supplies: Mapping[str, PowerSupply]  # of hosts of the site's own, by pool
    membership: Membership
    now: Callable[[], datetime]
    tag: Tagging = no_tags  # of hosts that are switched on and off
    fill_first: bool = False  # nodes are filled one after the other
    closed: frozenset[str] = frozenset()  # queues that somebody closed on all hosts

    def do(self, due: DueNodeAct) -> OwnedNode:
        """Do what is due; return the node as it is then. GridbridgeError when it has to wait."""
        if due.act is None:
            return due.node
        if due.act in power_acts.ACTS:
            return self._switching.do(due)
        return ACTS[due.act](self, due.node)

    def end(self, pool: str, machine: ProviderMachine) -> None:
        """Have a machine of a pool removed that is no node; GridbridgeError when it has to wait."""
        self.providers[pool].destroy(machine)

    @property
    def _switching(self) -> PowerActs:
        return PowerActs(
            supplies=self.supplies,
            membership=self.membership,
            tag=self.tag,
            now=self.now,
            closed=self.closed,
        )

    def _create(self, node: OwnedNode) -> OwnedNode:
        """Have its machine made.

        Where nobody knows whether that was done, the node stays requested: the list will tell. One
        that may be asked for again is asked for by the next round.
        """
        tags = {OWNER_TAG: self.cluster, POOL_TAG: node.pool}
        try:
            machine = self._provider(node).create(node.name, tags)
        except (NoCapacity, ProviderFailed) as error:
            _log.warning("event=not_made node=%s pool=%s why=%r", node.name, node.pool, str(error))
            is_full = isinstance(error, NoCapacity)
            cause = NodeStateCause.NO_CAPACITY if is_full else NodeStateCause.NOT_GRANTED
            return node.entering(ElasticNodeState.GONE, self.now(), cause)
        except AskAgain as error:
            _log.warning("event=not_done node=%s act=create why=%r", node.name, str(error))
            return replace(node, cause=NodeStateCause.LATER)
        return replace(
            node.entering(ElasticNodeState.BOOTING, self.now()),
            machine=machine.id,
            address=machine.address,
            host_key=machine.host_key,
            up_since=machine.created or self.now(),  # it costs something from now on
        )

    def _join(self, node: OwnedNode) -> OwnedNode:
        """Go on making it a host; a machine that answers with a wrong key is given back."""
        try:
            step = self.membership.join(self._joining(node))
        except NotAdmitted:
            return node.entering(
                ElasticNodeState.REMOVING, self.now(), NodeStateCause.WRONG_HOST_KEY
            )
        except NotReached as error:
            _log.info("event=not_reached node=%s why=%r", node.name, str(error))
            return node
        if step in (HostJoinStep.JOINED, HostJoinStep.CLOSED):
            ready = node.entering(ElasticNodeState.READY, self.now())
            return replace(ready, step=step, idle_since=None)
        return replace(node, step=step)

    def _remove(self, node: OwnedNode) -> OwnedNode:
        """Take a node out if it is idle once nothing more can start there; else open it again."""
        if node.is_kept:  # somebody wants it back meanwhile
            return opened(node, self.membership, self.closed, self.now())
        self.membership.close(node.name)
        idleness = self.membership.look(node.name)
        if not idleness.is_listed or (idleness.is_idle and idleness.is_closed):
            return self._evict(node.entering(ElasticNodeState.REMOVING, self.now(), node.cause))
        if node.cause is NodeStateCause.DRAINED:
            return node
        return opened(node, self.membership, self.closed, self.now())

    def _evict(self, node: OwnedNode) -> OwnedNode:
        """Take it out of the cell, then give its machine back; the next round sees whether it went.

        Any host that may be alive is looked at first: one that is being taken out and that somebody
        opened, one that joined in the last moment, and a silent one may run tasks. Only a machine
        that is gone runs nothing; one that is listed again is not evicted as gone.
        """
        if node.cause is not NodeStateCause.VANISHED and self._is_in_use(node):
            return self._put_back(node)
        leaving = self.membership.leave(node.name, is_dead=node.cause in LOST)
        if leaving.step is HostLeaveStep.LEFT:
            return self._destroy(replace(node, step=HostJoinStep.LEFT))
        if (self.now() - node.since).total_seconds() > LEAVES_S:
            _log.warning("event=not_left node=%s why=%r", node.name, leaving.refused_by)
        return node

    def _put_back(self, node: OwnedNode) -> OwnedNode:
        """Have a node stay: what was taken from it already is made again by joining."""
        if node.cause is NodeStateCause.SILENT:
            return opened(node, self.membership, self.closed, self.now())
        return replace(
            node.entering(ElasticNodeState.JOINING, self.now()),
            idle_since=None,
            step=HostJoinStep.NONE,
        )

    def _is_in_use(self, node: OwnedNode) -> bool:
        """Say whether a host runs something once it is closed."""
        idleness = self.membership.look(node.name)
        if idleness.is_listed and not idleness.is_closed:
            self.membership.close(node.name)
            idleness = self.membership.look(node.name)
        return idleness.is_listed and not (idleness.is_idle and idleness.is_closed)

    def _destroy(self, node: OwnedNode) -> OwnedNode:
        """Give its machine back; a node whose machine has no id yet has none that we know."""
        if node.machine:
            self._provider(node).destroy(_machine(node))
        return node

    def _provider(self, node: OwnedNode) -> MachineProvider:
        if node.pool not in self.providers:
            raise ProviderFailed(f"{node.name}: pool {node.pool} has no provider now")
        return self.providers[node.pool]

    def _joining(self, node: OwnedNode) -> JoiningMachine:
        pool = self.pools[node.pool]
        return JoiningMachine(
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


def _machine(node: OwnedNode) -> ProviderMachine:
    return ProviderMachine(
        id=node.machine, name=node.name, state=ProviderMachineState.UNKNOWN, address=node.address
    )


ACTS: Mapping[NodeAct, Callable[[NodeActs, OwnedNode], OwnedNode]] = {
    NodeAct.CREATE: NodeActs._create,
    NodeAct.JOIN: NodeActs._join,
    NodeAct.REMOVE: NodeActs._remove,
    NodeAct.EVICT: NodeActs._evict,
    NodeAct.DESTROY: NodeActs._destroy,
}
