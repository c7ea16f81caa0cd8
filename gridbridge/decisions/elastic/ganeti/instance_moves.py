"""Moving a Ganeti cluster's instances, one after the other, until its score gets no better."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gridbridge.decisions.elastic.ganeti.cluster_score import EQUAL
from gridbridge.decisions.elastic.ganeti.instance_placement import (
    ChangedNodeLoads,
    GanetiPlacement,
    node_loads_after_move,
    possible_instance_moves,
)
from gridbridge.decisions.elastic.ganeti.node_load import GanetiInstanceLoad, may_migrate_between
from gridbridge.decisions.elastic.ganeti.score_changes import MoveScoreEstimates
from gridbridge.model.elastic.ganeti_cluster import NO_NODE, GanetiInstanceMove, InstanceMoveKind

Home = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateInstanceMove:
    """A move that may be the best, and nearly what it makes of the score."""

    nearly: float
    instance: int
    kind: InstanceMoveKind
    target: int
    home: Home
    changed: ChangedNodeLoads | None  # None: the instance goes to any node


def balance_ganeti_instances(at: GanetiPlacement) -> tuple[GanetiInstanceMove, ...]:
    """Move instances, each time the best one, as long as that helps; return the moves."""
    moves = []
    changes = MoveScoreEstimates(at)
    now = at.score({})
    while best := _best_move(at, changes, now):
        now, step, changed = best
        nodes = frozenset((*at.homes[step.instance], *step.home)) - {NO_NODE}
        at.apply(step.instance, step.home, changed)
        changes.begin(tuple(changed))
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


def _best_move(
    at: GanetiPlacement, changes: MoveScoreEstimates, now: float
) -> tuple[float, CandidateInstanceMove, ChangedNodeLoads] | None:
    """Return the first of the moves with the least score, if that is less than now.

    What may be the first by the quick reckoning is reckoned again as hbal does.
    """
    best: tuple[float, CandidateInstanceMove, ChangedNodeLoads] | None = None
    least = now
    for step in _moves_near_best_score(at, changes, now):
        changed = step.changed or node_loads_after_move(at, step.instance, step.target)
        value = at.score(changed)
        if value < least:
            least, best = value, (value, step, changed)
    return best


def _moves_near_best_score(
    at: GanetiPlacement, changes: MoveScoreEstimates, now: float
) -> list[CandidateInstanceMove]:
    """Return the moves with nearly the least score, in hbal's order.

    Who leaves a node that is offline gains so much that nobody else need be looked at then.
    """
    leaving, staying = _distinct_instances(at)
    candidates: list[CandidateInstanceMove] = []
    least = _collect_moves_near_best(at, changes, leaving, now, candidates)
    if least + EQUAL >= changes.away:
        least = _collect_moves_near_best(at, changes, staying, least, candidates)
    near = [step for step in candidates if step.nearly <= least + EQUAL]
    return sorted(near, key=lambda step: step.instance)


def _distinct_instances(at: GanetiPlacement) -> tuple[list[int], list[int]]:
    """Return the instances on offline nodes and the others, one of those that are alike."""
    alike = set[tuple[Home, GanetiInstanceLoad]]()
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


def _collect_moves_near_best(
    at: GanetiPlacement,
    changes: MoveScoreEstimates,
    instances: Iterable[int],
    least: float,
    candidates: list[CandidateInstanceMove],
) -> float:
    """Find what comes near the least score so far; return the least."""
    for instance in instances:
        for step in _moves_of_instance(at, changes, instance, least):
            if step.nearly <= least + EQUAL:
                candidates.append(step)
                least = min(least, step.nearly)
    return least


def _moves_of_instance(
    at: GanetiPlacement, changes: MoveScoreEstimates, instance: int, least: float
) -> Iterator[CandidateInstanceMove]:
    if instance not in at.mirrored:
        yield from _moves_to_any_node(at, changes, instance, least)
        return
    for kind, target, home, changed in possible_instance_moves(at, instance, changes.online):
        yield CandidateInstanceMove(
            nearly=at.score(changed) if at.has_pairs else changes.of_all(changed),
            instance=instance,
            kind=kind,
            target=target,
            home=home,
            changed=changed,
        )


def _moves_to_any_node(
    at: GanetiPlacement, changes: MoveScoreEstimates, instance: int, least: float
) -> Iterator[CandidateInstanceMove]:
    primary, secondary = at.homes[instance]
    burden, source = at.burdens[instance], at.hardware[primary]
    is_forced = not at.is_online[primary]
    targets = [
        (target, taking)
        for target in changes.online
        if target not in (primary, secondary)
        and may_migrate_between(source, at.hardware[target])
        and (taking := changes.taking(target, burden, is_forced=is_forced))
    ]
    if at.has_pairs:
        all_loads = ((node_loads_after_move(at, instance, target), target) for target, _ in targets)
        near = [(at.score(changed), target) for changed, target in all_loads]
    else:
        near = changes.nearest(changes.giving(primary, burden), targets, least)
    for nearly, target in near:
        yield CandidateInstanceMove(
            nearly=nearly,
            instance=instance,
            kind=InstanceMoveKind.TO_ANY,
            target=target,
            home=(target, secondary),
            changed=None,
        )
