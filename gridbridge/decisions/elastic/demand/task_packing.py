"""Pack waiting tasks into the free capacity of hosts, first fit; hosts with equal free capacity form one block."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TypeAlias

from gridbridge.decisions.elastic.demand.task_requirements import (
    DemandTaskRequirement,
    RequiredHostValue,
    host_value_meets_requirement,
    parse_amount_or_default,
    request_expression_matches,
)
from gridbridge.model.elastic import grid_engine_cell
from gridbridge.model.elastic.balance_plan import BalanceSituation
from gridbridge.model.job_request import HOSTNAME, QNAME, SHORTCUTS

BUILT_IN = frozenset(
    (*SHORTCUTS.values(), *grid_engine_cell.LIMITS, *grid_engine_cell.MEMORY, "cpu")
)  # resources that every host has (complex(5))


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFreeSlotsOnHost:
    queue: str
    free: int
    environments: tuple[str, ...] = ()
    values: tuple[tuple[str, str], ...] = ()  # resource values and limits of the queue
    amounts: tuple[tuple[str, float], ...] = ()
    is_batch: bool = True
    is_told: bool = True  # whether the cell's configuration of the queue is known
    access: grid_engine_cell.QueueAccessLists = grid_engine_cell.TO_ALL


@dataclass(frozen=True, slots=True, kw_only=True)
class CellPlacementRules:
    situation: BalanceSituation
    queue: str  # the queue of tasks without a queue request, if the cell's configuration is unknown
    patterns: frozenset[str]  # host patterns that tasks request
    hosts: Mapping[str, grid_engine_cell.CellExecutionHost]
    queues_by_host: Mapping[str, list[grid_engine_cell.CellQueueInstance]]  # without best-effort and transfer queues
    common: frozenset[str]  # names of the resources of those hosts that new nodes resemble
    told: Mapping[str, frozenset[str]]  # {resource: its values on the hosts that new nodes resemble}
    offered: frozenset[str]  # names of resources that some host or queue has; empty: unknown
    is_told: bool  # whether hosts report their resource values
    is_reported: bool  # whether at least one host reports load values such as `arch`
    is_new_silent: bool  # whether the present hosts that serve as models of new nodes lack load values
    in_cell: frozenset[str]  # names of consumables that the cell as a whole has
    closed: frozenset[str]  # queues that are disabled on all hosts
    widest: int  # largest number of slots that a queue has on one host

    @property
    def observed_cell_configuration(self) -> grid_engine_cell.CellConfiguration:
        return self.situation.layout


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeHostCapacity:
    cell: CellPlacementRules = field(compare=False, repr=False)
    parts: tuple[QueueFreeSlotsOnHost, ...]
    amounts: tuple[tuple[str, float], ...] = ()
    values: tuple[tuple[str, str], ...] = ()
    tags: frozenset[str] = frozenset()  # requested host patterns, such as @@big or hostname=n1|n2, that match the host
    group: str = ""  # node group; all parts of a parallel task run in one node group
    is_empty: bool = True
    is_told: bool = False  # True: `amounts` has all consumables of the host
    is_silent: bool = False  # True: neither the host nor a similar host reports load values
    is_new: bool = False
    is_used: bool = False

    @property
    def free_slots(self) -> int:
        return sum(part.free for part in self.parts)

    @property
    def free_slots_in_largest_queue(self) -> int:
        return max((part.free for part in self.parts), default=0)

    def without_closed_queues(self) -> "FreeHostCapacity":
        """Return the capacity without queues that are closed on all hosts."""
        return replace(self, parts=tuple(part for part in self.parts if part.queue not in self.cell.closed))


HostBlock: TypeAlias = tuple[FreeHostCapacity, tuple[str, ...]]  # a free capacity, and all hosts with this capacity
HostBlocks: TypeAlias = tuple[HostBlock, ...]


def count_task_pieces_fitting_host(need: DemandTaskRequirement, room: FreeHostCapacity) -> int:
    """Return how many pieces of a parallel task fit on a host; a serial task has one piece."""
    if need.slots > room.free_slots_in_largest_queue or (need.is_on_all and room.is_new):
        return 0
    if need.is_exclusive and (room.is_used or not room.is_empty):
        return 0
    if not all(_does_host_have_required_value(requirement, room) for requirement in need.values):
        return 0
    count = sum(_task_pieces_fitting_queue(need, part, room) for part in room.parts)
    amounts, spent = dict(room.amounts), _used_consumables(need)
    return min((count, *(_how_often_amount_fits(amounts[name], amount) for name, amount in spent if name in amounts)))


def _task_pieces_fitting_queue(need: DemandTaskRequirement, part: QueueFreeSlotsOnHost, room: FreeHostCapacity) -> int:
    if not queue_accepts_task(need, part, room) or requested_resources_queue_lacks(need, part, room):
        return 0
    own = dict(part.amounts)
    offered = own.keys() | {name for name, _ in room.amounts}
    demanded = (name for name, amount in need.amounts if amount > 0 and name not in offered)
    if any(host_lacks_consumable(name, room) for name in demanded):
        return 0
    fit = part.free // need.slots
    return min(
        (fit, *(_how_often_amount_fits(own[name], amount) for name, amount in _used_consumables(need) if name in own))
    )


def _used_consumables(need: DemandTaskRequirement) -> tuple[tuple[str, float], ...]:
    return tuple(amount for amount in (*need.amounts, *need.usual) if amount[1] > 0)


def _how_often_amount_fits(available: float, amount: float) -> int:
    return int(available / amount + 1e-9)  # subtractions may have left a rounding error


def host_lacks_consumable(name: str, room: FreeHostCapacity) -> bool:
    """Say whether a host certainly lacks a consumable; a host that reports nothing may have it."""
    return room.is_told and name not in room.cell.in_cell


def requested_resources_queue_lacks(
    need: DemandTaskRequirement, part: QueueFreeSlotsOnHost, room: FreeHostCapacity
) -> frozenset[str]:
    """Return the requested resources that a queue on a host does not have.

    A new node is assumed to have the resources of similar hosts. On a host without load values, only resources
    that other hosts configure count as missing.
    """
    if not part.is_told:
        return frozenset()
    present = (name for name, _ in (*part.values, *room.values, *room.amounts))
    counted = (name for name, _ in need.amounts)
    demanded = need.asked & room.cell.offered
    if room.cell.is_told and not room.is_silent:
        demanded |= {requirement.name for requirement in need.values} - BUILT_IN
    lacking = demanded.difference(present, counted, room.cell.in_cell)
    return lacking - room.cell.common if room.is_new else lacking


def _does_host_have_required_value(requirement: RequiredHostValue, room: FreeHostCapacity) -> bool:
    """Say whether a host has a required value; a new node is assumed to have the values of similar hosts."""
    if requirement.name == HOSTNAME:  # no host reports its own name as a resource value
        return f"{HOSTNAME}={requirement.value}" in room.tags
    if requirement.name == QNAME:  # qname is a value of queues, not of hosts
        return True
    has = next((text for name, text in room.values if name == requirement.name), None)
    if has is not None:
        return host_value_meets_requirement(requirement, has)
    common = room.cell.told.get(requirement.name, frozenset())
    if not room.is_new or not common or any(host_value_meets_requirement(requirement, text) for text in common):
        return True
    return any(name == requirement.name for part in room.parts for name, _ in part.values)


def queue_accepts_task(need: DemandTaskRequirement, part: QueueFreeSlotsOnHost, room: FreeHostCapacity) -> bool:
    """Say whether a queue on a host admits a task, even if no slots are free."""
    if not _do_task_requests_allow_queue(need, part.queue, room):
        return False
    if not part.is_told:
        return True
    if need.environments.isdisjoint(part.environments) if need.pe else not part.is_batch:
        return False
    layout, own = room.cell.observed_cell_configuration, dict(part.values)
    if part.access.refused_user_or_project(need.identity, layout.user_lists):
        return False
    resources = (layout.resources.get(name) for name in own if name not in need.asked)
    if any(resource is not None and resource.is_forced for resource in resources):
        return False
    return all(host_value_meets_requirement(value, own[value.name]) for value in need.values if value.name in own)


def _do_task_requests_allow_queue(need: DemandTaskRequirement, queue: str, room: FreeHostCapacity) -> bool:
    if not all(request_expression_matches(expression, (queue,)) for expression in need.qname_queue_expressions):
        return False
    if not need.queues:
        return (
            bool(room.cell.observed_cell_configuration.queues or need.qname_queue_expressions)
            or queue == room.cell.queue
        )
    return any(
        fnmatchcase(queue, name) and (not at or host in room.tags)
        for name, at, host in (expression.partition("@") for expression in need.queues)
    )


def host_capacity_after_placement(need: DemandTaskRequirement, room: FreeHostCapacity, pieces: int) -> FreeHostCapacity:
    if need.is_exclusive:
        parts = tuple(replace(part, free=0) for part in room.parts)
        return replace(room, parts=parts, amounts=(), is_used=True)
    unplaced, parts_left = pieces, list[QueueFreeSlotsOnHost]()
    spent = dict(_used_consumables(need))
    for part in room.parts:
        fit = min(unplaced, _task_pieces_fitting_queue(need, part, room))
        own = _subtract_consumable_amounts(part.amounts, spent, fit)
        parts_left.append(replace(part, free=part.free - fit * need.slots, amounts=own))
        unplaced -= fit
    if not any(part.free for part in parts_left):  # full hosts are interchangeable
        return replace(room, parts=tuple(parts_left), amounts=(), is_used=True)
    amounts = _subtract_consumable_amounts(room.amounts, spent, pieces)
    return replace(room, parts=tuple(parts_left), amounts=amounts, is_used=True)


def _subtract_consumable_amounts(
    amounts: tuple[tuple[str, float], ...], spent: Mapping[str, float], pieces: int
) -> tuple[tuple[str, float], ...]:
    return tuple((name, has - pieces * spent.get(name, 0.0)) for name, has in amounts)


def merge_hosts_of_equal_capacity(blocks: Iterable[HostBlock]) -> HostBlocks:
    """Join hosts with equal free capacity into one block, in the order of each block's first host."""
    by_room = dict[FreeHostCapacity, tuple[str, ...]]()
    for room, names in blocks:
        if names:
            by_room[room] = by_room.get(room, ()) + names
    return tuple(by_room.items())


