"""The whole configuration of a site, and section [cluster.NAME]: where a cluster is and how to reach it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from gridbridge.model.campaigns.campaign_configuration_sections import (
    CampaignFailuresSection,
    CampaignRunnerSection,
    ClusterCampaignsSection,
    LateSpeculationSection,
    MetaschedulerSection,
    NikitaSection,
    NotificationsSection,
)
from gridbridge.model.config_key_descriptions import (
    ABSOLUTE_PATH,
    API_ADDRESS,
    FAR_FOLDER,
    LOGIN_NAME,
    OBJECT_NAME,
    PATH_OR_NONE,
    SSH_PLACE,
    AccountByUser,
    setting,
)
from gridbridge.model.elastic.balancer_config_sections import (
    BalanceSection,
    DemandPolicySection,
    HostPowerSection,
    MachineBootstrapSection,
    MachineProviderSection,
    NodePoolSection,
    SqueezeSection,
)
from gridbridge.model.fixed_paths import SPOOL
from gridbridge.model.rebalance.rebalance_section import RebalanceSection, StorageAreaSection
from gridbridge.model.site.site_section import SiteSection
from gridbridge.model.transfer.transfer_config_sections import (
    BreakerSection,
    PollerSection,
    RetentionSection,
    Rules,
    TransferQueueSection,
)
from gridbridge.model.transfer_route import ACCESS

MAX_PORT = 65535
OF_DEBIAN = '"/usr/lib/gridengine", of OAR "/usr/bin"'


class ClusterKind(StrEnum):
    GRIDENGINE = "gridengine"
    OAR = "oar"
    EMBEDDED = "embedded"


def has_qmaster(kind: ClusterKind) -> bool:
    """Say whether clusters of a kind have a qmaster, and therefore the two ports of Grid Engine."""
    return "qmaster_port" in dict(ACCESS[kind].SETTINGS)


class JobEndPushKind(StrEnum):
    """The way in which a cluster reports at once that a job has ended."""

    NONE = "none"
    QEVENT = "qevent"
    OAR = "oar"


class JobClaimKind(StrEnum):
    """How home and a remote job agree which side runs a task that home may have recalled."""

    NONE = "none"
    FILE = "file"
    GRANT = "grant"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSection:
    """A section [cluster.NAME] of gridbridge.toml: where a cluster is and how to reach it."""

    kind: ClusterKind = setting(ClusterKind.GRIDENGINE, "the cluster's batch system")
    root: str = setting("/var/lib/gridengine", "the cluster's $SGE_ROOT on this host", form=ABSOLUTE_PATH)
    cell: str = setting("", "the cluster's $SGE_CELL", form=OBJECT_NAME, inherits="the cluster's name")
    qmaster_port: int = setting(0, "the cluster's $SGE_QMASTER_PORT; required for Grid Engine", "", 0, MAX_PORT)
    execd_port: int = setting(0, "the cluster's $SGE_EXECD_PORT; required for Grid Engine", "", 0, MAX_PORT)
    binaries: str = setting("", "the folder of the batch system's programs", form=ABSOLUTE_PATH, inherits=OF_DEBIAN)
    folder: str = setting("", "the folder of an embedded cluster", form=PATH_OR_NONE)
    shell: str = setting("/bin/sh", "the shell that runs each remote job's wrapper script", form=ABSOLUTE_PATH)
    command_timeout_s: float = setting(15.0, "the time limit of each command of the batch system", "s", 1, 600)
    spool_shared: bool = setting(False, "whether the cluster's hosts see the spool folder, to report ends of jobs")
    remote_spool_dir: str = setting(SPOOL, "the path of the spool folder on the cluster's hosts", form=ABSOLUTE_PATH)
    ssh: str = setting("", "the host with the cluster's commands, reached by ssh as each user", form=SSH_PLACE)
    api: str = setting("", "the address of OAR's REST interface, used instead of ssh", form=API_ADDRESS)
    api_login: str = setting("", "by api: root's file with the login that names each job's user", form=PATH_OR_NONE)
    api_reader: str = setting("", "by api: the service's file with a login for queries", form=PATH_OR_NONE)
    users: AccountByUser = setting(AccountByUser(), "by ssh or api: accounts with another name there", form=LOGIN_NAME)
    stage_dir: str = setting(".gridbridge/stage", "by ssh: the remote folder for files of staged jobs", form=FAR_FOLDER)
    accounting: str = setting("", "the cluster's accounting file, as this host sees it", form=PATH_OR_NONE)
    push: JobEndPushKind = setting(JobEndPushKind.NONE, "how the cluster reports a job's end immediately")
    push_limit_per_s: float = setting(5.0, "how many job ends push may report in a second", "1/s", 0.1, 1000)

    claim: JobClaimKind = setting(JobClaimKind.NONE, "how waiting tasks come home from an unreachable cluster")
    claim_wait_s: float = setting(600.0, "how long a started remote job waits for the grant to run", "s", 10, 86400)

    cost: float = setting(1.0, "the cost of a slot, compared with other clusters", "", 0, 1e9)

    @property
    def has_own_accounts_and_files(self) -> bool:
        """Whether the cluster, reached by ssh or its API, has other accounts and files than home."""
        return bool(self.ssh or self.api)

    def with_defaults(self, name: str) -> "ClusterSection":
        binaries = self.binaries or dict(ACCESS[self.kind].SETTINGS).get("binaries", "/usr/bin")
        return replace(self, cell=self.cell or name, binaries=binaries)


def why_no_transfer_queues_at_home(cluster: str, kind: str | None) -> str:
    """Return why the home cluster can't have transfer queues, or ''; `kind` None: no such cluster."""
    if kind in ACCESS and ACCESS[kind].CAN_BE_HOME:
        return ""
    home = f"{cluster} is of kind {kind}" if kind else f"there is no [cluster.{cluster}]"
    return f"a transfer queue needs a Grid Engine home, and {home}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The whole configuration of a site, with default values in place of empty values."""

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
    finalize: LateSpeculationSection = field(default_factory=LateSpeculationSection)
    notifications: NotificationsSection = field(default_factory=NotificationsSection)
    balance: BalanceSection = field(default_factory=BalanceSection)
    bootstrap: MachineBootstrapSection = field(default_factory=MachineBootstrapSection)
    demand: DemandPolicySection = field(default_factory=DemandPolicySection)
    squeeze: SqueezeSection = field(default_factory=SqueezeSection)
    rebalance: RebalanceSection = field(default_factory=RebalanceSection)
    storage: Mapping[str, StorageAreaSection] = field(default_factory=dict)
    pools: Mapping[str, NodePoolSection] = field(default_factory=dict)
    providers: Mapping[str, MachineProviderSection] = field(default_factory=dict)
    powered: Mapping[str, HostPowerSection] = field(default_factory=dict)
    maps: Mapping[str, Rules] = field(default_factory=dict)

    def __post_init__(self) -> None:
        clusters = {name: cluster.with_defaults(name) for name, cluster in self.clusters.items()}
        object.__setattr__(self, "clusters", clusters)  # a frozen dataclass allows no ordinary assignment

    @property
    def is_single_user_site(self) -> bool:
        """Whether the home cluster is an embedded cluster, so that the site belongs to one user."""
        return self.home_cluster_section is not None and ACCESS[self.home_cluster_section.kind].IS_OF_ONE_USER

    @property
    def why_no_transfer_queues(self) -> str:
        return why_no_transfer_queues_at_home(
            self.site.cluster, self.home_cluster_section.kind if self.home_cluster_section else None
        )

    @property
    def remote_cluster_names(self) -> frozenset[str]:
        """The names of the clusters to which transfer queues lead."""
        return frozenset(queue.cluster for queue in self.queues.values())

    def transfer_queues_of_cluster(self, cluster: str) -> tuple[str, ...]:
        """Return the names of a cluster's transfer queues; only the home cluster can have transfer queues."""
        return tuple(self.queues) if cluster == self.site.cluster else ()

    @property
    def home_cluster_section(self) -> ClusterSection | None:
        """The section of the home cluster; None if the site has no batch system."""
        return self.clusters.get(self.site.cluster)
