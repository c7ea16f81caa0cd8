"""A provider of each kind for the contract tests."""

from collections.abc import Callable
from dataclasses import dataclass

from gridbridge.elastic.providers.provider_protocol_and_validation import MachineProvider

KINDS = ("by_command", "by_ec2", "by_libcloud")


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    provider: MachineProvider
    be_full: Callable[[], None]  # no machine of that kind is left
    be_busy: Callable[[], None]  # every call is to be repeated later
