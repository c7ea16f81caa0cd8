"""What a round does with a host of the site's own, which is switched on and off.

Each act may be repeated, after a kill too. A host is switched off only when it is closed and still
idle. No task is ended by any of them; where that is asked for, those that may run again do.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from gridbridge.elastic.acts.host_opening import opened
from gridbridge.elastic.acts.membership_protocol import Membership
from gridbridge.elastic.providers.provider_protocol import PowerSupply
from gridbridge.errors import GridbridgeError, NotIdle, ProviderFailed
from gridbridge.model.elastic.elastic_nodes import (
    ElasticNodeState,
    HostIdleness,
    ProviderMachine,
    ProviderMachineState,
)
from gridbridge.model.elastic.owned_nodes import DueNodeAct, NodeAct, NodeStateCause, OwnedNode
from gridbridge.model.elastic.standby_hosts import STANDBY_AUTO

_log = logging.getLogger(__name__)

PATIENT = (
    NodeStateCause.DRAINED,
    NodeStateCause.CONDENSED,
)  # it stays closed until its tasks have ended
Tagging = Callable[[str, str, bool], None]  # a host, a tag, and whether it is to have it


def no_tags(host: str, tag: str, is_wanted: bool) -> None:
    """Keep no tags."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerActs:
    """The acts of one site; several may be under way side by side, each of another host."""

    supplies: Mapping[str, PowerSupply]  # by pool
    membership: Membership
    tag: Tagging
    now: Callable[[], datetime]
    closed: frozenset[str] = frozenset()  # queues that somebody closed on all hosts

    def do(self, due: DueNodeAct) -> OwnedNode:
        """Do what is due; return the node as it is then. GridbridgeError when it has to wait."""
        assert due.act
        return ACTS[due.act](self, due)

    def _rest(self, due: DueNodeAct) -> OwnedNode:
        """Switch a host off if it is idle once nothing more can start there; else open it again.

        Best-effort tasks make way before, however many rounds that takes, and it has its tag
        before: one that is off without a tag is never woken. Where nobody knows whether it was
        told to go off, it is as one that was: should it stay on, it will work again.
        """
        node = due.node
        if node.is_kept:  # somebody wants it back meanwhile
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
            if node.cause is NodeStateCause.DRAINED:  # an administrator wants it off
                raise
            _log.warning("event=not_done node=%s act=rest why=%r", node.name, str(error))
        return node.entering(ElasticNodeState.STANDBY, self.now(), node.cause)

    def _is_to_wait(self, node: OwnedNode, idleness: HostIdleness) -> bool:
        """Say whether a host that is in use stays closed; where tasks are moved, move them."""
        if node.cause is not NodeStateCause.MOVED:
            return node.cause in PATIENT
        return (
            idleness.is_listed and idleness.is_closed and self.membership.put_elsewhere(node.name)
        )

    def _wake(self, due: DueNodeAct) -> OwnedNode:
        """Switch a host on; the rounds that follow see it come up, or ask again."""
        self._supply(due.node).start(_machine(due.node))
        return due.node

    def _open(self, due: DueNodeAct) -> OwnedNode:
        """Let a host work; of its tags only the one that a squeeze wrote goes."""
        self.tag(due.node.name, STANDBY_AUTO, False)
        works = self._opened(due.node)
        return replace(works, up_since=works.up_since or self.now())

    def _stop(self, due: DueNodeAct) -> OwnedNode:
        """Switch a host off that did not come up, or did not go off; it keeps its tags.

        Until it is seen off it counts as up. A task that the cell has there may run still.
        """
        idleness = self.membership.look(due.node.name)
        if idleness.is_listed and not idleness.is_idle:
            raise NotIdle(due.node.name)
        if due.before is not None and due.before.state is ElasticNodeState.STANDBY:
            _log.warning("event=still_on node=%s", due.node.name)
        self._supply(due.node).stop(_machine(due.node))
        node = due.node.entering(ElasticNodeState.STANDBY, self.now(), due.node.cause)
        return replace(node, up_since=node.up_since or self.now())

    def _opened(self, node: OwnedNode) -> OwnedNode:
        return opened(node, self.membership, self.closed, self.now())

    def _supply(self, node: OwnedNode) -> PowerSupply:
        if node.pool not in self.supplies:
            raise ProviderFailed(f"{node.name}: nobody switches it on and off now")
        return self.supplies[node.pool]


def _machine(node: OwnedNode) -> ProviderMachine:
    return ProviderMachine(id=node.machine, name=node.name, state=ProviderMachineState.UNKNOWN)


ACTS: Mapping[NodeAct, Callable[[PowerActs, DueNodeAct], OwnedNode]] = {
    NodeAct.REST: PowerActs._rest,
    NodeAct.WAKE: PowerActs._wake,
    NodeAct.OPEN: PowerActs._open,
    NodeAct.STOP: PowerActs._stop,
}
