"""The sections of gridbridge.toml for campaigns, from [runner] to [notifications]."""

from collections.abc import Iterator

from gridbridge.config.mistakes import Table, format_toml_key, select_subtable
from gridbridge.config.sections import NamedSections, SectionGroup, SingleSection
from gridbridge.model.campaigns.campaign_sections import (
    ClusterCampaignsSection,
    FailuresSection,
    FinalizeSection,
    MetaschedulerSection,
    NikitaSection,
    NotificationsSection,
    RunnerSection,
)
from gridbridge.model.settings import CLUSTER_NAME

GROUPS: tuple[SectionGroup, ...] = (
    SingleSection(name="runner", kind=RunnerSection),
    SingleSection(name="metascheduler", kind=MetaschedulerSection),
    NamedSections(
        name="campaigns", field="campaigns", kind=ClusterCampaignsSection, form=CLUSTER_NAME
    ),
    SingleSection(name="nikita", kind=NikitaSection),
    SingleSection(name="failures", kind=FailuresSection),
    SingleSection(name="finalize", kind=FinalizeSection),
    SingleSection(name="notifications", kind=NotificationsSection),
)


def find_config_problems(sections: Table) -> Iterator[str]:
    """Find [campaigns.CLUSTER] sections for undefined clusters."""
    clusters = select_subtable(sections, "cluster")
    for name in select_subtable(sections, "campaigns"):
        if CLUSTER_NAME.holds(name) and name not in clusters:
            names = ", ".join(clusters) or "none is defined"
            yield f"[campaigns.{format_toml_key(name)}]: undefined; a cluster ({names})"
