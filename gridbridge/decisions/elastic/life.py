"""What is due for each node that the balancer owns: its life, as a table of rules.

Who owns a machine is said by its provider's tags alone. A pool whose provider gave no whole list is
left as it is: what is not listed is then unknown, never gone.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType

from gridbridge.decisions.elastic import switched
from gridbridge.model.elastic.machines import MASTER_TAG, Machine, MachineState
from gridbridge.model.elastic.nodes import NodeState
from gridbridge.model.elastic.owned import Act, Cause, Due, HostSeen, Owned, World

LISTED_S = 120.0  # a new machine is in its provider's list by then, and one left out by mistake


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long each part of a node's life may last."""

    boot_s: float
    join_s: float
    silent_s: float
    needs_key: bool = False  # machines are prepared by ssh, to the host key that their list tells


def due(world: World, patience: Patience) -> tuple[Due, ...]:
    """Return what is due, in the order of the nodes' names; nothing for pools that are unknown."""
    found = [*_of_kept(world, patience), *_of_strangers(world)]
    return tuple(sorted(found, key=lambda one: (one.node.name, one.node.machine)))


def taken_in(world: World) -> tuple[Owned, ...]:
    """Return the nodes of machines that this round takes in: limits count them before it is over.

    Not those that are made twice: they are given back.
    """
    found = (one.node for one in _of_strangers(world))
    return tuple(one for one in found if one.cause is not Cause.DOUBLE)


def own_hosts(world: World) -> tuple[Owned, ...]:
    """Return the nodes of the site's own hosts that nobody has kept yet."""
    return tuple(one for one in taken_in(world) if one.pool in world.switched)


def unlisted(world: World, before: Mapping[str, datetime]) -> Mapping[str, datetime]:
    """Return since when each node's machine is in no list, or stopped there.

    A list that did not come tells nothing. A right one that leaves nodes out can't be told from one
    of nodes that are gone: more than one has to say so.
    """
    found = dict[str, datetime]()
    for node in world.kept:
        since = before.get(_told_as(node))
        if node.pool in world.machines:
            is_out = _is_out(machine_of(node, world), node.pool, world)
            since = (since or world.now) if is_out else None
        if since is not None:
            found[_told_as(node)] = min(since, world.now)
    return found


def _told_as(node: Owned) -> str:
    """Return what tells a node from all others: two machines may have one name for a while."""
    return f"{node.name} {node.machine}"


def _is_out(machine: Machine | None, pool: str, world: World) -> bool:
    """Say whether a node has no machine that could run: a made one that was stopped is dead."""
    is_made = pool not in world.switched
    return machine is None or (is_made and machine.state is MachineState.STOPPED)


def left_over(world: World) -> tuple[Owned, ...]:
    """Return the nodes whose machines are of no use, and that their provider does not end."""
    return tuple(one for one in world.kept if _is_left_over(one, world))


def _is_left_over(node: Owned, world: World) -> bool:
    is_out = node.state is NodeState.REMOVING and host_of(node.name, world.hosts) is None
    is_late = (world.now - node.since).total_seconds() > LISTED_S
    is_own = node.pool not in world.switched
    is_useless = is_own and is_late and (is_out or node.state is NodeState.FAILED)
    return is_useless and machine_of(node, world) is not None


def machine_of(node: Owned, world: World) -> Machine | None:
    """Return a node's machine: by its id, or by its name and tag where no id is known yet."""
    own = _own(world, node.pool)
    if node.machine:
        return next((one for one in own if one.id == node.machine), None)
    return next((one for one in own if one.name == node.name), None)


def host_of(name: str, hosts: Mapping[str, HostSeen]) -> HostSeen | None:
    """Return what the cell tells of a host; None where it does not know it."""
    return hosts.get(name.partition(".")[0])


