"""Values of `gridbridge init`: the clusters that a host shows, the questions about the site, and the answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gridbridge.model.site_configuration import ClusterKind


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonPorts:
    qmaster: int
    execd: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleCluster:
    kind: ClusterKind
    master: str
    root: str = ""
    cell: str = ""
    binaries: str = ""  # folder of the batch system's programs; empty: the default
    ports: DaemonPorts | None = None  # None: no file and no process of the host has the ports
    are_ports_guessed: bool = False  # whether the ports are those of services(5), which may be another cell's
    is_own: bool = False  # whether the host belongs to the cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class HostView:
    """What one host shows of clusters: cells whose common/act_qmaster the host reads, and OAR's `oarstat`."""

    host: str
    clusters: Mapping[str, VisibleCluster] = field(default_factory=dict)  # by proposed name of the cluster
    trouble: str = ""  # why ssh showed nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteView:
    here: HostView
    by_ssh: Mapping[str, HostView] = field(default_factory=dict)  # by name of the cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class InitAnswers:
    """Answers from options or a terminal; None: not yet answered."""

    home: str | None = None
    clusters: tuple[str, ...] | None = None  # remote clusters on this host
    ssh: Mapping[str, str] | None = None  # [ACCOUNT@]HOST[:PORT] of each cluster by ssh
    ports: Mapping[str, DaemonPorts | None] = field(default_factory=dict)  # None: the cluster is OAR
    is_spool_shared: bool | None = None


class InitQuestionKey(StrEnum):
    HOME = "--home"
    CLUSTERS = "--clusters"
    SSH = "--ssh"
    PORTS = "--ports"
    SPOOL = "--spool-shared"


@dataclass(frozen=True, slots=True, kw_only=True)
class InitQuestion:
    key: InitQuestionKey
    text: str
    default: str = ""
