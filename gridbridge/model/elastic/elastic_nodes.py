"""Nodes that the balancer adds and removes, and their providers' machines."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, StrEnum

OWNER_TAG = "gridbridge"  # its value is the cluster that owns the machine
POOL_TAG = "gridbridge-pool"  # the pool that it was created for
HOST_KEY_TAG = "gridbridge-host-key"  # of clouds that tell no host key by themselves
MASTER_TAG = "gridbridge-master"  # its value is the cluster whose master the machine is


class ProviderMachineState(StrEnum):
    """The state of a machine as its provider reports it."""

    PENDING = "pending"
    RUNNING = "running"
    STOPPED = "stopped"  # its disk stays, and it can be started again
    GONE = "gone"
    UNKNOWN = "unknown"  # a word that no provider of ours has


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderMachine:
    """A machine as its provider lists it."""

    id: str
    name: str
    state: ProviderMachineState
    address: str = ""  # empty: not known yet
    tags: Mapping[str, str] = field(default_factory=dict)
    host_key: str = ""  # of its ssh server, as in known_hosts without the host; empty: not told
    created: datetime | None = None  # None: not told

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
    ADMITTED = "admitted"  # the cell knows the host, its resources and host groups; closed
    JOINED = "joined"  # its queues are open
    CLOSED = "closed"  # the same, but for queues that somebody closed on all hosts
    LEFT = "left"  # all of it was taken back


class HostRemovalResult(StrEnum):
    """The result of an attempt to remove a host from its cell."""

    REFERENCED = "still referenced"  # the cell has not forgotten it yet: the next round goes on
    LEFT = "left"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRemovalProgress:
    """How far a host has left its cell, and what still refers to the host."""

    step: HostRemovalResult
    refused_by: str = ""  # what keeps it there, with the command that shows it

    @classmethod
    def left(cls) -> "HostRemovalProgress":
        """Return the departure of a host that the cell no longer knows."""
        return cls(step=HostRemovalResult.LEFT)

    @classmethod
    def kept(cls, refused_by: str) -> "HostRemovalProgress":
        """Return the departure of a host that the next round tries to remove again."""
        return cls(step=HostRemovalResult.REFERENCED, refused_by=refused_by)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineToJoinCell:
    """A machine, and the host configuration that it gets in its cell."""

    name: str
    address: str
    host_key: str = ""
    slots: int = 1
    resources: tuple[tuple[str, str], ...] = ()  # complex_values of the host
    hostgroups: tuple[str, ...] = ("@allhosts",)
    queues: tuple[str, ...] = ()  # cluster queues whose slots are set there; empty: none is
    is_filled_last: bool = False  # it gets jobs when the hosts before it are full
    closed: frozenset[str] = frozenset()  # queues that somebody closed: they stay so there, too


@dataclass(frozen=True, slots=True, kw_only=True)
class HostIdleCheck:
    """Whether a host is idle, closed and known, checked again before its removal."""

    is_idle: (
        bool  # nothing runs, starts, is suspended or is reserved there, in any queue that counts
    )
    is_closed: bool  # all its queues are disabled by hand
    is_listed: bool = True  # the cell knows the host


class ElasticNodeState(Enum):
    """The state of a node in its lifecycle."""

    REQUESTED = "requested"
    BOOTING = "booting"
    JOINING = "joining"
    READY = "ready"
    DRAINING = "draining"
    REMOVING = "removing"
    STANDBY = "standby"  # powered off, and fit to be powered on
    GONE = "gone"
    FAILED = "failed"

    @property
    def is_coming(self) -> bool:
        """Whether the node is on its way into the cell and accepts no jobs yet."""
        return self in (
            ElasticNodeState.REQUESTED,
            ElasticNodeState.BOOTING,
            ElasticNodeState.JOINING,
        )

    @property
    def is_leaving(self) -> bool:
        """Whether the node accepts no more jobs and is about to leave or stand by."""
        return self in (ElasticNodeState.DRAINING, ElasticNodeState.REMOVING)

    @property
    def is_there(self) -> bool:
        """Whether the node counts among the cluster's nodes."""
        return self not in (
            ElasticNodeState.STANDBY,
            ElasticNodeState.GONE,
            ElasticNodeState.FAILED,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticNode:
    """A node that the balancer adds and removes, as policies see it."""

    name: str
    state: ElasticNodeState = ElasticNodeState.READY
    up_since: datetime | None = None  # None: nobody knows
    since: datetime | None = None  # it is in its state; None: nobody knows
    idle_since: datetime | None = None  # None: it is busy, or nobody knows
    pool: str = ""  # where it came from
    group: str = ""  # the nodes that parallel tasks may use together with it; empty: all
    is_kept: bool = False  # somebody wants it to stay
    is_unreachable: bool = False  # nobody lists its machine now, or ends it
    is_drained: bool = False  # somebody wants it to take no tasks
    failed_at: datetime | None = None  # it did not come up the last time; None: it did
    has_machine: bool = False  # its provider made one for it

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
