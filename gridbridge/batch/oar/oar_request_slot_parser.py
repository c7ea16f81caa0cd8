"""Parses an OAR request's number of slots and their distribution over nodes (oarsub(1)).

Of the SQL in braces only the resource type counts: resources of other types, such as 'licence', are not slots.
"""

import math
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

NODES, SLOTS = ("network_address", "host", "nodes"), ("resource_id", "core")
ALL = "ALL"  # value by which a request asks for all units of a level
ONE, ANY, EACH = "one", "any", "each-"  # slot distributions, as names of parallel environments
EVERY, ON_ALL = "all", "all-"  # prefixes of slot distributions: all slots, and all usable nodes
PROPERTIES = re.compile(r"\{(?:'[^']*'|[^'}])*\}|\{[^}]*\}")
KIND = re.compile(r"\btype\s*=\s*'([^']*)'", re.IGNORECASE)
SLOT_KIND, OTHER_KIND = "default", "!"  # resource type of slots, and mark of a request for any other type
MOST_UNITS = 64  # maximal number of units, such as CPUs, that are placed one by one
LEVEL = re.compile(r"([A-Za-z_][A-Za-z_0-9]*)=([A-Za-z0-9]+)")
WAYS = 16  # at most this many alternatives (oarsub(1), -l) of a request are returned
REPORTED = re.compile(r"R=(\d{1,9}),")  # OAR's message about a waiting job names the slots of the first alternative


class OarSlotDistribution(NamedTuple):
    slots: int
    pe: str
    is_whole: bool = False
    groups: tuple["OarSlotDistribution", ...] = ()  # parts of a request that `+` joins

    @property
    def needs_all_nodes(self) -> bool:
        """Whether the request asks for all nodes or all slots, so that an added node does not help."""
        return self.pe.startswith(EVERY) or any(group.needs_all_nodes for group in self.groups)

    @property
    def exclusively_used_node_count(self) -> int:
        """The number of nodes that the request uses exclusively."""
        if self.groups:
            return sum(group.exclusively_used_node_count for group in self.groups)
        if not self.is_whole:
            return 0
        return 1 if self.pe == ONE else self.slots // slots_per_node_in_pe_name(self.pe)


class OarNodeSlotCounts(NamedTuple):
    slots_by_node: Sequence[int]
    usable: Sequence[int]  # slots of each node that accepts jobs
    inside: Mapping[str, int] = MappingProxyType({})  # {level inside nodes: slots of its smallest unit}

    @property
    def smallest_node_slots(self) -> int:
        return min(self.slots_by_node, default=1)


def slots_per_node_in_pe_name(pe: str) -> int:
    """Return how many slots per node a parallel environment's name fixes: 4 for `each-4`."""
    return int(pe.rpartition("-")[2])


def requested_oar_levels(request: str) -> list[str]:
    return [level for level, _ in LEVEL.findall(PROPERTIES.sub("", request))]


def oar_slot_distributions(request: str, sizes: OarNodeSlotCounts, message: str = "") -> list[OarSlotDistribution]:
    """Return the slot distributions of a request's alternatives (oarsub -l), at most WAYS, smallest first.

    A request without a level below nodes gets whole nodes. Levels above nodes multiply the number of nodes.
    For levels between nodes and slots, such as /cpu, OAR's `message` about the job has the number of slots.
    Alternatives on all nodes come last.
    """
    text = PROPERTIES.sub(_resource_type_marker, request)
    ways = text.split("-l ")[1:] or [text]
    match = REPORTED.match(message)
    reports = [int(match[1]) if match else 0, *[0] * (len(ways) - 1)]
    distributions = [_parse_request_alternative(*way, sizes) for way in zip(ways, reports, strict=True)]
    distributions.sort(key=lambda way: (way.needs_all_nodes, way.exclusively_used_node_count, way.slots))
    return distributions[:WAYS]


def _resource_type_marker(match: re.Match[str]) -> str:
    """Return a mark if the properties request resources that are not slots, else an empty text."""
    kinds = KIND.findall(match[0])
    return OTHER_KIND if kinds and SLOT_KIND not in kinds else ""


def _parse_request_alternative(text: str, reported: int, sizes: OarNodeSlotCounts) -> OarSlotDistribution:
    """Parse an alternative, whose groups are joined by `+`; groups of whole nodes do not share nodes."""
    texts = text.partition(",")[0].split("+")
    other_kinds = [dict(LEVEL.findall(group)) for group in texts if OTHER_KIND in group]
    reported -= sum(math.prod(_parse_unit_count(value, 1) for value in levels.values()) for levels in other_kinds)
    groups = [dict(LEVEL.findall(group)) for group in texts if OTHER_KIND not in group]
    groups = [levels for levels in groups if levels]
    if len(groups) == 1:
        return _parse_request_group(groups[0], reported, sizes)
    distributions = _parse_request_groups(groups, reported, sizes)
    if distributions and all(way.is_whole for way in distributions):
        nodes = sum(way.exclusively_used_node_count for way in distributions)
        return OarSlotDistribution(
            nodes * sizes.smallest_node_slots, f"{EACH}{sizes.smallest_node_slots}", is_whole=True
        )
    slots = sum(way.slots for way in distributions)
    if all(way.pe in ("", ANY) for way in distributions):
        return _distribution_on_any_nodes(slots)
    return OarSlotDistribution(slots, ANY, groups=tuple(distributions))


