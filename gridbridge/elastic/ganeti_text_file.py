"""Reads and formats Ganeti's text files (htools(1), `-t`); older files may lack a line's last fields."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

from gridbridge.errors import ParseError
from gridbridge.model.elastic import ganeti_cluster

SECTIONS = ("groups", "nodes", "instances", "tags", "policies")
ALLOCATIONS = ("preferred", "last_resort", "unallocable")
BASED = r"0[xX][0-9a-fA-F]{1,14}|0[oO][0-7]{1,18}"
WHOLE = re.compile(rf"(-\s*)?({BASED}|[0-9]{{1,18}})").fullmatch
NUMBER = re.compile(rf"(-\s*)?({BASED}|[0-9]{{1,18}}(?:\.[0-9]{{1,18}})?(?:[eE][-+]?[0-9]{{1,2}})?)").fullmatch
MOST = 1e18  # hsqueeze overflows with larger numbers
NODE_LATER = ("1", "", "N", "0", "1", "1.0")  # defaults of fields that are missing at a line's end
INSTANCE_LATER = ("1", "-", "N")
Word = TypeVar("Word", bound=StrEnum)
MOST_BYTES = 64 << 20  # size limit; a file of 10,000 nodes and 100,000 instances has a third of this size
Lines = list[tuple[int, str]]  # pairs of line number and text


@dataclass(frozen=True, slots=True, kw_only=True)
class GanetiTextLine:
    where: str
    fields: tuple[str, ...]

    def invalid_field_error(self, problem: str, right: str) -> ParseError:
        return ParseError(f"{self.where}: {problem}; expected {right}")

    def require_nonempty_field(self, at: int, name: str) -> str:
        if not self.fields[at]:
            raise self.invalid_field_error(f"{name} is empty", "a name")
        return self.fields[at]

    def parse_whole_number_field(self, at: int, name: str) -> int:
        if (value := _parse_whole_number(self.fields[at])) is None:
            raise self.invalid_field_error(f"{name} is {self.fields[at]!r}", "a whole number")
        return value

    def parse_number_field(self, at: int, name: str) -> float:
        value = _parse_number(self.fields[at])
        if value is None or abs(value) >= MOST:
            raise self.invalid_field_error(f"{name} is {self.fields[at]!r}", "a number below 10^18")
        return value

    def parse_yes_or_no_field(self, at: int, name: str) -> bool:
        if self.fields[at] not in ("Y", "N"):
            raise self.invalid_field_error(f"{name} is {self.fields[at]!r}", "Y or N")
        return self.fields[at] == "Y"

    def parse_enum_value(self, text: str, name: str, words: type[Word]) -> Word:
        if text not in [member.value for member in words]:
            raise self.invalid_field_error(f"{name} is {text!r}", f"one of {', '.join(words)}")
        return words(text)

    def index_of_named_object(self, at: int, name: str, indices: Mapping[str, int]) -> int:
        if self.fields[at] not in indices:
            raise self.invalid_field_error(f"unknown {name} {self.fields[at]!r}", "a name from an earlier line")
        return indices[self.fields[at]]


def _parse_whole_number(text: str) -> int | None:
    """Parse a whole number as hsqueeze does: ignore blanks before it and parentheses around it."""
    if not (match := WHOLE(_strip_blanks_and_parentheses(text))):
        return None
    value = int(match[2], 0 if match[2][1:2] in tuple("xXoO") else 10)
    return -value if match[1] else value


def _parse_number(text: str) -> float | None:
    """Parse a number as hsqueeze does: ignore blanks before it and parentheses around it."""
    if not (match := NUMBER(_strip_blanks_and_parentheses(text))):
        return None
    value = float(int(match[2], 0)) if match[2][1:2] in tuple("xXoO") else float(match[2])
    return -value if match[1] else value


def _strip_blanks_and_parentheses(text: str) -> str:
    text = text.lstrip()
    while text.startswith("(") and text.endswith(")"):
        text = text[1:-1].strip()
    return text


def read_ganeti_cluster_file(path: str) -> ganeti_cluster.GanetiCluster:
    """Read a Ganeti cluster from a file; raises ParseError for an invalid file."""
    try:
        with open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise ParseError(f"{path}: too large; expected at most {MOST_BYTES >> 20} MiB")
        text = data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except OSError as error:
        raise ParseError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ParseError(f"{path}: not text; expected UTF-8") from error
    return parse_ganeti_text(text, path)


def parse_ganeti_text(text: str, path: str) -> ganeti_cluster.GanetiCluster:
    sections = _split_ganeti_text_into_sections(text, path)
    groups = [_parse_ganeti_group(row) for row in _split_section_into_fields(sections["groups"], path, 4, ("",))]
    at_uuid = {group.uuid: at for at, group in enumerate(groups)}  # of equal UUIDs the last one counts, as in hsqueeze
    rows = _split_section_into_fields(sections["nodes"], path, 9, NODE_LATER)
    nodes = tuple(_parse_node(row, at_uuid) for row in rows)
    at_node = {node.name: at for at, node in enumerate(nodes)}
    rows = _split_section_into_fields(sections["instances"], path, 10, INSTANCE_LATER)
    instances = tuple(_parse_ganeti_instance(row, at_node) for row in rows)
    policy = ganeti_cluster.DEFAULT_POLICY
    for row in _split_section_into_fields(sections["policies"], path, 6, ()):
        group_policy = _parse_ganeti_policy(row)
        if not row.fields[0]:
            policy = group_policy
            continue
        owner = row.fields[0]
        owned = [at for at, group in enumerate(groups) if owner in (group.name, group.uuid)]
        if len(owned) != 1:
            raise row.invalid_field_error(f"{len(owned)} groups are called {owner!r}", "one")
        groups[owned[0]] = replace(groups[owned[0]], policy=group_policy)
    tags = tuple(line for _, line in sections["tags"])
    return ganeti_cluster.GanetiCluster(
        groups=tuple(groups), nodes=nodes, instances=instances, tags=tags, policy=policy
    )


def _split_ganeti_text_into_sections(text: str, path: str) -> Mapping[str, Lines]:
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    sections: list[Lines] = [[]]
    for number, line in enumerate(lines, 1):
        if line:
            sections[-1].append((number, line))
        else:
            sections.append([])
    if len(sections) < len(SECTIONS) - 1:
        raise ParseError(
            f"{path}:{len(lines)}: the file ends after {len(sections)} sections; expected"
            f" {', '.join(SECTIONS)}, separated by one empty line"
        )
    sections.extend([[]] * (len(SECTIONS) - len(sections)))
    return dict(zip(SECTIONS, sections, strict=False))


def _split_section_into_fields(lines: Lines, path: str, least: int, later: tuple[str, ...]) -> list[GanetiTextLine]:
    """Split lines into fields; `later` has the defaults of fields that may be missing at a line's end."""
    rows = []
    for number, line in lines:
        fields = tuple(line.split("|"))
        row = GanetiTextLine(where=f"{path}:{number}", fields=fields)
        if len(fields) < least:
            raise row.invalid_field_error(f"the line has {len(fields)} fields", f"{least} or more")
        rows.append(replace(row, fields=fields + later[len(fields) - least :]))
    return rows


