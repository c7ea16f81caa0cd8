"""What is due for a host of the site's own, which is switched on and off, and never made.

It stays in its cell while it rests. Nothing is switched off that this balancer did not close, and
did not find idle afterwards, but a host that it woke itself and that never came up.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType

from gridbridge.model.elastic.machines import Machine, MachineState
from gridbridge.model.elastic.membership_steps import JoinStep
from gridbridge.model.elastic.node import NodeState
from gridbridge.model.elastic.owned_nodes import (
    DueAct,
    HostSeen,
    NodeAct,
    NodeCause,
    OwnedNode,
    World,
    reports,
)
from gridbridge.model.elastic.standby_hosts import STANDBY, STANDBY_AUTO, tags_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PoweredHostFacts:
    """A host, what switches it, what the cell tells of it, and the moment."""

    node: OwnedNode
    machine: Machine | None  # None: nobody switches it any more
    host: HostSeen | None  # None: the cell does not know it
    now: datetime
    boot_s: float  # how long it may take to come up, and to go down
    is_any_closed: bool = False  # a queue, by somebody's hand, on all hosts

    @property
    def is_late(self) -> bool:
        """Whether it has been in its state for as long as a boot may take."""
        return (self.now - self.node.since).total_seconds() > self.boot_s

    @property
    def reports(self) -> bool:
        """Whether its execution daemon does, or did before the cell noticed that it went off."""
        return reports(self.host)

    @property
    def is_up(self) -> bool:
        """Whether its execution daemon reports, and nobody tells that it has no power."""
        return self.reports and not self.is_told_off

    @property
    def has_power(self) -> bool:
        """Whether it is known to have power."""
        return self.machine is not None and self.machine.state is MachineState.RUNNING

    @property
    def is_told_off(self) -> bool:
        """Whether what switches it says that it has no power."""
        return self.machine is not None and self.machine.state is MachineState.STOPPED

    @property
    def is_off(self) -> bool:
        """Whether it has no power: one whose daemon reports has, whatever is said of it."""
        return self.is_told_off and not self.reports

    def as_(self, state: NodeState, cause: NodeCause = NodeCause.NONE) -> OwnedNode:
        """Return the node in another state, since now."""
        return self.node.entering(state, self.now, cause)


def due(case: PoweredHostFacts) -> DueAct | None:
    """Return what is due; a host that nobody switches any more is opened, and forgotten."""
    if case.machine is None:
        return _unswitched(case)
    rule = RULES.get(case.node.state)
    return rule(case) if rule else None


def _unswitched(case: PoweredHostFacts) -> DueAct:
    """Open a host on its way up or down before it is forgotten; one that rests stays off."""
    if is_closed(case.node) and case.host is not None:
        return released(case.node, case.now)
    return DueAct(node=case.as_(NodeState.GONE, NodeCause.NOT_SWITCHED), is_over=True)


def left_alone(world: World) -> frozenset[str]:
    """Return the hosts that are neither to be woken nor to rest now.

    Those that rest and have power still, or report and don't tell: who woke one would find it up.
    Those that work, and don't tell whether they have power: nobody would see them off.
    """
    listed = (machine for pool in world.switched for machine in world.machines.get(pool, ()))
    states = {machine.id: machine.state for machine in listed}
    own = (node for node in world.kept if node.pool in world.switched)
    return frozenset(
        node.name for node in own if _is_left_alone(node, states.get(node.machine), world)
    )


def _is_left_alone(node: OwnedNode, state: MachineState | None, world: World) -> bool:
    is_unknown = state is MachineState.UNKNOWN
    if node.state is NodeState.STANDBY:
        is_on = is_unknown and reports(world.host_of(node.name))
        return state is MachineState.RUNNING or is_on
    return node.state is NodeState.READY and is_unknown


def adopted(
    machine: Machine,
    pool: str,
    host: HostSeen | None,
    now: datetime,
    tags: Mapping[str, tuple[str, ...]],
) -> OwnedNode | None:
    """Return the node of a host that nobody knows yet.

    None where it has power and is silent: somebody may be at work there. None where it is told to
    be off, and reports: one of both will change. One that is up with our tag was being woken, or
    put to rest, when the state file was lost: it is to be opened.
    """
    node = OwnedNode(
        name=machine.name, pool=pool, machine=machine.id, state=NodeState.READY, since=now
    )
    if machine.state is MachineState.STOPPED:
        return None if reports(host) else replace(node, state=NodeState.STANDBY)
    if machine.state is MachineState.RUNNING and reports(host):
        is_ours = STANDBY_AUTO in tags_of(machine.name, tags)
        state = NodeState.JOINING if is_ours else NodeState.READY
        return replace(node, state=state, up_since=now)
    return None


def rests(node: OwnedNode, now: datetime, *, is_busy: bool, is_moved: bool = False) -> DueAct:
    """Have a host rest: at once if it is idle, or else when its tasks have ended, or moved."""
    cause = NodeCause.MOVED if is_moved else NodeCause.CONDENSED if is_busy else NodeCause.RESTS
    draining = node.entering(NodeState.DRAINING, now, cause)
    return DueAct(node=draining, before=node, act=NodeAct.REST)


def woken(node: OwnedNode, now: datetime) -> DueAct:
    """Have a host work again."""
    booting = replace(node.entering(NodeState.BOOTING, now), idle_since=None)
    return DueAct(node=booting, before=node, act=NodeAct.WAKE)


def is_closed(node: OwnedNode) -> bool:
    """Say whether a host is on its way up or down, and so is closed."""
    return node.state not in (NodeState.READY, NodeState.STANDBY)


def released(node: OwnedNode, now: datetime) -> DueAct:
    """Open a host that nobody switches on and off any more, on its way up or down."""
    if node.state is not NodeState.JOINING:
        node = node.entering(NodeState.JOINING, now)
    return DueAct(node=node, act=NodeAct.OPEN)


def tagged(due_: DueAct, tags: Mapping[str, tuple[str, ...]]) -> DueAct:
    """Return it with the tag that a host gets before it rests.

    One that has a standby tag keeps that alone. One that an administrator drained gets none, so
    that nobody wakes it.
    """
    host_tags = tags_of(due_.node.name, tags)
    is_marked = any(host_tag.startswith(STANDBY) for host_tag in host_tags)
    if due_.act is not NodeAct.REST or is_marked or due_.node.cause is NodeCause.DRAINED:
        return due_
    return replace(due_, tag=STANDBY_AUTO)


def _ready(case: PoweredHostFacts) -> DueAct | None:
    """Note since when it is idle; one that somebody switched off rests.

    One whose queue somebody had closed is opened once none is.
    """
    if case.is_off:
        return DueAct(node=_off(_with_cause(case, case.as_(NodeState.STANDBY))))
    if case.node.step is JoinStep.CLOSED and case.reports and not case.is_any_closed:
        return DueAct(node=case.node, act=NodeAct.OPEN)
    is_idle = case.reports and case.host is not None and not case.host.is_busy
    idle = (case.node.idle_since or case.now) if is_idle else None
    node = replace(case.node, idle_since=idle)
    return DueAct(node=node) if node != case.node else None


def _draining(case: PoweredHostFacts) -> DueAct | None:
    """Go on until it is off."""
    if case.is_off:
        return DueAct(node=_off(_with_cause(case, case.as_(NodeState.STANDBY, case.node.cause))))
    return DueAct(node=case.node, act=NodeAct.REST)


def _with_cause(case: PoweredHostFacts, node: OwnedNode) -> OwnedNode:
    """Return a node that is off with the cause that tells of tasks there, or without it.

    A cause that keeps it from being woken stays.
    """
    if node.cause is NodeCause.DRAINED or node.cause.is_boot_failure:
        return node
    if case.host is not None and case.host.is_busy:
        return replace(node, cause=NodeCause.UNDER_TASKS)
    return replace(node, cause=NodeCause.NONE) if node.cause is NodeCause.UNDER_TASKS else node


def _off(node: OwnedNode) -> OwnedNode:
    """Return a node that was seen off: whoever finds it on later knows that a person did it."""
    return replace(node, up_since=None)


def _standby(case: PoweredHostFacts) -> DueAct | None:
    """Let one work that somebody switched on; it may take its time to go down.

    One that was told to go off, and that nobody has seen off since, is told again. Any other that
    has power and is silent may have somebody at work there.
    """
    if case.is_told_off:
        node = _off(_with_cause(case, case.node) if case.is_off else case.node)
        return DueAct(node=node) if node != case.node else None
    if case.is_late and case.is_up:
        return DueAct(node=case.as_(NodeState.JOINING), act=NodeAct.OPEN)
    if case.is_late and case.has_power and case.node.up_since is not None:
        return DueAct(node=case.node, act=NodeAct.STOP)
    return None


def _booting(case: PoweredHostFacts) -> DueAct | None:
    """Let it work once its daemon reports; one that never does is switched off again.

    What switches it on may be lost, so that it is asked for until the host has power. One that
    reports for so long is up, whatever is said of its power.
    """
    if case.is_up or (case.is_late and case.reports):
        return DueAct(node=case.as_(NodeState.JOINING), act=NodeAct.OPEN)
    if case.is_late:
        return DueAct(node=case.as_(NodeState.FAILED, NodeCause.NEVER_BOOTED), act=NodeAct.STOP)
    return DueAct(node=case.node, act=NodeAct.WAKE) if case.is_told_off else None


def _joining(case: PoweredHostFacts) -> DueAct | None:
    """Go on: it was up."""
    if case.is_off:
        return DueAct(node=_off(_with_cause(case, case.as_(NodeState.STANDBY))))
    return DueAct(node=case.node, act=NodeAct.OPEN)


def _failed(case: PoweredHostFacts) -> DueAct | None:
    """Go on: it is to be off, unless its daemon reports by now."""
    if case.is_up:
        return DueAct(node=case.as_(NodeState.JOINING), act=NodeAct.OPEN)
    return DueAct(node=case.node, act=NodeAct.STOP)


RULES: Mapping[NodeState, Callable[[PoweredHostFacts], DueAct | None]] = MappingProxyType(
    {
        NodeState.READY: _ready,
        NodeState.DRAINING: _draining,
        NodeState.STANDBY: _standby,
        NodeState.BOOTING: _booting,
        NodeState.JOINING: _joining,
        NodeState.FAILED: _failed,
    }
)
