"""What an administrator types who ends a machine that no round ends."""

import json
import shlex
from collections.abc import Mapping

from gridbridge.model.elastic.balance_sections import ProviderKind, ProviderSection
from gridbridge.model.elastic.owned_nodes import NodeStateCause, OwnedNode
from gridbridge.model.elastic.standby_hosts import STANDBY, tags_of_host


def manual_machine_removal_command(
    machine: str, provider: str, section: ProviderSection | None
) -> str:
    """Return the command; where a cloud has tools of its own, what they have to end."""
    if section is not None and section.kind is ProviderKind.COMMAND and section.program:
        request = shlex.quote(json.dumps({"id": machine}))
        return f"`echo {request} | {shlex.quote(section.program)} destroy`"
    if section is not None and section.kind is ProviderKind.EC2:
        id_ = shlex.quote(machine)
        return f"`aws ec2 terminate-instances{_aws_options(section)} --instance-ids {id_}`"
    driver_and_region = " ".join((section.driver, section.region)).strip() if section else ""
    suffix = f" ({driver_and_region})" if driver_and_region else ""
    return f"end machine {machine} of provider {provider}{suffix} with the cloud's own tools"


def is_site_owned_host(node: OwnedNode) -> bool:
    """Say whether a node is a host of the site's own, which is switched on and off."""
    return node.machine == node.name


def explain_how_to_wake_host(node: OwnedNode, tags: Mapping[str, tuple[str, ...]]) -> str:
    """Return who has a host of the site's own work again that is off."""
    tag = f"`gridbridge balance tag {node.name} SUFFIX`"
    lacks_tag = not any(host_tag.startswith(STANDBY) for host_tag in tags_of_host(node.name, tags))
    if node.cause is NodeStateCause.DRAINED:
        more = f", then {tag}" if lacks_tag else ""
        free = f"`gridbridge balance keep --free {node.name}`{more}"
        return f"it is off, and no round wakes it: an administrator drained it; {free} allows it"
    if lacks_tag:
        return f"it is off, and no round wakes it: it has no tag; {tag} gives it one"
    if node.cause is NodeStateCause.UNDER_TASKS:
        return f"it is off: {node.cause}"
    return "it is off, and is woken when it is wanted"


def _aws_options(section: ProviderSection) -> str:
    """Return where, in the options of AWS's own command line."""
    options = {"--region": section.region, "--endpoint-url": section.endpoint}
    return "".join(f" {option} {shlex.quote(value)}" for option, value in options.items() if value)
