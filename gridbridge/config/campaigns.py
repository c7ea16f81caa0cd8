"""The section of campaigns: [runner]."""

from collections.abc import Iterator

from gridbridge.config.sections import Group, Single
from gridbridge.config.words import Table
from gridbridge.model.campaigns.sections import Runner

GROUPS: tuple[Group, ...] = (Single(name="runner", kind=Runner),)


def problems(_: Table) -> Iterator[str]:
    """Find every mistake that no section shows by itself: there is none."""
    yield from ()
