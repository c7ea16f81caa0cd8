"""Moving a Ganeti cluster's instances, one after the other, until its score gets no better."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gridbridge.decisions.elastic.ganeti.cluster_score import EQUAL
from gridbridge.decisions.elastic.ganeti.instance_placement import (
    Changed,
    Placement,
    moved_to_any,
    possible,
)
from gridbridge.decisions.elastic.ganeti.node_load import InstanceLoad, takes_from
from gridbridge.decisions.elastic.ganeti.score_changes import ScoreChanges
from gridbridge.model.elastic.ganeti_cluster import NO_NODE, InstanceMove, MoveKindOfGaneti

Home = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateMove:
    """A move that may be the best, and nearly what it makes of the score."""

    nearly: float
    instance: int
    kind: MoveKindOfGaneti
    target: int
    home: Home
    changed: Changed | None  # None: the instance goes to any node


def balance(at: Placement) -> tuple[InstanceMove, ...]:
    """Move instances, each time the best one, as long as that helps; return the moves."""
    moves = []
    changes = ScoreChanges(at)
    now = at.score({})
    while best := _best(at, changes, now):
        now, step, changed = best
        nodes = frozenset((*at.homes[step.instance], *step.home)) - {NO_NODE}
        at.apply(step.instance, step.home, changed)
        changes.begin(tuple(changed))
        moves.append(
            InstanceMove(
                instance=step.instance,
                kind=step.kind,
                target=step.target,
                primary=step.home[0],
                secondary=step.home[1],
                nodes=nodes,
            )
        )
    return tuple(moves)


def _best(
    at: Placement, changes: ScoreChanges, now: float
) -> tuple[float, CandidateMove, Changed] | None:
    """Return the first of the moves with the least score, if that is less than now.

    What may be the first by the quick reckoning is reckoned again as hbal does.
    """
    best: tuple[float, CandidateMove, Changed] | None = None
    least = now
    for step in _promising(at, changes, now):
        changed = step.changed or moved_to_any(at, step.instance, step.target)
        value = at.score(changed)
        if value < least:
            least, best = value, (value, step, changed)
    return best


def _promising(at: Placement, changes: ScoreChanges, now: float) -> list[CandidateMove]:
    """Return the moves with nearly the least score, in hbal's order.

    Who leaves a node that is offline gains so much that nobody else need be looked at then.
    """
    leaving, staying = _distinct(at)
    candidates: list[CandidateMove] = []
    least = _gather(at, changes, leaving, now, candidates)
    if least + EQUAL >= changes.away:
        least = _gather(at, changes, staying, least, candidates)
    near = [step for step in candidates if step.nearly <= least + EQUAL]
    return sorted(near, key=lambda step: step.instance)


def _distinct(at: Placement) -> tuple[list[int], list[int]]:
    """Return the instances on offline nodes and the others, one of those that are alike."""
    alike = set[tuple[Home, InstanceLoad]]()
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


def _gather(
    at: Placement,
    changes: ScoreChanges,
    instances: Iterable[int],
    least: float,
    candidates: list[CandidateMove],
) -> float:
    """Find what comes near the least score so far; return the least."""
    for instance in instances:
        for step in _steps(at, changes, instance, least):
            if step.nearly <= least + EQUAL:
                candidates.append(step)
                least = min(least, step.nearly)
    return least


def _steps(
    at: Placement, changes: ScoreChanges, instance: int, least: float
) -> Iterator[CandidateMove]:
    if instance not in at.mirrored:
        yield from _to_any(at, changes, instance, least)
        return
    for kind, target, home, changed in possible(at, instance, changes.online):
        yield CandidateMove(
            nearly=at.score(changed) if at.has_pairs else changes.of_all(changed),
            instance=instance,
            kind=kind,
            target=target,
            home=home,
            changed=changed,
        )


def _to_any(
    at: Placement, changes: ScoreChanges, instance: int, least: float
) -> Iterator[CandidateMove]:
    primary, secondary = at.homes[instance]
    burden, source = at.burdens[instance], at.hardware[primary]
    is_forced = not at.is_online[primary]
    targets = [
        (target, taking)
        for target in changes.online
        if target not in (primary, secondary)
        and takes_from(source, at.hardware[target])
        and (taking := changes.taking(target, burden, is_forced=is_forced))
    ]
    if at.has_pairs:
        all_loads = ((moved_to_any(at, instance, target), target) for target, _ in targets)
        near = [(at.score(changed), target) for changed, target in all_loads]
    else:
        near = changes.nearest(changes.giving(primary, burden), targets, least)
    for nearly, target in near:
        yield CandidateMove(
            nearly=nearly,
            instance=instance,
            kind=MoveKindOfGaneti.TO_ANY,
            target=target,
            home=(target, secondary),
            changed=None,
        )
