"""Move a Ganeti cluster's instances one by one until the score of Ganeti's hbal stops improving."""

from collections.abc import Iterable, Iterator, Mapping
from math import sqrt
from typing import NamedTuple

from gridbridge.decisions.elastic.ganeti_node_load import (
    GanetiInstanceLoad,
    GanetiNodeLoad,
    do_ganeti_tags_allow_migration,
    ganeti_load_with_primary,
    ganeti_load_without_primary,
)
from gridbridge.decisions.elastic.ganeti_placement_score import (
    CONFLICT,
    EQUAL,
    FAILING,
    KEPT,
    LOCATION,
    OFFLINE,
    OFFLINE_PRIMARY,
    SPREAD,
    WEIGHTS,
    GanetiInstancePlacement,
    GanetiNodeLoadsAfterMove,
    GanetiNodeScoreShare,
    ganeti_loads_after_unmirrored_move,
    ganeti_node_score_share,
    possible_ganeti_instance_moves,
)
from gridbridge.model.elastic.ganeti_cluster import NO_NODE, GanetiInstanceMove, GanetiInstanceMoveKind

ScoreChange = tuple[float, tuple[tuple[int, float, float], ...]]  # change of the linear sum, and of each spread
STANDING = range(SPREAD)
MOVED = (0, 3, 4, 5, 7)  # indices of spreads that change when an instance without a second copy moves


class GanetiMoveScoreSums:
    """Running sums over the nodes, from which the scores of candidate moves are estimated."""

    def __init__(self, at: GanetiInstancePlacement) -> None:
        self.at = at
        self.online = at.online_node_indices
        count = len(self.online) or 1
        contributions = [at.contributions[node] for node in self.online]
        self.centre = [sum(contribution[k] for contribution in contributions) / count for k in STANDING]
        self.given: list[dict[GanetiInstanceLoad, ScoreChange]] = [{} for _ in at.loads]
        self.taken: list[dict[tuple[GanetiInstanceLoad, bool], ScoreChange | None]] = [{} for _ in at.loads]
        self.recompute_sums(())

    def recompute_sums(self, changed: tuple[int, ...]) -> None:
        for node in changed:
            self.given[node].clear()
            self.taken[node].clear()
        contributions = [self.at.contributions[node] for node in self.online]
        offsets = [[contribution[k] - self.centre[k] for contribution in contributions] for k in STANDING]
        self.sums = [sum(values) for values in offsets]
        self.squares = [sum(value**2 for value in values) for values in offsets]
        offline = (load for load, is_online in zip(self.at.loads, self.at.is_online, strict=True) if not is_online)
        self.away = sum(map(_offline_node_penalty, offline))
        self.linear = self.away + sum(_summed_score_terms(contribution) for contribution in contributions)
        self.terms = [self._weighted_standard_deviation(k, 0.0, 0.0) for k in STANDING]
        self.spread = sum(self.terms)

    def change_without_instance(self, node: int, burden: GanetiInstanceLoad) -> ScoreChange:
        changes = self.given[node]
        if burden not in changes:
            load = ganeti_load_without_primary(self.at.hardware[node], self.at.loads[node], burden)
            changes[burden] = self.change_with_load(node, load)
        return changes[burden]

    def change_with_instance(self, node: int, burden: GanetiInstanceLoad, *, is_forced: bool) -> ScoreChange | None:
        """Return how the score sums change if a node takes a Ganeti instance; None if the node has no room."""
        changes = self.taken[node]
        key = burden, is_forced
        if key not in changes:
            hardware = self.at.hardware[node]
            load = ganeti_load_with_primary(hardware, self.at.loads[node], burden, is_forced=is_forced)
            changes[key] = None if load is None else self.change_with_load(node, load)
        return changes[key]

    def change_with_load(self, node: int, load: GanetiNodeLoad) -> ScoreChange:
        if not self.at.is_online[node]:
            return _offline_node_penalty(load) - _offline_node_penalty(self.at.loads[node]), ()
        old, new = (self.at.contributions[node], ganeti_node_score_share(self.at.hardware[node], load))
        spreads = []
        for k in STANDING:
            before, after = old[k] - self.centre[k], new[k] - self.centre[k]
            if before != after or k in MOVED:
                spreads.append((k, after - before, after * after - before * before))
        return _summed_score_terms(new) - _summed_score_terms(old), tuple(spreads)

    def targets_near_best_score(
        self, source: ScoreChange, targets: list[tuple[int, ScoreChange]], least: float
    ) -> list[tuple[float, int]]:
        """Return the targets with an estimated score close to the best; the code is unrolled for speed."""
        count = float(len(self.online) or 1)
        source_changes = {k: (by_sum, by_square) for k, by_sum, by_square in source[1]}
        base = self.linear + source[0] + self.spread - sum(self.terms[k] for k in MOVED)
        starts = [
            (self.sums[k] + by_sum, self.squares[k] + by_square)
            for k in MOVED
            for by_sum, by_square in (source_changes.get(k, (0.0, 0.0)),)
        ]
        (s0, q0), (s1, q1), (s2, q2), (s3, q3), (s4, q4) = starts
        w0, w1, w2, w3, w4 = (WEIGHTS[k] / count for k in MOVED)
        nearest = []
        for target, (by_linear, moved) in targets:
            if len(moved) != len(MOVED):
                value = self._score_after_changes((source, (by_linear, moved)))
            else:
                (_, a0, b0), (_, a1, b1), (_, a2, b2), (_, a3, b3), (_, a4, b4) = moved
                v0 = count * (q0 + b0) - (s0 + a0) ** 2
                v1 = count * (q1 + b1) - (s1 + a1) ** 2
                v2 = count * (q2 + b2) - (s2 + a2) ** 2
                v3 = count * (q3 + b3) - (s3 + a3) ** 2
                v4 = count * (q4 + b4) - (s4 + a4) ** 2
                value = base + by_linear
                value += w0 * sqrt(v0) if v0 > 0 else 0.0
                value += w1 * sqrt(v1) if v1 > 0 else 0.0
                value += w2 * sqrt(v2) if v2 > 0 else 0.0
                value += w3 * sqrt(v3) if v3 > 0 else 0.0
                value += w4 * sqrt(v4) if v4 > 0 else 0.0
            if value <= least + EQUAL:
                nearest.append((value, target))
        return nearest

    def estimated_score(self, changed: Mapping[int, GanetiNodeLoad]) -> float:
        return self._score_after_changes(tuple(self.change_with_load(node, load) for node, load in changed.items()))

    def _score_after_changes(self, changes: tuple[ScoreChange, ...]) -> float:
        sums: dict[int, tuple[float, float]] = {}
        for _, spreads in changes:
            for k, by_sum, by_square in spreads:
                a, b = sums.get(k, (0.0, 0.0))
                sums[k] = a + by_sum, b + by_square
        value = self.linear + sum(change[0] for change in changes) + self.spread
        for k, (by_sum, by_square) in sums.items():
            value += self._weighted_standard_deviation(k, by_sum, by_square) - self.terms[k]
        return value

    def _weighted_standard_deviation(self, k: int, by_sum: float, by_square: float) -> float:
        count = len(self.online) or 1
        mean = (self.sums[k] + by_sum) / count
        variance = (self.squares[k] + by_square) / count - mean * mean
        return WEIGHTS[k] * sqrt(variance) if variance > 0 else 0.0


