"""The section of rebalancing, [rebalance]."""

from collections.abc import Iterator

from gridbridge.config.sections import Group, Single
from gridbridge.config.words import Table, table_of
from gridbridge.model.rebalance.sections import Rebalance

SECTION = Single(name="rebalance", kind=Rebalance)
GROUPS: tuple[Group, ...] = (SECTION,)


def problems(sections: Table) -> Iterator[str]:
    """Find limits that contradict each other."""
    told = table_of(sections, "rebalance")
    least = told.get("full_free_bytes", Rebalance().full_free_bytes)
    enough = told.get("min_free_bytes", Rebalance().min_free_bytes)
    if isinstance(least, int) and isinstance(enough, int) and least > enough:
        right = f"at most min_free_bytes ({enough}) would be right"
        yield f"[rebalance] full_free_bytes: {least}; {right}"
