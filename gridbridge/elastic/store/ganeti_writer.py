"""Write Ganeti's text files as htools(1) does (`-t`)."""

from gridbridge.model.elastic.ganeti_cluster import (
    NO_NODE,
    GanetiCluster,
    GanetiInstance,
    GanetiInstancePolicy,
    GanetiInstanceSize,
    GanetiNode,
    GanetiNodeGroup,
)


def format_ganeti_text(cluster: GanetiCluster) -> str:
    """Return the text of a Ganeti cluster file, as htools(1) writes it."""
    names = [node.name for node in cluster.nodes]
    policies = [("", cluster.policy), *((group.name, group.policy) for group in cluster.groups)]
    sections = (
        [_group_line(group) for group in cluster.groups],
        [_node_line(node, cluster.groups) for node in cluster.nodes],
        [_instance_line(instance, names) for instance in cluster.instances],
        list(cluster.tags),
        [_policy_line(name, policy) for name, policy in policies],
    )
    return "\n".join("".join(f"{line}\n" for line in lines) for lines in sections)


def _group_line(group: GanetiNodeGroup) -> str:
    return "|".join((group.name, group.uuid, group.allocation, ",".join(group.tags), ",".join(group.networks)))


def _node_line(node: GanetiNode, groups: tuple[GanetiNodeGroup, ...]) -> str:
    role = "Y" if node.is_offline else "M" if node.is_master else "N"
    numbers = (f"{node.mem:.0f}", node.own_mem, node.free_mem, f"{node.disk:.0f}", node.free_disk)
    exclusive = "Y" if node.has_own_spindles else "N"
    later = (exclusive, node.free_spindles, node.own_cpus, _number_text(node.cpu_speed, is_plain=True))
    group = groups[node.group].uuid
    return _line(*(node.name, *numbers, f"{node.cpus:.0f}", role, group), *(node.spindles, ",".join(node.tags), *later))


def _instance_line(instance: GanetiInstance, nodes: list[str]) -> str:
    secondary = "" if instance.secondary == NO_NODE else nodes[instance.secondary]
    balanced = "Y" if instance.is_balanced else "N"
    spindles = "-" if instance.spindles is None else instance.spindles
    return _line(
        *(instance.name, instance.mem, instance.disk, instance.vcpus, instance.status.value, balanced),
        *(nodes[instance.primary], secondary, instance.template.value, ",".join(instance.tags)),
        *(instance.spindle_use, spindles, "N"),
    )


def _policy_line(owner: str, policy: GanetiInstancePolicy) -> str:
    limits = ";".join(_spec_text(spec) for pair in policy.limits for spec in pair)
    ratios = (_number_text(policy.vcpu_ratio), _number_text(policy.spindle_ratio))
    templates = ",".join(template.value for template in policy.templates)
    return _line(owner, _spec_text(policy.standard), limits, templates, *ratios)


def _spec_text(spec: GanetiInstanceSize) -> str:
    numbers = (spec.mem, spec.vcpus, spec.disk, spec.disks, spec.nics, spec.spindles)
    return ",".join(str(number) for number in numbers)


def _line(*fields: object) -> str:
    return "|".join(str(field) for field in fields)


def _number_text(value: float, *, is_plain: bool = False) -> str:
    """Format a number as htools(1) does: 0.05 is 5.0e-2, except with `is_plain`."""
    if is_plain or value == 0 or 0.1 <= abs(value) < 1e7:
        return repr(value)
    digits, _, exponent = f"{value!r}".partition("e")
    if not exponent:
        digits, _, exponent = f"{value:.16e}".partition("e")
        digits = repr(float(digits))
    return f"{float(digits)!r}e{int(exponent)}"
