"""Compute the hardware and initial load of each node of a Ganeti cluster."""

from gridbridge.decisions.elastic.ganeti.node_load import (
    GanetiInstanceLoad,
    GanetiNodeHardwareAndTags,
    GanetiNodeLoad,
    change_counts_of_keys_by_one,
    ganeti_location_exclusion_pairs,
    ganeti_location_mismatch,
    ganeti_spindle_use_after_change,
)
from gridbridge.model.elastic.ganeti_cluster import (
    NO_NODE,
    GanetiCluster,
    GanetiDiskMirroring,
    GanetiInstance,
    GanetiInstanceStatus,
    GanetiNode,
)

EXCLUSION = "htools:iextags:"
MIGRATION, ALLOWED = "htools:migration:", "htools:allowmigration:"
LOCATION, DESIRED = "htools:nlocation:", "htools:desiredlocation:"


MISSING_MB, MISSING_DISK_MB = 512, 1024  # a larger gap gets a warning: Ganeti's checkData
MB_OF_GB = 1024


def describe_unaccounted_ganeti_use(cluster: GanetiCluster) -> tuple[str, ...]:
    """Describe nodes with much memory or disk that no instance accounts for."""
    used, stored = _used_memory(cluster), [0] * len(cluster.nodes)
    for instance in cluster.instances:
        for index in {instance.primary, instance.secondary} - {NO_NODE}:
            stored[index] += instance.disk
    messages = list[str]()
    for node, used_mem, used_disk in zip(cluster.nodes, used, stored, strict=True):
        mem = int(node.mem) - node.own_mem - used_mem - node.free_mem
        disk = int(node.disk) - node.free_disk - used_disk
        if mem > MISSING_MB or disk > MISSING_DISK_MB:
            lack = f"{mem} MB ram and {disk // MB_OF_GB} GB disk"
            messages.append(f"node {node.name} is missing {lack}")
    return tuple(reversed(messages))


def _used_memory(cluster: GanetiCluster) -> list[int]:
    """Return the memory that each node's primary instances use.

    hsqueeze counts a node that is both primary and secondary as secondary only.
    """
    used = [0] * len(cluster.nodes)
    for instance in cluster.instances:
        if instance.status.takes_memory and instance.primary != instance.secondary:
            used[instance.primary] += instance.mem
    return used


def hardware_of_ganeti_nodes(cluster: GanetiCluster) -> tuple[GanetiNodeHardwareAndTags, ...]:
    """Return the constant facts of all nodes.

    Memory is the smaller of the recorded value and the computed sum.
    """
    used = _used_memory(cluster)
    return tuple(_hardware_of_node(cluster, node, used_mem) for node, used_mem in zip(cluster.nodes, used, strict=True))


def _hardware_of_node(cluster: GanetiCluster, node: GanetiNode, used_mem: int) -> GanetiNodeHardwareAndTags:
    policy = cluster.groups[node.group].policy
    recorded = int(node.mem) - node.own_mem
    missing = recorded - used_mem - node.free_mem
    sends = _tags_of_families(cluster.tags, MIGRATION, node.tags)
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
        takes=sends | _allowed_migration_sources(cluster.tags, sends),
        locations=_tags_of_families(cluster.tags, LOCATION, node.tags),
    )


def _tags_of_families(cluster_tags: tuple[str, ...], prefix: str, tags: tuple[str, ...]) -> frozenset[str]:
    """Return the tags whose family a cluster tag names after a prefix."""
    families = [f"{tag.removeprefix(prefix)}:" for tag in cluster_tags if tag.startswith(prefix)]
    return frozenset(tag for tag in tags if any(tag.startswith(family) for family in families))


def _allowed_migration_sources(cluster_tags: tuple[str, ...], sends: frozenset[str]) -> frozenset[str]:
    """Return the migration tags of nodes that may send instances to a node with these tags."""
    pairs = (tag.removeprefix(ALLOWED).split("::") for tag in cluster_tags if tag.startswith(ALLOWED))
    return frozenset(pair[0] for pair in pairs if len(pair) == 2 and pair[1] in sends)


