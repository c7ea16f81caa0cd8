"""Score how evenly Ganeti instances are placed on nodes, as Ganeti's hbal does; lower is better.

Terms are summed in hbal's order, because the order decides between equally good moves.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from math import sqrt
from operator import add
from typing import NamedTuple

from gridbridge.decisions.elastic.ganeti_node_load import (
    GanetiInstanceLoad,
    GanetiNodeHardwareAndTags,
    GanetiNodeLoad,
    divide_like_ieee_754,
    do_ganeti_tags_allow_migration,
    ganeti_load_with_added_secondary,
    ganeti_load_with_primary,
    ganeti_load_without_primary,
    ganeti_load_without_secondary,
    hardware_of_ganeti_nodes,
    initial_ganeti_node_loads,
    loads_of_ganeti_instances,
)
from gridbridge.model.elastic.ganeti_cluster import NO_NODE, GanetiCluster, GanetiInstanceMoveKind

OFFLINE, OFFLINE_PRIMARY = 4.0, 16.0  # penalties for each instance, and for each primary instance, on an offline node
EQUAL = 1e-9  # estimated scores that differ by less are computed again exactly


class GanetiNodeScoreShare(NamedTuple):
    """One Ganeti node's part in the score; the first eight fields count by their spread, the others by their sum."""

    free_mem: float
    free_disk: float
    kept_mem: float
    vcpus: float
    primaries: float
    copies: float
    spindles: float
    promised_mem: float
    failing: float  # number of instances if the node lacks memory for a failover (N+1), else 0
    conflicts: float  # number of instances that share an exclusion tag with another instance
    location: float


SPREAD = 8
WEIGHTS = (0.5, 1.0, 1.0, 1.0, 3.0, 1.0, 1.0, 0.5)  # hbal's weights of the spreads
FAILING, CONFLICT, LOCATION, TOGETHER, KEPT = 1.0, 2.0, 1.0, 1.0, 0.25


def ganeti_node_score_share(hardware: GanetiNodeHardwareAndTags, load: GanetiNodeLoad) -> GanetiNodeScoreShare:
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
    spreads = [_standard_deviation_of_values([contribution[at] for contribution in online]) for at in range(SPREAD)]
    free_mem, free_disk, kept_mem, vcpus, primaries, copies, spindles, promised_mem = spreads
    primaries_offline = sum(load.primaries for load in offline)
    copies_offline = primaries_offline + sum(load.secondaries for load in offline)
    terms = (
        *(free_mem * 0.5, free_disk * 0.5, _sum_score_term_over_nodes(online, 8) * FAILING, kept_mem * 1.0),
        *(copies_offline * OFFLINE, primaries_offline * OFFLINE_PRIMARY),
        *(vcpus * 0.5, primaries * 1.0, primaries * 1.0, copies * 1.0, primaries * 1.0),
        *(_sum_score_term_over_nodes(online, 9) * CONFLICT, spindles * 0.5, promised_mem * 0.5, free_disk * 0.5),
        *(vcpus * 0.5, spindles * 0.5, _sum_score_term_over_nodes(online, 10) * LOCATION),
        *((sum(pairs.values()) - len(pairs)) * TOGETHER, _sum_score_term_over_nodes(online, 2) * KEPT),
    )
    return _sum_numbers_in_order(terms)


def _sum_numbers_in_order(values: Iterable[float]) -> float:
    return reduce(add, values, 0.0)  # sum() of Python 3.12 gives other last digits than hbal


def _sum_score_term_over_nodes(online: Sequence[GanetiNodeScoreShare], at: int) -> float:
    return _sum_numbers_in_order([contribution[at] for contribution in online])


def _standard_deviation_of_values(values: Sequence[float]) -> float:
    count = len(values) or 1
    mean = _sum_numbers_in_order(values) / count
    return sqrt(_sum_numbers_in_order([(value - mean) * (value - mean) for value in values]) / count)


GanetiNodeLoadsAfterMove = dict[int, GanetiNodeLoad]  # {node index: load of a changed node}