def _split_comma_list(text: str, separator: str = ",") -> tuple[str, ...]:
    return tuple(text.split(separator)) if text else ()


def _parse_ganeti_group(row: GanetiTextLine) -> ganeti_cluster.GanetiNodeGroup:
    allocation = row.fields[2]
    if allocation not in ALLOCATIONS:
        raise row.invalid_field_error(f"the allocation policy is {allocation!r}", f"one of {', '.join(ALLOCATIONS)}")
    return ganeti_cluster.GanetiNodeGroup(
        name=row.fields[0],
        uuid=row.require_nonempty_field(1, "the group's uuid"),
        allocation=allocation,
        tags=_split_comma_list(row.fields[3]),
        networks=_split_comma_list(row.fields[4]),
    )


def _parse_node(row: GanetiTextLine, groups: Mapping[str, int]) -> ganeti_cluster.GanetiNode:
    name, group = row.require_nonempty_field(0, "the node's name"), row.index_of_named_object(8, "group", groups)
    if "?" in row.fields[1:7]:
        unknown = ("0", "0", "0", "0", "0", "0", "Y", row.fields[8], "0", "", "N", "0", "0", "1.0")
        return replace(_parse_online_ganeti_node(replace(row, fields=(name, *unknown)), name, group), is_offline=True)
    return _parse_online_ganeti_node(row, name, group)


