"""The balancer's nodes with their machines, states and due acts, for balancer policies and the state file."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum, StrEnum

OWNER_TAG = "gridbridge"  # tag whose value is the cluster that owns the machine
POOL_TAG = "gridbridge-pool"  # tag whose value is the pool that the machine was created for
HOST_KEY_TAG = "gridbridge-host-key"  # tag with the machine's ssh host key, for clouds that do not list host keys
MASTER_TAG = "gridbridge-master"  # tag whose value is the cluster whose qmaster runs on the machine


class ProviderMachineState(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    STOPPED = "stopped"  # powered off; the disk is kept, and the provider can start the machine
    GONE = "gone"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderMachine:
    id: str
    name: str
    state: ProviderMachineState
    address: str = ""  # IP address; empty: not known yet
    tags: Mapping[str, str] = field(default_factory=dict)
    host_key: str = ""  # ssh host key as in known_hosts, without the host; empty: unknown
    created: datetime | None = None

    def has_owner_tag_of_cluster(self, cluster: str) -> bool:
        return bool(cluster) and self.tags.get(OWNER_TAG) == cluster

    @property
    def pool(self) -> str:
        return self.tags.get(POOL_TAG, "")


class HostJoinStep(StrEnum):
    """The last completed step of adding a host to a cell."""

    NONE = "nothing"
    ADMITTED = "admitted"  # the cell has the host with resources and host groups; all queues of the host are disabled
    JOINED = "joined"  # the host's queues are enabled
    CLOSED = "closed"  # the host has joined, and queues that are disabled on all hosts stay disabled
    LEFT = "left"  # the host was removed, with its resources and host groups


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineToJoinCell:
    name: str
    address: str
    host_key: str = ""
    slots: int = 1
    resources: tuple[tuple[str, str], ...] = ()  # complex_values of the host
    hostgroups: tuple[str, ...] = ("@allhosts",)
    queues: tuple[str, ...] = ()  # cluster queues in which the host gets slots of its own; empty: none
    is_filled_last: bool = False
    closed: frozenset[str] = frozenset()  # queues that are disabled on all hosts, and therefore on this host


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCheckBeforeRemoval:
    is_idle: bool  # outside best-effort and transfer queues, no task runs and no slot is reserved
    is_closed: bool  # all queues of the host are disabled by hand
    is_listed: bool = True


class ElasticNodeState(Enum):
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
    def is_in_cluster_or_coming(self) -> bool:
        """Whether the node is in the cluster or on its way; False for standby, removed and failed nodes."""
        return self not in (ElasticNodeState.STANDBY, ElasticNodeState.GONE, ElasticNodeState.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticNode:
    name: str
    state: ElasticNodeState = ElasticNodeState.READY
    up_since: datetime | None = None  # time at which the machine started; None: unknown
    since: datetime | None = None
    idle_since: datetime | None = None  # start of the idle time; None: busy or unknown
    pool: str = ""
    group: str = ""  # node group; all parts of a parallel task run in one node group
    is_kept: bool = False  # an administrator forbids the node's removal
    is_unreachable: bool = False  # no provider lists the machine, or no provider can destroy the machine
    is_drained: bool = False  # an administrator has requested that no more tasks start on the node
    failed_at: datetime | None = None  # time of the last failed boot; None: the last boot succeeded
    has_machine: bool = False

    @property
    def counts_towards_limits(self) -> bool:
        """Whether limits and budgets count the node; a failed node counts until its machine is deleted."""
        return self.state.is_in_cluster_or_coming or self.is_failed_with_machine

    @property
    def is_failed_with_machine(self) -> bool:
        return self.state is ElasticNodeState.FAILED and self.has_machine


def short_host_name(host: str) -> str:
    return host.partition(".")[0]


def is_same_host(first: str, second: str) -> bool:
    """Say whether two names mean the same host; as in Grid Engine, a missing domain matches any domain."""
    if first == second:
        return True
    short, _, domain = first.lower().partition(".")
    other_short, _, other_domain = second.lower().partition(".")
    return short == other_short and (domain == other_domain or not (domain and other_domain))


class NodesByHostName:
    """An index of nodes by host name; host names may lack their domain."""

    def __init__(self, nodes: Iterable[ElasticNode]) -> None:
        self._by_short = dict[str, list[ElasticNode]]()
        for node in nodes:
            self._by_short.setdefault(short_host_name(node.name), []).append(node)

    def find_node_of_host(self, name: str) -> ElasticNode | None:
        candidates = self._by_short.get(short_host_name(name), ())
        return next((node for node in candidates if is_same_host(name, node.name)), None)


class NodeStateCause(StrEnum):
    NONE = ""
    NOT_NEEDED = "not needed"
    RESTS = "the host may go on standby"
    CONDENSED = "the host goes on standby once its tasks have ended"
    MOVED = "the host goes on standby once its tasks run on other hosts"
    DRAINED = "an administrator drained the node"
    NOT_GRANTED = "its provider did not make the machine"
    LATER = "its provider gets the request again"
    NO_CAPACITY = "its provider has no capacity"
    NOT_THERE = "its provider does not list the machine"
    NEVER_BOOTED = "its machine did not boot in time"
    NEVER_JOINED = "its machine did not join the cell in time"
    WRONG_HOST_KEY = "its machine has another host key than its provider reported"
    VANISHED = "its machine is gone"
    SILENT = "its execution daemon is silent"
    ANOTHERS = "its machine's tag names another owner"
    DOUBLE = "another machine has the node's name"
    UNDER_TASKS = "the host was switched off while it had tasks, which are still listed"
    NOT_SWITCHED = "gridbridge no longer switches the host on and off"

    @property
    def is_boot_failure(self) -> bool:
        """Whether the cause is a boot failure; several boot failures pause the node's pool."""
        return self in (
            NodeStateCause.NOT_THERE,
            NodeStateCause.NEVER_BOOTED,
            NodeStateCause.NEVER_JOINED,
            NodeStateCause.WRONG_HOST_KEY,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancerOwnedNode:
    """A node that the balancer owns, as stored in the balancer's state file."""

    name: str
    pool: str
    state: ElasticNodeState
    since: datetime
    machine: str = ""  # the provider's machine id; empty: not known yet
    address: str = ""
    host_key: str = ""
    up_since: datetime | None = None
    idle_since: datetime | None = None
    step: HostJoinStep = HostJoinStep.NONE
    cause: NodeStateCause = NodeStateCause.NONE
    is_kept: bool = False

    @property
    def as_elastic_node(self) -> ElasticNode:
        return ElasticNode(
            name=self.name,
            state=self.state,
            up_since=self.up_since,
            since=self.since,
            idle_since=self.idle_since,
            pool=self.pool,
            is_kept=self.is_kept,
            failed_at=self.since if self.cause.is_boot_failure else None,
            has_machine=bool(self.machine),
            is_drained=self.cause is NodeStateCause.DRAINED,
        )

    def with_state(
        self, state: ElasticNodeState, at: datetime, cause: NodeStateCause = NodeStateCause.NONE
    ) -> "BalancerOwnedNode":
        return replace(self, state=state, since=at, cause=cause)


class AdministratorNodeRequestKind(StrEnum):
    DRAIN = "drain"  # no new task starts; the node is removed when its tasks have ended
    KEEP = "keep"  # the node is not removed, however long it is idle
    FREE = "free"  # an earlier request to keep or drain the node is withdrawn


class BalancerNodeAct(Enum):
    CREATE = "create"
    JOIN = "join"  # add the node to the cell, in one or several rounds
    REMOVE = "remove"  # disable the node's queues; remove the node if it is still idle
    EVICT = "evict"  # remove from the cell a node that is dead or has never joined
    DESTROY = "destroy"  # destroy the node's machine, and leave the cell unchanged
    REST = "rest"  # disable the host's queues; power the host off if it is still idle
    WAKE = "wake"
    OPEN = "open"  # enable the host's queues again
    STOP = "stop"  # power off a host that failed to boot, or that is still on


@dataclass(frozen=True, slots=True, kw_only=True)
class DueNodeAct:
    """An act that is due for a node; the node's new state is stored before the act."""

    node: BalancerOwnedNode
    before: BalancerOwnedNode | None = None  # the node as stored before the round; None: new node
    act: BalancerNodeAct | None = None  # what to do with the node; None: only store the new state
    is_over: bool = False  # True: the node is deleted from the state file
    tag: str = ""  # tag that the host gets before the power-off; empty: none

    @property
    def is_act_or_deletion(self) -> bool:
        return self.act is not None or self.is_over

    @property
    def act_in_words(self) -> str:
        act = self.act.value if self.act else "forget" if self.is_over else self.node.state.value
        return f"{act} {self.node.name}" + (f": {self.node.cause}" if self.node.cause else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class BusyOrSilentHostState:
    is_busy: bool  # a task that is not best-effort runs or starts, or slots are reserved
    is_silent: bool  # the execution daemon does not report


def is_host_reporting(host: BusyOrSilentHostState | None) -> bool:
    """Say whether a host's execution daemon reports; False for an unknown host."""
    return host is not None and not host.is_silent


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancerNodesSnapshot:
    now: datetime
    cluster: str
    kept: tuple[BalancerOwnedNode, ...]
    machines: Mapping[str, tuple[ProviderMachine, ...]]  # complete machine lists, by pool
    # the cell's hosts, by short name
    hosts: Mapping[str, BusyOrSilentHostState] = field(default_factory=dict)
    pools: frozenset[str] = frozenset()  # configured pools
    providers: Mapping[str, str] = field(default_factory=dict)  # provider names, by pool
    switched: frozenset[str] = frozenset()  # pools of the site's own hosts, which are only powered on and off
    released: frozenset[str] = frozenset()  # pools of hosts that the balancer no longer powers on and off
    tags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # when each missing machine disappeared from the provider's list, by node key
    unlisted: Mapping[str, datetime] = field(default_factory=dict)
    # time at which each silent execution daemon fell silent, by key of the node or host
    silent: Mapping[str, datetime] = field(default_factory=dict)
    last_round: datetime | None = None
    is_unready: bool = False  # True: too many hosts are silent, so no silent node is removed
    closed: frozenset[str] = frozenset()  # queues that somebody disabled on all hosts
    # addresses of machines without a node, as the balancer's host resolves their names
    addresses: Mapping[str, str] = field(default_factory=dict)

    def host_state(self, name: str) -> BusyOrSilentHostState | None:
        return self.hosts.get(short_host_name(name))

    def machine_key(self, pool: str, machine: str) -> tuple[str, str]:
        """Return the provider and id of a machine; an id alone is unique only within its provider."""
        return self.providers.get(pool) or pool, machine


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFailureRecord:
    failures: int = 0  # consecutive boot failures
    failed_at: datetime | None = None
    no_capacity_at: datetime | None = None
