"""The whole gridbridge.toml as values, with the sections of all capabilities.

A section of the file is a class and a key is a field. `model.settings.setting_of_field` describes a
key for the parser, the shipped sample and docs/reference/configuration.md. The sections of a
capability are in the capability's folder of the model.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gridbridge.model.campaigns.campaign_sections import (
    CampaignFailuresSection,
    CampaignRunnerSection,
    ClusterCampaignsSection,
    FinalizeSpeculationSection,
    MetaschedulerSection,
    NikitaSection,
    NotificationsSection,
)
from gridbridge.model.cluster import ClusterKind, ClusterSection, why_no_transfer_queues_at_home
from gridbridge.model.elastic.balance_sections import (
    BalanceSection,
    DemandPolicySection,
    MachineBootstrapSection,
    MachineProviderSection,
    NodePoolSection,
    PoweredHostSection,
    SqueezeSection,
)
from gridbridge.model.rebalance.rebalance_section import RebalanceSection, StorageAreaSection
from gridbridge.model.site.site_section import SiteSection
from gridbridge.model.transfer.transfer_config_sections import (
    BreakerSection,
    PollerSection,
    RetentionSection,
    Rules,
    TransferQueueSection,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The whole configuration, with all inherited values filled in."""

    site: SiteSection
    clusters: Mapping[str, ClusterSection]
    queues: Mapping[str, TransferQueueSection]
    poller: PollerSection = field(default_factory=PollerSection)
    breaker: BreakerSection = field(default_factory=BreakerSection)
    retention: RetentionSection = field(default_factory=RetentionSection)
    runner: CampaignRunnerSection = field(default_factory=CampaignRunnerSection)
    metascheduler: MetaschedulerSection = field(default_factory=MetaschedulerSection)
    campaigns: Mapping[str, ClusterCampaignsSection] = field(default_factory=dict)
    nikita: NikitaSection = field(default_factory=NikitaSection)
    failures: CampaignFailuresSection = field(default_factory=CampaignFailuresSection)
    finalize: FinalizeSpeculationSection = field(default_factory=FinalizeSpeculationSection)
    notifications: NotificationsSection = field(default_factory=NotificationsSection)
    balance: BalanceSection = field(default_factory=BalanceSection)
    bootstrap: MachineBootstrapSection = field(default_factory=MachineBootstrapSection)
    demand: DemandPolicySection = field(default_factory=DemandPolicySection)
    squeeze: SqueezeSection = field(default_factory=SqueezeSection)
    rebalance: RebalanceSection = field(default_factory=RebalanceSection)
    storage: Mapping[str, StorageAreaSection] = field(default_factory=dict)
    pools: Mapping[str, NodePoolSection] = field(default_factory=dict)
    providers: Mapping[str, MachineProviderSection] = field(default_factory=dict)
    powered: Mapping[str, PoweredHostSection] = field(default_factory=dict)
    maps: Mapping[str, Rules] = field(default_factory=dict)

    def __post_init__(self) -> None:
        clusters = {name: cluster.filled(name) for name, cluster in self.clusters.items()}
        object.__setattr__(self, "clusters", clusters)  # assignment is an error in a frozen class

    @property
    def is_personal(self) -> bool:
        """Whether the site belongs to one person and has an embedded home cluster."""
        return self.local is not None and self.local.kind is ClusterKind.EMBEDDED

    @property
    def why_no_queues(self) -> str:
        """Return the reason why the site can have no transfer queues; '' if the site can."""
        return why_no_transfer_queues_at_home(self.site.cluster, self.local.kind if self.local else None)

    @property
    def remotes(self) -> frozenset[str]:
        """The clusters to which transfer queues lead."""
        return frozenset(queue.cluster for queue in self.queues.values())

    def queues_at(self, cluster: str) -> tuple[str, ...]:
        """Return the site's transfer queues at a cluster; only the home cluster has any."""
        return tuple(self.queues) if cluster == self.site.cluster else ()

    @property
    def local(self) -> ClusterSection | None:
        """The cluster of this machine; None for a site without a batch system."""
        return self.clusters.get(self.site.cluster)
