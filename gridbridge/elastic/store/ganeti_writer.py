"""Writes Ganeti's text files as htools(1) does (-t)."""

from gridbridge.model.elastic.ganeti_cluster import (
    NO_NODE,
    GanetiCluster,
    GanetiInstance,
    GanetiNode,
    GanetiPolicy,
    InstanceSpec,
    NodeGroup,
)


def written(cluster: GanetiCluster) -> str:
    """Return the text of a cluster's file, as htools(1) writes it."""
    names = [node.name for node in cluster.nodes]
    policies = [("", cluster.policy), *((one.name, one.policy) for one in cluster.groups)]
    sections = (
        [_group_line(one) for one in cluster.groups],
        [_node_line(one, cluster.groups) for one in cluster.nodes],
        [_instance_line(one, names) for one in cluster.instances],
        list(cluster.tags),
        [_policy_line(name, policy) for name, policy in policies],
    )
    return "\n".join("".join(f"{line}\n" for line in lines) for lines in sections)


def _group_line(one: NodeGroup) -> str:
    return "|".join(
        (one.name, one.uuid, one.allocation, ",".join(one.tags), ",".join(one.networks))
    )


def _node_line(one: GanetiNode, groups: tuple[NodeGroup, ...]) -> str:
    role = "Y" if one.is_offline else "M" if one.is_master else "N"
    numbers = (f"{one.mem:.0f}", one.own_mem, one.free_mem, f"{one.disk:.0f}", one.free_disk)
    exclusive = "Y" if one.has_own_spindles else "N"
    later = (exclusive, one.free_spindles, one.own_cpus, _number(one.cpu_speed, is_plain=True))
    group = groups[one.group].uuid
    return _line(
        *(one.name, *numbers, f"{one.cpus:.0f}", role, group),
        *(one.spindles, ",".join(one.tags), *later),
    )


def _instance_line(one: GanetiInstance, nodes: list[str]) -> str:
    secondary = "" if one.secondary == NO_NODE else nodes[one.secondary]
    balanced = "Y" if one.is_balanced else "N"
    spindles = "-" if one.spindles is None else one.spindles
    return _line(
        *(one.name, one.mem, one.disk, one.vcpus, one.status.value, balanced),
        *(nodes[one.primary], secondary, one.template.value, ",".join(one.tags)),
        *(one.spindle_use, spindles, "N"),
    )


def _policy_line(owner: str, one: GanetiPolicy) -> str:
    limits = ";".join(_spec_text(spec) for pair in one.limits for spec in pair)
    ratios = (_number(one.vcpu_ratio), _number(one.spindle_ratio))
    templates = ",".join(template.value for template in one.templates)
    return _line(owner, _spec_text(one.standard), limits, templates, *ratios)


def _spec_text(one: InstanceSpec) -> str:
    numbers = (one.mem, one.vcpus, one.disk, one.disks, one.nics, one.spindles)
    return ",".join(str(number) for number in numbers)


def _line(*fields: object) -> str:
    return "|".join(str(field) for field in fields)


def _number(value: float, *, is_plain: bool = False) -> str:
    """Return a number as htools(1) writes it: 0.05 is 5.0e-2 there, except where plain ones are."""
    if is_plain or value == 0 or 0.1 <= abs(value) < 1e7:
        return repr(value)
    digits, _, exponent = f"{value!r}".partition("e")
    if not exponent:
        digits, _, exponent = f"{value:.16e}".partition("e")
        digits = repr(float(digits))
    return f"{float(digits)!r}e{int(exponent)}"
