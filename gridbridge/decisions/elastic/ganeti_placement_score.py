"""Score how evenly Ganeti instances are placed on nodes, now or after a move, as Ganeti's program hbal does.

A lower score is better. Terms are summed in hbal's order, because the order decides between equally good moves.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import NamedTuple

from gridbridge.decisions.elastic.ganeti_node_load import (
    GanetiInstanceLoad,
    GanetiNodeHardwareAndTags,
    GanetiNodeLoad,
    divide_like_ieee_754,
    do_ganeti_tags_allow_migration,
    ganeti_load_with_primary,
    ganeti_load_with_secondary,
    ganeti_load_without_primary,
    ganeti_load_without_secondary,
    hardware_of_ganeti_nodes,
    initial_ganeti_node_loads,
    loads_of_ganeti_instances,
)
from gridbridge.model.elastic.ganeti_cluster import NO_NODE, GanetiCluster, GanetiInstanceMoveKind

OFFLINE, OFFLINE_PRIMARY = 4.0, 16.0  # penalty for any instance, and for a primary instance, on an offline node
EQUAL = 1e-9  # estimated scores that differ by less are computed again exactly


class GanetiNodeScoreShare(NamedTuple):
    """One Ganeti node's part in the score of a placement.

    For the first eight fields the score uses the spread over all nodes, for all further fields the sum.
    """

    free_mem: float
    free_disk: float
    kept_mem: float
    vcpus: float
    primaries: float
    copies: float
    spindles: float
    promised_mem: float
    failing: float  # number of instances if the node lacks memory for a failover (N+1), else 0
    conflicts: float  # instances that share an exclusion tag with another instance
    location: float


SPREAD = 8
WEIGHTS = (0.5, 1.0, 1.0, 1.0, 3.0, 1.0, 1.0, 0.5)  # hbal's weights of the spreads
FAILING, CONFLICT, LOCATION, TOGETHER, KEPT = 1.0, 2.0, 1.0, 1.0, 0.25


def ganeti_node_score_share(hardware: GanetiNodeHardwareAndTags, load: GanetiNodeLoad) -> GanetiNodeScoreShare:
    """Return one Ganeti node's part in the score of a placement."""
    copies = load.primaries + load.secondaries
    if hardware.is_exclusive:
        part, whole = float(load.free_spindles), float(hardware.spindles)
    else:
        part, whole = float(load.free_disk), hardware.disk
    return GanetiNodeScoreShare(
        divide_like_ieee_754(hardware.room - load.live_mem, hardware.mem),
        part / whole if whole else 1.0,
        divide_like_ieee_754(load.kept_mem, hardware.mem),
        divide_like_ieee_754(divide_like_ieee_754(load.vcpus, hardware.cpus), hardware.speed),
        float(load.primaries),
        float(copies),
        divide_like_ieee_754(load.spindle_use, hardware.most_spindles),
        divide_like_ieee_754(load.promised_mem, hardware.mem),
        float(copies) if load.fails else 0.0,
        float(sum(load.tags.values()) - len(load.tags)) if load.tags else 0.0,
        float(load.location),
    )


def ganeti_imbalance_score(
    online: Sequence[GanetiNodeScoreShare], offline: Sequence[GanetiNodeLoad], pairs: Mapping[tuple[str, str], int]
) -> float:
    """Return the score of a placement, with the terms summed in hbal's order."""
    spreads = [_standard_deviation([contribution[at] for contribution in online]) for at in range(SPREAD)]
    free_mem, free_disk, kept_mem, vcpus, primaries, copies, spindles, promised_mem = spreads
    copies_offline = primaries_offline = 0.0
    for load in offline:
        copies_offline += load.primaries + load.secondaries
        primaries_offline += load.primaries
    terms = (
        *(free_mem * 0.5, free_disk * 0.5, _sum_column(online, 8) * FAILING, kept_mem * 1.0),
        *(copies_offline * OFFLINE, primaries_offline * OFFLINE_PRIMARY),
        *(vcpus * 0.5, primaries * 1.0, primaries * 1.0, copies * 1.0, primaries * 1.0),
        *(_sum_column(online, 9) * CONFLICT, spindles * 0.5, promised_mem * 0.5, free_disk * 0.5),
        *(vcpus * 0.5, spindles * 0.5, _sum_column(online, 10) * LOCATION),
        *((sum(pairs.values()) - len(pairs)) * TOGETHER, _sum_column(online, 2) * KEPT),
    )
    total = 0.0
    for term in terms:
        total += term
    return total


