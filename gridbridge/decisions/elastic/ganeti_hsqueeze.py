"""Decide which nodes of a Ganeti cluster to power on or off, by the rules of Ganeti's hsqueeze."""

from collections.abc import Sequence
from dataclasses import replace
from math import floor

from gridbridge.decisions.elastic.ganeti_instance_balancing import balance_ganeti_instances
from gridbridge.decisions.elastic.ganeti_node_load import GanetiInstanceLoad, ganeti_load_with_primary
from gridbridge.decisions.elastic.ganeti_placement_score import GanetiInstancePlacement, present_ganeti_placement
from gridbridge.model.elastic.ganeti_cluster import (
    GanetiCluster,
    GanetiInstanceMove,
    GanetiInstanceMoveKind,
    GanetiInstanceSize,
    GanetiSqueezeAction,
    GanetiSqueezePlan,
)
from gridbridge.model.elastic.standby_and_wake_plan import STANDBY_AUTO


def plan_ganeti_power_changes(cluster: GanetiCluster, minimal: float, target: float) -> GanetiSqueezePlan:
    """Return the nodes to power on or off; `minimal` and `target` are reserves, in standard instances per node."""
    placement = present_ganeti_placement(cluster)
    sleeping = tuple(at for at, node in enumerate(cluster.nodes) if node.is_standby)
    resting = _ganeti_nodes_that_may_power_off(cluster)
    standard = cluster.policy.standard
    least, is_enough = _reserve_of_standard_instances(standard, minimal), True
    if not has_each_node_instance_room(placement, least):
        way, enough = GanetiSqueezeAction.ONLINE, _ganeti_nodes_to_power_on(placement, sleeping, least)
        chosen, is_enough = (sleeping, False) if enough is None else (enough, True)
    else:
        chosen = _ganeti_nodes_to_power_off(placement, resting, _reserve_of_standard_instances(standard, target))
        way = GanetiSqueezeAction.OFFLINE if chosen else GanetiSqueezeAction.NOTHING
    moves, after = tuple[GanetiInstanceMove, ...](), cluster
    if way is not GanetiSqueezeAction.NOTHING:
        end = placement.placement_with_nodes_switched(chosen, to_online=way is GanetiSqueezeAction.ONLINE)
        moves = balance_ganeti_instances(end)
        after = _ganeti_cluster_after_moves(cluster, end)
    return GanetiSqueezePlan(
        way=way,
        nodes=chosen,
        is_enough=is_enough,
        offline_candidates=resting,
        online_candidates=sleeping,
        moves=moves,
        after=after,
    )


def _reserve_of_standard_instances(standard: GanetiInstanceSize, factor: float) -> GanetiInstanceLoad:
    """Return the load of `factor` standard instances, with each amount rounded down."""
    mem = floor(factor * standard.mem)
    vcpus, spindles = floor(factor * standard.vcpus), floor(factor * standard.spindles)
    return GanetiInstanceLoad(mem=mem, live_mem=mem, vcpus=vcpus, spindle_use=spindles)


def has_each_node_instance_room(at: GanetiInstancePlacement, reserve: GanetiInstanceLoad) -> bool:
    """Say whether each Ganeti node, online or offline, has room for the reserve of standard instances."""
    return all(
        ganeti_load_with_primary(hardware, load, reserve, is_forced=False) is not None
        for hardware, load in zip(at.hardware, at.loads, strict=True)
    )


def _ganeti_nodes_that_may_power_off(cluster: GanetiCluster) -> tuple[int, ...]:
    """Return the nodes that may be powered off, those with the most instances first."""
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
        and not any(cluster.instances[index].template.uses_disk_of_node for index in primaries[at])
    ]
    return tuple(sorted(fit, key=lambda at: -len(primaries[at])))


def _ganeti_nodes_to_power_off(
    placement: GanetiInstancePlacement, resting: tuple[int, ...], reserve: GanetiInstanceLoad
) -> tuple[int, ...]:
    """Return the nodes that can be powered off together; the last candidate is tried first."""
    chosen: tuple[int, ...] = ()
    for node in reversed(resting):
        if _do_moves_leave_reserve(placement, (node, *chosen), reserve, to_online=False):
            chosen = (node, *chosen)
    return chosen


def _ganeti_nodes_to_power_on(
    placement: GanetiInstancePlacement, sleeping: tuple[int, ...], reserve: GanetiInstanceLoad
) -> tuple[int, ...] | None:
    """Return the fewest standby nodes that provide the reserve; None if all standby nodes are too few."""
    tried = (sleeping[:count] for count in range(len(sleeping) + 1))
    return next((nodes for nodes in tried if _do_moves_leave_reserve(placement, nodes, reserve, to_online=True)), None)


