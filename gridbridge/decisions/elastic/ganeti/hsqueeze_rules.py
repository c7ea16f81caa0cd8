"""Which nodes of a Ganeti cluster are switched off or on: hsqueeze's rules.

A cluster that lacks the minimal reserve on any node is expanded, else it is condensed as long as
the target reserve would remain. Each set of nodes is balanced whole before anything is said of it.
"""

from dataclasses import replace
from math import floor

from gridbridge.decisions.elastic.ganeti.instance_moves import balance_ganeti_instances
from gridbridge.decisions.elastic.ganeti.instance_placement import (
    GanetiPlacement,
    place_ganeti_instances,
)
from gridbridge.decisions.elastic.ganeti.node_load import GanetiInstanceLoad, add_primary_instance
from gridbridge.model.elastic.ganeti_cluster import (
    GanetiCluster,
    GanetiInstanceMove,
    GanetiInstanceSize,
    GanetiSqueezeAction,
    GanetiSqueezePlan,
)


def plan_ganeti_squeeze(cluster: GanetiCluster, minimal: float, target: float) -> GanetiSqueezePlan:
    """Say what hsqueeze says, for reserves in standard instances."""
    placement = place_ganeti_instances(cluster)
    sleeping = tuple(at for at, node in enumerate(cluster.nodes) if node.is_standby)
    resting = _nodes_that_may_power_off(cluster)
    standard = cluster.policy.standard
    least, desired = (
        _reserve_of_standard_instances(standard, minimal),
        _reserve_of_standard_instances(standard, target),
    )
    is_enough = True
    if not every_node_has_reserve(placement, least):
        way, enough = GanetiSqueezeAction.ONLINE, _nodes_to_power_on(placement, sleeping, least)
        chosen, is_enough = (sleeping, False) if enough is None else (enough, True)
    else:
        chosen = _nodes_to_power_off(placement, resting, desired)
        way = GanetiSqueezeAction.OFFLINE if chosen else GanetiSqueezeAction.NOTHING
    moves: tuple[GanetiInstanceMove, ...] = ()
    after = cluster
    if way is not GanetiSqueezeAction.NOTHING:
        end = placement.switched(chosen, to_online=way is GanetiSqueezeAction.ONLINE)
        moves = balance_ganeti_instances(end)
        after = _cluster_after_moves(cluster, end)
    return GanetiSqueezePlan(
        way=way,
        nodes=chosen,
        is_enough=is_enough,
        offline_candidates=resting,
        online_candidates=sleeping,
        moves=moves,
        after=after,
    )


def _reserve_of_standard_instances(
    standard: GanetiInstanceSize, factor: float
) -> GanetiInstanceLoad:
    """Return a part or a multiple of a standard instance, rounded down."""
    mem = floor(factor * standard.mem)
    return GanetiInstanceLoad(
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


def every_node_has_reserve(at: GanetiPlacement, reserve: GanetiInstanceLoad) -> bool:
    """Whether each node, offline ones too, could take the reserve in addition."""
    return all(
        add_primary_instance(hardware, load, reserve, is_forced=False) is not None
        for hardware, load in zip(at.hardware, at.loads, strict=True)
    )


def _nodes_that_may_power_off(cluster: GanetiCluster) -> tuple[int, ...]:
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


def _nodes_to_power_off(
    placement: GanetiPlacement, resting: tuple[int, ...], reserve: GanetiInstanceLoad
) -> tuple[int, ...]:
    """Those that can all be switched off together, tried from the last."""
    chosen: tuple[int, ...] = ()
    for node in reversed(resting):
        if _leaves_reserve(placement, (node, *chosen), reserve, to_online=False):
            chosen = (node, *chosen)
    return chosen


def _nodes_to_power_on(
    placement: GanetiPlacement, sleeping: tuple[int, ...], reserve: GanetiInstanceLoad
) -> tuple[int, ...] | None:
    """Return the first of those that sleep, as few as give the reserve; None: all don't."""
    tried = (sleeping[:count] for count in range(len(sleeping) + 1))
    return next(
        (nodes for nodes in tried if _leaves_reserve(placement, nodes, reserve, to_online=True)),
        None,
    )


def _leaves_reserve(
    placement: GanetiPlacement,
    nodes: tuple[int, ...],
    reserve: GanetiInstanceLoad,
    *,
    to_online: bool,
) -> bool:
    """Whether all instances end on nodes that are online, and each node keeps the reserve."""
    tried = placement.switched(nodes, to_online=to_online)
    if not _has_enough_memory(tried, reserve):
        return False
    balance_ganeti_instances(tried)
    return all(tried.is_online[primary] for primary, _ in tried.homes) and every_node_has_reserve(
        tried, reserve
    )


def _has_enough_memory(tried: GanetiPlacement, reserve: GanetiInstanceLoad) -> bool:
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


def _cluster_after_moves(cluster: GanetiCluster, end: GanetiPlacement) -> GanetiCluster:
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
