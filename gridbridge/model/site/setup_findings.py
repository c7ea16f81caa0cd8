"""What a set-up consists of: configuration that was found, findings about it, and edits.

An edit says what to change; batch/gridengine/qconf.py knows which command line does it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf

from gridbridge.model.places import METHODS
from gridbridge.model.qconf_attributes import QconfSettings


class FindingState(StrEnum):
    """The result of an item of the check."""

    OK = "ok"
    NOTE = "note"  # could be better, as at most sites; counts as right
    WARNING = "warning"
    BROKEN = "broken"


class EditVerb(StrEnum):
    """The kinds of change; all but SHELL are qconf(1)'s."""

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
    """One change, in a cell or (cell empty) on this host."""

    verb: EditVerb
    cell: str = ""  # the cluster's name in gridbridge.toml
    kind: str = ""  # of object: queue, exechost; manager, operator, submit, admin for ADMIT
    name: str = ""  # for SHELL what it takes away, if that is no section of gridbridge.toml
    attribute: str = ""  # for ADD_QUEUE the queue that is copied, empty: the cell's template
    value: str = ""  # for ADD_QUEUE a line each; for SHELL the command line


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedSettingUndo:
    """How to give a shared setting its former value, once nothing needs ours any more."""

    done: SetupEdit
    undo: SetupEdit


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFinding:
    """One item: what was found, what would be right, and what corrects it."""

    item: str
    state: FindingState
    found: str
    right: str = ""
    mend: tuple[SetupEdit, ...] = ()
    # of shared settings only; our own things are known by name
    undo: tuple[SharedSettingUndo, ...] = ()
    where: str = ""  # the host to run it on, when this one may not
    hint: str = ""  # what to do when no command of this host can mend it


@dataclass(frozen=True, slots=True, kw_only=True)
class ComplexRow:
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
        """The row as qconf reads it."""
        first = (self.name, self.shortcut, self.type, self.relation)
        return " ".join((*first, self.requestable, self.consumable, self.default, self.urgency))


@dataclass(frozen=True, slots=True, kw_only=True)
class CellSetup:
    """What a cell's qconf shows of everything that a set-up touches."""

    master: str = ""
    complexes: Mapping[str, ComplexRow]
    queues: Mapping[str, QconfSettings]
    environments: Mapping[str, QconfSettings]  # parallel ones, sge_pe(5)
    scheduler: QconfSettings
    common: QconfSettings  # the global sge_conf(5)
    host: QconfSettings | None = None  # that of the transfer host; None: it has none of its own
    exec_hosts: Mapping[str, QconfSettings]  # host_conf(5) of the transfer host and of `global`
    operators: tuple[str, ...] = ()
    managers: tuple[str, ...] = ()
    submit_hosts: tuple[str, ...] = ()
    admin_hosts: tuple[str, ...] = ()
    host_groups: tuple[str, ...] = ()
    user_lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # ours: who is in each

    @staticmethod
    def bare(master: str, environments: Mapping[str, QconfSettings]) -> "CellSetup":
        """Return a cluster of which nothing else counts."""
        return CellSetup(
            master=master,
            complexes={},
            queues={},
            environments=environments,
            scheduler={},
            common={},
            exec_hosts={},
        )

    def effective(self, attribute: str) -> str:
        """Return a configuration value as the transfer host has it."""
        return (self.host or {}).get(attribute, self.common.get(attribute, ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferQueueSetup:
    """The transfer queue that should be."""

    home: str
    remote: str
    queue: str
    host: str
    slots: int
    pending_limit: int  # 0: no threshold, for short jobs
    service_account: str = "gridbridge"
    has_operators: bool = True  # the remote cluster's: at OAR only root may act on others' jobs
    remote_usage: bool = True  # the epilog is root's, and accounts for the remote job here
    far_account: str = ""  # the service's there, by ssh; empty: the remote clients run here
    # parallel environments, by the mapping
    renamed: Mapping[str, str] = field(default_factory=dict)
    rejected: Mapping[str, str] = field(default_factory=dict)  # refused by the mapping: why
    resources: tuple[str, ...] = ()  # resources in the mapping that a job may ask for
    people: tuple[str, ...] = ()  # who has an account there; empty: everybody may have

    @property
    def prefix(self) -> str:
        """How the remote cluster's load values begin (complex names take no `-`)."""
        return f"gb_{self.remote.replace('-', '_')}"

    @property
    def people_list(self) -> str:
        """The name of the userset of people who have an account there."""
        return f"{self.prefix}_users"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningExecd:
    """A running sge_execd, and how it is started again."""

    pid: int
    program: str
    unit: str = ""  # of systemd; empty when it was started by hand
    age_s: float = inf


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferSetupSituation:
    """Everything a set-up decision is made from."""

    wanted: TransferQueueSetup
    home: CellSetup
    away: CellSetup
    gids: frozenset[int] = frozenset()  # of groups that exist on the transfer host
    execd: RunningExecd | None = None
    other_slots: int = 0  # of all other queues on the transfer host


def runs_own_starter(queue: QconfSettings) -> bool:
    """Whether a queue runs our starter."""
    return queue.get("starter_method", "").startswith(METHODS)


@dataclass(frozen=True, slots=True, kw_only=True)
class BestEffortCell:
    """A cell as its qconf and qstat show it."""

    complexes: Mapping[str, ComplexRow]
    queues: Mapping[str, QconfSettings]
    environments: Mapping[str, QconfSettings]  # parallel ones, sge_pe(5)
    quotas: Mapping[str, str] = field(default_factory=dict)  # each sge_resource_quota(5)'s text
    slots: Mapping[str, Mapping[str, int]]  # of each queue, by host
    # consumables that each job takes of, whatever its queue: the hosts that have them, or `global`
    taken: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BestEffortRequest:
    """What is asked for; None: choose."""

    cluster: str
    like: str | None = None  # the queue whose hosts and access they have
    most: int | None = None  # best-effort queues
