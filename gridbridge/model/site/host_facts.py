"""The transfer host as the check sees it: files, the service's processes, clocks, versions."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gridbridge.model.states import QueueState


@dataclass(frozen=True, slots=True, kw_only=True)
class PathFacts:
    """What lstat says of a path; a symbolic link is neither folder nor file."""

    owner: int
    owner_name: str
    mode: int  # the permission bits
    is_folder: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderRoom:
    """How much room the filesystem of a folder has for everybody but root."""

    free_bytes: int | None = None  # None where it can't be looked at
    free_files: int | None = None  # None where it has no such number, too
    trouble: str = ""  # why nothing could be looked at or written just now
    folders: Mapping[str, int] = field(default_factory=dict)  # of other people, by whose they are


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeFacts:
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
class CellFacts:
    """What is known of a cluster besides its set-up."""

    version: str = ""
    ahead_s: float | None = None  # its qmaster's clock before ours; None when it doesn't tell
    trouble: str = ""  # why it gave no answer
    is_shut: bool = False  # because it does not let in whoever asked
    master: str = ""
    other_port: int = 0  # where a qmaster answers on that host, though not where we ask; 0: nowhere
    slots: int | None = None  # of an OAR server; None: a cell's are its queues


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFacts:
    """Whether a person's key leads into their account at a cluster by ssh."""

    cluster: str
    person: str
    account: str
    trouble: str = ""  # why not


@dataclass(frozen=True, slots=True, kw_only=True)
class StageFacts:
    """Where carried files go at a cluster by ssh, below a folder for all accounts."""

    place: str
    host: str
    wrong: str = ""  # what lets others take an account's folder, or that nobody can have one
    mend: str = ""  # the line of that host's administrator


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """Everything that was looked at on this host."""

    name: str
    service_uid: int  # 0: there is no such account
    is_root: bool = True  # who looked: anybody else asks by ssh as they are
    paths: Mapping[str, PathFacts]
    trees: Mapping[str, TreeFacts] = field(default_factory=dict)  # of what root alone may change
    hidden: frozenset[str] = frozenset()  # paths that the user of the check may not look at
    closed_to_others: Mapping[str, str] = field(default_factory=dict)  # path: folder in the way
    sudoers: str = ""
    import_trouble: str = ""
    room: Mapping[str, FolderRoom] = field(default_factory=dict)  # by folder
    poller: PollerFacts = PollerFacts(is_running=False)
    cells: Mapping[str, CellFacts] = field(default_factory=dict)
    keys: tuple[KeyFacts, ...] = ()
    without_rsync: Mapping[str, str] = field(default_factory=dict)  # cluster: host, or empty
    stages: Mapping[str, StageFacts] = field(default_factory=dict)  # by cluster
    queues: Mapping[str, QueueState] = field(default_factory=dict)  # queue instance: its state
