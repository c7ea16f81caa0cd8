"""Facts for `gridbridge check`: files, service processes, clocks, versions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from gridbridge.model.fixed_paths import UNIT_FOLDER
from gridbridge.model.job_and_queue_states import QueueInstanceState


@dataclass(frozen=True, slots=True, kw_only=True)
class PathFacts:
    """Owner, mode and type of a path; a symlink is neither folder nor file."""

    owner: int
    owner_name: str
    mode: int
    is_folder: bool

    @property
    def owner_and_mode_text(self) -> str:
        return f"{self.owner_name}'s, mode {self.mode:04o}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderFreeSpace:
    """Free bytes and inodes of a folder's filesystem, for users other than root."""

    free_bytes: int | None = None  # None: the number could not be read
    free_files: int | None = None  # free inodes; None: unreadable, or unlimited
    trouble: str = ""
    folders: Mapping[str, int] = field(default_factory=dict)  # number of subfolders by owner, without the service's own


@dataclass(frozen=True, slots=True, kw_only=True)
class NonRootWritablePaths:
    """The paths inside and above one folder that users other than root can change."""

    files: int
    wrong: tuple[str, ...]
    above: tuple[str, ...] = ()  # commands that repair the parent folders


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceConfigurationFacts:
    is_same: bool
    for_s: float = 0.0  # seconds since the service began to use its present configuration
    refused: tuple[str, ...] = ()  # why the service rejects the file on disk; empty: the file is accepted


@dataclass(frozen=True, slots=True, kw_only=True)
class PollerProcessFacts:
    is_running: bool | None  # whether a process holds the poller's lock; None: not visible to this user
    pid: int = 0
    age_s: float | None = None  # seconds since the load values were published; None: no load values
    last_words: str = ""
    values: frozenset[str] = frozenset()  # names of the load values
    configuration: ServiceConfigurationFacts | None = None  # None: the facts are unknown, or there is no service


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    version: str = ""
    ahead_s: float | None = None  # how far the qmaster's clock is ahead of this host's clock; None: unknown
    trouble: str = ""
    is_shut: bool = False  # whether the cluster denies ssh access to the calling user
    master: str = ""
    other_port: int = 0  # port that is not in gridbridge.toml, but on which a qmaster answers; 0: none
    slots: int | None = None  # slots of an OAR server; None for a Grid Engine cell


@dataclass(frozen=True, slots=True, kw_only=True)
class SshKeyLoginFacts:
    cluster: str
    person: str
    account: str
    trouble: str = ""
    means: str = "key"  # what is tested: a user's `key`, or root's login to a REST interface


@dataclass(frozen=True, slots=True, kw_only=True)
class StageDirFacts:
    place: str
    host: str
    wrong: str = ""  # why an account's folder is insecure, or can't be made; empty: no fault
    mend: str = ""  # repair command for the host's administrator


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferHostFacts:
    name: str
    service_uid: int  # uid of the service account; 0: no such account
    is_root: bool = True  # whether root runs the check; other users test only their own ssh keys
    paths: Mapping[str, PathFacts]
    trees: Mapping[str, NonRootWritablePaths] = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()  # paths that the user running the check can't see
    closed_to_others: Mapping[str, str] = field(default_factory=dict)  # for each program: parent folder closed to users
    sudoers: str = ""
    import_trouble: str = ""
    room: Mapping[str, FolderFreeSpace] = field(default_factory=dict)
    poller: PollerProcessFacts = PollerProcessFacts(is_running=False)
    cells: Mapping[str, ClusterFacts] = field(default_factory=dict)
    keys: tuple[SshKeyLoginFacts, ...] = ()
    without_rsync: Mapping[str, str] = field(default_factory=dict)  # a cluster's ssh host if it lacks rsync, else ''
    stages: Mapping[str, StageDirFacts] = field(default_factory=dict)
    queues: Mapping[str, QueueInstanceState] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStartFacts:
    """How this host starts a capability's programs."""

    account: str  # the service account
    cron: str = ""  # text of the capability's file in /etc/cron.d
    has_cron_file: bool = False
    has_systemd: bool = False
    has_transfer_queues: bool = True
    units: Mapping[str, str] = field(default_factory=dict)  # path of each program's unit that exists
    enabled: frozenset[str] = frozenset()  # programs whose units systemd starts at boot
    shipped_units: Mapping[str, str] = field(default_factory=dict)  # texts of gridbridge's own units

    @property
    def own_or_enabled_units(self) -> tuple[str, ...]:
        """The programs with a unit of an administrator, or an enabled unit of a package."""
        return tuple(name for name, path in self.units.items() if path.startswith(UNIT_FOLDER) or name in self.enabled)


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancerCellFacts:
    name: str  # cluster name in gridbridge.toml
    master: str
    managers: tuple[str, ...]
    admin_hosts: tuple[str, ...]
    queue_order: str = ""  # queue_sort_method, sched_conf(5)
    queues: frozenset[str] = frozenset()
    host_groups: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class LastPublishedBalancerRound:
    at: datetime
    is_acting: bool
    sentence: str
    trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancerFacts:
    host: str
    uid: int  # uid of the balancer's account; 0: no such account
    paths: Mapping[str, PathFacts] = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()  # paths that the user running the check can't see
    sudoers: str = ""
    cron: str = ""
    has_unit: bool = False  # whether systemd, instead of cron, runs the balancer
    cell: BalancerCellFacts | None = None  # None: the home cluster is no Grid Engine cell
    has_fixed_nodes: bool = False  # whether idle nodes are switched off, as in OAR, instead of deleted
    may_be_root: bool | None = None  # whether sudo accepts the sudoers line; None: only root can ask sudo
    service_may_too: bool | None = None
    last: LastPublishedBalancerRound | None = None  # None: the balancer has made no round yet
