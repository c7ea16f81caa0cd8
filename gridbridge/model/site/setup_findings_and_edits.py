"""Set-up of transfer and best-effort queues: configuration, findings, edits.

An edit names a change; batch/gridengine/qconf.py translates the edit into a command line.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf

from gridbridge.model.fixed_paths import METHODS
from gridbridge.model.qconf_attributes import QconfSettings


class FindingSeverity(StrEnum):
    """The result of one item of `gridbridge check`."""

    OK = "ok"
    NOTE = "note"  # a common weakness; counts as OK
    WARNING = "warning"
    BROKEN = "broken"


class SetupEditVerb(StrEnum):
    """The kinds of set-up edit; all but SHELL are made by commands of Grid Engine."""

    EXEMPT = "exempt from quota"
    INCLUDE = "take exemption back"
    SUSPEND = "suspend queue"
    SET_COMPLEX = "set complex"
    DROP_COMPLEX = "drop complex"
    ADD_QUEUE = "add queue"
    DROP_QUEUE = "drop queue"
    REPLACE = "replace attribute"
    MERGE = "merge into attribute"
    DROP = "drop from attribute"
    SET_HOST = "set host configuration"
    DROP_HOST = "drop host configuration"
    SET_SCHEDULER = "set scheduler"
    ADMIT = "admit"
    DISMISS = "dismiss"
    ALLOW = "put into list"
    DISALLOW = "take out of list"
    DROP_LIST = "drop list"
    ENABLE = "enable queue"
    CLEAR = "clear queue error"
    PURGE = "take value of host back"
    SHELL = "run"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupEdit:
    """One change of a set-up, in a Grid Engine cell or (empty `cell`) on this host."""

    verb: SetupEditVerb
    cell: str = ""  # cluster name in gridbridge.toml
    kind: str = ""  # object kind: queue, exechost; for ADMIT: manager, operator, submit, admin
    name: str = ""  # for SHELL: the removed object, unless a section of gridbridge.toml
    attribute: str = ""  # copied queue of ADD_QUEUE; empty: the cell's template
    value: str = ""  # ADD_QUEUE: one attribute a line; SHELL: the command line


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedSettingUndo:
    """An edit of a shared setting, and the edit that restores the former value."""

    done: SetupEdit
    undo: SetupEdit


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFinding:
    """One check item: the found value, the expected value, and correcting edits."""

    item: str
    state: FindingSeverity
    found: str
    right: str = ""
    mend: tuple[SetupEdit, ...] = ()
    # for shared settings only; gridbridge's own objects are removed by name
    undo: tuple[SharedSettingUndo, ...] = ()
    where: str = ""  # host that has to run the edits, if not this host
    hint: str = ""  # advice if no command on this host corrects the fault


@dataclass(frozen=True, slots=True, kw_only=True)
class QconfComplexRow:
    """A row of `qconf -sc` (complex(5))."""

    name: str
    shortcut: str
    type: str
    relation: str
    requestable: str = "NO"
    consumable: str = "NO"
    default: str = "0"
    urgency: str = "0"

    @property
    def row(self) -> str:
        """The complex as a line in the format of qconf(1)."""
        first = (self.name, self.shortcut, self.type, self.relation)
        return " ".join((*first, self.requestable, self.consumable, self.default, self.urgency))


@dataclass(frozen=True, slots=True, kw_only=True)
class CellQconfSettings:
    """A Grid Engine cell's configuration by qconf(1), as a set-up needs it."""

    master: str = ""
    complexes: Mapping[str, QconfComplexRow]
    queues: Mapping[str, QconfSettings]
    environments: Mapping[str, QconfSettings]  # parallel environments, sge_pe(5)
    scheduler: QconfSettings
    common: QconfSettings  # the global sge_conf(5)
    host: QconfSettings | None = None  # the transfer host's sge_conf(5); None: only the global one
    exec_hosts: Mapping[str, QconfSettings]  # host_conf(5) of the transfer host and of `global`
    operators: tuple[str, ...] = ()
    managers: tuple[str, ...] = ()
    submit_hosts: tuple[str, ...] = ()
    admin_hosts: tuple[str, ...] = ()
    host_groups: tuple[str, ...] = ()
    user_lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # members by userset

    @staticmethod
    def bare(master: str, environments: Mapping[str, QconfSettings]) -> "CellQconfSettings":
        """Return a cell set-up with only a master host and parallel environments."""
        return CellQconfSettings(
            master=master, complexes={}, queues={}, environments=environments, scheduler={}, common={}, exec_hosts={}
        )

    def effective(self, attribute: str) -> str:
        """Return an sge_conf(5) value of the transfer host, or else the global value."""
        return (self.host or {}).get(attribute, self.common.get(attribute, ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedTransferQueue:
    """The requested settings of a transfer queue."""

    home: str
    remote: str
    queue: str
    host: str
    slots: int
    pending_limit: int  # 0: no load threshold on waiting jobs
    service_account: str = "gridbridge"
    has_operators: bool = True  # False at OAR, where only root may act on others' jobs
    remote_usage: bool = True  # the epilog runs as root and accounts for the remote job at home
    far_account: str = ""  # service account at the remote host by ssh; empty: clients run here
    # home parallel environment: remote parallel environment
    renamed: Mapping[str, str] = field(default_factory=dict)
    rejected: Mapping[str, str] = field(default_factory=dict)  # parallel environment: reason
    resources: tuple[str, ...] = ()  # requestable resources of the mapping
    people: tuple[str, ...] = ()  # users with a remote account; empty: possibly all users

    @property
    def prefix(self) -> str:
        """The prefix of the remote cluster's load values (complex names take no `-`)."""
        return f"gb_{self.remote.replace('-', '_')}"

    @property
    def people_list(self) -> str:
        """The name of the userset of users with an account at the remote cluster."""
        return f"{self.prefix}_users"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningExecd:
    """A running sge_execd: its process, and the program or unit that starts it."""

    pid: int
    program: str
    unit: str = ""  # systemd unit; empty: started by hand
    age_s: float = inf


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferSetupSituation:
    """The input of set-up decisions: requested queue, both cells, execd."""

    wanted: WantedTransferQueue
    home: CellQconfSettings
    away: CellQconfSettings
    gids: frozenset[int] = frozenset()  # group ids in use on the transfer host
    execd: RunningExecd | None = None
    other_slots: int = 0  # slots of all other queues on the transfer host


def queue_runs_gridbridge_starter(queue: QconfSettings) -> bool:
    """Say whether a queue runs gridbridge's starter_method."""
    return queue.get("starter_method", "").startswith(METHODS)


@dataclass(frozen=True, slots=True, kw_only=True)
class BestEffortCellFacts:
    """A Grid Engine cell by qconf(1) and qstat(1), as best-effort queues need it."""

    complexes: Mapping[str, QconfComplexRow]
    queues: Mapping[str, QconfSettings]
    environments: Mapping[str, QconfSettings]  # parallel environments, sge_pe(5)
    quotas: Mapping[str, str] = field(default_factory=dict)  # text of each sge_resource_quota(5)
    slots: Mapping[str, Mapping[str, int]]  # by queue and host
    # consumable used by every job: hosts that offer the consumable, or `global`
    taken: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BestEffortSetupRequest:
    """A request for best-effort queues; None: gridbridge chooses the value."""

    cluster: str
    like: str | None = None  # model queue: its hosts and access lists are copied
    most: int | None = None  # most best-effort queues
