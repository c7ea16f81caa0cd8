"""The sections of a cluster that grows and shrinks: [balance], [demand] and [pool.NAME]."""

from collections.abc import Iterator

from gridbridge.config.sections import Group, Named, Single
from gridbridge.config.words import Table, table_of
from gridbridge.model.elastic.sections import Balance, Demand, Pool
from gridbridge.model.settings import OBJECT_NAME

GROUPS: tuple[Group, ...] = (
    Single(name="balance", kind=Balance),
    Single(name="demand", kind=Demand),
    Named(name="pool", field="pools", kind=Pool, form=OBJECT_NAME),
)


def problems(sections: Table) -> Iterator[str]:
    """Find limits that contradict each other."""
    told = table_of(sections, "balance")
    least, most = told.get("min_nodes"), told.get("max_nodes")
    if isinstance(least, int) and isinstance(most, int) and 0 < most < least:
        yield f"[balance] min_nodes: {least}; at most max_nodes ({most}) would be right"
