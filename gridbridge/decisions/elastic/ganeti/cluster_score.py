"""How unevenly a Ganeti cluster carries its load: hbal's score, the less the better.

Each move is reckoned twice, by what it changes and, if it may be the best, as hbal reckons it: the
order of its additions decides between moves that are equally good.
"""

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import NamedTuple

from gridbridge.decisions.elastic.ganeti.node_load import (
    GanetiNodeHardware,
    GanetiNodeLoad,
    float_ratio,
)

OFFLINE, OFFLINE_PRIMARY = 4.0, 16.0  # for each instance on a node that is offline
EQUAL = 1e-9  # scores so near each other are reckoned again


class NodeScoreContribution(NamedTuple):
    """What one node adds to the score; the spread of the first eight counts."""

    free_mem: float
    free_disk: float
    kept_mem: float
    vcpus: float
    primaries: float
    copies: float
    spindles: float
    promised_mem: float
    failing: float  # instances, if the node fails N+1
    conflicts: float  # instances beside another one with their exclusion tag
    location: float


SPREAD = 8
WEIGHTS = (0.5, 1.0, 1.0, 1.0, 3.0, 1.0, 1.0, 0.5)  # of those, hbal's like ones together
FAILING, CONFLICT, LOCATION, TOGETHER, KEPT = 1.0, 2.0, 1.0, 1.0, 0.25


def score_contribution_of_node(
    hardware: GanetiNodeHardware, load: GanetiNodeLoad
) -> NodeScoreContribution:
    """Return what a node adds to the score."""
    copies = load.primaries + load.secondaries
    if hardware.is_exclusive:
        part, whole = float(load.free_spindles), float(hardware.spindles)
    else:
        part, whole = float(load.free_disk), hardware.disk
    return NodeScoreContribution(
        float_ratio(hardware.room - load.live_mem, hardware.mem),
        part / whole if whole else 1.0,
        float_ratio(load.kept_mem, hardware.mem),
        float_ratio(float_ratio(load.vcpus, hardware.cpus), hardware.speed),
        float(load.primaries),
        float(copies),
        float_ratio(load.spindle_use, hardware.most_spindles),
        float_ratio(load.promised_mem, hardware.mem),
        float(copies) if load.fails else 0.0,
        float(sum(load.tags.values()) - len(load.tags)) if load.tags else 0.0,
        float(load.location),
    )


def cluster_imbalance_score(
    online: Sequence[NodeScoreContribution],
    offline: Sequence[GanetiNodeLoad],
    pairs: Mapping[tuple[str, str], int],
) -> float:
    """Return the score of a cluster, added up in hbal's order."""
    spreads = [
        _standard_deviation([contribution[at] for contribution in online]) for at in range(SPREAD)
    ]
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


def _sum_column(online: Sequence[NodeScoreContribution], at: int) -> float:
    total = 0.0
    for contribution in online:
        total += contribution[at]
    return total


def _standard_deviation(values: Sequence[float]) -> float:
    """Return the standard deviation of all there are."""
    total = 0.0
    for value in values:
        total += value
    mean = total / len(values) if values else 0.0
    squares = 0.0
    for value in values:
        off = value - mean
        squares += off * off
    return sqrt(squares / len(values)) if values else 0.0
