"""Compute how many tasks fit on a host; hosts with equal free capacity form one block."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TypeAlias

from gridbridge.decisions.elastic.demand.task_requirements import (
    RequiredHostValue,
    TaskRequirement,
    host_value_meets_requirement,
    parse_amount_or_zero,
)
from gridbridge.decisions.elastic.request_expressions import request_expression_matches
from gridbridge.model.elastic.cell_configuration import LIMITS, MEMORY, TO_ALL, CellConfiguration, QueueAccessLists
from gridbridge.model.job_request import HOSTNAME, QNAME, SHORTCUTS

BUILT_IN = frozenset((*SHORTCUTS.values(), *LIMITS, *MEMORY, "cpu"))  # every host's: complex(5)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFreeSlotsOnHost:
    """The free slots and resource values of a queue on one host."""

    queue: str
    free: int  # free slots
    environments: tuple[str, ...] = ()
    values: tuple[tuple[str, str], ...] = ()  # the queue's resources and limits
    amounts: tuple[tuple[str, float], ...] = ()  # the queue's own consumables
    is_batch: bool = True
    is_told: bool = True  # the queue's configuration is known
    access: QueueAccessLists = TO_ALL


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeHostCapacity:
    """The free slots and consumables of one host, and its resource values."""

    parts: tuple[QueueFreeSlotsOnHost, ...]
    amounts: tuple[tuple[str, float], ...] = ()  # free consumables
    values: tuple[tuple[str, str], ...] = ()
    tags: frozenset[str] = frozenset()  # matching host patterns of requests: @@big, hostname=n1|n2
    group: str = ""  # group of nodes within which a parallel task stays
    is_empty: bool = True
    is_told: bool = False  # the host has no consumable beside `amounts`
    is_silent: bool = False  # neither the host nor a similar host reports load values
    is_new: bool = False
    is_used: bool = False  # waiting tasks were placed here

    @property
    def free(self) -> int:
        """The number of free slots in all queues of the host."""
        return sum(part.free for part in self.parts)


HostBlock: TypeAlias = tuple[FreeHostCapacity, tuple[str, ...]]  # a capacity, and all hosts with it
HostBlocks: TypeAlias = tuple[HostBlock, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellPlacementRules:
    """The cell-wide facts that decide on which hosts a task may run."""

    layout: CellConfiguration
    queue: str  # the queue of tasks without a queue request, if `layout` is unknown
    common: frozenset[str] = frozenset()  # resources of any host that new nodes resemble
    told: Mapping[str, frozenset[str]] = field(default_factory=dict)  # values of each resource
    offered: frozenset[str] = frozenset()  # resources of any host or queue; empty: unknown
    is_told: bool = False  # hosts report their resource values
    is_reported: bool = False  # some host reports load values, `arch` included
    is_new_silent: bool = False  # of the hosts that new nodes resemble, none reports load values
    in_cell: frozenset[str] = frozenset()  # consumables of the whole cell
    closed: frozenset[str] = frozenset()  # queues that are disabled on all hosts

    def without_closed(self, room: FreeHostCapacity) -> FreeHostCapacity:
        """Return a new node's capacity without queues that are closed on all hosts."""
        open_ = tuple(part for part in room.parts if part.queue not in self.closed)
        return room if open_ == room.parts else replace(room, parts=open_)


def count_task_pieces_fitting_host(need: TaskRequirement, room: FreeHostCapacity, placement: CellPlacementRules) -> int:
    """Return how many pieces of a task requirement fit on a host."""
    if need.slots > max((part.free for part in room.parts), default=0):
        return 0
    if need.is_exclusive and not (room.is_empty and not room.is_used):
        return 0
    if need.is_on_all and room.is_new:
        return 0
    if not all(_has_value(requirement, room, placement) for requirement in need.values):
        return 0
    count = sum(_pieces_in_queue(need, part, room, placement) for part in room.parts)
    amounts, spent = dict(room.amounts), _spent(need)
    return min((count, *(_whole_multiples(amounts[name], amount) for name, amount in spent if name in amounts)))


def _pieces_in_queue(
    need: TaskRequirement, part: QueueFreeSlotsOnHost, room: FreeHostCapacity, placement: CellPlacementRules
) -> int:
    """Return how many pieces fit in one queue of a host, ignoring host-wide values."""
    if not queue_accepts_task(need, part, room, placement):
        return 0
    if requested_resources_queue_lacks(need, part, room, placement):
        return 0
    own = dict(part.amounts)
    offered = own.keys() | {name for name, _ in room.amounts}
    demanded = (name for name, amount in need.amounts if amount > 0 and name not in offered)
    if any(host_lacks_consumable(name, room, placement) for name in demanded):
        return 0
    fit = part.free // need.slots
    return min((fit, *(_whole_multiples(own[name], amount) for name, amount in _spent(need) if name in own)))


def _spent(need: TaskRequirement) -> tuple[tuple[str, float], ...]:
    """Return the consumables that one piece of a task uses up."""
    return tuple(amount for amount in (*need.amounts, *need.usual) if amount[1] > 0)


def _whole_multiples(available: float, amount: float) -> int:
    return int(available / amount + 1e-9)  # subtractions may have left a rounding error


def host_lacks_consumable(name: str, room: FreeHostCapacity, placement: CellPlacementRules) -> bool:
    """Say whether a host certainly lacks a consumable.

    A host that reports no consumables is assumed to have all consumables: an unnecessary wait of
    a task costs less than an unnecessary node.
    """
    return room.is_told and name not in placement.in_cell