def _sum_column(online: Sequence[GanetiNodeScoreShare], at: int) -> float:
    total = 0.0
    for contribution in online:
        total += contribution[at]
    return total


def _standard_deviation(values: Sequence[float]) -> float:
    total = 0.0
    for value in values:
        total += value
    mean = total / len(values) if values else 0.0
    squares = 0.0
    for value in values:
        off = value - mean
        squares += off * off
    return sqrt(squares / len(values)) if values else 0.0


ChangedNodeLoads = dict[int, GanetiNodeLoad]  # new loads of changed nodes, by node index


@dataclass(slots=True, kw_only=True)
class GanetiInstancePlacement:
    """The placement of instances on Ganeti nodes, and the nodes' loads; moves change both."""

    hardware: tuple[GanetiNodeHardwareAndTags, ...]
    burdens: list[GanetiInstanceLoad]
    homes: list[tuple[int, int]]  # primary and secondary node of each instance
    movable: tuple[int, ...]
    mirrored: frozenset[int]
    loads: list[GanetiNodeLoad]
    contributions: list[GanetiNodeScoreShare]
    is_online: list[bool]
    has_pairs: bool  # some instances have exclusion tags, and some nodes have locations

    @property
    def online(self) -> tuple[int, ...]:
        """The indices of the online nodes, which may take instances."""
        return tuple(node for node, is_on in enumerate(self.is_online) if is_on)

    def switched(self, nodes: tuple[int, ...], *, to_online: bool) -> "GanetiInstancePlacement":
        """Return a copy of the placement in which the given nodes are all online or all offline."""
        is_online = list(self.is_online)
        for node in nodes:
            is_online[node] = to_online
        return replace(
            self,
            burdens=list(self.burdens),
            homes=list(self.homes),
            loads=list(self.loads),
            contributions=list(self.contributions),
            is_online=is_online,
        )

    def score(self, changed: Mapping[int, GanetiNodeLoad]) -> float:
        """Return the score of the placement after the loads of some nodes have changed."""
        contributions, offline = [], []
        pairs: Counter[tuple[str, str]] = Counter()
        for node, is_online in enumerate(self.is_online):
            load = changed.get(node)
            if not is_online:
                offline.append(load or self.loads[node])
                continue
            contributions.append(
                ganeti_node_score_share(self.hardware[node], load) if load else self.contributions[node]
            )
            if self.has_pairs:
                pairs.update((load or self.loads[node]).pairs)
        return ganeti_imbalance_score(contributions, offline, pairs)

    def apply(self, instance: int, home: tuple[int, int], changed: ChangedNodeLoads) -> None:
        """Record that an instance has moved to new nodes, with the changed loads of nodes."""
        for node, load in changed.items():
            self.loads[node] = load
            self.contributions[node] = ganeti_node_score_share(self.hardware[node], load)
        self.homes[instance] = home
        self.burdens[instance] = self.burden_at(instance, *home)

    def burden_at(self, instance: int, primary: int, secondary: int) -> GanetiInstanceLoad:
        """Return the load of an instance on the given primary and secondary nodes."""
        burden = self.burdens[instance]
        if secondary == NO_NODE or instance not in self.mirrored:
            return burden
        shared = len(self.hardware[primary].locations & self.hardware[secondary].locations)
        return burden if shared == burden.together else burden._replace(together=shared)


