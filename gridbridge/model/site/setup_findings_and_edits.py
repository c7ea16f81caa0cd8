"""Values of set-up: a cell's configuration, the findings of a check, and the edits that correct faults."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import inf

from gridbridge.model.fixed_paths import METHODS
from gridbridge.model.qconf_attribute_parser import QconfSettings


class FindingSeverity(StrEnum):
    OK = "ok"
    NOTE = "note"  # reports a common weakness, and counts as OK
    WARNING = "warning"
    BROKEN = "broken"


class CheckSubject(StrEnum):
    """The subjects by which `gridbridge check` groups its findings."""

    CONFIGURATION = "gridbridge.toml"
    HOST = "this host"
    SERVICE = "service"
    CLUSTERS = "clusters"
    QUEUES = "transfer queues"
    CAMPAIGNS = "campaigns"
    ELASTIC = "balancer"
    REBALANCE = "rebalancing"


class SetupEditVerb(StrEnum):
    """The kinds of set-up edit: first those that Grid Engine's commands make, then those of this host."""

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
    RESTART = "restart"
    WRITE_FILE = "write file"
    COPY_FILE = "copy file"
    REMOVE_FILE = "remove file"
    PUT_KEYS = "put keys"
    DROP_SECTION = "drop section"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupEdit:
    verb: SetupEditVerb
    cell: str = ""  # cluster name in gridbridge.toml; empty: this host
    kind: str = ""  # kind of object, such as queue or exechost; for ADMIT: manager, operator, submit or admin
    name: str = ""  # for files: the path; for RESTART: the program; for SHELL: what the command does, or empty
    attribute: str = ""  # for ADD_QUEUE: the queue to copy; empty: the cell's template; for WRITE_FILE: the mode
    value: str = ""  # for ADD_QUEUE: one attribute in each line; for SHELL and RESTART: the command line

    @staticmethod
    def shell_command_edit(line: str, cell: str = "") -> "SetupEdit":
        """Return the edit that runs a command line on this host, in the environment of `cell` if given."""
        return SetupEdit(verb=SetupEditVerb.SHELL, cell=cell, value=line)

    @staticmethod
    def queue_attribute_edit(verb: SetupEditVerb, cell: str, queue: str, attribute: str, value: str) -> "SetupEdit":
        return SetupEdit(verb=verb, cell=cell, kind="queue", name=queue, attribute=attribute, value=value)

    def edits_for_each_host(self, suffixes: Iterable[str]) -> "Iterator[SetupEdit]":
        """Yield the edit of a queue for each suffix to the queue's name: '', `@HOST` or `@@GROUP`."""
        return (replace(self, name=f"{self.name}{suffix}") for suffix in suffixes)


@dataclass(frozen=True, slots=True, kw_only=True)
class GridEngineObject:
    kind: str  # such as `queue` or `scheduler`
    name: str = ""  # empty: the cell has one object of this kind

    @property
    def title(self) -> str:
        return f"{self.kind} {self.name}".rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedSettingUndo:
    """An edit of a setting shared with the site, and the edit that restores the former value."""

    done: SetupEdit
    undo: SetupEdit


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFinding:
    item: str
    state: FindingSeverity
    found: str
    right: str = ""
    mend: tuple[SetupEdit, ...] = ()
    # `undo` is only for settings shared with the site; gridbridge's own objects are removed by name
    undo: tuple[SharedSettingUndo, ...] = ()
    where: str = ""  # host that has to run the edits; empty: this host
    hint: str = ""  # advice if no command on this host corrects the fault
    subject: CheckSubject = CheckSubject.HOST
    is_unanswered: bool = False  # whether the fault is a cluster without an answer

    @staticmethod
    def ok_finding(item: str, found: str) -> "CheckFinding":
        return CheckFinding(item=item, state=FindingSeverity.OK, found=found)

    @staticmethod
    def finding_by_condition(
        is_right: bool, item: str, found: str, right: str, *mend: SetupEdit, is_warning: bool = False, hint: str = ""
    ) -> "CheckFinding":
        """Return a finding without a fault if `is_right`, else a finding with correcting edits and advice."""
        make_wrong = CheckFinding.warning_finding if is_warning else CheckFinding.fault_finding
        return CheckFinding.ok_finding(item, found) if is_right else make_wrong(item, found, right, *mend, hint=hint)

    @staticmethod
    def weakness_finding(item: str, found: str, right: str = "", *mend: SetupEdit, hint: str = "") -> "CheckFinding":
        return CheckFinding(item=item, state=FindingSeverity.NOTE, found=found, right=right, mend=mend, hint=hint)

    @staticmethod
    def warning_finding(
        item: str, found: str, right: str = "", *mend: SetupEdit, where: str = "", hint: str = ""
    ) -> "CheckFinding":
        state = FindingSeverity.WARNING
        return CheckFinding(item=item, state=state, found=found, right=right, mend=mend, where=where, hint=hint)

    @staticmethod
    def fault_finding(
        item: str, found: str, right: str = "", *mend: SetupEdit, where: str = "", hint: str = ""
    ) -> "CheckFinding":
        state = FindingSeverity.BROKEN
        return CheckFinding(item=item, state=state, found=found, right=right, mend=mend, where=where, hint=hint)


