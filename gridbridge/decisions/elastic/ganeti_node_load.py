"""Compute the hardware and load of Ganeti nodes, and whether a node has room for more instances.

Each node keeps enough free memory to take over the instances of any single failed node (N+1). The values are
NamedTuples for speed.
"""

from collections.abc import Mapping
from math import inf, nan
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from gridbridge.model.elastic import ganeti_cluster

Key = TypeVar("Key")


class GanetiNodeHardwareAndTags(NamedTuple):
    """The hardware and tags of a Ganeti node, which no move changes."""

    room: int  # MiB of memory for instances
    mem: float
    disk: float
    cpus: float
    speed: float
    spindles: int
    most_spindles: float
    vcpu_ratio: float
    is_exclusive: bool
    sends: frozenset[str]  # migration tags of the node
    takes: frozenset[str]  # migration tags of nodes that may send instances to the node
    locations: frozenset[str]


class GanetiInstanceLoad(NamedTuple):
    """The load that a Ganeti instance puts on a node; equal loads are interchangeable."""

    mem: int  # MiB of configured memory
    live_mem: int  # MiB in use now
    vcpus: int
    spindle_use: int
    kept_mem: int = 0  # MiB that the secondary node reserves for a failover
    disk: int = 0
    is_local: bool = False
    is_mirrored: bool = False
    spindles: int | None = 0
    tags: tuple[str, ...] = ()  # exclusion tags
    desired: frozenset[str] = frozenset()  # desired location tags of the primary node
    together: int = 0  # number of locations that the primary and secondary nodes have in common


class GanetiNodeLoad(NamedTuple):
    live_mem: int
    promised_mem: int  # MiB that would be free if all instances ran
    free_disk: int
    vcpus: int
    free_spindles: int
    spindle_use: float = 0.0
    primaries: int = 0
    secondaries: int = 0
    # {index of a primary node: MiB that this node needs if the primary node fails}
    peers: Mapping[int, int] = MappingProxyType({})
    kept_mem: int = 0  # the largest value of `peers`
    fails: bool = False  # True: less memory is free than `kept_mem`
    tags: Mapping[str, int] = MappingProxyType({})
    location: int = 0
    pairs: Mapping[tuple[str, str], int] = MappingProxyType({})  # {(location, exclusion tag): number of instances}


def divide_like_ieee_754(part: float, whole: float) -> float:
    """Divide as IEEE 754 does: division by zero gives infinity or NaN."""
    if whole:
        return part / whole
    return nan if not part or part != part else (inf if part > 0 else -inf)


def ganeti_load_with_primary(
    hardware: GanetiNodeHardwareAndTags, load: GanetiNodeLoad, burden: GanetiInstanceLoad, *, is_forced: bool
) -> GanetiNodeLoad | None:
    """Return a node's load with a new primary instance; None if room is lacking. `is_forced` ignores soft limits."""
    after = _load_after_primary_change(hardware, load, burden, 1)
    if after.live_mem >= hardware.room or (burden.is_local and after.free_disk <= 0):
        return None
    if burden.is_local and hardware.is_exclusive and after.free_spindles < 0:
        return None
    if not is_forced and (
        (after.fails and not load.fails)
        or after.promised_mem <= 0
        or (burden.is_local and after.spindle_use > hardware.most_spindles)
        or 0 <= hardware.vcpu_ratio < divide_like_ieee_754(after.vcpus, hardware.cpus)
        or (burden.tags and any(tag in load.tags for tag in burden.tags))
    ):
        return None
    return after


def ganeti_load_without_primary(
    hardware: GanetiNodeHardwareAndTags, load: GanetiNodeLoad, burden: GanetiInstanceLoad
) -> GanetiNodeLoad:
    return _load_after_primary_change(hardware, load, burden, -1)