def requested_resources_queue_lacks(
    need: TaskRequirement, part: QueueFreeSlotsOnHost, room: FreeHostCapacity, placement: CellPlacementRules
) -> frozenset[str]:
    """Return the requested resources that a queue on a host does not have.

    A new node is assumed to have the resources of similar hosts. For a host that reports no
    load values, only resources that other hosts configure count as missing.
    """
    if not part.is_told:
        return frozenset()
    present = (name for name, _ in (*part.values, *room.values, *room.amounts))
    counted = (name for name, _ in need.amounts)
    demanded = need.asked & placement.offered
    if placement.is_told and not room.is_silent:
        demanded |= {requirement.name for requirement in need.values} - BUILT_IN
    lacking = demanded.difference(present, counted, placement.in_cell)
    return lacking - placement.common if room.is_new else lacking


def _has_value(requirement: RequiredHostValue, room: FreeHostCapacity, placement: CellPlacementRules) -> bool:
    """Say whether a host meets a required value.

    A new node is assumed to have the values of similar hosts.
    """
    if requirement.name == HOSTNAME:  # no host lists its name among its values
        return f"{HOSTNAME}={requirement.value}" in room.tags
    if requirement.name == QNAME:  # qname is a value of queues, not of hosts
        return True
    has = next((text for name, text in room.values if name == requirement.name), None)
    if has is not None:
        return host_value_meets_requirement(requirement, has)
    common = placement.told.get(requirement.name, frozenset())
    limits = any(name == requirement.name for part in room.parts for name, _ in part.values)
    return (
        limits
        or not room.is_new
        or not common
        or any(host_value_meets_requirement(requirement, text) for text in common)
    )


def queue_accepts_task(
    need: TaskRequirement, part: QueueFreeSlotsOnHost, room: FreeHostCapacity, placement: CellPlacementRules
) -> bool:
    """Say whether a queue on a host admits a task, whether or not slots are free."""
    if not _is_queue_requested(need, part.queue, room, placement):
        return False
    if not part.is_told:
        return True
    if need.pe and need.environments.isdisjoint(part.environments):
        return False
    if not (part.is_batch or need.pe):
        return False
    if part.access.obstacle(need.identity, placement.layout.user_lists):
        return False
    return _queue_values_admit(need, part.values, placement.layout)


def _is_queue_requested(
    need: TaskRequirement, queue: str, room: FreeHostCapacity, placement: CellPlacementRules
) -> bool:
    if not all(request_expression_matches(expression, (queue,)) for expression in need.named):
        return False
    if not need.queues:
        return bool(placement.layout.queues or need.named) or queue == placement.queue
    return any(_matches_queue_pattern(expression, queue, room) for expression in need.queues)


def _matches_queue_pattern(pattern: str, queue: str, room: FreeHostCapacity) -> bool:
    name, at, host = pattern.partition("@")
    return fnmatchcase(queue, name) and (not at or host in room.tags)


def _queue_values_admit(need: TaskRequirement, values: Iterable[tuple[str, str]], layout: CellConfiguration) -> bool:
    """Say whether the limits and resource values of a queue admit a task."""
    own = dict(values)
    for name in own:
        resource = layout.resources.get(name)
        if resource is not None and resource.is_forced and name not in need.asked:
            return False
    return all(
        host_value_meets_requirement(requirement, own[requirement.name])
        for requirement in need.values
        if requirement.name in own
    )


def host_capacity_after_placement(
    need: TaskRequirement, room: FreeHostCapacity, pieces: int, placement: CellPlacementRules
) -> FreeHostCapacity:
    """Return a host's free capacity after some pieces of a task were placed there."""
    if need.is_exclusive:
        parts = tuple(replace(part, free=0) for part in room.parts)
        return replace(room, parts=parts, amounts=(), is_used=True)
    unplaced, parts_left = pieces, list[QueueFreeSlotsOnHost]()
    spent = dict(_spent(need))
    for part in room.parts:
        fit = min(unplaced, _pieces_in_queue(need, part, room, placement))
        own = _subtract_amounts(part.amounts, spent, fit)
        parts_left.append(replace(part, free=part.free - fit * need.slots, amounts=own))
        unplaced -= fit
    if not any(part.free for part in parts_left):  # all full hosts count as equal
        return replace(room, parts=tuple(parts_left), amounts=(), is_used=True)
    amounts = _subtract_amounts(room.amounts, spent, pieces)
    return replace(room, parts=tuple(parts_left), amounts=amounts, is_used=True)


def _subtract_amounts(
    amounts: tuple[tuple[str, float], ...], spent: Mapping[str, float], pieces: int
) -> tuple[tuple[str, float], ...]:
    return tuple((name, has - pieces * spent.get(name, 0.0)) for name, has in amounts)


def merge_hosts_of_equal_capacity(blocks: Iterable[HostBlock]) -> HostBlocks:
    """Join hosts with equal free capacity into one block.

    The blocks keep the order of their first hosts.
    """
    by_room = dict[FreeHostCapacity, tuple[str, ...]]()
    for room, names in blocks:
        if names:
            by_room[room] = by_room.get(room, ()) + names
    return tuple(by_room.items())


def parse_consumable_amounts(values: Iterable[tuple[str, str]]) -> tuple[tuple[str, float], ...]:
    """Parse the amounts of consumables, sorted by name."""
    return tuple(sorted((name, parse_amount_or_zero(text)) for name, text in values))