def present_ganeti_placement(cluster: GanetiCluster) -> GanetiInstancePlacement:
    """Return the present placement of Ganeti instances on nodes."""
    node_hardware = hardware_of_ganeti_nodes(cluster)
    demands = loads_of_ganeti_instances(cluster, node_hardware)
    loads = initial_ganeti_node_loads(cluster, node_hardware, demands)
    groups = [node.group for node in cluster.nodes]
    return GanetiInstancePlacement(
        hardware=node_hardware,
        burdens=list(demands),
        homes=[(instance.primary, instance.secondary) for instance in cluster.instances],
        movable=tuple(
            at
            for at, instance in enumerate(cluster.instances)
            if instance.is_movable
            and instance.is_balanced
            and (instance.secondary == NO_NODE or groups[instance.primary] == groups[instance.secondary])
        ),
        mirrored=frozenset(at for at, burden in enumerate(demands) if burden.is_mirrored),
        loads=loads,
        contributions=[
            ganeti_node_score_share(hardware, load) for hardware, load in zip(node_hardware, loads, strict=True)
        ],
        is_online=[not node.is_offline for node in cluster.nodes],
        has_pairs=any(burden.tags for burden in demands) and any(hardware.locations for hardware in node_hardware),
    )


def possible_ganeti_instance_moves(
    at: GanetiInstancePlacement, instance: int, online: tuple[int, ...]
) -> Iterator[tuple[GanetiInstanceMoveKind, int, tuple[int, int], ChangedNodeLoads]]:
    """Yield all moves of an instance with a second copy, in hbal's order.

    Each item has the kind of move, the target node, the new primary and secondary nodes, and the changed
    loads.
    """
    primary, secondary = at.homes[instance]
    has_secondary = at.is_online[secondary]
    if has_secondary and (changed := _failover(at, instance)):
        yield GanetiInstanceMoveKind.FAILOVER, NO_NODE, (secondary, primary), changed
    for target in online:
        if target in (primary, secondary):
            continue
        if changed := _replace_secondary(at, instance, target):
            yield GanetiInstanceMoveKind.REPLACE_SECONDARY, target, (primary, target), changed
        if changed := _replace_and_failover(at, instance, target):
            yield GanetiInstanceMoveKind.REPLACE_AND_FAILOVER, target, (target, primary), changed
        if has_secondary and (changed := _replace_primary(at, instance, target)):
            yield GanetiInstanceMoveKind.REPLACE_PRIMARY, target, (target, secondary), changed
        if has_secondary and (changed := _failover_and_replace(at, instance, target)):
            yield GanetiInstanceMoveKind.FAILOVER_AND_REPLACE, target, (secondary, target), changed


def ganeti_loads_after_unmirrored_move(at: GanetiInstancePlacement, instance: int, target: int) -> ChangedNodeLoads:
    """Return the changed node loads after an instance without a second copy moved; empty without room."""
    primary, _ = at.homes[instance]
    burden = at.burdens[instance]
    target_load = ganeti_load_with_primary(
        at.hardware[target], at.loads[target], burden, is_forced=not at.is_online[primary]
    )
    if target_load is None:
        return {}
    return {
        primary: ganeti_load_without_primary(at.hardware[primary], at.loads[primary], burden),
        target: target_load,
    }


def _failover(at: GanetiInstancePlacement, instance: int) -> ChangedNodeLoads | None:
    (old_p, old_s), burden = at.homes[instance], at.burdens[instance]
    hardware_p, hardware_s = at.hardware[old_p], at.hardware[old_s]
    is_forced = not at.is_online[old_p]
    if not do_ganeti_tags_allow_migration(hardware_p, hardware_s):
        return None
    free_s = ganeti_load_without_secondary(hardware_s, at.loads[old_s], burden, old_p)
    new_p = ganeti_load_with_primary(hardware_s, free_s, burden, is_forced=is_forced)
    free_p = ganeti_load_without_primary(hardware_p, at.loads[old_p], burden)
    if new_p is None:
        return None
    new_s = ganeti_load_with_secondary(hardware_p, free_p, burden, old_s, is_forced=is_forced, ignores_disk=is_forced)
    return new_s and {old_p: new_s, old_s: new_p}