def _parse_online_ganeti_node(row: GanetiTextLine, name: str, group: int) -> ganeti_cluster.GanetiNode:
    role = row.fields[7]
    return ganeti_cluster.GanetiNode(
        name=name,
        mem=row.parse_number_field(1, "the node's memory"),
        own_mem=row.parse_whole_number_field(2, "its own memory"),
        free_mem=row.parse_whole_number_field(3, "its free memory"),
        disk=row.parse_number_field(4, "its disk space"),
        free_disk=row.parse_whole_number_field(5, "its free disk space"),
        cpus=row.parse_number_field(6, "its number of processors"),
        own_cpus=row.parse_whole_number_field(13, "the number of processors its own system uses"),
        cpu_speed=row.parse_number_field(14, "its processors' speed"),
        is_offline=role == "Y",
        is_master=role == "M",
        group=group,
        spindles=row.parse_whole_number_field(9, "its number of spindles"),
        free_spindles=row.parse_whole_number_field(12, "its free spindles"),
        has_own_spindles=row.parse_yes_or_no_field(11, "its exclusive storage"),
        tags=_split_comma_list(row.fields[10]),
    )


def _parse_ganeti_instance(row: GanetiTextLine, nodes: Mapping[str, int]) -> ganeti_cluster.GanetiInstance:
    primary = row.index_of_named_object(6, "node", nodes)
    secondary = row.index_of_named_object(7, "node", nodes) if row.fields[7] else ganeti_cluster.NO_NODE
    template = row.parse_enum_value(row.fields[8], "the disk template", ganeti_cluster.GanetiDiskTemplate)
    if template is ganeti_cluster.GanetiDiskTemplate.DRBD and secondary == primary:
        raise row.invalid_field_error("primary and secondary node are equal", "two nodes")
    if template is ganeti_cluster.GanetiDiskTemplate.DRBD and secondary == ganeti_cluster.NO_NODE:
        raise row.invalid_field_error("a drbd instance has no secondary node", "two nodes")
    if row.parse_yes_or_no_field(12, "whether it is forthcoming"):
        raise row.invalid_field_error("the instance is forthcoming", "an instance that exists")
    return ganeti_cluster.GanetiInstance(
        name=row.fields[0],
        mem=row.parse_whole_number_field(1, "its memory"),
        disk=row.parse_whole_number_field(2, "its disk space"),
        vcpus=row.parse_whole_number_field(3, "its number of processors"),
        status=row.parse_enum_value(row.fields[4], "its status", ganeti_cluster.GanetiInstanceStatus),
        is_balanced=row.parse_yes_or_no_field(5, "whether it is balanced"),
        primary=primary,
        secondary=secondary,
        template=template,
        tags=_split_comma_list(row.fields[9]),
        spindle_use=row.parse_whole_number_field(10, "its use of spindles"),
        spindles=None if row.fields[11] == "-" else row.parse_whole_number_field(11, "its spindles"),
    )


def _parse_ganeti_policy(row: GanetiTextLine) -> ganeti_cluster.GanetiInstancePolicy:
    specs = _split_comma_list(row.fields[2], ";")
    if len(specs) % 2:
        raise row.invalid_field_error(f"the policy has {len(specs)} limits", "pairs of a minimal and a maximal size")
    limits = [_parse_ganeti_instance_size(row, text) for text in specs]
    return ganeti_cluster.GanetiInstancePolicy(
        standard=_parse_ganeti_instance_size(row, row.fields[1]),
        limits=tuple(zip(limits[::2], limits[1::2], strict=True)),
        templates=tuple(
            row.parse_enum_value(text, "a disk template", ganeti_cluster.GanetiDiskTemplate)
            for text in _split_comma_list(row.fields[3])
        ),
        vcpu_ratio=row.parse_number_field(4, "the ratio of processors"),
        spindle_ratio=row.parse_number_field(5, "the ratio of spindles"),
    )


