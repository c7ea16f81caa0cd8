"""The sections of gridbridge.toml for campaigns, from [runner] to [notifications]."""

from collections.abc import Iterator

from gridbridge.config.key_descriptions import Table, format_toml_key, subtable_or_empty
from gridbridge.config.section_parsing import NamedSections, SectionGroupOfOneName, UnnamedSection
from gridbridge.model.campaigns.campaign_sections import (
    ClusterCampaignsSection,
    FailuresSection,
    FinalizeSection,
    MetaschedulerSection,
    NikitaSection,
    NotificationsSection,
    RunnerSection,
)
from gridbridge.model.key_settings import CLUSTER_NAME

GROUPS: tuple[SectionGroupOfOneName, ...] = (
    UnnamedSection(name="runner", kind=RunnerSection),
    UnnamedSection(name="metascheduler", kind=MetaschedulerSection),
    NamedSections(name="campaigns", field="campaigns", kind=ClusterCampaignsSection, form=CLUSTER_NAME),
    UnnamedSection(name="nikita", kind=NikitaSection),
    UnnamedSection(name="failures", kind=FailuresSection),
    UnnamedSection(name="finalize", kind=FinalizeSection),
    UnnamedSection(name="notifications", kind=NotificationsSection),
)


def find_config_problems(sections: Table) -> Iterator[str]:
    """Find [campaigns.CLUSTER] sections for undefined clusters."""
    clusters = subtable_or_empty(sections, "cluster")
    for name in subtable_or_empty(sections, "campaigns"):
        if CLUSTER_NAME.holds(name) and name not in clusters:
            names = ", ".join(clusters) or "none is defined"
            yield f"[campaigns.{format_toml_key(name)}]: undefined; a cluster ({names})"
