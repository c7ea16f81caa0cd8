"""Everything that gridbridge.toml can say: names, defaults, units, meanings and limits.

A section of the file is a class here and a key is a field. `model.settings.describe` gives what
else is known of a key, so that the reader, the shipped sample and docs/configuration.md all say
the same. The sections of a cluster are in model.cluster, those of a mapping in model.rules.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gridbridge.model.cluster import Cluster, Kind
from gridbridge.model.settings import (
    ACCOUNT,
    ASKED,
    CLUSTER_NAME,
    OAR_QUEUE,
    OAR_TYPES,
    STAGED_IN,
    STAGED_OUT,
    STATE_URL,
    setting,
)
from gridbridge.model.transfer.rules import Rules
from gridbridge.model.users import Asks

PATH = "/etc/gridbridge/gridbridge.toml"
MAX_UID = 2**32 - 2  # the last one but the kernel's "no such uid", (uid_t)-1
MAX_SLOTS = 9_999_999  # sge_pe(5), slots


class LogLevel(StrEnum):
    """The least important lines that are logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What holds for this machine and its cluster."""

    cluster: str = field(
        metadata=setting(
            "the local cluster, a [cluster.NAME] below; no other site has this name",
            form=CLUSTER_NAME,
        )
    )
    service_account: str = field(
        default="gridbridge",
        metadata=setting("the account that runs the service, never root", form=ACCOUNT),
    )
    state: str = field(
        default="sqlite:////var/lib/gridbridge/state.db",
        metadata=setting("the state file, or a PostgreSQL database", form=STATE_URL),
    )
    min_uid: int = field(
        default=1000,
        metadata=setting("nothing is done as a uid below this one", low=1, high=MAX_UID),
    )
    log_level: LogLevel = field(
        default=LogLevel.INFO, metadata=setting("the least important lines that are logged")
    )


class Identity(StrEnum):
    """Whose number of a job its JOB_ID is."""

    HOME = "home"
    REMOTE = "remote"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferQueue:
    """A local queue whose jobs run on another cluster."""

    cluster: str = field(
        metadata=setting("the remote cluster that runs its jobs", form=CLUSTER_NAME)
    )
    pending_limit: int = field(
        metadata=setting(
            "the queue closes while so many jobs wait there; 0: never, for short jobs",
            unit="jobs",
            low=0,
            high=MAX_SLOTS,
        )
    )
    slots: int = field(
        metadata=setting(
            "the queue's slots, as setup writes them", unit="slots", low=1, high=MAX_SLOTS
        )
    )
    asks: Asks = field(
        default_factory=Asks,
        metadata=setting("what its jobs ask for unless they do so themselves", form=ASKED),
    )
    oar_queue: str = field(
        default="",
        metadata=setting("of OAR: the queue of jobs that ask for none there", form=OAR_QUEUE),
    )
    oar_type: str = field(
        default="",
        metadata=setting("of OAR: the types of its jobs, as oarsub -t takes them", form=OAR_TYPES),
    )
    remote_usage: bool = field(
        default=True,
        metadata=setting("an epilog, run as root, puts the remote usage into the local accounting"),
    )
    identity: Identity = field(
        default=Identity.HOME,
        metadata=setting(
            "which number a job's JOB_ID is: the one at home, or the one it has there"
        ),
    )
    staged: bool = field(
        default=True,
        metadata=setting("by ssh: standard output and error of every job come home"),
    )
    stage_in: str = field(
        default="",
        metadata=setting("by ssh: carried there for a job that declares nothing", form=STAGED_IN),
    )
    stage_out: str = field(
        default="",
        metadata=setting("by ssh: carried home for a job that declares nothing", form=STAGED_OUT),
    )
    recall_wait_s: float = field(
        default=600.0,
        metadata=setting(
            "a task that waited so long there comes home to free slots; 0: none does",
            unit="s",
            low=0,
            high=31_536_000,
        ),
    )
    recall_limit: int = field(
        default=2,
        metadata=setting(
            "so often a task is recalled; then it stays there", unit="recalls", low=1, high=100
        ),
    )
    recall_unreachable_s: float = field(
        default=300.0,
        metadata=setting(
            "with a claim: what waits at a cluster that is silent for so long comes home",
            unit="s",
            low=10,
            high=31_536_000,
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Poller:
    """The one process that asks remote clusters."""

    interval_s: float = field(
        default=5.0,
        metadata=setting(
            "the shortest time between two queries of a cluster", unit="s", low=5, high=3600
        ),
    )
    query_share: float = field(
        default=0.05,
        metadata=setting(
            "queries take at most this share of the time, or every stale_s / 2",
            low=0.001,
            high=1,
        ),
    )
    spool_interval_s: float = field(
        default=0.5,
        metadata=setting("the time between two looks at the spool", unit="s", low=0.1, high=60),
    )
    stale_s: float = field(
        default=30.0,
        metadata=setting(
            "published values older than this close the queues; above interval_s",
            unit="s",
            low=5,
            high=86400,
        ),
    )
    lost_polls: int = field(
        default=2,
        metadata=setting(
            "good answers in a row without a job before its end is looked up",
            unit="answers",
            low=1,
            high=100,
        ),
    )
    ended_lookup_s: float = field(
        default=600.0,
        metadata=setting(
            "how long the accounting record of a lost job is awaited", unit="s", low=1, high=86400
        ),
    )
    vocabulary_s: float = field(
        default=60.0,
        metadata=setting(
            "the time between two looks at a cluster's resources, projects and queues",
            unit="s",
            low=5,
            high=86400,
        ),
    )
    spool_files_per_uid: int = field(
        default=2000,
        metadata=setting(
            "messages that one user may have in the spool", unit="files", low=1, high=1_000_000
        ),
    )
    keep_closed_h: float = field(
        default=24.0,
        metadata=setting("how long a finished transfer is remembered", unit="h", low=0, high=8760),
    )
    breaker_failures: int = field(
        default=5,
        metadata=setting(
            "so many jobs in a row that fail fast at a cluster close the queues to it",
            unit="jobs",
            low=1,
            high=1_000_000,
        ),
    )
    breaker_fast_s: float = field(
        default=60.0,
        metadata=setting(
            "a job that failed within this time of its transfer's begin failed fast",
            unit="s",
            low=1,
            high=3600,
        ),
    )
    breaker_pause_s: float = field(
        default=60.0,
        metadata=setting(
            "how long they are closed at first; each failure after that doubles it",
            unit="s",
            low=1,
            high=86400,
        ),
    )
    breaker_pause_max_s: float = field(
        default=3600.0,
        metadata=setting("how long they are closed at most", unit="s", low=1, high=86400),
    )
    keep_accounting_d: float = field(
        default=400.0,
        metadata=setting("how long a remote job's usage is kept", unit="d", low=1, high=36500),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The whole configuration; every inherited value is in its place."""

    site: Site
    clusters: Mapping[str, Cluster]
    queues: Mapping[str, TransferQueue]
    poller: Poller = field(default_factory=Poller)
    maps: Mapping[str, Rules] = field(default_factory=dict)

    def __post_init__(self) -> None:
        clusters = {name: cluster.filled(name) for name, cluster in self.clusters.items()}
        object.__setattr__(self, "clusters", clusters)  # frozen for everybody else

    @property
    def is_embedded(self) -> bool:
        """Whether all of it is one person's: embedded clusters, and so a service without rights."""
        return self.local.kind is Kind.EMBEDDED

    @property
    def remotes(self) -> frozenset[str]:
        """The clusters to which transfer queues lead."""
        return frozenset(queue.cluster for queue in self.queues.values())

    @property
    def local(self) -> Cluster:
        """The cluster that this machine belongs to."""
        return self.clusters[self.site.cluster]
