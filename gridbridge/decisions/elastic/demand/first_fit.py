"""Puts tasks where they fit: first fit, by arithmetic over blocks of hosts, never task by task."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gridbridge.decisions.elastic.demand.capacity import (
    Block,
    Blocks,
    HostRoom,
    QueueLayout,
    merged,
    pieces_in,
    with_pieces,
)
from gridbridge.decisions.elastic.demand.requirements import Requirement


def fit_tasks(
    need: Requirement, tasks: int, blocks: Blocks, ground: QueueLayout
) -> tuple[int, Blocks]:
    """Return how many of the tasks fit, and what is free then; a task is placed whole or not."""
    if need.also:
        return _together(need, tasks, blocks, ground)
    if need.pieces == 1:
        return _within(need, tasks, blocks, ground)
    placed = 0
    for choice in in_one_environment(need, (room for room, _ in blocks)):
        for group in dict.fromkeys(room.group for room, _ in blocks):
            own = tuple(block for block in blocks if block[0].group == group)
            other_groups = tuple(block for block in blocks if block[0].group != group)
            fit, own = _within(choice, tasks - placed, own, ground)
            placed, blocks = placed + fit, (*own, *other_groups) if fit else blocks
    return placed, blocks


def _together(
    need: Requirement, tasks: int, blocks: Blocks, ground: QueueLayout
) -> tuple[int, Blocks]:
    """Place tasks that need several things at once: the most of which all parts fit."""
    low, high, placed = 0, tasks, blocks
    while low < high:
        middle = (low + high + 1) // 2
        remaining = _all_parts(need, middle, blocks, ground)
        if remaining is None:
            high = middle - 1
        else:
            low, placed = middle, remaining
    return low, placed


def _all_parts(need: Requirement, tasks: int, blocks: Blocks, ground: QueueLayout) -> Blocks | None:
    """Return what is free beside so many tasks; None: not all of them fit."""
    for part in need.parts:
        placed, blocks = fit_tasks(part, tasks, blocks, ground)
        if placed < tasks:
            return None
    return blocks


def place_any(
    needs: Iterable[Requirement], tasks: int, blocks: Blocks, ground: QueueLayout
) -> tuple[int, Blocks]:
    """Return the same for tasks that start with any of these needs; the first ones go first."""
    placed = 0
    for need in needs:
        fit, blocks = fit_tasks(need, tasks - placed, blocks, ground)
        placed += fit
    return placed, blocks


def in_one_environment(need: Requirement, rooms: Iterable[HostRoom]) -> tuple[Requirement, ...]:
    """Return a need for each environment: all hosts of a task are in the same environment.

    If all hosts have the same environments, the need itself is returned.
    """
    if need.pieces == 1 or len(need.environments) < 2:
        return (need,)
    parts = (part for room in rooms for part in room.parts)
    sets = {need.environments.intersection(part.environments) for part in parts} - {frozenset()}
    if len(sets) < 2:
        return (need,)
    names = sorted(frozenset().union(*sets))
    return tuple(replace(need, environments=frozenset((name,))) for name in names)


def _within(
    need: Requirement, tasks: int, blocks: Blocks, ground: QueueLayout
) -> tuple[int, Blocks]:
    """Place tasks in one group of hosts."""
    room_for = [pieces_in(need, room, ground) for room, _ in blocks]
    if not tasks or not any(room_for):
        return 0, blocks
    if need.is_exclusive:
        return _alone(need, tasks, blocks, room_for, ground)
    counts = [len(names) for _, names in blocks]
    if need.is_apart:
        tasks = _apart(need, tasks, counts, room_for)
        room_for = [min(room, tasks) for room in room_for]
    fit = min(tasks, sum(n * k for n, k in zip(counts, room_for, strict=True)) // need.pieces)
    return fit, _filled(need, fit * need.pieces, blocks, room_for, ground)


def _apart(need: Requirement, tasks: int, counts: Sequence[int], room_for: Sequence[int]) -> int:
    """Return how many tasks fit whose pieces lie on hosts of their own.

    It is the most for which  sum of min(pieces on a host, tasks) >= tasks * pieces  holds.
    """
    low, high = 0, tasks
    while low < high:
        middle = (low + high + 1) // 2
        pieces = sum(n * min(k, middle) for n, k in zip(counts, room_for, strict=True))
        low, high = (middle, high) if pieces >= middle * need.pieces else (low, middle - 1)
    return low


def _filled(
    need: Requirement, pieces: int, blocks: Blocks, room_for: Sequence[int], ground: QueueLayout
) -> Blocks:
    filled = list[Block]()
    for (room, names), most in zip(blocks, room_for, strict=True):
        used = min(pieces, most * len(names))
        pieces -= used
        if not used:
            filled.append((room, names))
            continue
        full, remainder = divmod(used, most)
        filled.append((with_pieces(need, room, most, ground), names[:full]))
        if remainder:
            filled.append((with_pieces(need, room, remainder, ground), names[full : full + 1]))
        filled.append((room, names[full + bool(remainder) :]))
    return merged(filled)


def _alone(
    need: Requirement, tasks: int, blocks: Blocks, room_for: Sequence[int], ground: QueueLayout
) -> tuple[int, Blocks]:
    """Place tasks that share their hosts with no other; hosts of a task may differ in size."""
    most = 1 if need.is_apart else need.pieces
    sizes, by_size = [min(pieces, most) for pieces in room_for], Counter[int]()
    for size, (_, names) in zip(sizes, blocks, strict=True):
        by_size[size] += len(names)
    placed, used = hosts_for(need.pieces, tasks, by_size)
    filled = list[Block]()
    for size, (room, names) in zip(sizes, blocks, strict=True):
        hosts = min(used[size], len(names))
        used[size] -= hosts
        filled.append((with_pieces(need, room, size, ground), names[:hosts]))
        filled.append((room, names[hosts:]))
    return placed, merged(filled)


def hosts_for(pieces: int, tasks: int, by_size: Mapping[int, int]) -> tuple[int, Counter[int]]:
    """Return how many tasks get hosts of their own, and how many hosts of each size they take.

    The size of a host is the number of pieces of one task that fit on it. Tasks that get hosts of
    the same sizes are handled in one step.
    """
    unused, used, placed = Counter(by_size), Counter[int](), 0
    while placed < tasks and (hosts := _of_one_task(pieces, unused)):
        times = min(tasks - placed, *(unused[size] // number for size, number in hosts.items()))
        for size, number in hosts.items():
            unused[size] -= times * number
            used[size] += times * number
        placed += times
    return placed, used


def _of_one_task(pieces: int, unused: Mapping[int, int]) -> Mapping[int, int]:
    """Return the number of hosts of each size for a task: a largest host, and the best rest.

    The choice leaves the least room unused and, among equals, prefers larger hosts. Empty: there
    are not enough hosts.
    """
    sizes = sorted(size for size, number in unused.items() if size and number)
    if not sizes:
        return {}
    largest = sizes[-1]
    smaller_hosts = {**unused, largest: unused[largest] - 1}
    pieces_left = max(0, pieces - largest)
    sums = [1]  # with the hosts of so many of the sizes; bit n: some of them have n pieces in all
    for size in sizes:
        sums.append(_with_hosts(sums[-1], size, smaller_hosts[size], pieces_left + largest))
    enough = sums.pop() >> pieces_left
    if not enough:
        return {}
    pieces_left += (enough & -enough).bit_length() - 1  # the lowest bit
    hosts = Counter((largest,))
    for size, smaller in zip(reversed(sizes), reversed(sums), strict=True):
        numbers = range(min(smaller_hosts[size], pieces_left // size), -1, -1)
        number = next(number for number in numbers if smaller >> pieces_left - number * size & 1)
        hosts[size] += number
        pieces_left -= number * size
    return +hosts


def _with_hosts(sums: int, size: int, hosts: int, most: int) -> int:
    """Return the sums that are possible with some of these hosts, too, as far as `most`.

    Hosts are added in powers of two: a few shifts do for any number of them.
    """
    hosts, number = min(hosts, most // size), 1
    while hosts > 0:
        number = min(number, hosts)
        sums |= sums << number * size
        hosts, number = hosts - number, 2 * number
    return sums & (2 << most) - 1