def _own(world: World, pool: str) -> list[Machine]:
    """Return the machines of a pool that are ours and not gone, the oldest first."""
    own = (
        one
        for one in world.machines.get(pool, ())
        if one.belongs_to(world.cluster)
        and one.pool == pool
        and one.state is not MachineState.GONE
        and MASTER_TAG not in one.tags
    )
    return sorted(own, key=lambda one: (one.created is None, one.created or world.now, one.id))


def _of_kept(world: World, patience: Patience) -> Iterator[Due]:
    for node in world.kept:
        if _is_anothers(node, world):
            yield Due(node=_let_go(node, world), before=node, is_over=True)
        elif node.pool in world.released:
            yield replace(switched.released(node, world.now), before=node)
        elif node.pool in world.machines:
            case = _Case(node, machine_of(node, world), world, patience)
            rule = _switched if node.pool in world.switched else RULES.get(node.state)
            if rule is not None and (one := rule(case)):
                yield replace(one, before=node)


def _is_anothers(node: Owned, world: World) -> bool:
    """Say whether the machine of a node has another owner's tag by now, or none."""
    listed = world.machines.get(node.pool, ())
    return any(one.id == node.machine and not one.belongs_to(world.cluster) for one in listed)


def _let_go(node: Owned, world: World) -> Owned:
    return replace(node, state=NodeState.GONE, since=world.now, cause=Cause.ANOTHERS)


def _of_strangers(world: World) -> Iterator[Due]:
    """Take in machines of ours that nobody knows, and give back those whose name is taken."""
    known = {world.machine_key(one.pool, one.machine) for one in world.kept if one.machine}
    names = {one.name for one in world.kept}
    waiting = {(one.pool, one.name) for one in world.kept if not one.machine}
    for pool in sorted(world.machines):
        for machine in _own(world, pool):
            if world.machine_key(pool, machine.id) in known:
                continue
            if pool in world.switched:
                yield from _of_own_host(machine, pool, world, names)
            elif (pool, machine.name) in waiting:
                waiting.discard((pool, machine.name))  # it is that node's machine
            elif _is_other_host(machine, world):
                continue
            elif machine.name in names:
                yield _double(machine, pool, world)
            else:
                names.add(machine.name)
                node = _adopted(machine, pool, world)
                yield Due(node=node, act=Act.JOIN if node.state is NodeState.JOINING else None)


def named_as_hosts(world: World) -> tuple[Machine, ...]:
    """Return the machines of ours that nobody knows, and that have the name of a host."""
    names = {one.name for one in world.kept}
    return tuple(
        one
        for pool in sorted(world.machines.keys() - world.switched)
        for one in _own(world, pool)
        if one.name not in names and host_of(one.name, world.hosts) is not None
    )


def other_hosts(world: World) -> tuple[Machine, ...]:
    """Return those of them that are not that host: its name leads to another address."""
    return tuple(one for one in named_as_hosts(world) if _is_other_host(one, world))


def _is_other_host(machine: Machine, world: World) -> bool:
    """Say whether an unknown machine is left alone, as its name is that of a host of the site."""
    is_known = any(one.name == machine.name for one in world.kept)
    is_host = not is_known and host_of(machine.name, world.hosts) is not None
    return is_host and not (
        machine.address and world.addresses.get(machine.name) == machine.address
    )


def _of_own_host(machine: Machine, pool: str, world: World, names: set[str]) -> Iterator[Due]:
    """Take in a host of the site's own; one whose name a node has already is left alone."""
    host = host_of(machine.name, world.hosts)
    node = switched.adopted(machine, pool, host, world.now, world.tags)
    if node is not None and machine.name not in names:
        names.add(machine.name)
        yield Due(node=node)


def _double(machine: Machine, pool: str, world: World) -> Due:
    """Give back a machine that was made twice: nobody uses it, and somebody pays for it."""
    node = replace(_adopted(machine, pool, world), state=NodeState.FAILED, cause=Cause.DOUBLE)
    return Due(node=node, act=Act.DESTROY)


