"""Puts tasks where they fit: first fit, by arithmetic over blocks of hosts, never task by task."""

from collections.abc import Sequence

from gridbridge.decisions.elastic.demand.needs import Need
from gridbridge.decisions.elastic.demand.rooms import (
    Block,
    Blocks,
    Ground,
    merged,
    pieces_in,
    taken,
)


def place(need: Need, tasks: int, blocks: Blocks, ground: Ground) -> tuple[int, Blocks]:
    """Return how many of the tasks fit, and what is free then; a task is placed whole or not."""
    if need.pieces == 1:
        return _within(need, tasks, blocks, ground)
    done = 0
    for group in dict.fromkeys(room.group for room, _ in blocks):
        own = tuple(one for one in blocks if one[0].group == group)
        others = tuple(one for one in blocks if one[0].group != group)
        fit, own = _within(need, tasks - done, own, ground)
        done, blocks = done + fit, (*own, *others) if fit else blocks
    return done, blocks


def _within(need: Need, tasks: int, blocks: Blocks, ground: Ground) -> tuple[int, Blocks]:
    """Place tasks in one group of hosts."""
    room_for = [pieces_in(need, room, ground) for room, _ in blocks]
    if not tasks or not any(room_for):
        return 0, blocks
    if need.is_exclusive:
        return _alone(need, tasks, blocks, room_for, ground)
    counts = [len(names) for _, names in blocks]
    if need.is_apart:
        tasks = _apart(need, tasks, counts, room_for)
        room_for = [min(one, tasks) for one in room_for]
    fit = min(tasks, sum(n * k for n, k in zip(counts, room_for, strict=True)) // need.pieces)
    return fit, _filled(need, fit * need.pieces, blocks, room_for, ground)


def _apart(need: Need, tasks: int, counts: Sequence[int], room_for: Sequence[int]) -> int:
    """Return how many tasks fit whose pieces lie on hosts of their own.

    It is the most for which  sum of min(pieces on a host, tasks) >= tasks * pieces  holds.
    """
    low, high = 0, tasks
    while low < high:
        middle = (low + high + 1) // 2
        places = sum(n * min(k, middle) for n, k in zip(counts, room_for, strict=True))
        low, high = (middle, high) if places >= middle * need.pieces else (low, middle - 1)
    return low


def _filled(
    need: Need, pieces: int, blocks: Blocks, room_for: Sequence[int], ground: Ground
) -> Blocks:
    found = list[Block]()
    for (room, names), most in zip(blocks, room_for, strict=True):
        used = min(pieces, most * len(names))
        pieces -= used
        if not used:
            found.append((room, names))
            continue
        full, rest = divmod(used, most)
        found.append((taken(need, room, most, ground), names[:full]))
        if rest:
            found.append((taken(need, room, rest, ground), names[full : full + 1]))
        found.append((room, names[full + bool(rest) :]))
    return merged(found)


def _alone(
    need: Need, tasks: int, blocks: Blocks, room_for: Sequence[int], ground: Ground
) -> tuple[int, Blocks]:
    """Place tasks that share their hosts with none; those of one task are alike."""
    found, done = list[Block](), 0
    for (room, names), most in zip(blocks, room_for, strict=True):
        each = need.pieces if need.is_apart else -(-need.pieces // most) if most else 0
        fit = min(tasks - done, len(names) // each) if most else 0
        done += fit
        if fit:
            found.append((taken(need, room, most, ground), names[: fit * each]))
        found.append((room, names[fit * each :] if fit else names))
    return done, merged(found)
