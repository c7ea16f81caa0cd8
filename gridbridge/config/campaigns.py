"""The sections of campaigns, from [runner] to [notifications]."""

from collections.abc import Iterator

from gridbridge.config.mistakes import Table, key_name, table_of
from gridbridge.config.sections import NamedSections, SectionGroup, SingleSection
from gridbridge.model.campaigns.campaign_sections import (
    CampaignsAt,
    Failures,
    Finalize,
    Metascheduler,
    NikitaSection,
    Notifications,
    RunnerSection,
)
from gridbridge.model.settings import CLUSTER_NAME

GROUPS: tuple[SectionGroup, ...] = (
    SingleSection(name="runner", kind=RunnerSection),
    SingleSection(name="metascheduler", kind=Metascheduler),
    NamedSections(name="campaigns", field="campaigns", kind=CampaignsAt, form=CLUSTER_NAME),
    SingleSection(name="nikita", kind=NikitaSection),
    SingleSection(name="failures", kind=Failures),
    SingleSection(name="finalize", kind=Finalize),
    SingleSection(name="notifications", kind=Notifications),
)


def problems(sections: Table) -> Iterator[str]:
    """Find sections for clusters that are not there."""
    clusters = table_of(sections, "cluster")
    for name in table_of(sections, "campaigns"):
        if CLUSTER_NAME.holds(name) and name not in clusters:
            names = ", ".join(clusters) or "none is defined"
            yield f"[campaigns.{key_name(name)}]: undefined; a cluster ({names})"