def _do_moves_leave_reserve(
    placement: GanetiInstancePlacement, nodes: tuple[int, ...], reserve: GanetiInstanceLoad, *, to_online: bool
) -> bool:
    """Say whether all instances can move to online nodes, and each node keeps the reserve."""
    tried = placement.placement_with_nodes_switched(nodes, to_online=to_online)
    if not _have_online_nodes_enough_memory(tried, reserve):
        return False
    balance_ganeti_instances(tried)
    return all(tried.is_online[primary] for primary, _ in tried.homes) and has_each_node_instance_room(tried, reserve)


def _have_online_nodes_enough_memory(tried: GanetiInstancePlacement, reserve: GanetiInstanceLoad) -> bool:
    movable = set(tried.movable)
    if any(
        not tried.is_online[primary] and instance not in movable for instance, (primary, _) in enumerate(tried.homes)
    ):
        return False
    online = [tried.hardware[node] for node in tried.online_node_indices]
    live_mem = sum(load.live_mem for load in tried.loads)
    room = sum(hardware.room for hardware in online)
    return room - live_mem > len(online) * reserve.live_mem or not online


def _ganeti_cluster_after_moves(cluster: GanetiCluster, end: GanetiInstancePlacement) -> GanetiCluster:
    nodes = tuple(
        replace(node, is_offline=not is_online, free_disk=load.free_disk, free_spindles=load.free_spindles)
        for node, is_online, load in zip(cluster.nodes, end.is_online, end.loads, strict=True)
    )
    instances = tuple(
        replace(instance, primary=primary, secondary=secondary)
        for instance, (primary, secondary) in zip(cluster.instances, end.homes, strict=True)
    )
    return replace(cluster, nodes=nodes, instances=instances)


def group_parallel_ganeti_moves(moves: Sequence[GanetiInstanceMove]) -> list[list[GanetiInstanceMove]]:
    """Group consecutive moves that use different nodes into parallel jobs, from the last move backwards."""
    sets: list[list[GanetiInstanceMove]] = []
    touched: set[int] = set()
    for move in reversed(moves):
        if not sets or touched & move.nodes:
            sets.insert(0, [])
            touched = set()
        sets[0].insert(0, move)
        touched |= move.nodes
    return sets


def ganeti_squeeze_shell_commands(plan: GanetiSqueezePlan, before: GanetiCluster) -> str:
    """Return the shell commands of a squeeze; the caller's script must define a shell function `check`."""
    if plan.way is GanetiSqueezeAction.NOTHING:
        return "echo Nothing to do"
    names = before.names_without_common_domain
    nodes = [names[before.nodes[at].name] for at in plan.nodes]
    moving = _ganeti_move_commands(plan, before)
    if plan.way is GanetiSqueezeAction.ONLINE:
        power = "".join(f"  gnt-node power -f on {node}\n" for node in nodes)
        return f"echo Power Commands\n{power}{moving}"
    tagging = "".join(f"  gnt-node add-tags {node} {STANDBY_AUTO}\n" for node in nodes)
    power = "".join(f"  gnt-node power -f off {node}\n" for node in nodes)
    return f"{moving}\necho Tagging Commands\n{tagging}\necho Power Commands\n{power}"


def _ganeti_move_commands(plan: GanetiSqueezePlan, before: GanetiCluster) -> str:
    names = before.names_without_common_domain
    nodes = [names[node.name] for node in before.nodes]
    instances = [(instance.name, "migrate" if instance.status.is_up else "failover") for instance in before.instances]
    lines: list[str] = []
    for number, jobs in enumerate(group_parallel_ganeti_moves(plan.moves), 1):
        lines += ["", f"echo jobset {number}, {len(jobs)} jobs"]
        for job, move in enumerate(jobs, 1):
            lines += [f"  echo job {number}/{job}", "  check"]
            name, verb = instances[move.instance]
            target = "" if move.target < 0 else nodes[move.target]
            lines += [f"  gnt-instance {words}" for words in _ganeti_migration_commands(move.kind, name, verb, target)]
    return "".join(f"{line}\n" for line in lines)


def _ganeti_migration_commands(kind: GanetiInstanceMoveKind, name: str, verb: str, target: str) -> tuple[str, ...]:
    over = f"{verb} -f {name}"
    copy = f"replace-disks -n {target} {name}"
    return {
        GanetiInstanceMoveKind.FAILOVER: (over,),
        GanetiInstanceMoveKind.TO_ANY: (f"{verb} -f -n {target} {name}",),
        GanetiInstanceMoveKind.REPLACE_PRIMARY: (over, copy, over),
        GanetiInstanceMoveKind.REPLACE_SECONDARY: (copy,),
        GanetiInstanceMoveKind.REPLACE_AND_FAILOVER: (copy, over),
        GanetiInstanceMoveKind.FAILOVER_AND_REPLACE: (over, copy),
    }[kind]