def _replace_primary(at: GanetiInstancePlacement, instance: int, target: int) -> ChangedNodeLoads | None:
    """Move an instance to a new primary node; the secondary node runs the instance meanwhile."""
    (old_p, old_s), burden = at.homes[instance], at.burdens[instance]
    hardware_p, hardware_s, hardware_t = at.hardware[old_p], at.hardware[old_s], at.hardware[target]
    if not do_ganeti_tags_allow_migration(hardware_p, hardware_s) or not do_ganeti_tags_allow_migration(
        hardware_s, hardware_t
    ):
        return None
    is_forced = not at.is_online[old_p]
    new = at.burden_at(instance, target, old_s)
    free_s = ganeti_load_without_secondary(hardware_s, at.loads[old_s], burden, old_p)
    held = ganeti_load_with_primary(hardware_s, free_s, new, is_forced=is_forced)
    new_p = held and ganeti_load_with_primary(hardware_t, at.loads[target], new, is_forced=is_forced)
    if held is None or new_p is None:
        return None
    released = ganeti_load_without_primary(hardware_s, held, new)
    new_s = ganeti_load_with_secondary(hardware_s, released, new, target, is_forced=is_forced)
    free_p = ganeti_load_without_primary(hardware_p, at.loads[old_p], burden)
    return new_s and {old_p: free_p, old_s: new_s, target: new_p}


def _replace_secondary(at: GanetiInstancePlacement, instance: int, target: int) -> ChangedNodeLoads | None:
    (old_p, old_s), burden = at.homes[instance], at.burdens[instance]
    hardware_p = at.hardware[old_p]
    new = at.burden_at(instance, old_p, target)
    is_forced = not at.is_online[old_s]
    new_s = ganeti_load_with_secondary(at.hardware[target], at.loads[target], new, old_p, is_forced=is_forced)
    if new_s is None:
        return None
    free_p = ganeti_load_without_primary(hardware_p, at.loads[old_p], burden)
    new_p = ganeti_load_with_primary(hardware_p, free_p, new, is_forced=True)
    free_s = ganeti_load_without_secondary(at.hardware[old_s], at.loads[old_s], burden, old_p)
    return new_p and {old_p: new_p, target: new_s, old_s: free_s}


def _replace_and_failover(at: GanetiInstancePlacement, instance: int, target: int) -> ChangedNodeLoads | None:
    (old_p, old_s), burden = at.homes[instance], at.burdens[instance]
    hardware_p, hardware_t = at.hardware[old_p], at.hardware[target]
    if not do_ganeti_tags_allow_migration(hardware_p, hardware_t):
        return None
    new = at.burden_at(instance, target, old_p)
    new_p = ganeti_load_with_primary(hardware_t, at.loads[target], new, is_forced=False)
    if new_p is None:
        return None
    free_p = ganeti_load_without_primary(hardware_p, at.loads[old_p], burden)
    is_forced = not at.is_online[old_s]
    new_s = ganeti_load_with_secondary(hardware_p, free_p, new, target, is_forced=is_forced)
    free_s = ganeti_load_without_secondary(at.hardware[old_s], at.loads[old_s], burden, old_p)
    return new_s and {target: new_p, old_p: new_s, old_s: free_s}


def _failover_and_replace(at: GanetiInstancePlacement, instance: int, target: int) -> ChangedNodeLoads | None:
    (old_p, old_s), burden = at.homes[instance], at.burdens[instance]
    hardware_p, hardware_s = at.hardware[old_p], at.hardware[old_s]
    if not do_ganeti_tags_allow_migration(hardware_p, hardware_s):
        return None
    is_forced = not at.is_online[old_p]
    new = at.burden_at(instance, old_s, target)
    free_s = ganeti_load_without_secondary(hardware_s, at.loads[old_s], burden, old_p)
    new_p = ganeti_load_with_primary(hardware_s, free_s, new, is_forced=is_forced)
    if new_p is None:
        return None
    new_s = ganeti_load_with_secondary(at.hardware[target], at.loads[target], new, old_s, is_forced=is_forced)
    free_p = ganeti_load_without_primary(hardware_p, at.loads[old_p], burden)
    return new_s and {target: new_s, old_s: new_p, old_p: free_p}