def _adopted(machine: Machine, pool: str, world: World) -> Owned:
    """Return the node of a machine that is ours, though the state file does not know it.

    One whose daemon reports may have been joining or leaving, and so be closed: it joins anew.
    """
    host = host_of(machine.name, world.hosts)
    is_host = host is not None and not host.is_silent
    state = NodeState.JOINING if is_host else NodeState.BOOTING
    if machine.state is MachineState.STOPPED:
        state = NodeState.STANDBY
    return _with(Owned(name=machine.name, pool=pool, state=state, since=world.now), machine, world)


@dataclass(frozen=True, slots=True)
class _Case:
    """A node, its machine as listed, and all that is known."""

    node: Owned
    machine: Machine | None
    world: World
    patience: Patience

    @property
    def age_s(self) -> float:
        """How long the node has been in its state."""
        return (self.world.now - self.node.since).total_seconds()

    @property
    def host(self) -> HostSeen | None:
        """What the cell tells of it."""
        return host_of(self.node.name, self.world.hosts)

    @property
    def is_out(self) -> bool:
        """Whether its machine is in no list, or stopped there."""
        return _is_out(self.machine, self.node.pool, self.world)

    @property
    def is_contradicted(self) -> bool:
        """Whether a list that tells so is wrong: its daemon reports."""
        return self.is_out and self.host is not None and not self.host.is_silent

    @property
    def is_in_doubt(self) -> bool:
        """Whether such a list is not to be believed: not yet, or not at all."""
        if not self.is_out:
            return False
        return self.is_contradicted or self.is_out_briefly

    @property
    def is_out_briefly(self) -> bool:
        """Whether too few lists have told so."""
        since = self.world.unlisted.get(_told_as(self.node), self.world.now)
        return (self.world.now - since).total_seconds() < LISTED_S

    def as_(self, state: NodeState, cause: Cause = Cause.NONE) -> Owned:
        """Return the node in another state, since now."""
        return replace(self.node, state=state, since=self.world.now, cause=cause)


def _switched(case: _Case) -> Due | None:
    """Return what is due for a host that is switched on and off."""
    told = switched.due(
        switched.Case(
            node=case.node,
            machine=case.machine,
            host=case.host,
            now=case.world.now,
            boot_s=case.patience.boot_s,
        )
    )
    return switched.tagged(told, case.world.tags) if told else None


def _with(node: Owned, machine: Machine, world: World) -> Owned:
    """Return a node with what its machine tells."""
    return replace(
        node,
        machine=machine.id,
        address=machine.address or node.address,
        host_key=machine.host_key or node.host_key,
        up_since=node.up_since or machine.created or world.now,
    )


def _requested(case: _Case) -> Due | None:
    """Take the machine that was asked for, or give it up when nobody lists it in time."""
    if case.machine is not None:
        booting = case.as_(NodeState.BOOTING)
        return _booting(_further(case, _with(booting, case.machine, case.world)))
    if case.age_s > LISTED_S:
        return Due(node=case.as_(NodeState.GONE, Cause.NOT_GRANTED), is_over=True)
    return None


def _further(case: _Case, node: Owned) -> _Case:
    """Return a case with a node that is further in its life."""
    return _Case(node, case.machine, case.world, case.patience)


def _booting(case: _Case) -> Due | None:
    """Let a machine that runs join the cell; give back one that does not boot in time."""
    if case.machine is None:
        if case.is_in_doubt:
            return Due(node=case.node)
        return Due(node=case.as_(NodeState.GONE, Cause.NOT_THERE), is_over=True)
    node = _with(case.node, case.machine, case.world)
    has_key = bool(node.host_key) or not case.patience.needs_key
    if case.machine.state is MachineState.RUNNING and node.address and has_key:
        return Due(node=replace(node, state=NodeState.JOINING, since=case.world.now), act=Act.JOIN)
    if case.age_s > case.patience.boot_s:
        failed = _further(case, node).as_(NodeState.FAILED, Cause.NEVER_BOOTED)
        return Due(node=failed, act=Act.DESTROY)
    return Due(node=node)


