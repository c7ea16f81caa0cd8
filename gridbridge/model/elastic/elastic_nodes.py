"""Nodes that the balancer adds and removes, and their providers' machines."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, StrEnum

OWNER_TAG = "gridbridge"  # tag whose value is the cluster that owns the machine
POOL_TAG = "gridbridge-pool"  # tag whose value is the pool that the machine was created for
HOST_KEY_TAG = "gridbridge-host-key"  # tag with the ssh host key, in clouds that list no keys
MASTER_TAG = "gridbridge-master"  # tag whose value is the cluster whose qmaster runs on the machine


class ProviderMachineState(StrEnum):
    """The state of a machine in its provider's report."""

    PENDING = "pending"
    RUNNING = "running"
    STOPPED = "stopped"  # powered off; the disk remains, and a start is possible
    GONE = "gone"
    UNKNOWN = "unknown"  # unknown, or none of these states


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderMachine:
    """A machine in its provider's machine list."""

    id: str
    name: str
    state: ProviderMachineState
    address: str = ""  # IP address; empty: not known yet
    tags: Mapping[str, str] = field(default_factory=dict)
    host_key: str = ""  # ssh host key as in known_hosts, without the host; empty: unknown
    created: datetime | None = None  # time of creation; None: unknown

    def belongs_to(self, cluster: str) -> bool:
        """Say whether a cluster owns the machine, by its owner tag alone."""
        return bool(cluster) and self.tags.get(OWNER_TAG) == cluster

    @property
    def pool(self) -> str:
        """The pool that the machine was created for; empty without a pool tag."""
        return self.tags.get(POOL_TAG, "")


class HostJoinStep(StrEnum):
    """The last completed step of a host that joins its cell."""

    NONE = "nothing"
    ADMITTED = "admitted"  # the cell has the host, its resources and groups; queues disabled
    JOINED = "joined"  # the host's queues are enabled
    CLOSED = "closed"  # joined; queues that are disabled on all hosts stay disabled
    LEFT = "left"  # the host, its resources and host groups were removed


class HostRemovalResult(StrEnum):
    """The result of an attempt to remove a host from its cell."""

    REFERENCED = "still referenced"  # the cell still has the host; the next round retries
    LEFT = "left"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRemovalProgress:
    """The progress of a host's removal from its cell, and the references that delay the removal."""

    step: HostRemovalResult
    refused_by: str = ""  # the objects that refer to the host, and a command that shows them

    @classmethod
    def left(cls) -> "HostRemovalProgress":
        """Return the progress of a host that the cell no longer knows."""
        return cls(step=HostRemovalResult.LEFT)

    @classmethod
    def kept(cls, refused_by: str) -> "HostRemovalProgress":
        """Return the progress of a host whose removal the next round retries."""
        return cls(step=HostRemovalResult.REFERENCED, refused_by=refused_by)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineToJoinCell:
    """A machine that joins a cell, with the configuration of its execution host."""

    name: str
    address: str
    host_key: str = ""
    slots: int = 1
    resources: tuple[tuple[str, str], ...] = ()  # complex_values of the host
    hostgroups: tuple[str, ...] = ("@allhosts",)
    queues: tuple[str, ...] = ()  # cluster queues in which the host gets own slots; empty: none
    is_filled_last: bool = False  # the scheduler fills other hosts first
    closed: frozenset[str] = frozenset()  # queues disabled on all hosts; stay disabled on this host


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCheckBeforeRemoval:
    """The last check before a host's removal: whether the host is idle, closed and listed."""

    is_idle: bool  # no task runs, starts or is suspended and no slot is reserved, in counted queues
    is_closed: bool  # all queues of the host are disabled by hand
    is_listed: bool = True  # the cell knows the host


class ElasticNodeState(Enum):
    """The state of a node in its lifecycle."""

    REQUESTED = "requested"
    BOOTING = "booting"
    JOINING = "joining"
    READY = "ready"
    DRAINING = "draining"
    REMOVING = "removing"
    STANDBY = "standby"  # powered off, and may be powered on
    GONE = "gone"
    FAILED = "failed"

    @property
    def is_coming(self) -> bool:
        """Whether the node is requested, booting or joining the cell, and accepts no jobs yet."""
        return self in (ElasticNodeState.REQUESTED, ElasticNodeState.BOOTING, ElasticNodeState.JOINING)

    @property
    def is_leaving(self) -> bool:
        """Whether the node accepts no more jobs and is about to be removed or powered off."""
        return self in (ElasticNodeState.DRAINING, ElasticNodeState.REMOVING)

    @property
    def is_there(self) -> bool:
        """Whether the node counts among the cluster's nodes."""
        return self not in (ElasticNodeState.STANDBY, ElasticNodeState.GONE, ElasticNodeState.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticNode:
    """A node that the balancer adds and removes, in the form that balancer policies read."""

    name: str
    state: ElasticNodeState = ElasticNodeState.READY
    up_since: datetime | None = None  # start of the machine; None: unknown
    since: datetime | None = None  # start of the present state; None: unknown
    idle_since: datetime | None = None  # start of the idle time; None: busy or unknown
    pool: str = ""  # the pool that created the node
    group: str = ""  # parallel tasks stay within one group of nodes; empty: no groups
    is_kept: bool = False  # an administrator wants the node to stay
    is_unreachable: bool = False  # no provider lists the machine, or none can destroy it
    is_drained: bool = False  # an administrator wants no more tasks on the node
    failed_at: datetime | None = None  # the last failed boot; None: the last boot succeeded
    has_machine: bool = False  # a provider created a machine for the node

    @property
    def counts(self) -> bool:
        """Whether limits and budgets count the node; failed nodes cost until deleted."""
        return self.state.is_there or self.is_left_over

    @property
    def is_left_over(self) -> bool:
        """Whether the node has failed while its machine may still exist."""
        return self.state is ElasticNodeState.FAILED and self.has_machine


def short_host_name(host: str) -> str:
    """Return a host's name without its domain."""
    return host.partition(".")[0]


def is_same_host(first: str, second: str) -> bool:
    """Say whether two names mean the same host, ignoring case.

    A name without a domain matches the name in any domain, as in Grid Engine.
    """
    if first == second:
        return True
    short, _, domain = first.lower().partition(".")
    other_short, _, other_domain = second.lower().partition(".")
    return short == other_short and (domain == other_domain or not (domain and other_domain))


class NodesByHostName:
    """Nodes, found by host names with or without a domain."""

    def __init__(self, nodes: Iterable[ElasticNode]) -> None:
        self._by_short = dict[str, list[ElasticNode]]()
        for node in nodes:
            self._by_short.setdefault(short_host_name(node.name), []).append(node)

    def of_host(self, name: str) -> ElasticNode | None:
        """Return the node of a host; None for a host without a node."""
        candidates = self._by_short.get(short_host_name(name), ())
        return next((node for node in candidates if is_same_host(name, node.name)), None)