def parse_consumable_amounts(values: Iterable[tuple[str, str]]) -> tuple[tuple[str, float], ...]:
    """Parse the amounts of consumables, and sort them by name."""
    return tuple(sorted((name, parse_amount_or_default(text)) for name, text in values))


def pack_tasks_first_fit(need: DemandTaskRequirement, tasks: int, blocks: HostBlocks) -> tuple[int, HostBlocks]:
    """Place whole tasks on hosts; return how many tasks fit, and the capacity that remains free."""
    if need.also:
        return _pack_multi_part_tasks(need, tasks, blocks)
    if need.pieces == 1:
        return _pack_tasks_into_host_blocks(need, tasks, blocks)
    placed = 0
    for choice in split_by_parallel_environment(need, (room for room, _ in blocks)):
        for group in dict.fromkeys(room.group for room, _ in blocks):
            own = tuple(block for block in blocks if block[0].group == group)
            other_groups = tuple(block for block in blocks if block[0].group != group)
            fit, own = _pack_tasks_into_host_blocks(choice, tasks - placed, own)
            placed, blocks = placed + fit, (*own, *other_groups) if fit else blocks
    return placed, blocks


def _pack_multi_part_tasks(need: DemandTaskRequirement, tasks: int, blocks: HostBlocks) -> tuple[int, HostBlocks]:
    """Place as many multi-part tasks as possible; all parts of a task start together."""
    without_room = bisect_left(
        range(tasks), True, key=lambda left: _pack_all_parts_of_tasks(need, tasks - left, blocks) is not None
    )
    placed = tasks - without_room
    return placed, (_pack_all_parts_of_tasks(need, placed, blocks) if placed else None) or blocks