def _load_after_primary_change(
    hardware: GanetiNodeHardwareAndTags, load: GanetiNodeLoad, burden: GanetiInstanceLoad, sign: int
) -> GanetiNodeLoad:
    """Return a node's load, unchecked, after a primary instance is added (sign 1) or removed (-1)."""
    live_mem = load.live_mem + sign * burden.live_mem
    return GanetiNodeLoad(
        live_mem,
        load.promised_mem - sign * burden.mem,
        load.free_disk - sign * burden.disk if burden.is_local else load.free_disk,
        load.vcpus + sign * burden.vcpus,
        _free_spindles_after_change(hardware, load, burden, sign),
        _spindle_use_after_change(hardware, load, burden, sign),
        load.primaries + sign,
        load.secondaries,
        load.peers,
        load.kept_mem,
        hardware.room - live_mem <= load.kept_mem,
        _change_tag_counts_by_one(load.tags, burden.tags, sign),
        load.location + sign * (burden.together + len(burden.desired - hardware.locations)),
        _change_tag_counts_by_one(load.pairs, _location_exclusion_pairs(hardware, burden), sign),
    )


def ganeti_load_with_added_secondary(
    hardware: GanetiNodeHardwareAndTags,
    load: GanetiNodeLoad,
    burden: GanetiInstanceLoad,
    primary: int,
    *,
    is_forced: bool,
    ignores_disk: bool = False,
) -> GanetiNodeLoad | None:
    """Return a node's load with one more secondary copy; None if the node has no room."""
    free_disk = load.free_disk - burden.disk
    if not burden.is_mirrored or (free_disk <= 0 and not ignores_disk):
        return None
    free_spindles = _free_spindles_after_change(hardware, load, burden, 1)
    if hardware.is_exclusive and free_spindles < 0:
        return None
    spindle_use = _spindle_use_after_change(hardware, load, burden, 1)
    free = hardware.room - load.live_mem
    needed = load.peers.get(primary, 0) + burden.kept_mem
    kept_mem = max(load.kept_mem, needed)
    fails = free <= kept_mem
    if not is_forced and (
        free_disk <= 0
        or spindle_use > hardware.most_spindles
        or burden.kept_mem >= free
        or (fails and not load.fails)
        or burden.kept_mem >= load.promised_mem
    ):
        return None
    return load._replace(
        free_disk=free_disk,
        free_spindles=free_spindles,
        spindle_use=spindle_use,
        secondaries=load.secondaries + 1,
        peers={**load.peers, primary: needed},
        kept_mem=kept_mem,
        fails=fails,
    )


def ganeti_load_without_secondary(
    hardware: GanetiNodeHardwareAndTags, load: GanetiNodeLoad, burden: GanetiInstanceLoad, primary: int
) -> GanetiNodeLoad:
    before = load.peers.get(primary, 0)
    needed = before - burden.kept_mem
    other_peers = {node: mem for node, mem in load.peers.items() if node != primary}
    peers = {**other_peers, primary: needed} if needed > 0 else other_peers
    kept_mem = load.kept_mem if before < load.kept_mem else max(peers.values(), default=0)
    return load._replace(
        free_disk=load.free_disk + burden.disk if burden.is_local else load.free_disk,
        free_spindles=_free_spindles_after_change(hardware, load, burden, -1),
        spindle_use=_spindle_use_after_change(hardware, load, burden, -1),
        secondaries=load.secondaries - 1,
        peers=peers,
        kept_mem=kept_mem,
        fails=hardware.room - load.live_mem <= kept_mem,
    )


def do_ganeti_tags_allow_migration(source: GanetiNodeHardwareAndTags, target: GanetiNodeHardwareAndTags) -> bool:
    return source.sends <= target.takes


def _spindle_use_after_change(
    hardware: GanetiNodeHardwareAndTags, load: GanetiNodeLoad, burden: GanetiInstanceLoad, sign: int
) -> float:
    if hardware.is_exclusive:
        return 0.0
    return load.spindle_use + sign * burden.spindle_use if burden.is_local else load.spindle_use


def _free_spindles_after_change(
    hardware: GanetiNodeHardwareAndTags, load: GanetiNodeLoad, burden: GanetiInstanceLoad, sign: int
) -> int:
    """Return the free spindles; -1 if an instance with an unknown number of spindles was added."""
    if not hardware.is_exclusive:
        return 0
    return -1 if sign > 0 and burden.spindles is None else load.free_spindles - sign * (burden.spindles or 0)


