"""Pack waiting tasks into free capacity, first fit, by arithmetic over blocks of equal hosts."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gridbridge.decisions.elastic.demand.task_requirements import TaskRequirement
from gridbridge.decisions.elastic.demand.tasks_that_fit_on_host import (
    CellPlacementRules,
    FreeHostCapacity,
    HostBlock,
    HostBlocks,
    count_task_pieces_fitting_host,
    host_capacity_after_placement,
    merge_hosts_of_equal_capacity,
)


def pack_tasks_first_fit(
    need: TaskRequirement, tasks: int, blocks: HostBlocks, placement: CellPlacementRules
) -> tuple[int, HostBlocks]:
    """Return how many tasks fit, and the capacity that remains free.

    A task is placed whole or not at all.
    """
    if need.also:
        return _pack_joint_tasks(need, tasks, blocks, placement)
    if need.pieces == 1:
        return _pack_into_blocks(need, tasks, blocks, placement)
    placed = 0
    for choice in split_by_parallel_environment(need, (room for room, _ in blocks)):
        for group in dict.fromkeys(room.group for room, _ in blocks):
            own = tuple(block for block in blocks if block[0].group == group)
            other_groups = tuple(block for block in blocks if block[0].group != group)
            fit, own = _pack_into_blocks(choice, tasks - placed, own, placement)
            placed, blocks = placed + fit, (*own, *other_groups) if fit else blocks
    return placed, blocks


def _pack_joint_tasks(
    need: TaskRequirement, tasks: int, blocks: HostBlocks, placement: CellPlacementRules
) -> tuple[int, HostBlocks]:
    """Place as many tasks as possible, each of which needs several parts at once."""
    low, high, placed = 0, tasks, blocks
    while low < high:
        middle = (low + high + 1) // 2
        remaining = _pack_all_parts(need, middle, blocks, placement)
        if remaining is None:
            high = middle - 1
        else:
            low, placed = middle, remaining
    return low, placed


def _pack_all_parts(
    need: TaskRequirement, tasks: int, blocks: HostBlocks, placement: CellPlacementRules
) -> HostBlocks | None:
    """Return the capacity left after all tasks are placed; None if some do not fit."""
    for part in need.parts:
        placed, blocks = pack_tasks_first_fit(part, tasks, blocks, placement)
        if placed < tasks:
            return None
    return blocks


def pack_tasks_with_alternative_needs(
    needs: Iterable[TaskRequirement], tasks: int, blocks: HostBlocks, placement: CellPlacementRules
) -> tuple[int, HostBlocks]:
    """Place tasks that may start with any of several requirements.

    Earlier requirements are preferred.
    """
    placed = 0
    for need in needs:
        fit, blocks = pack_tasks_first_fit(need, tasks - placed, blocks, placement)
        placed += fit
    return placed, blocks


def split_by_parallel_environment(
    need: TaskRequirement, rooms: Iterable[FreeHostCapacity]
) -> tuple[TaskRequirement, ...]:
    """Split a requirement so that each part uses one parallel environment.

    All hosts of a task must offer the same environment. If all hosts offer the same
    environments, the requirement is returned unchanged.
    """
    if need.pieces == 1 or len(need.environments) < 2:
        return (need,)
    parts = (part for room in rooms for part in room.parts)
    sets = {need.environments.intersection(part.environments) for part in parts} - {frozenset()}
    if len(sets) < 2:
        return (need,)
    names = sorted(frozenset().union(*sets))
    return tuple(replace(need, environments=frozenset((name,))) for name in names)


def _pack_into_blocks(
    need: TaskRequirement, tasks: int, blocks: HostBlocks, placement: CellPlacementRules
) -> tuple[int, HostBlocks]:
    """Place tasks within one node group; return how many fit, and the free capacity left."""
    room_for = [count_task_pieces_fitting_host(need, room, placement) for room, _ in blocks]
    if not tasks or not any(room_for):
        return 0, blocks
    if need.is_exclusive:
        return _pack_exclusive_tasks(need, tasks, blocks, room_for, placement)
    counts = [len(names) for _, names in blocks]
    if need.is_apart:
        tasks = _count_spread_tasks(need, tasks, counts, room_for)
        room_for = [min(room, tasks) for room in room_for]
    fit = min(tasks, sum(n * k for n, k in zip(counts, room_for, strict=True)) // need.pieces)
    return fit, _subtract_pieces(need, fit * need.pieces, blocks, room_for, placement)


def _count_spread_tasks(need: TaskRequirement, tasks: int, counts: Sequence[int], room_for: Sequence[int]) -> int:
    """Return how many tasks fit if each piece of a task needs a different host.

    The result is the most with  sum of min(pieces on a host, tasks) >= tasks * pieces.
    """
    low, high = 0, tasks
    while low < high:
        middle = (low + high + 1) // 2
        pieces = sum(n * min(k, middle) for n, k in zip(counts, room_for, strict=True))
        low, high = (middle, high) if pieces >= middle * need.pieces else (low, middle - 1)
    return low


def _subtract_pieces(
    need: TaskRequirement, pieces: int, blocks: HostBlocks, room_for: Sequence[int], placement: CellPlacementRules
) -> HostBlocks:
    filled = list[HostBlock]()
    for (room, names), most in zip(blocks, room_for, strict=True):
        used = min(pieces, most * len(names))
        pieces -= used
        if not used:
            filled.append((room, names))
            continue
        full, remainder = divmod(used, most)
        filled.append((host_capacity_after_placement(need, room, most, placement), names[:full]))
        if remainder:
            filled.append((host_capacity_after_placement(need, room, remainder, placement), names[full : full + 1]))
        filled.append((room, names[full + bool(remainder) :]))
    return merge_hosts_of_equal_capacity(filled)


def _pack_exclusive_tasks(
    need: TaskRequirement, tasks: int, blocks: HostBlocks, room_for: Sequence[int], placement: CellPlacementRules
) -> tuple[int, HostBlocks]:
    """Place tasks that use their hosts alone; a task's hosts may differ in size."""
    most = 1 if need.is_apart else need.pieces
    sizes, by_size = [min(pieces, most) for pieces in room_for], Counter[int]()
    for size, (_, names) in zip(sizes, blocks, strict=True):
        by_size[size] += len(names)
    placed, used = count_exclusive_tasks_and_hosts(need.pieces, tasks, by_size)
    filled = list[HostBlock]()
    for size, (room, names) in zip(sizes, blocks, strict=True):
        hosts = min(used[size], len(names))
        used[size] -= hosts
        filled.append((host_capacity_after_placement(need, room, size, placement), names[:hosts]))
        filled.append((room, names[hosts:]))
    return placed, merge_hosts_of_equal_capacity(filled)