def findings_about(subject: CheckSubject, findings: Iterable[CheckFinding]) -> Iterator[CheckFinding]:
    return (replace(finding, subject=subject) for finding in findings)


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
    def qconf_line(self) -> str:
        first = (self.name, self.shortcut, self.type, self.relation)
        return " ".join((*first, self.requestable, self.consumable, self.default, self.urgency))


@dataclass(frozen=True, slots=True, kw_only=True)
class CellQconfSettings:
    master: str = ""
    complexes: Mapping[str, QconfComplexRow]
    queues: Mapping[str, QconfSettings]
    environments: Mapping[str, QconfSettings]  # parallel environments, sge_pe(5)
    scheduler: QconfSettings
    common: QconfSettings  # the global configuration (sge_conf(5))
    host: QconfSettings | None = None  # the transfer host's own configuration (sge_conf(5)); None: it has none
    exec_hosts: Mapping[str, QconfSettings]  # host_conf(5) of the transfer host and of `global`
    operators: tuple[str, ...] = ()
    managers: tuple[str, ...] = ()
    submit_hosts: tuple[str, ...] = ()
    admin_hosts: tuple[str, ...] = ()
    host_groups: tuple[str, ...] = ()
    user_lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @staticmethod
    def settings_with_only_master(master: str, environments: Mapping[str, QconfSettings]) -> "CellQconfSettings":
        return CellQconfSettings(
            master=master, complexes={}, queues={}, environments=environments, scheduler={}, common={}, exec_hosts={}
        )

    def effective_sge_conf_value(self, attribute: str) -> str:
        """Return an sge_conf(5) value of the transfer host, or else the global value."""
        return (self.host or {}).get(attribute, self.common.get(attribute, ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferQueuePlan:
    home: str
    remote: str
    queue: str
    host: str
    slots: int
    pending_limit: int  # this number of waiting remote jobs closes the queue; 0: never
    service_account: str = "gridbridge"
    has_operators: bool = True  # whether the remote cluster has operators; OAR has none
    remote_usage: bool = True  # whether the epilog, as root, adds the remote job's usage to the local job
    far_account: str = ""  # service's account on the ssh host; empty: the cluster is not reached by ssh
    renamed: Mapping[str, str] = field(default_factory=dict)  # remote name of each home parallel environment
    rejected: Mapping[str, str] = field(default_factory=dict)  # unusable parallel environments, each with the reason
    resources: tuple[str, ...] = ()  # resources that [map] names and a job can request
    people: tuple[str, ...] = ()  # users with an account at the remote cluster; empty: possibly all users

    @property
    def remote_users_userset(self) -> str:
        """The name of the userset of users with an account at the remote cluster."""
        return f"gb_{self.remote.replace('-', '_')}_users"  # a name of a Grid Engine object can't contain `-`


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningExecd:
    pid: int
    program: str
    unit: str = ""  # name of the systemd unit; empty: the program was started by hand
    age_s: float = inf


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferSetupSituation:
    wanted: TransferQueuePlan
    home: CellQconfSettings
    away: CellQconfSettings
    gids: frozenset[int] = frozenset()  # group ids in use on the transfer host
    execd: RunningExecd | None = None
    other_slots: int = 0  # slots of all other queues on the transfer host


def queue_runs_gridbridge_starter(queue: QconfSettings) -> bool:
    return queue.get("starter_method", "").startswith(METHODS)


@dataclass(frozen=True, slots=True, kw_only=True)
class BestEffortCellFacts:
    complexes: Mapping[str, QconfComplexRow]
    queues: Mapping[str, QconfSettings]
    environments: Mapping[str, QconfSettings]  # parallel environments, sge_pe(5)
    quotas: Mapping[str, str] = field(default_factory=dict)  # text of each resource quota set (sge_resource_quota(5))
    slots: Mapping[str, Mapping[str, int]]  # slots of each queue on each host
    # consumables that every job uses, each with the hosts that offer the consumable, or `global`
    taken: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BestEffortSetupRequest:
    """A request for best-effort queues; gridbridge chooses values that are None."""

    cluster: str
    like: str | None = None  # model queue, whose hosts and access lists are copied
    most: int | None = None  # largest number of best-effort queues
