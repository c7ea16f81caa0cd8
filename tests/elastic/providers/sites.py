"""A provider of each kind, and what it really talks to."""

from collections.abc import Callable
from dataclasses import dataclass

from gridbridge.elastic.providers.provider_protocol_and_validation import MachineProvider

KINDS = ("by_command", "by_ec2", "by_libcloud")


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A provider, and how the other side is made to refuse."""

    provider: MachineProvider
    be_full: Callable[[], None]  # no machine of that kind is left
    be_busy: Callable[[], None]  # every call is to be repeated later
