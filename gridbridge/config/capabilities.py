"""The capabilities that bring sections to gridbridge.toml: a new one has its line here."""

from collections.abc import Mapping
from types import MappingProxyType

from gridbridge.config import campaigns, elastic, rebalance, site, transfer
from gridbridge.config.sections import Capability, SectionGroup

CAPABILITIES: tuple[Capability, ...] = (
    site,
    transfer,
    campaigns,
    elastic,
    rebalance,
)
GROUPS: Mapping[str, SectionGroup] = MappingProxyType(
    {group.name: group for capability in CAPABILITIES for group in capability.GROUPS}
)