def _location_exclusion_pairs(
    hardware: GanetiNodeHardwareAndTags, burden: GanetiInstanceLoad
) -> tuple[tuple[str, str], ...]:
    if not burden.tags or not hardware.locations:
        return ()
    return tuple((location, tag) for location in sorted(hardware.locations) for tag in burden.tags)


def _change_tag_counts_by_one(counts: Mapping[Key, int], keys: tuple[Key, ...], sign: int) -> Mapping[Key, int]:
    if not keys:
        return counts
    changed = dict(counts)
    for key in keys:
        remaining = changed.get(key, 0) + sign
        if remaining > 0:
            changed[key] = remaining
        else:
            changed.pop(key, None)
    return changed


EXCLUSION = "htools:iextags:"
MIGRATION, ALLOWED = "htools:migration:", "htools:allowmigration:"
LOCATION, DESIRED = "htools:nlocation:", "htools:desiredlocation:"

MISSING_MB, MISSING_DISK_MB = 512, 1024  # larger unexplained amounts give a warning, as in Ganeti's checkData


def describe_unaccounted_ganeti_use(cluster: ganeti_cluster.GanetiCluster) -> tuple[str, ...]:
    """Describe the nodes on which much used memory or disk belongs to no instance."""
    used, stored = _instance_memory_by_node(cluster), [0] * len(cluster.nodes)
    for instance in cluster.instances:
        for index in {instance.primary, instance.secondary} - {ganeti_cluster.NO_NODE}:
            stored[index] += instance.disk
    messages = list[str]()
    for node, used_mem, used_disk in zip(cluster.nodes, used, stored, strict=True):
        mem = int(node.mem) - node.own_mem - used_mem - node.free_mem
        disk = int(node.disk) - node.free_disk - used_disk
        if mem > MISSING_MB or disk > MISSING_DISK_MB:
            messages.append(f"node {node.name} is missing {mem} MB ram and {disk // 1024} GB disk")
    return tuple(reversed(messages))


def _instance_memory_by_node(cluster: ganeti_cluster.GanetiCluster) -> list[int]:
    """Return the memory of each node's primary instances, except instances whose two copies are on one node."""
    used = [0] * len(cluster.nodes)
    for instance in cluster.instances:
        if instance.status.uses_memory_of_node and instance.primary != instance.secondary:
            used[instance.primary] += instance.mem
    return used


def hardware_of_ganeti_nodes(cluster: ganeti_cluster.GanetiCluster) -> tuple[GanetiNodeHardwareAndTags, ...]:
    """Return hardware and tags of all nodes; memory in unexplained use is not free for instances."""
    used = zip(cluster.nodes, _instance_memory_by_node(cluster), strict=True)
    return tuple(_hardware_and_tags_of_ganeti_node(cluster, node, used_mem) for node, used_mem in used)


def _hardware_and_tags_of_ganeti_node(
    cluster: ganeti_cluster.GanetiCluster, node: ganeti_cluster.GanetiNode, used_mem: int
) -> GanetiNodeHardwareAndTags:
    policy = cluster.groups[node.group].policy
    recorded = int(node.mem) - node.own_mem
    missing = recorded - used_mem - node.free_mem
    sends = _tags_of_tag_families(cluster.tags, MIGRATION, node.tags)
    pairs = (tag.removeprefix(ALLOWED).split("::") for tag in cluster.tags if tag.startswith(ALLOWED))
    return GanetiNodeHardwareAndTags(
        room=recorded - max(0, missing),
        mem=node.mem,
        disk=node.disk,
        cpus=node.cpus,
        speed=node.cpu_speed,
        spindles=node.spindles,
        most_spindles=policy.spindle_ratio * node.spindles,
        vcpu_ratio=policy.vcpu_ratio,
        is_exclusive=node.has_own_spindles,
        sends=sends,
        takes=sends | {pair[0] for pair in pairs if len(pair) == 2 and pair[1] in sends},
        locations=_tags_of_tag_families(cluster.tags, LOCATION, node.tags),
    )


