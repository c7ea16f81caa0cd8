"""The sections of campaigns, from [runner] to [notifications]."""

from collections.abc import Iterator

from gridbridge.config.sections import Group, Named, Single
from gridbridge.config.words import Table, key_name, table_of
from gridbridge.model.campaigns.sections import (
    CampaignsAt,
    Failures,
    Finalize,
    Metascheduler,
    Nikita,
    Notifications,
    Runner,
)
from gridbridge.model.settings import CLUSTER_NAME

GROUPS: tuple[Group, ...] = (
    Single(name="runner", kind=Runner),
    Single(name="metascheduler", kind=Metascheduler),
    Named(name="campaigns", field="campaigns", kind=CampaignsAt, form=CLUSTER_NAME),
    Single(name="nikita", kind=Nikita),
    Single(name="failures", kind=Failures),
    Single(name="finalize", kind=Finalize),
    Single(name="notifications", kind=Notifications),
)


def problems(sections: Table) -> Iterator[str]:
    """Find sections for clusters that are not there."""
    clusters = table_of(sections, "cluster")
    for name in table_of(sections, "campaigns"):
        if CLUSTER_NAME.holds(name) and name not in clusters:
            known = ", ".join(clusters) or "none is defined"
            yield f"[campaigns.{key_name(name)}]: undefined; a cluster ({known})"