def _summed_score_terms(contribution: GanetiNodeScoreShare) -> float:
    return (
        contribution.failing * FAILING
        + contribution.conflicts * CONFLICT
        + contribution.location * LOCATION
        + contribution.kept_mem * KEPT
    )


def _offline_node_penalty(load: GanetiNodeLoad) -> float:
    return OFFLINE * (load.primaries + load.secondaries) + OFFLINE_PRIMARY * load.primaries


PrimaryAndSecondaryNode = tuple[int, int]


class GanetiMoveWithEstimatedScore(NamedTuple):
    nearly: float
    instance: int
    kind: GanetiInstanceMoveKind
    target: int
    home: PrimaryAndSecondaryNode
    changed: GanetiNodeLoadsAfterMove | None  # None: not computed yet, as for instances without a second copy


def balance_ganeti_instances(at: GanetiInstancePlacement) -> tuple[GanetiInstanceMove, ...]:
    """Move Ganeti instances, the best move first, while the score improves; return the moves."""
    moves = []
    changes = GanetiMoveScoreSums(at)
    now = at.imbalance_score_after_changes({})
    while best := _best_instance_move(at, changes, now):
        now, step, changed = best
        nodes = frozenset((*at.homes[step.instance], *step.home)) - {NO_NODE}
        at.apply(step.instance, step.home, changed)
        changes.recompute_sums(tuple(changed))
        moves.append(
            GanetiInstanceMove(
                instance=step.instance,
                kind=step.kind,
                target=step.target,
                primary=step.home[0],
                secondary=step.home[1],
                nodes=nodes,
            )
        )
    return tuple(moves)


