"""The sections of gridbridge.toml for campaigns: [runner], [metascheduler], [campaigns.CLUSTER] and four more."""

from collections.abc import Iterator

from gridbridge.config import section_parsing
from gridbridge.config.rebalance import clusters_of_storage_area
from gridbridge.model.campaigns import campaign_configuration_sections
from gridbridge.model.campaigns.campaign_configuration_sections import TIME_ZONE
from gridbridge.model.config_key_descriptions import CLUSTER_NAME
from gridbridge.shell.clock import is_time_zone

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
    yield from _unknown_input_storages(sections)
    yield from _unknown_time_zones(sections)


def _unknown_time_zones(sections: section_parsing.Table) -> Iterator[str]:
    campaigns = section_parsing.subtable_or_empty(sections, "campaigns")
    for cluster in campaigns:
        name = section_parsing.subtable_or_empty(campaigns, cluster).get("time_zone")
        if name and isinstance(name, str) and TIME_ZONE.holds(name) and not is_time_zone(name):
            problem = section_parsing.ConfigKeyProblem(name, "unknown on this host", TIME_ZONE.right)
            yield f"[campaigns.{section_parsing.format_toml_key(cluster)}] time_zone{problem}"


def _unknown_input_storages(sections: section_parsing.Table) -> Iterator[str]:
    """Find names of storage areas that are undefined, or of another cluster."""
    campaigns = section_parsing.subtable_or_empty(sections, "campaigns")
    areas = section_parsing.subtable_or_empty(sections, "storage")
    for cluster in campaigns:
        name = section_parsing.subtable_or_empty(campaigns, cluster).get("inputs_storage")
        own = [area for area in areas if cluster in clusters_of_storage_area(areas, area)]
        if name and isinstance(name, str) and name not in own:
            right = f"a storage area of {cluster} ({', '.join(own) or 'none is defined'})"
            problem = section_parsing.ConfigKeyProblem(name, "undefined", right)
            yield f"[campaigns.{section_parsing.format_toml_key(cluster)}] inputs_storage{problem}"