@dataclass(slots=True, kw_only=True)
class GanetiInstancePlacement:
    """The placement of instances on Ganeti nodes, and the nodes' loads; moves change both."""

    hardware: tuple[GanetiNodeHardwareAndTags, ...]
    burdens: list[GanetiInstanceLoad]
    homes: list[tuple[int, int]]  # (primary node, secondary node) of each instance
    movable: tuple[int, ...]
    mirrored: frozenset[int]
    loads: list[GanetiNodeLoad]
    contributions: list[GanetiNodeScoreShare]
    is_online: list[bool]
    has_pairs: bool  # whether some instances have exclusion tags and some nodes have locations

    @property
    def online_node_indices(self) -> tuple[int, ...]:
        return tuple(node for node, is_on in enumerate(self.is_online) if is_on)

    def placement_with_nodes_switched(self, nodes: tuple[int, ...], *, to_online: bool) -> "GanetiInstancePlacement":
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

    def imbalance_score_after_changes(self, changed: Mapping[int, GanetiNodeLoad]) -> float:
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

    def apply(self, instance: int, home: tuple[int, int], changed: GanetiNodeLoadsAfterMove) -> None:
        """Record that an instance has moved to new nodes, with the changed loads of nodes."""
        for node, load in changed.items():
            self.loads[node] = load
            self.contributions[node] = ganeti_node_score_share(self.hardware[node], load)
        self.homes[instance] = home
        self.burdens[instance] = self.instance_load_at(instance, *home)

    def instance_load_at(self, instance: int, primary: int, secondary: int) -> GanetiInstanceLoad:
        burden = self.burdens[instance]
        if secondary == NO_NODE or instance not in self.mirrored:
            return burden
        shared = len(self.hardware[primary].locations & self.hardware[secondary].locations)
        return burden if shared == burden.together else burden._replace(together=shared)


def present_ganeti_placement(cluster: GanetiCluster) -> GanetiInstancePlacement:
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


VIA_SECONDARY = (  # moves in which the secondary node runs the instance at first
    GanetiInstanceMoveKind.FAILOVER,
    GanetiInstanceMoveKind.REPLACE_PRIMARY,
    GanetiInstanceMoveKind.FAILOVER_AND_REPLACE,
)


def possible_ganeti_instance_moves(
    at: GanetiInstancePlacement, instance: int, online: tuple[int, ...]
) -> Iterator[tuple[GanetiInstanceMoveKind, int, tuple[int, int], GanetiNodeLoadsAfterMove]]:
    """Yield a mirrored instance's moves as (kind, target, new nodes, changed loads), in hbal's order."""
    (primary, secondary), burden = at.homes[instance], at.burdens[instance]
    freed = {
        primary: ganeti_load_without_primary(at.hardware[primary], at.loads[primary], burden),
        secondary: ganeti_load_without_secondary(at.hardware[secondary], at.loads[secondary], burden, primary),
    }
    moves = [(GanetiInstanceMoveKind.FAILOVER, NO_NODE, (secondary, primary))]
    for target in (node for node in online if node not in (primary, secondary)):
        moves += [
            (GanetiInstanceMoveKind.REPLACE_SECONDARY, target, (primary, target)),
            (GanetiInstanceMoveKind.REPLACE_AND_FAILOVER, target, (target, primary)),
            (GanetiInstanceMoveKind.REPLACE_PRIMARY, target, (target, secondary)),
            (GanetiInstanceMoveKind.FAILOVER_AND_REPLACE, target, (secondary, target)),
        ]
    for kind, target, home in moves:
        if kind in VIA_SECONDARY and not at.is_online[secondary]:
            continue
        if changed := _loads_after_mirrored_move(at, instance, kind, home, freed):
            yield kind, target, home, changed


def _loads_after_mirrored_move(
    at: GanetiInstancePlacement,
    instance: int,
    kind: GanetiInstanceMoveKind,
    home: tuple[int, int],
    freed: GanetiNodeLoadsAfterMove,
) -> GanetiNodeLoadsAfterMove | None:
    """Return the changed node loads after a move, None if impossible; `freed` has the loads without the instance."""
    (old_p, old_s), (new_p, new_s), hardware = at.homes[instance], home, at.hardware
    is_via_secondary = kind in VIA_SECONDARY
    path = (old_p, old_s, new_p) if is_via_secondary else (old_p, new_p)
    if not all(do_ganeti_tags_allow_migration(hardware[source], hardware[to]) for source, to in pairwise(path)):
        return None
    loads, new = dict(freed), at.instance_load_at(instance, new_p, new_s)
    is_forced = not at.is_online[old_p if is_via_secondary else old_s]
    if kind is GanetiInstanceMoveKind.REPLACE_PRIMARY:
        held = ganeti_load_with_primary(hardware[old_s], loads[old_s], new, is_forced=is_forced)
        if held is None:
            return None
        loads[old_s] = ganeti_load_without_primary(hardware[old_s], held, new)
    primary = ganeti_load_with_primary(
        hardware[new_p],
        loads.get(new_p, at.loads[new_p]),
        new,
        is_forced=is_forced if is_via_secondary else new_p == old_p,
    )
    if primary is None:
        return None
    ignores_disk = is_forced and kind is GanetiInstanceMoveKind.FAILOVER
    load = loads.get(new_s, at.loads[new_s])
    secondary = ganeti_load_with_added_secondary(
        hardware[new_s], load, new, new_p, is_forced=is_forced, ignores_disk=ignores_disk
    )
    return secondary and {**loads, new_p: primary, new_s: secondary}


def ganeti_loads_after_unmirrored_move(
    at: GanetiInstancePlacement, instance: int, target: int
) -> GanetiNodeLoadsAfterMove:
    """Return the node loads that an unmirrored instance's move changes; empty if the target lacks room."""
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