def _best_instance_move(
    at: GanetiInstancePlacement, changes: GanetiMoveScoreSums, now: float
) -> tuple[float, GanetiMoveWithEstimatedScore, GanetiNodeLoadsAfterMove] | None:
    """Return the first move with the lowest exact score; None if no move improves the score."""
    best: tuple[float, GanetiMoveWithEstimatedScore, GanetiNodeLoadsAfterMove] | None = None
    least = now
    for step in _instance_moves_near_best_score(at, changes, now):
        changed = step.changed or ganeti_loads_after_unmirrored_move(at, step.instance, step.target)
        value = at.imbalance_score_after_changes(changed)
        if value < least:
            least, best = value, (value, step, changed)
    return best


def _instance_moves_near_best_score(
    at: GanetiInstancePlacement, changes: GanetiMoveScoreSums, now: float
) -> list[GanetiMoveWithEstimatedScore]:
    """Return the moves whose estimated score is close to the best, in hbal's order."""
    leaving, staying = _distinct_movable_instances(at)
    candidates: list[GanetiMoveWithEstimatedScore] = []
    least = _collect_instance_moves_near_best(at, changes, leaving, now, candidates)
    if least + EQUAL >= changes.away:
        least = _collect_instance_moves_near_best(at, changes, staying, least, candidates)
    near = [step for step in candidates if step.nearly <= least + EQUAL]
    return sorted(near, key=lambda step: step.instance)


def _distinct_movable_instances(at: GanetiInstancePlacement) -> tuple[list[int], list[int]]:
    """Return the instances on offline nodes and on online nodes; equal instances are listed once."""
    alike = set[tuple[PrimaryAndSecondaryNode, GanetiInstanceLoad]]()
    leaving, staying = list[int](), list[int]()
    for instance in at.movable:
        home = at.homes[instance]
        key = home, at.burdens[instance]
        if key in alike:
            continue
        alike.add(key)
        is_on = all(at.is_online[node] for node in home if node != NO_NODE)
        (staying if is_on else leaving).append(instance)
    return leaving, staying


def _collect_instance_moves_near_best(
    at: GanetiInstancePlacement,
    changes: GanetiMoveScoreSums,
    instances: Iterable[int],
    least: float,
    candidates: list[GanetiMoveWithEstimatedScore],
) -> float:
    """Collect moves of Ganeti instances with a score close to the lowest so far; return the lowest score."""
    for instance in instances:
        for step in _moves_of_instance(at, changes, instance, least):
            if step.nearly <= least + EQUAL:
                candidates.append(step)
                least = min(least, step.nearly)
    return least


def _moves_of_instance(
    at: GanetiInstancePlacement, changes: GanetiMoveScoreSums, instance: int, least: float
) -> Iterator[GanetiMoveWithEstimatedScore]:
    if instance not in at.mirrored:
        secondary, kind = at.homes[instance][1], GanetiInstanceMoveKind.TO_ANY
        for nearly, target in _target_nodes_near_best_score(at, changes, instance, least):
            yield GanetiMoveWithEstimatedScore(nearly, instance, kind, target, (target, secondary), None)
        return
    for kind, target, home, changed in possible_ganeti_instance_moves(at, instance, changes.online):
        nearly = at.imbalance_score_after_changes(changed) if at.has_pairs else changes.estimated_score(changed)
        yield GanetiMoveWithEstimatedScore(nearly, instance, kind, target, home, changed)


def _target_nodes_near_best_score(
    at: GanetiInstancePlacement, changes: GanetiMoveScoreSums, instance: int, least: float
) -> list[tuple[float, int]]:
    """Return the nodes to which an instance without a second copy may move, with estimated scores."""
    primary, secondary = at.homes[instance]
    burden, source = at.burdens[instance], at.hardware[primary]
    is_forced = not at.is_online[primary]
    targets = [
        (target, taking)
        for target in changes.online
        if target not in (primary, secondary)
        and do_ganeti_tags_allow_migration(source, at.hardware[target])
        and (taking := changes.change_with_instance(target, burden, is_forced=is_forced))
    ]
    if at.has_pairs:
        all_loads = ((ganeti_loads_after_unmirrored_move(at, instance, target), target) for target, _ in targets)
        return [(at.imbalance_score_after_changes(changed), target) for changed, target in all_loads]
    return changes.targets_near_best_score(changes.change_without_instance(primary, burden), targets, least)
