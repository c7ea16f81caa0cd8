"""Which nodes of a Ganeti cluster are switched off or on: hsqueeze's rules.

A cluster that lacks the minimal reserve on any node is expanded, else it is condensed as long as
the target reserve would remain. Each set of nodes is balanced whole before anything is said of it.
"""

from dataclasses import replace
from math import floor

from gridbridge.decisions.elastic.ganeti.instance_moves import balance
from gridbridge.decisions.elastic.ganeti.instance_placement import Placement, placement_of
from gridbridge.decisions.elastic.ganeti.node_load import InstanceLoad, with_primary
from gridbridge.model.elastic.ganeti_cluster import (
    GanetiCluster,
    InstanceMove,
    InstanceSpec,
    MoveWay,
    SqueezePlan,
)


def squeeze(cluster: GanetiCluster, minimal: float, target: float) -> SqueezePlan:
    """Say what hsqueeze says, for reserves in standard instances."""
    placement = placement_of(cluster)
    sleeping = tuple(at for at, node in enumerate(cluster.nodes) if node.is_standby)
    resting = _restable(cluster)
    standard = cluster.policy.standard
    least, desired = _reserve(standard, minimal), _reserve(standard, target)
    is_enough = True
    if not has_room(placement, least):
        way, enough = MoveWay.ONLINE, _to_online(placement, sleeping, least)
        chosen, is_enough = (sleeping, False) if enough is None else (enough, True)
    else:
        chosen = _to_offline(placement, resting, desired)
        way = MoveWay.OFFLINE if chosen else MoveWay.NOTHING
    moves: tuple[InstanceMove, ...] = ()
    after = cluster
    if way is not MoveWay.NOTHING:
        end = placement.switched(chosen, to_online=way is MoveWay.ONLINE)
        moves = balance(end)
        after = _afterwards(cluster, end)
    return SqueezePlan(
        way=way,
        nodes=chosen,
        is_enough=is_enough,
        offline_candidates=resting,
        online_candidates=sleeping,
        moves=moves,
        after=after,
    )


def _reserve(standard: InstanceSpec, factor: float) -> InstanceLoad:
    """Return a part or a multiple of a standard instance, rounded down."""
    mem = floor(factor * standard.mem)
    return InstanceLoad(
        mem=mem,
        live_mem=mem,
        kept_mem=0,
        disk=0,
        vcpus=floor(factor * standard.vcpus),
        is_local=False,
        is_mirrored=False,
        spindle_use=floor(factor * standard.spindles),
        spindles=0,
        tags=(),
        desired=frozenset(),
        together=0,
    )


def has_room(at: Placement, reserve: InstanceLoad) -> bool:
    """Whether each node, offline ones too, could take the reserve in addition."""
    return all(
        with_primary(hardware, load, reserve, is_forced=False) is not None
        for hardware, load in zip(at.hardware, at.loads, strict=True)
    )


def _restable(cluster: GanetiCluster) -> tuple[int, ...]:
    """Return the nodes that may be switched off: those with the most instances first."""
    primaries: list[list[int]] = [[] for _ in cluster.nodes]
    seconds = set()
    for at, instance in enumerate(cluster.instances):
        primaries[instance.primary].append(at)
        seconds.add(instance.secondary)
    fit = [
        at
        for at, node in enumerate(cluster.nodes)
        if not node.is_offline
        and not node.is_master
        and at not in seconds
        and not any(cluster.instances[index].template.is_local for index in primaries[at])
    ]
    return tuple(sorted(fit, key=lambda at: -len(primaries[at])))


def _to_offline(
    placement: Placement, resting: tuple[int, ...], reserve: InstanceLoad
) -> tuple[int, ...]:
    """Those that can all be switched off together, tried from the last."""
    chosen: tuple[int, ...] = ()
    for node in reversed(resting):
        if _suffices(placement, (node, *chosen), reserve, to_online=False):
            chosen = (node, *chosen)
    return chosen


def _to_online(
    placement: Placement, sleeping: tuple[int, ...], reserve: InstanceLoad
) -> tuple[int, ...] | None:
    """Return the first of those that sleep, as few as give the reserve; None: all don't."""
    tried = (sleeping[:count] for count in range(len(sleeping) + 1))
    return next(
        (nodes for nodes in tried if _suffices(placement, nodes, reserve, to_online=True)), None
    )


def _suffices(
    placement: Placement, nodes: tuple[int, ...], reserve: InstanceLoad, *, to_online: bool
) -> bool:
    """Whether all instances end on nodes that are online, and each node keeps the reserve."""
    tried = placement.switched(nodes, to_online=to_online)
    if not _may_suffice(tried, reserve):
        return False
    balance(tried)
    return all(tried.is_online[primary] for primary, _ in tried.homes) and has_room(tried, reserve)


def _may_suffice(tried: Placement, reserve: InstanceLoad) -> bool:
    """Return whether all nodes together have the room, which saves balancing where they don't.

    Moves don't change how much all instances take together, and end on online nodes alone.
    """
    movable = set(tried.movable)
    if any(
        not tried.is_online[primary] and instance not in movable
        for instance, (primary, _) in enumerate(tried.homes)
    ):
        return False
    online = [tried.hardware[node] for node in tried.online]
    live_mem = sum(load.live_mem for load in tried.loads)
    room = sum(hardware.room for hardware in online)
    return room - live_mem > len(online) * reserve.live_mem or not online


def _afterwards(cluster: GanetiCluster, end: Placement) -> GanetiCluster:
    """Return the cluster with all nodes and instances as a placement has them."""
    nodes = tuple(
        replace(
            node,
            is_offline=not is_online,
            free_disk=load.free_disk,
            free_spindles=load.free_spindles,
        )
        for node, is_online, load in zip(cluster.nodes, end.is_online, end.loads, strict=True)
    )
    instances = tuple(
        replace(instance, primary=primary, secondary=secondary)
        for instance, (primary, secondary) in zip(cluster.instances, end.homes, strict=True)
    )
    return replace(cluster, nodes=nodes, instances=instances)
