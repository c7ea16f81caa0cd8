"""The transfer host as the check sees it: files, the service's processes, clocks, versions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from gridbridge.model.states import QueueState


@dataclass(frozen=True, slots=True, kw_only=True)
class PathFacts:
    """What lstat says of a path; a symbolic link is neither folder nor file."""

    owner: int
    owner_name: str
    mode: int  # the permission bits
    is_folder: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderFreeSpace:
    """How much room the filesystem of a folder has for everybody but root."""

    free_bytes: int | None = None  # None where it can't be looked at
    free_files: int | None = None  # None where it has no such number, too
    trouble: str = ""  # why nothing could be looked at or written just now
    folders: Mapping[str, int] = field(default_factory=dict)  # of other people, by whose they are


@dataclass(frozen=True, slots=True, kw_only=True)
class RootTreeFacts:
    """What others than root could change in a folder and above it."""

    files: int  # how many were looked at
    wrong: tuple[str, ...]
    above: tuple[str, ...] = ()  # the commands that repair the folders above


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationFacts:
    """The gridbridge.toml that a living service has, next to the one that is there."""

    is_same: bool
    for_s: float = 0.0  # how long it has been in force
    refused: tuple[str, ...] = ()  # why it does not take the one that is there


@dataclass(frozen=True, slots=True, kw_only=True)
class PollerFacts:
    """The poller and what it last published."""

    is_running: bool | None  # somebody holds its lock; None when this user can't see that
    pid: int = 0  # 0 when its process was not found
    age_s: float | None = None  # of the load values; None when there are none
    last_words: str = ""  # the last line of its log
    values: frozenset[str] = frozenset()  # the names of the load values
    configuration: ConfigurationFacts | None = None  # None when no running service tells it


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """What is known of a cluster besides its set-up."""

    version: str = ""
    ahead_s: float | None = None  # its qmaster's clock before ours; None when it doesn't tell
    trouble: str = ""  # why it gave no answer
    is_shut: bool = False  # because it does not let in whoever asked
    master: str = ""
    other_port: int = 0  # where a qmaster answers on that host, though not where we ask; 0: nowhere
    slots: int | None = None  # of an OAR server; None: a cell's are its queues


@dataclass(frozen=True, slots=True, kw_only=True)
class SshKeyFacts:
    """Whether a person's key leads into their account at a cluster by ssh."""

    cluster: str
    person: str
    account: str
    trouble: str = ""  # why not


@dataclass(frozen=True, slots=True, kw_only=True)
class StageDirFacts:
    """Where carried files go at a cluster by ssh, below a folder for all accounts."""

    place: str
    host: str
    wrong: str = ""  # what lets others take an account's folder, or that nobody can have one
    mend: str = ""  # the line of that host's administrator


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferHostFacts:
    """Everything that was looked at on this host."""

    name: str
    service_uid: int  # 0: there is no such account
    is_root: bool = True  # who looked: anybody else asks by ssh as they are
    paths: Mapping[str, PathFacts]
    # of what root alone may change
    trees: Mapping[str, RootTreeFacts] = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()  # paths that the user of the check may not look at
    closed_to_others: Mapping[str, str] = field(default_factory=dict)  # path: folder in the way
    sudoers: str = ""
    import_trouble: str = ""
    room: Mapping[str, FolderFreeSpace] = field(default_factory=dict)  # by folder
    poller: PollerFacts = PollerFacts(is_running=False)
    cells: Mapping[str, ClusterFacts] = field(default_factory=dict)
    keys: tuple[SshKeyFacts, ...] = ()
    without_rsync: Mapping[str, str] = field(default_factory=dict)  # cluster: host, or empty
    stages: Mapping[str, StageDirFacts] = field(default_factory=dict)  # by cluster
    queues: Mapping[str, QueueState] = field(default_factory=dict)  # queue instance: its state


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancerCellRights:
    """Who may do what in the cell that grows."""

    name: str  # the cluster's, in gridbridge.toml
    master: str  # the host of its qmaster
    managers: tuple[str, ...]
    admin_hosts: tuple[str, ...]
    queue_order: str = ""  # queue_sort_method, sched_conf(5)
    queues: frozenset[str] = frozenset()
    host_groups: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class LastBalancerRound:
    """What the balancer published last."""

    at: datetime
    is_acting: bool
    sentence: str
    trouble: str = ""  # why it saw nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancerFacts:
    """Everything by which the balancer's set-up is judged."""

    host: str  # this one
    uid: int  # of its account; 0: there is none
    paths: Mapping[str, PathFacts] = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()  # paths that the user of the check may not look at
    sudoers: str = ""
    cron: str = ""
    has_unit: bool = False  # systemd runs it, and cron need not
    cell: BalancerCellRights | None = None  # None: the site's own cluster is not Grid Engine's
    has_fixed_nodes: bool = False  # its nodes rest and are woken, as OAR's
    may_be_root: bool | None = None  # sudo obeys the line; None: nobody but root is told
    service_may_too: bool | None = None
    last: LastBalancerRound | None = None  # None: it never did a round