def _parse_request_groups(
    groups: Sequence[dict[str, str]], reported: int, sizes: OarNodeSlotCounts
) -> list[OarSlotDistribution]:
    """Parse each group; a last group of unknown size gets all slots that OAR reports beyond the other groups."""
    distributions = [_parse_request_group(levels, 0, sizes) for levels in groups]
    remainder = reported - sum(way.slots for way in distributions)
    for index, levels in reversed(list(enumerate(groups))):
        if remainder > 0 and _is_slot_count_unknown(levels):
            distributions[index] = _parse_request_group(levels, distributions[index].slots + remainder, sizes)
            break
    return distributions


def _is_slot_count_unknown(levels: dict[str, str]) -> bool:
    *above, (last, _) = levels.items()
    is_counted = all(value.isdecimal() for name, value in above if name not in NODES)
    return last not in (*NODES, *SLOTS) or not is_counted


def _parse_request_group(levels: dict[str, str], reported: int, sizes: OarNodeSlotCounts) -> OarSlotDistribution:
    values = list(levels.values())
    index = next((index for index, name in enumerate(levels) if name in NODES), None)
    if index is None:
        return _distribution_without_nodes(levels, reported, sizes)
    *above, requested = values[: index + 1]
    below = values[index + 1 :]
    is_on_all = requested == ALL and not above and bool(sizes.usable)
    least = min(sizes.usable) if is_on_all else sizes.smallest_node_slots
    is_whole = not below or below[-1] == ALL
    per_node = least if is_whole else math.prod(_parse_unit_count(value, least) for value in below)
    nodes = math.prod(_parse_unit_count(value, 1) for value in above) * _parse_unit_count(requested, len(sizes.usable))
    if above and ALL in (*above, requested):
        nodes = max(1, min(reported // per_node, len(sizes.usable)))
    elif not is_whole and reported and _is_slot_count_unknown(levels):
        per_node = max(1, reported // nodes)
    return _distribution_on_nodes(nodes, per_node, is_whole=is_whole, is_on_all=is_on_all)


def _distribution_on_nodes(nodes: int, per_node: int, *, is_whole: bool, is_on_all: bool) -> OarSlotDistribution:
    if is_on_all:
        return OarSlotDistribution(nodes * per_node, f"{ON_ALL}{per_node}", is_whole)
    if nodes == per_node == 1 and not is_whole:
        return OarSlotDistribution(1, "")
    return OarSlotDistribution(nodes * per_node, ONE if nodes == 1 else f"{EACH}{per_node}", is_whole)


def _distribution_without_nodes(levels: dict[str, str], reported: int, sizes: OarNodeSlotCounts) -> OarSlotDistribution:
    if (inside := next((name for name in levels if name in sizes.inside), None)) and (
        distribution := _distribution_in_units(levels, inside, reported, sizes)
    ):
        return distribution
    values, slots = list(levels.values()), sum(sizes.usable)
    if values == [ALL] and slots:
        return OarSlotDistribution(slots, EVERY)
    if reported and (ALL in values or _is_slot_count_unknown(levels)):
        return _distribution_on_any_nodes(reported)
    return _distribution_on_any_nodes(math.prod(_parse_unit_count(value, slots) for value in values))


def _distribution_in_units(
    levels: dict[str, str], level: str, reported: int, sizes: OarNodeSlotCounts
) -> OarSlotDistribution | None:
    """Return the slot distribution of units inside nodes, such as /cpu; None if only OAR knows the slots."""
    values, index = list(levels.values()), list(levels).index(level)
    above, below = values[: index + 1], values[index + 1 :]
    if ALL in values:
        return None
    units = math.prod(_parse_unit_count(value, 1) for value in above)
    if not below:
        per_unit = max(1, reported // units) if reported > 0 else sizes.inside[level]
    elif reported > 0 and list(levels)[-1] not in SLOTS:
        per_unit = max(1, reported // units)
    else:
        per_unit = math.prod(_parse_unit_count(value, 1) for value in below)
    if per_unit == 1 or units > MOST_UNITS:
        return _distribution_on_any_nodes(units * per_unit)
    unit = OarSlotDistribution(per_unit, ONE)
    return unit if units == 1 else OarSlotDistribution(units * per_unit, ANY, groups=(unit,) * units)


def _distribution_on_any_nodes(slots: int) -> OarSlotDistribution:
    return OarSlotDistribution(slots, ANY) if slots > 1 else OarSlotDistribution(1, "")


def _parse_unit_count(value: str, total: int) -> int:
    """Parse the requested number of units of a level; BEST counts as one."""
    if value == ALL:
        return max(1, total)
    return max(1, int(value)) if value.isdecimal() else 1
