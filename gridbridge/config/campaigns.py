"""The sections of gridbridge.toml for campaigns: [runner], [metascheduler], [campaigns.CLUSTER] and four more."""

from collections.abc import Iterator

from gridbridge.config import section_parsing
from gridbridge.model.campaigns import campaign_configuration_sections
from gridbridge.model.config_key_descriptions import CLUSTER_NAME

GROUPS: tuple[section_parsing.SectionGroupOfOneName, ...] = (
    section_parsing.UnnamedSection(name="runner", kind=campaign_configuration_sections.CampaignRunnerSection),
    section_parsing.UnnamedSection(name="metascheduler", kind=campaign_configuration_sections.MetaschedulerSection),
    section_parsing.NamedSections(
        name="campaigns",
        field="campaigns",
        kind=campaign_configuration_sections.ClusterCampaignsSection,
        form=CLUSTER_NAME,
    ),
    section_parsing.UnnamedSection(name="nikita", kind=campaign_configuration_sections.NikitaSection),
    section_parsing.UnnamedSection(name="failures", kind=campaign_configuration_sections.CampaignFailuresSection),
    section_parsing.UnnamedSection(name="finalize", kind=campaign_configuration_sections.LateSpeculationSection),
    section_parsing.UnnamedSection(name="notifications", kind=campaign_configuration_sections.NotificationsSection),
)


def find_config_problems(sections: section_parsing.Table) -> Iterator[str]:
    clusters = section_parsing.subtable_or_empty(sections, "cluster")
    for name in section_parsing.subtable_or_empty(sections, "campaigns"):
        if CLUSTER_NAME.holds(name) and name not in clusters:
            names = ", ".join(clusters) or "none is defined"
            yield f"[campaigns.{section_parsing.format_toml_key(name)}]: undefined; expected a cluster ({names})"
