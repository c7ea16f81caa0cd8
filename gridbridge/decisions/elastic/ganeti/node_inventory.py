"""What a Ganeti cluster's nodes offer and carry as they were found."""

from gridbridge.decisions.elastic.ganeti.node_load import (
    InstanceLoad,
    NodeHardware,
    NodeLoad,
    counted,
    misplaced,
    pairs,
    used,
)
from gridbridge.model.elastic.ganeti_cluster import (
    NO_NODE,
    DiskMirroring,
    GanetiCluster,
    GanetiInstance,
    GanetiNode,
    InstanceStatus,
)

EXCLUSION = "htools:iextags:"
MIGRATION, ALLOWED = "htools:migration:", "htools:allowmigration:"
LOCATION, DESIRED = "htools:nlocation:", "htools:desiredlocation:"


MISSING_MB, MISSING_DISK_MB = 512, 1024  # more on a node is a warning: Ganeti's checkData
MB_OF_GB = 1024


def inconsistencies(cluster: GanetiCluster) -> tuple[str, ...]:
    """Name the nodes with much memory or disk neither free nor an instance's, last node first."""
    taken, stored = _taken(cluster), [0] * len(cluster.nodes)
    for instance in cluster.instances:
        for index in {instance.primary, instance.secondary} - {NO_NODE}:
            stored[index] += instance.disk
    found = list[str]()
    for node, used_mem, used_disk in zip(cluster.nodes, taken, stored, strict=True):
        mem = int(node.mem) - node.own_mem - used_mem - node.free_mem
        disk = int(node.disk) - node.free_disk - used_disk
        if mem > MISSING_MB or disk > MISSING_DISK_MB:
            lack = f"{mem} MB ram and {disk // MB_OF_GB} GB disk"
            found.append(f"node {node.name} is missing {lack}")
    return tuple(reversed(found))


def _taken(cluster: GanetiCluster) -> list[int]:
    """Return the memory of each node's own instances.

    hsqueeze counts a node that is both the primary and the secondary as the secondary alone.
    """
    taken = [0] * len(cluster.nodes)
    for one in cluster.instances:
        if one.status.takes_memory and one.primary != one.secondary:
            taken[one.primary] += one.mem
    return taken


def hardware_of(cluster: GanetiCluster) -> tuple[NodeHardware, ...]:
    """Return the constant facts of all nodes; memory is the lower of the file's and our sum."""
    taken = _taken(cluster)
    return tuple(
        _hardware(cluster, node, used_mem)
        for node, used_mem in zip(cluster.nodes, taken, strict=True)
    )


def _hardware(cluster: GanetiCluster, node: GanetiNode, used_mem: int) -> NodeHardware:
    policy = cluster.groups[node.group].policy
    recorded = int(node.mem) - node.own_mem
    missing = recorded - used_mem - node.free_mem
    sends = _tagged(cluster.tags, MIGRATION, node.tags)
    return NodeHardware(
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
        takes=sends | _allowed(cluster.tags, sends),
        locations=_tagged(cluster.tags, LOCATION, node.tags),
    )


def _tagged(told: tuple[str, ...], prefix: str, tags: tuple[str, ...]) -> frozenset[str]:
    """Return the tags of the families that the cluster's tags name after a prefix."""
    families = [f"{tag.removeprefix(prefix)}:" for tag in told if tag.startswith(prefix)]
    return frozenset(tag for tag in tags if any(tag.startswith(family) for family in families))


def _allowed(told: tuple[str, ...], sends: frozenset[str]) -> frozenset[str]:
    """Return the tags of those from which nodes with these tags take instances too."""
    pairs = (tag.removeprefix(ALLOWED).split("::") for tag in told if tag.startswith(ALLOWED))
    return frozenset(pair[0] for pair in pairs if len(pair) == 2 and pair[1] in sends)


def burdens(cluster: GanetiCluster, known: tuple[NodeHardware, ...]) -> tuple[InstanceLoad, ...]:
    """Return what each instance asks of a node."""
    apart, places = _families(cluster.tags, EXCLUSION), _families(cluster.tags, DESIRED)
    return tuple(_burden(one, apart, places, known) for one in cluster.instances)


def _families(told: tuple[str, ...], prefix: str) -> tuple[str, ...]:
    """How the tags begin that the cluster's tags name after a prefix."""
    found = (tag.removeprefix(prefix) for tag in told if tag.startswith(prefix))
    return tuple(family for family in found if family)


def _burden(
    one: GanetiInstance,
    apart: tuple[str, ...],
    places: tuple[str, ...],
    known: tuple[NodeHardware, ...],
) -> InstanceLoad:
    is_on = one.status is not InstanceStatus.OFFLINE
    return InstanceLoad(
        mem=one.mem,
        live_mem=one.mem if one.status.takes_memory else 0,
        kept_mem=one.mem if is_on and one.is_balanced else 0,
        disk=one.disk,
        vcpus=one.vcpus if is_on else 0,
        is_local=one.template.is_local,
        is_mirrored=one.template.mirror is DiskMirroring.INTERNAL,
        spindle_use=one.spindle_use,
        spindles=one.spindles,
        tags=tuple(tag for tag in one.tags if tag.startswith(apart)),
        desired=frozenset(tag for tag in one.tags if tag.startswith(places)),
        together=0
        if one.secondary == NO_NODE
        else len(known[one.primary].locations & known[one.secondary].locations),
    )


def first_loads(
    cluster: GanetiCluster, known: tuple[NodeHardware, ...], asked: tuple[InstanceLoad, ...]
) -> list[NodeLoad]:
    """Return what all nodes carry as they were found."""
    loads = [_empty(node) for node in cluster.nodes]
    for one, burden in zip(cluster.instances, asked, strict=True):
        before = loads[one.secondary] if one.secondary != NO_NODE else None
        load, hardware = loads[one.primary], known[one.primary]
        loads[one.primary] = load._replace(
            live_mem=load.live_mem + burden.live_mem,
            promised_mem=load.promised_mem - (burden.mem - burden.live_mem),
            vcpus=load.vcpus + burden.vcpus,
            spindle_use=used(hardware, load, burden, 1),
            primaries=load.primaries + 1,
            tags=counted(load.tags, burden.tags, 1),
            location=load.location + misplaced(hardware, burden),
            pairs=counted(load.pairs, pairs(hardware, burden), 1),
        )
        if before is None:
            continue
        load, hardware = before, known[one.secondary]
        needed = load.peers.get(one.primary, 0) + burden.kept_mem
        loads[one.secondary] = load._replace(
            secondaries=load.secondaries + 1,
            spindle_use=used(hardware, load, burden, 1),
            peers={**load.peers, one.primary: needed},
            kept_mem=max(load.kept_mem, needed),
        )
    return [
        load._replace(fails=node.free_mem < load.kept_mem)
        for load, node in zip(loads, cluster.nodes, strict=True)
    ]


def _empty(node: GanetiNode) -> NodeLoad:
    return NodeLoad(
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