def _parse_ganeti_instance_size(row: GanetiTextLine, text: str) -> ganeti_cluster.GanetiInstanceSize:
    numbers = [value for value in map(_parse_whole_number, text.split(",")[:6]) if value is not None]
    if len(numbers) < 6:
        raise row.invalid_field_error(
            f"an instance's size is {text!r}",
            "six whole numbers: memory, processors, disk space, disks, network cards, spindles",
        )
    mem, vcpus, disk, disks, nics, spindles = numbers
    return ganeti_cluster.GanetiInstanceSize(mem=mem, vcpus=vcpus, disk=disk, disks=disks, nics=nics, spindles=spindles)


def format_ganeti_text(cluster: ganeti_cluster.GanetiCluster) -> str:
    """Format a Ganeti cluster as htools(1) writes the file."""
    names = [node.name for node in cluster.nodes]
    policies = [("", cluster.policy), *((group.name, group.policy) for group in cluster.groups)]
    sections = (
        [_join_fields(g.name, g.uuid, g.allocation, ",".join(g.tags), ",".join(g.networks)) for g in cluster.groups],
        [_format_ganeti_node(node, cluster.groups) for node in cluster.nodes],
        [_format_ganeti_instance(instance, names) for instance in cluster.instances],
        list(cluster.tags),
        [_format_ganeti_policy(name, policy) for name, policy in policies],
    )
    return "\n".join("".join(f"{line}\n" for line in lines) for lines in sections)


def _format_ganeti_node(node: ganeti_cluster.GanetiNode, groups: tuple[ganeti_cluster.GanetiNodeGroup, ...]) -> str:
    role = "Y" if node.is_offline else "M" if node.is_master else "N"
    numbers = (f"{node.mem:.0f}", node.own_mem, node.free_mem, f"{node.disk:.0f}", node.free_disk)
    exclusive = "Y" if node.has_own_spindles else "N"
    later = (exclusive, node.free_spindles, node.own_cpus, _format_number(node.cpu_speed, is_plain=True))
    group = groups[node.group].uuid
    return _join_fields(
        *(node.name, *numbers, f"{node.cpus:.0f}", role, group), *(node.spindles, ",".join(node.tags), *later)
    )


def _format_ganeti_instance(instance: ganeti_cluster.GanetiInstance, nodes: list[str]) -> str:
    secondary = "" if instance.secondary == ganeti_cluster.NO_NODE else nodes[instance.secondary]
    balanced = "Y" if instance.is_balanced else "N"
    spindles = "-" if instance.spindles is None else instance.spindles
    return _join_fields(
        *(instance.name, instance.mem, instance.disk, instance.vcpus, instance.status.value, balanced),
        *(nodes[instance.primary], secondary, instance.template.value, ",".join(instance.tags)),
        *(instance.spindle_use, spindles, "N"),
    )


def _format_ganeti_policy(owner: str, policy: ganeti_cluster.GanetiInstancePolicy) -> str:
    limits = ";".join(_format_ganeti_instance_size(spec) for pair in policy.limits for spec in pair)
    ratios = (_format_number(policy.vcpu_ratio), _format_number(policy.spindle_ratio))
    templates = ",".join(template.value for template in policy.templates)
    return _join_fields(owner, _format_ganeti_instance_size(policy.standard), limits, templates, *ratios)


def _format_ganeti_instance_size(spec: ganeti_cluster.GanetiInstanceSize) -> str:
    numbers = (spec.mem, spec.vcpus, spec.disk, spec.disks, spec.nics, spec.spindles)
    return ",".join(str(number) for number in numbers)


def _join_fields(*fields: object) -> str:
    return "|".join(str(field) for field in fields)


def _format_number(value: float, *, is_plain: bool = False) -> str:
    """Format a number as htools(1) does, for example 5.0e-2; with `is_plain`, as 0.05."""
    if is_plain or value == 0 or 0.1 <= abs(value) < 1e7:
        return repr(value)
    digits, _, exponent = f"{value!r}".partition("e")
    if not exponent:
        digits, _, exponent = f"{value:.16e}".partition("e")
        digits = repr(float(digits))
    return f"{float(digits)!r}e{int(exponent)}"