def _tags_of_tag_families(cluster_tags: tuple[str, ...], prefix: str, tags: tuple[str, ...]) -> frozenset[str]:
    """Return the tags that begin with `FAMILY:`, where PREFIX + FAMILY is a tag of the cluster."""
    families = tuple(f"{tag.removeprefix(prefix)}:" for tag in cluster_tags if tag.startswith(prefix))
    return frozenset(tag for tag in tags if tag.startswith(families))


def loads_of_ganeti_instances(
    cluster: ganeti_cluster.GanetiCluster, hardware: tuple[GanetiNodeHardwareAndTags, ...]
) -> tuple[GanetiInstanceLoad, ...]:
    apart, desired = (
        _families_in_cluster_tags(cluster.tags, EXCLUSION),
        _families_in_cluster_tags(cluster.tags, DESIRED),
    )
    return tuple(_load_of_ganeti_instance(instance, apart, desired, hardware) for instance in cluster.instances)


def _families_in_cluster_tags(cluster_tags: tuple[str, ...], prefix: str) -> tuple[str, ...]:
    named = (tag.removeprefix(prefix) for tag in cluster_tags if tag.startswith(prefix))
    return tuple(family for family in named if family)


def _load_of_ganeti_instance(
    instance: ganeti_cluster.GanetiInstance,
    apart: tuple[str, ...],
    desired: tuple[str, ...],
    hardware: tuple[GanetiNodeHardwareAndTags, ...],
) -> GanetiInstanceLoad:
    is_on = instance.status is not ganeti_cluster.GanetiInstanceStatus.OFFLINE
    return GanetiInstanceLoad(
        mem=instance.mem,
        live_mem=instance.mem if instance.status.uses_memory_of_node else 0,
        kept_mem=instance.mem if is_on and instance.is_balanced else 0,
        disk=instance.disk,
        vcpus=instance.vcpus if is_on else 0,
        is_local=instance.template.uses_disk_of_node,
        is_mirrored=instance.template.disk_mirroring is ganeti_cluster.GanetiDiskMirroringKind.INTERNAL,
        spindle_use=instance.spindle_use,
        spindles=instance.spindles,
        tags=tuple(tag for tag in instance.tags if tag.startswith(apart)),
        desired=frozenset(tag for tag in instance.tags if tag.startswith(desired)),
        together=0
        if instance.secondary == ganeti_cluster.NO_NODE
        else len(hardware[instance.primary].locations & hardware[instance.secondary].locations),
    )


def initial_ganeti_node_loads(
    cluster: ganeti_cluster.GanetiCluster,
    node_hardware: tuple[GanetiNodeHardwareAndTags, ...],
    burdens: tuple[GanetiInstanceLoad, ...],
) -> list[GanetiNodeLoad]:
    loads = [
        GanetiNodeLoad(
            live_mem=0,
            promised_mem=node.free_mem,
            free_disk=node.free_disk,
            vcpus=node.own_cpus,
            free_spindles=node.free_spindles,
        )
        for node in cluster.nodes
    ]
    for instance, burden in zip(cluster.instances, burdens, strict=True):
        before = loads[instance.secondary] if instance.secondary != ganeti_cluster.NO_NODE else None
        load, hardware = loads[instance.primary], node_hardware[instance.primary]
        after = _load_after_primary_change(hardware, load, burden, 1)
        loads[instance.primary] = after._replace(
            promised_mem=load.promised_mem - (burden.mem - burden.live_mem),
            free_disk=load.free_disk,
            free_spindles=load.free_spindles,
        )
        if before is None:
            continue
        load, hardware = before, node_hardware[instance.secondary]
        needed = load.peers.get(instance.primary, 0) + burden.kept_mem
        loads[instance.secondary] = load._replace(
            secondaries=load.secondaries + 1,
            spindle_use=_spindle_use_after_change(hardware, load, burden, 1),
            peers={**load.peers, instance.primary: needed},
            kept_mem=max(load.kept_mem, needed),
        )
    return [load._replace(fails=node.free_mem < load.kept_mem) for load, node in zip(loads, cluster.nodes, strict=True)]
