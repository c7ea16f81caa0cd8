"""Carry out a round's act on a host of the site: switch off, switch on, or open.

Each act may be repeated, also after a kill. A host is switched off only when it is closed and still
idle. No act ends a task; on request rerunnable tasks are rescheduled.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from gridbridge.elastic.acts.cell_host_membership import ExecutionHostMembership, enable_node_queues
from gridbridge.elastic.providers.provider_protocol import HostPowerControl
from gridbridge.errors import GridbridgeError, ProviderPermanentFailure, SilentHostMayRunTasks
from gridbridge.model.elastic.elastic_nodes import (
    ElasticNodeState,
    HostCheckBeforeRemoval,
    ProviderMachine,
    ProviderMachineState,
)
from gridbridge.model.elastic.owned_nodes import BalancerNodeAct, BalancerOwnedNode, DueNodeAct, NodeStateCause
from gridbridge.model.elastic.standby_hosts import STANDBY_AUTO

_power_log = logging.getLogger(__name__)

PATIENT = (
    NodeStateCause.DRAINED,
    NodeStateCause.CONDENSED,
)  # a host with such a cause stays closed until its tasks have ended
ChangeHostTag = Callable[[str, str, bool], None]  # host, tag, and whether to add or remove the tag


def ignore_host_tag(host: str, tag: str, is_wanted: bool) -> None:
    """Keep no tag; for sites without power-managed hosts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPowerActRunner:
    """Powers the site's own hosts off and on; acts on different hosts may run in parallel."""

    supplies: Mapping[str, HostPowerControl]  # power controls, by pool
    membership: ExecutionHostMembership
    tag: ChangeHostTag
    now: Callable[[], datetime]
    closed: frozenset[str] = frozenset()  # queues that somebody disabled on all hosts

    def do(self, due: DueNodeAct) -> BalancerOwnedNode:
        """Carry out a due act and return the node's new state.

        Raises GridbridgeError when the next round has to retry the act.
        """
        assert due.act
        return POWER_ACTS[due.act](self, due)

    def _rest(self, due: DueNodeAct) -> BalancerOwnedNode:
        """Close a host; switch it off if it is still idle, else open it again.

        Best-effort tasks are preempted first, which may take several rounds. The standby tag is
        written before power-off, because a host that is off and has no tag is never woken. If the
        power-off request may have failed, the host counts as off; if it stays on, a later round
        opens it.
        """
        node = due.node
        if node.is_kept:  # an administrator wants to keep the host meanwhile
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
            self._supply(node).stop(_powered_machine(node))
        except GridbridgeError as error:
            if node.cause is NodeStateCause.DRAINED:  # an administrator wants the host off
                raise
            _power_log.warning("event=not_done node=%s act=rest why=%r", node.name, str(error))
        return node.entering(ElasticNodeState.STANDBY, self.now(), node.cause)

    def _is_to_wait(self, node: BalancerOwnedNode, idleness: HostCheckBeforeRemoval) -> bool:
        """Say whether a busy host stays closed; reschedule its tasks if the squeeze moves tasks."""
        if node.cause is not NodeStateCause.MOVED:
            return node.cause in PATIENT
        return idleness.is_listed and idleness.is_closed and self.membership.put_elsewhere(node.name)

    def _wake(self, due: DueNodeAct) -> BalancerOwnedNode:
        """Switch a host on; later rounds see it come up, or repeat the request."""
        self._supply(due.node).start(_powered_machine(due.node))
        return due.node

    def _open(self, due: DueNodeAct) -> BalancerOwnedNode:
        """Enable a host's queues; remove only the standby tag that a squeeze wrote."""
        self.tag(due.node.name, STANDBY_AUTO, False)
        works = self._opened(due.node)
        return replace(works, up_since=works.up_since or self.now())

    def _stop(self, due: DueNodeAct) -> BalancerOwnedNode:
        """Switch off a host that did not come up or did not go off; it keeps its tags.

        The host counts as up until a provider reports it off. Raises SilentHostMayRunTasks while
        the cell lists a task there.
        """
        idleness = self.membership.look(due.node.name)
        if idleness.is_listed and not idleness.is_idle:
            raise SilentHostMayRunTasks(due.node.name)
        if due.before is not None and due.before.state is ElasticNodeState.STANDBY:
            _power_log.warning("event=still_on node=%s", due.node.name)
        self._supply(due.node).stop(_powered_machine(due.node))
        node = due.node.entering(ElasticNodeState.STANDBY, self.now(), due.node.cause)
        return replace(node, up_since=node.up_since or self.now())

    def _opened(self, node: BalancerOwnedNode) -> BalancerOwnedNode:
        return enable_node_queues(node, self.membership, self.closed, self.now())

    def _supply(self, node: BalancerOwnedNode) -> HostPowerControl:
        if node.pool not in self.supplies:
            raise ProviderPermanentFailure(f"{node.name}: nobody switches it on and off now")
        return self.supplies[node.pool]


def _powered_machine(node: BalancerOwnedNode) -> ProviderMachine:
    return ProviderMachine(id=node.machine, name=node.name, state=ProviderMachineState.UNKNOWN)


POWER_ACTS: Mapping[BalancerNodeAct, Callable[[HostPowerActRunner, DueNodeAct], BalancerOwnedNode]] = {
    BalancerNodeAct.REST: HostPowerActRunner._rest,
    BalancerNodeAct.WAKE: HostPowerActRunner._wake,
    BalancerNodeAct.OPEN: HostPowerActRunner._open,
    BalancerNodeAct.STOP: HostPowerActRunner._stop,
}