def count_exclusive_tasks_and_hosts(pieces: int, tasks: int, by_size: Mapping[int, int]) -> tuple[int, Counter[int]]:
    """Return how many exclusive tasks fit, and the number of hosts used of each size.

    The size of a host is how many pieces of one task fit on the host. Tasks that use hosts
    of the same sizes are counted in one step.
    """
    unused, used, placed = Counter(by_size), Counter[int](), 0
    while placed < tasks and (hosts := _choose_hosts_of_task(pieces, unused)):
        times = min(tasks - placed, *(unused[size] // number for size, number in hosts.items()))
        for size, number in hosts.items():
            unused[size] -= times * number
            used[size] += times * number
        placed += times
    return placed, used


def _choose_hosts_of_task(pieces: int, unused: Mapping[int, int]) -> Mapping[int, int]:
    """Choose the hosts of one exclusive task: the largest host, then the best fit.

    The choice leaves the least capacity unused and prefers larger hosts among equals. The
    result is empty if there are too few hosts.
    """
    sizes = sorted(size for size, number in unused.items() if size and number)
    if not sizes:
        return {}
    largest = sizes[-1]
    smaller_hosts = {**unused, largest: unused[largest] - 1}
    pieces_left = max(0, pieces - largest)
    sums = [1]  # per number of sizes: bit n is set if some hosts have n pieces in all
    for size in sizes:
        sums.append(_possible_sums(sums[-1], size, smaller_hosts[size], pieces_left + largest))
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


def _possible_sums(sums: int, size: int, hosts: int, most: int) -> int:
    """Return the bit set of piece counts that some of these hosts reach together.

    Hosts are added in powers of two, so that a few shifts suffice for any number of hosts.
    """
    hosts, number = min(hosts, most // size), 1
    while hosts > 0:
        number = min(number, hosts)
        sums |= sums << number * size
        hosts, number = hosts - number, 2 * number
    return sums & (2 << most) - 1