def _joining(case: _Case) -> Due | None:
    """Go on with joining; take all of it back when it lasts too long or the machine is gone.

    One that was killed after its last step may run tasks by now: it goes on joining then.
    """
    if case.is_in_doubt:
        return None
    if case.machine is None or case.is_out:
        return _lost(case)
    is_busy = case.host is not None and case.host.is_busy
    if case.age_s > case.patience.join_s and not is_busy:
        return Due(node=case.as_(NodeState.REMOVING, Cause.NEVER_JOINED), act=Act.EVICT)
    return Due(node=_with(case.node, case.machine, case.world), act=Act.JOIN)


def _ready(case: _Case) -> Due | None:
    """Watch a node: note since when it is idle, and take out one whose machine is gone.

    A host that is silent may still run what it ran: it is only taken out when nothing ran there,
    and when it is not one of many.
    """
    node, host, now = case.node, case.host, case.world.now
    if case.is_in_doubt:
        return None
    if case.is_out:
        return _lost(case)
    is_silent = host is None or host.is_silent
    if host is not None and (host.is_busy or is_silent):
        node = replace(node, idle_since=None if host.is_busy else node.idle_since or now)
    else:
        node = replace(node, idle_since=node.idle_since or now)
    idle_s = (now - node.idle_since).total_seconds() if node.idle_since else 0.0
    is_long = idle_s > case.patience.silent_s and not case.world.is_unready
    if is_silent and is_long and not node.is_kept:
        gone = replace(node, state=NodeState.REMOVING, since=now, cause=Cause.SILENT)
        return Due(node=gone, act=Act.EVICT)
    return Due(node=node) if node != case.node else None


def _draining(case: _Case) -> Due | None:
    """Close a node, look again and take it out; one whose machine is gone needs no look."""
    if case.is_in_doubt:
        return None
    if case.is_out:
        return _lost(case)
    return Due(node=case.node, act=Act.REMOVE)


def _removing(case: _Case) -> Due | None:
    """Go on until the cell and the provider have both forgotten a node.

    One whose machine was taken for gone, and that runs or reports again, joins anew.
    """
    if case.node.cause is Cause.VANISHED and (not case.is_out or case.is_contradicted):
        back = replace(case.as_(NodeState.JOINING), idle_since=None)
        return Due(node=back, act=Act.JOIN)
    if case.machine is None and case.host is None:
        return Due(node=case.as_(NodeState.GONE, case.node.cause), is_over=True)
    return Due(node=case.node, act=Act.EVICT)


def _lost(case: _Case) -> Due:
    """Take a node out whose machine is gone, or stopped; one that is kept may rest."""
    if case.machine is not None and case.node.is_kept:
        return Due(node=case.as_(NodeState.STANDBY))
    return Due(node=case.as_(NodeState.REMOVING, Cause.VANISHED), act=Act.EVICT)


def _failed(case: _Case) -> Due | None:
    """Give a machine back that is of no use.

    The host of its name may be another node's: what that reports tells nothing of this one.
    """
    if case.machine is None:
        if case.is_out_briefly:
            return None
        return Due(node=case.as_(NodeState.GONE, case.node.cause), is_over=True)
    return Due(node=case.node, act=Act.DESTROY)


def _standby(case: _Case) -> Due | None:
    """Let a node that was switched on join again; one that nobody keeps does not rest for long."""
    if case.is_in_doubt:
        return None
    if case.machine is None or (case.is_out and not case.node.is_kept):
        return _lost(case)
    if case.machine.state is MachineState.RUNNING:
        return Due(node=case.as_(NodeState.JOINING), act=Act.JOIN)
    return None


RULES: Mapping[NodeState, Callable[[_Case], Due | None]] = MappingProxyType(
    {
        NodeState.REQUESTED: _requested,
        NodeState.BOOTING: _booting,
        NodeState.JOINING: _joining,
        NodeState.READY: _ready,
        NodeState.DRAINING: _draining,
        NodeState.REMOVING: _removing,
        NodeState.FAILED: _failed,
        NodeState.STANDBY: _standby,
    }
)