def loads_of_ganeti_instances(
    cluster: GanetiCluster, hardware: tuple[GanetiNodeHardwareAndTags, ...]
) -> tuple[GanetiInstanceLoad, ...]:
    """Return the load that each instance puts on a node."""
    apart, desired = _tag_families(cluster.tags, EXCLUSION), _tag_families(cluster.tags, DESIRED)
    return tuple(_load_of_instance(instance, apart, desired, hardware) for instance in cluster.instances)


def _tag_families(cluster_tags: tuple[str, ...], prefix: str) -> tuple[str, ...]:
    """Return the instance tag prefixes that cluster tags name after the given prefix."""
    named = (tag.removeprefix(prefix) for tag in cluster_tags if tag.startswith(prefix))
    return tuple(family for family in named if family)


def _load_of_instance(
    instance: GanetiInstance,
    apart: tuple[str, ...],
    desired: tuple[str, ...],
    hardware: tuple[GanetiNodeHardwareAndTags, ...],
) -> GanetiInstanceLoad:
    is_on = instance.status is not GanetiInstanceStatus.OFFLINE
    return GanetiInstanceLoad(
        mem=instance.mem,
        live_mem=instance.mem if instance.status.takes_memory else 0,
        kept_mem=instance.mem if is_on and instance.is_balanced else 0,
        disk=instance.disk,
        vcpus=instance.vcpus if is_on else 0,
        is_local=instance.template.is_local,
        is_mirrored=instance.template.mirror is GanetiDiskMirroring.INTERNAL,
        spindle_use=instance.spindle_use,
        spindles=instance.spindles,
        tags=tuple(tag for tag in instance.tags if tag.startswith(apart)),
        desired=frozenset(tag for tag in instance.tags if tag.startswith(desired)),
        together=0
        if instance.secondary == NO_NODE
        else len(hardware[instance.primary].locations & hardware[instance.secondary].locations),
    )


def initial_ganeti_node_loads(
    cluster: GanetiCluster,
    node_hardware: tuple[GanetiNodeHardwareAndTags, ...],
    burdens: tuple[GanetiInstanceLoad, ...],
) -> list[GanetiNodeLoad]:
    """Return the load of each node as found in the cluster."""
    loads = [_load_of_empty_node(node) for node in cluster.nodes]
    for instance, burden in zip(cluster.instances, burdens, strict=True):
        before = loads[instance.secondary] if instance.secondary != NO_NODE else None
        load, hardware = loads[instance.primary], node_hardware[instance.primary]
        loads[instance.primary] = load._replace(
            live_mem=load.live_mem + burden.live_mem,
            promised_mem=load.promised_mem - (burden.mem - burden.live_mem),
            vcpus=load.vcpus + burden.vcpus,
            spindle_use=ganeti_spindle_use_after_change(hardware, load, burden, 1),
            primaries=load.primaries + 1,
            tags=change_counts_of_keys_by_one(load.tags, burden.tags, 1),
            location=load.location + ganeti_location_mismatch(hardware, burden),
            pairs=change_counts_of_keys_by_one(load.pairs, ganeti_location_exclusion_pairs(hardware, burden), 1),
        )
        if before is None:
            continue
        load, hardware = before, node_hardware[instance.secondary]
        needed = load.peers.get(instance.primary, 0) + burden.kept_mem
        loads[instance.secondary] = load._replace(
            secondaries=load.secondaries + 1,
            spindle_use=ganeti_spindle_use_after_change(hardware, load, burden, 1),
            peers={**load.peers, instance.primary: needed},
            kept_mem=max(load.kept_mem, needed),
        )
    return [load._replace(fails=node.free_mem < load.kept_mem) for load, node in zip(loads, cluster.nodes, strict=True)]


def _load_of_empty_node(node: GanetiNode) -> GanetiNodeLoad:
    return GanetiNodeLoad(
        live_mem=0,
        promised_mem=node.free_mem,
        free_disk=node.free_disk,
        vcpus=node.own_cpus,
        free_spindles=node.free_spindles,
        spindle_use=0.0,
        primaries=0,
        secondaries=0,
        peers={},
        kept_mem=0,
        fails=False,
        tags={},
        location=0,
        pairs={},
    )
