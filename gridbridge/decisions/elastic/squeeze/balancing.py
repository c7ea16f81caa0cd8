"""Moving a Ganeti cluster's instances, one after the other, until its score gets no better."""

from gridbridge.decisions.elastic.squeeze.placement import Changed, Placement, possible
from gridbridge.model.elastic.ganeti import Kind, Move

Step = tuple[int, Kind, int, tuple[int, int], Changed]


def balance(at: Placement) -> tuple[Move, ...]:
    """Move instances, each time the best one, as long as that helps; return the moves."""
    moves = []
    now = at.score({})
    while found := _best(at, now):
        now, (instance, kind, target, home, changed) = found
        nodes = frozenset((*at.homes[instance], *home)) - {-1}
        at.apply(instance, home, changed)
        moves.append(
            Move(
                instance=instance,
                kind=kind,
                target=target,
                primary=home[0],
                secondary=home[1],
                nodes=nodes,
            )
        )
    return tuple(moves)


def _best(at: Placement, now: float) -> tuple[float, Step] | None:
    """Return the first of the moves with the least score, if that is less than now."""
    best: tuple[float, Step] | None = None
    least = now
    online = at.online
    for instance in at.movable:
        for kind, target, home, changed in possible(at, instance, online):
            value = at.score(changed)
            if value < least:
                least, best = value, (value, (instance, kind, target, home, changed))
    return best
