"""The sections of gridbridge.toml for campaigns: [runner], [metascheduler], [campaigns.CLUSTER] and four more."""

from collections.abc import Iterator

from gridbridge.config.section_parsing import (
    NamedSections,
    SectionGroupOfOneName,
    Table,
    UnnamedSection,
    format_toml_key,
    subtable_or_empty,
)
from gridbridge.model.campaigns.campaign_sections import (
    CampaignFailuresSection,
    CampaignRunnerSection,
    ClusterCampaignsSection,
    FinalizeSpeculationSection,
    MetaschedulerSection,
    NikitaSection,
    NotificationsSection,
)
from gridbridge.model.key_settings import CLUSTER_NAME

GROUPS: tuple[SectionGroupOfOneName, ...] = (
    UnnamedSection(name="runner", kind=CampaignRunnerSection),
    UnnamedSection(name="metascheduler", kind=MetaschedulerSection),
    NamedSections(name="campaigns", field="campaigns", kind=ClusterCampaignsSection, form=CLUSTER_NAME),
    UnnamedSection(name="nikita", kind=NikitaSection),
    UnnamedSection(name="failures", kind=CampaignFailuresSection),
    UnnamedSection(name="finalize", kind=FinalizeSpeculationSection),
    UnnamedSection(name="notifications", kind=NotificationsSection),
)


def find_config_problems(sections: Table) -> Iterator[str]:
    """Find [campaigns.CLUSTER] sections for undefined clusters."""
    clusters = subtable_or_empty(sections, "cluster")
    for name in subtable_or_empty(sections, "campaigns"):
        if CLUSTER_NAME.holds(name) and name not in clusters:
            names = ", ".join(clusters) or "none is defined"
            yield f"[campaigns.{format_toml_key(name)}]: undefined; a cluster ({names})"