def _pack_all_parts_of_tasks(need: DemandTaskRequirement, tasks: int, blocks: HostBlocks) -> HostBlocks | None:
    """Return the capacity left after all parts of the tasks are placed; None if a part does not fit."""
    for part in need.part_requirements:
        placed, blocks = pack_tasks_first_fit(part, tasks, blocks)
        if placed < tasks:
            return None
    return blocks


def pack_tasks_with_alternative_needs(
    needs: Iterable[DemandTaskRequirement], tasks: int, blocks: HostBlocks
) -> tuple[int, HostBlocks]:
    """Place tasks that may start with any of several requirements; earlier requirements are preferred."""
    placed = 0
    for need in needs:
        fit, blocks = pack_tasks_first_fit(need, tasks - placed, blocks)
        placed += fit
    return placed, blocks


def split_by_parallel_environment(
    need: DemandTaskRequirement, rooms: Iterable[FreeHostCapacity]
) -> tuple[DemandTaskRequirement, ...]:
    """Split a requirement by parallel environment, because all hosts of a task must share one environment."""
    if need.pieces == 1 or len(need.environments) < 2:
        return (need,)
    parts = (part for room in rooms for part in room.parts)
    sets = {need.environments.intersection(part.environments) for part in parts} - {frozenset()}
    if len(sets) < 2:
        return (need,)
    names = sorted(frozenset().union(*sets))
    return tuple(replace(need, environments=frozenset((name,))) for name in names)


