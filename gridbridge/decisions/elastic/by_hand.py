"""What an administrator types who ends a machine that no round ends."""

import json
import shlex

from gridbridge.model.elastic.sections import ProviderKind, ProviderSection


def ending(machine: str, provider: str, section: ProviderSection | None) -> str:
    """Return the command; where a cloud has tools of its own, what they have to end."""
    if section is not None and section.kind is ProviderKind.COMMAND and section.program:
        wish = shlex.quote(json.dumps({"id": machine}))
        return f"`echo {wish} | {shlex.quote(section.program)} destroy`"
    if section is not None and section.kind is ProviderKind.EC2:
        id_ = shlex.quote(machine)
        return f"`aws ec2 terminate-instances{_place(section)} --instance-ids {id_}`"
    told = " ".join((section.driver, section.region)).strip() if section else ""
    place = f" ({told})" if told else ""
    return f"end machine {machine} of provider {provider}{place} with the cloud's own tools"


def _place(section: ProviderSection) -> str:
    """Return where, in the options of AWS's own command line."""
    told = {"--region": section.region, "--endpoint-url": section.endpoint}
    return "".join(f" {option} {shlex.quote(one)}" for option, one in told.items() if one)
