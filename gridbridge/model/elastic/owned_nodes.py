"""The nodes that the balancer owns, as its state keeps them, and the acts due for each."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum, StrEnum

from gridbridge.model.elastic.elastic_nodes import (
    ElasticNode,
    ElasticNodeState,
    HostJoinStep,
    ProviderMachine,
    short_host_name,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancerHostClocks:
    """The wall clock and the monotonic clock of the balancer's host at one moment."""

    boot: str  # which start of the machine it is; empty: not known
    wall: datetime
    steady_s: float  # it goes on while the machine sleeps, and begins anew when it starts


class NodeStateCause(StrEnum):
    """Why a node is in its state, for instance why it was removed."""

    NONE = ""
    NOT_NEEDED = "not needed"
    RESTS = "it may rest"
    CONDENSED = "it may rest once its tasks have ended"
    MOVED = "it may rest once its tasks run elsewhere"
    DRAINED = "an administrator drained it"
    NOT_GRANTED = "its provider did not make it"
    LATER = "its provider is asked again"
    NO_CAPACITY = "its provider has no capacity"
    NOT_THERE = "its provider does not list it"
    NEVER_BOOTED = "it did not boot in time"
    NEVER_JOINED = "it did not join the cell in time"
    WRONG_HOST_KEY = "it shows another host key than its provider told"
    VANISHED = "its machine is gone"
    SILENT = "its execution daemon is silent"
    ANOTHERS = "its tag names another owner"
    DOUBLE = "another machine has its name"
    UNDER_TASKS = "somebody switched it off under tasks, which are still listed there"
    NOT_SWITCHED = "nobody switches it on and off any more"

    @property
    def is_boot_failure(self) -> bool:
        """Whether the cause counts as a boot failure, after which its pool may be paused."""
        return self in (
            NodeStateCause.NOT_THERE,
            NodeStateCause.NEVER_BOOTED,
            NodeStateCause.NEVER_JOINED,
            NodeStateCause.WRONG_HOST_KEY,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancerOwnedNode:
    """A node that the balancer owns, as its state file stores it."""

    name: str
    pool: str
    state: ElasticNodeState
    since: datetime  # it is in its state
    machine: str = ""  # its provider's id; empty: not told yet
    address: str = ""
    host_key: str = ""
    up_since: datetime | None = None
    idle_since: datetime | None = None
    step: HostJoinStep = HostJoinStep.NONE
    cause: NodeStateCause = NodeStateCause.NONE
    is_kept: bool = False  # an administrator wants it to stay

    @property
    def node(self) -> ElasticNode:
        """The node as policies see it."""
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

    def entering(
        self, state: ElasticNodeState, at: datetime, cause: NodeStateCause = NodeStateCause.NONE
    ) -> "BalancerOwnedNode":
        """Return the node in a new state since a time, with a cause or none."""
        return replace(self, state=state, since=at, cause=cause)


class AdministratorRequestKind(StrEnum):
    """What an administrator requests for a node."""

    DRAIN = "drain"  # no more tasks, and it is removed when those that run there have ended
    KEEP = "keep"  # it stays, however long it is idle
    FREE = "free"  # it may be removed again


class BalancerNodeAct(Enum):
    """What a round does with a node."""

    CREATE = "create"  # have its machine made
    JOIN = "join"  # go on making it a host of the cell
    REMOVE = "remove"  # close it, look again, and take it out if it is idle
    EVICT = "evict"  # take it out of the cell without asking it: it is dead, or never joined
    DESTROY = "destroy"  # its machine alone
    REST = "rest"  # close it, look again, and switch it off if it is idle
    WAKE = "wake"  # switch it on
    OPEN = "open"  # let tasks start there again
    STOP = "stop"  # switch it off without asking it: it did not come up


@dataclass(frozen=True, slots=True, kw_only=True)
class DueNodeAct:
    """A node's new state to store, and the act to do after that."""

    node: BalancerOwnedNode
    before: BalancerOwnedNode | None = None  # the node as it was kept; None: it is a new one
    act: BalancerNodeAct | None = None  # None: it is only kept so
    is_over: bool = False  # it is no node any more, and forgotten
    tag: str = ""  # that a host is given before it rests; empty: none

    @property
    def is_done(self) -> bool:
        """Whether an act follows or the node is forgotten, not only stored."""
        return self.act is not None or self.is_over

    @property
    def words(self) -> str:
        """The act in a few words, for the log and the journal."""
        act = self.act.value if self.act else "forget" if self.is_over else self.node.state.value
        return f"{act} {self.node.name}" + (f": {self.node.cause}" if self.node.cause else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class BusyOrSilentHostState:
    """Whether the cell reports a host as busy or silent."""

    is_busy: bool  # something runs or starts there that counts
    is_silent: bool  # its execution daemon does not report


def is_host_reporting(host: BusyOrSilentHostState | None) -> bool:
    """Say whether a host's execution daemon reports; False for an unknown host."""
    return host is not None and not host.is_silent


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancerNodesSnapshot:
    """The nodes, their providers' machines and the cell's hosts at one moment."""

    now: datetime
    cluster: str
    kept: tuple[BalancerOwnedNode, ...]
    machines: Mapping[
        str, tuple[ProviderMachine, ...]
    ]  # by pool, as its provider listed them whole
    hosts: Mapping[str, BusyOrSilentHostState] = field(
        default_factory=dict
    )  # the cell's, by short name
    pools: frozenset[str] = frozenset()  # those that are configured
    providers: Mapping[str, str] = field(default_factory=dict)  # their names, by pool
    switched: frozenset[str] = frozenset()  # of hosts that are switched on and off, never made
    released: frozenset[str] = frozenset()  # of such hosts as are not squeezed any more
    tags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # the cell's, by short name
    unlisted: Mapping[str, datetime] = field(default_factory=dict)  # nodes, since when they are
    silent: Mapping[str, datetime] = field(default_factory=dict)  # daemons of nodes, since when
    last_round: datetime | None = None  # before this one; None: there was none
    is_unready: bool = False  # too many hosts are silent: none is taken out for it
    closed: frozenset[str] = frozenset()  # queues that somebody closed on all hosts
    addresses: Mapping[str, str] = field(default_factory=dict)  # of strangers named as hosts, here

    def host_of(self, name: str) -> BusyOrSilentHostState | None:
        """Return the state of a host in the cell; None for an unknown host."""
        return self.hosts.get(short_host_name(name))

    def machine_key(self, pool: str, machine: str) -> tuple[str, str]:
        """Return a unique key of a machine: ids are unique only within a provider."""
        return self.providers.get(pool) or pool, machine


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFailureRecord:
    """The recent failures of a pool."""

    failures: int = 0  # of booting, in a row
    failed_at: datetime | None = None  # the last of them
    no_capacity_at: datetime | None = None