def _pack_tasks_into_host_blocks(need: DemandTaskRequirement, tasks: int, blocks: HostBlocks) -> tuple[int, HostBlocks]:
    room_for = [count_task_pieces_fitting_host(need, room) for room, _ in blocks]
    if not tasks or not any(room_for):
        return 0, blocks
    if need.is_exclusive:
        return _pack_exclusive_tasks(need, tasks, blocks, room_for)
    counts = [len(names) for _, names in blocks]
    if need.is_apart:
        tasks = _count_spread_tasks(need, tasks, counts, room_for)
        room_for = [min(room, tasks) for room in room_for]
    fit = min(tasks, sum(n * k for n, k in zip(counts, room_for, strict=True)) // need.pieces)
    return fit, _subtract_placed_task_pieces(need, fit * need.pieces, blocks, room_for)


def _count_spread_tasks(need: DemandTaskRequirement, tasks: int, counts: Sequence[int], room_for: Sequence[int]) -> int:
    """Return how many tasks fit if each piece of a task needs a different host.

    N tasks fit if the sum over all hosts of min(N, pieces with room) is at least N times the pieces of a task.
    """

    def have_tasks_room(number: int) -> bool:
        return sum(n * min(k, number) for n, k in zip(counts, room_for, strict=True)) >= number * need.pieces

    return tasks - bisect_left(range(tasks), True, key=lambda left: have_tasks_room(tasks - left))


def _subtract_placed_task_pieces(
    need: DemandTaskRequirement, pieces: int, blocks: HostBlocks, room_for: Sequence[int]
) -> HostBlocks:
    filled = list[HostBlock]()
    for (room, names), most in zip(blocks, room_for, strict=True):
        used = min(pieces, most * len(names))
        pieces -= used
        if not used:
            filled.append((room, names))
            continue
        full, remainder = divmod(used, most)
        filled.append((host_capacity_after_placement(need, room, most), names[:full]))
        if remainder:
            filled.append((host_capacity_after_placement(need, room, remainder), names[full : full + 1]))
        filled.append((room, names[full + bool(remainder) :]))
    return merge_hosts_of_equal_capacity(filled)


def _pack_exclusive_tasks(
    need: DemandTaskRequirement, tasks: int, blocks: HostBlocks, room_for: Sequence[int]
) -> tuple[int, HostBlocks]:
    """Place tasks that use their hosts exclusively; the hosts of one task may differ in size."""
    most = 1 if need.is_apart else need.pieces
    sizes, by_size = [min(pieces, most) for pieces in room_for], Counter[int]()
    for size, (_, names) in zip(sizes, blocks, strict=True):
        by_size[size] += len(names)
    placed, used = count_exclusive_tasks_and_hosts(need.pieces, tasks, by_size)
    filled = list[HostBlock]()
    for size, (room, names) in zip(sizes, blocks, strict=True):
        hosts = min(used[size], len(names))
        used[size] -= hosts
        filled.append((host_capacity_after_placement(need, room, size), names[:hosts]))
        filled.append((room, names[hosts:]))
    return placed, merge_hosts_of_equal_capacity(filled)


def count_exclusive_tasks_and_hosts(pieces: int, tasks: int, by_size: Mapping[int, int]) -> tuple[int, Counter[int]]:
    """Return how many exclusive tasks fit, and how many hosts of each size (in pieces of a task) they use."""
    unused, used, placed = Counter(by_size), Counter[int](), 0
    while placed < tasks and (hosts := _choose_hosts_of_exclusive_task(pieces, unused)):
        times = min(tasks - placed, *(unused[size] // number for size, number in hosts.items()))
        for size, number in hosts.items():
            unused[size] -= times * number
            used[size] += times * number
        placed += times
    return placed, used


def _choose_hosts_of_exclusive_task(pieces: int, unused: Mapping[int, int]) -> Mapping[int, int]:
    """Choose an exclusive task's hosts: the largest hosts, then those that leave least unused; empty if too few."""
    sizes = sorted(size for size, number in unused.items() if size and number)
    if not sizes:
        return {}
    largest = sizes[-1]
    smaller_hosts = {**unused, largest: unused[largest] - 1}
    pieces_left = max(0, pieces - largest)
    sums = [1]  # bit n of sums[k] is set if some hosts of the first k sizes can together hold n pieces
    for size in sizes:
        sums.append(_bit_set_of_possible_piece_sums(sums[-1], size, smaller_hosts[size], pieces_left + largest))
    enough = sums.pop() >> pieces_left
    if not enough:
        return {}
    pieces_left += (enough & -enough).bit_length() - 1  # number of the lowest set bit
    hosts = Counter((largest,))
    for size, smaller in zip(reversed(sizes), reversed(sums), strict=True):
        numbers = range(min(smaller_hosts[size], pieces_left // size), -1, -1)
        number = next(number for number in numbers if smaller >> pieces_left - number * size & 1)
        hosts[size] += number
        pieces_left -= number * size
    return +hosts


def _bit_set_of_possible_piece_sums(sums: int, size: int, hosts: int, most: int) -> int:
    """Return a bit set: bit n is set if some of the hosts together hold exactly n task pieces."""
    hosts, number = min(hosts, most // size), 1
    while hosts > 0:
        number = min(number, hosts)
        sums |= sums << number * size
        hosts, number = hosts - number, 2 * number
    return sums & (2 << most) - 1
