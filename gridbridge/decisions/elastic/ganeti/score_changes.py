"""What a move changes of the score, reckoned quickly and nearly.

The spreads are kept as sums about a fixed centre, so that a move costs as much in a large cluster
as in a small one. What a node adds is remembered until the node changes.
"""

from collections.abc import Mapping
from math import sqrt

from gridbridge.decisions.elastic.ganeti.cluster_score import (
    CONFLICT,
    EQUAL,
    FAILING,
    KEPT,
    LOCATION,
    OFFLINE,
    OFFLINE_PRIMARY,
    SPREAD,
    WEIGHTS,
    NodeScoreContribution,
    score_contribution_of_node,
)
from gridbridge.decisions.elastic.ganeti.instance_placement import GanetiPlacement
from gridbridge.decisions.elastic.ganeti.node_load import (
    GanetiInstanceLoad,
    GanetiNodeLoad,
    add_primary_instance,
    remove_primary_instance,
)

ScoreChange = tuple[float, tuple[tuple[int, float, float], ...]]  # of the sums, and of some spreads
STANDING = range(SPREAD)
MOVED = (0, 3, 4, 5, 7)  # the spreads that every move of an instance without a second copy changes


class MoveScoreEstimates:
    """The sums of a placement, and what moves would make of them."""

    def __init__(self, at: GanetiPlacement) -> None:
        self.at = at
        self.online = at.online
        count = len(self.online) or 1
        contributions = [at.contributions[node] for node in self.online]
        self.centre = [
            sum(contribution[k] for contribution in contributions) / count for k in STANDING
        ]
        self.given: list[dict[GanetiInstanceLoad, ScoreChange]] = [{} for _ in at.loads]
        self.taken: list[dict[tuple[GanetiInstanceLoad, bool], ScoreChange | None]] = [
            {} for _ in at.loads
        ]
        self.begin(())

    def begin(self, changed: tuple[int, ...]) -> None:
        """Add everything up anew, after these nodes have changed."""
        for node in changed:
            self.given[node].clear()
            self.taken[node].clear()
        contributions = [self.at.contributions[node] for node in self.online]
        self.sums = [
            sum(contribution[k] - self.centre[k] for contribution in contributions)
            for k in STANDING
        ]
        self.squares = [
            sum((contribution[k] - self.centre[k]) ** 2 for contribution in contributions)
            for k in STANDING
        ]
        self.away = sum(
            _offline_terms(load)
            for load, is_online in zip(self.at.loads, self.at.is_online, strict=True)
            if not is_online
        )
        self.linear = self.away + sum(_linear(contribution) for contribution in contributions)
        self.terms = [self._term(k, 0.0, 0.0) for k in STANDING]
        self.spread = sum(self.terms)

    def giving(self, node: int, burden: GanetiInstanceLoad) -> ScoreChange:
        """Return what is changed by an instance's leaving its primary node."""
        changes = self.given[node]
        if burden not in changes:
            load = remove_primary_instance(self.at.hardware[node], self.at.loads[node], burden)
            changes[burden] = self.change(node, load)
        return changes[burden]

    def taking(
        self, node: int, burden: GanetiInstanceLoad, *, is_forced: bool
    ) -> ScoreChange | None:
        """Return what is changed by a node's taking an instance, or None if it can't."""
        changes = self.taken[node]
        key = burden, is_forced
        if key not in changes:
            hardware = self.at.hardware[node]
            load = add_primary_instance(hardware, self.at.loads[node], burden, is_forced=is_forced)
            changes[key] = None if load is None else self.change(node, load)
        return changes[key]

    def change(self, node: int, load: GanetiNodeLoad) -> ScoreChange:
        """Return what is changed by another load of a node."""
        if not self.at.is_online[node]:
            return _offline_terms(load) - _offline_terms(self.at.loads[node]), ()
        old, new = (
            self.at.contributions[node],
            score_contribution_of_node(self.at.hardware[node], load),
        )
        spreads = []
        for k in STANDING:
            before, after = old[k] - self.centre[k], new[k] - self.centre[k]
            if before != after or k in MOVED:
                spreads.append((k, after - before, after * after - before * before))
        return _linear(new) - _linear(old), tuple(spreads)

    def nearest(
        self, source: ScoreChange, targets: list[tuple[int, ScoreChange]], least: float
    ) -> list[tuple[float, int]]:
        """Return the targets with which the score comes near the least so far, with the scores.

        It is written out, since a balance asks this a million times.
        """
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
                value = self._merged((source, (by_linear, moved)))
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

    def of_all(self, changed: Mapping[int, GanetiNodeLoad]) -> float:
        """Return the score with these nodes' loads."""
        return self._merged(tuple(self.change(node, load) for node, load in changed.items()))

    def _merged(self, changes: tuple[ScoreChange, ...]) -> float:
        sums: dict[int, tuple[float, float]] = {}
        for _, spreads in changes:
            for k, by_sum, by_square in spreads:
                a, b = sums.get(k, (0.0, 0.0))
                sums[k] = a + by_sum, b + by_square
        return self._with(
            sum(change[0] for change in changes),
            tuple((k, *by_sum_and_square) for k, by_sum_and_square in sums.items()),
        )

    def _with(self, by_linear: float, spreads: tuple[tuple[int, float, float], ...]) -> float:
        value = self.linear + by_linear + self.spread
        for k, by_sum, by_square in spreads:
            value += self._term(k, by_sum, by_square) - self.terms[k]
        return value

    def _term(self, k: int, by_sum: float, by_square: float) -> float:
        count = len(self.online) or 1
        mean = (self.sums[k] + by_sum) / count
        variance = (self.squares[k] + by_square) / count - mean * mean
        return WEIGHTS[k] * sqrt(variance) if variance > 0 else 0.0


def _linear(contribution: NodeScoreContribution) -> float:
    return (
        contribution.failing * FAILING
        + contribution.conflicts * CONFLICT
        + contribution.location * LOCATION
        + contribution.kept_mem * KEPT
    )


def _offline_terms(load: GanetiNodeLoad) -> float:
    """Return what an offline node adds."""
    return OFFLINE * (load.primaries + load.secondaries) + OFFLINE_PRIMARY * load.primaries
