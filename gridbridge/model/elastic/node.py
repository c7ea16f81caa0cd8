"""Nodes: hosts that somebody else's machine or power supply makes come and go."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum


class ElasticNodeState(Enum):
    """What a node is."""

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
        """Whether it takes no jobs yet, and soon will."""
        return self in (
            ElasticNodeState.REQUESTED,
            ElasticNodeState.BOOTING,
            ElasticNodeState.JOINING,
        )

    @property
    def is_leaving(self) -> bool:
        """Whether it takes no more jobs, and goes or rests when those that it has have ended."""
        return self in (ElasticNodeState.DRAINING, ElasticNodeState.REMOVING)

    @property
    def is_there(self) -> bool:
        """Whether it counts among a cluster's nodes."""
        return self not in (
            ElasticNodeState.STANDBY,
            ElasticNodeState.GONE,
            ElasticNodeState.FAILED,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticNode:
    """A node that the balancer owns."""

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
        """Whether limits and budgets count it: a failed one costs until its machine is gone."""
        return self.state.is_there or self.is_left_over

    @property
    def is_left_over(self) -> bool:
        """Whether it is of no use, and its machine is not known to be gone."""
        return self.state is ElasticNodeState.FAILED and self.has_machine


def short_host_name(host: str) -> str:
    """Return a host's name without its domain."""
    return host.partition(".")[0]


def is_same_host(first: str, second: str) -> bool:
    """Say whether two names mean one host; a name without a domain is that of any domain.

    The case of letters means nothing, as in Grid Engine and the name service.
    """
    if first == second:
        return True
    short, _, domain = first.lower().partition(".")
    other_short, _, other_domain = second.lower().partition(".")
    return short == other_short and (domain == other_domain or not (domain and other_domain))


class NodesByHostName:
    """Nodes by the names of hosts, which may have a domain or none; nobody changes them."""

    def __init__(self, nodes: Iterable[ElasticNode]) -> None:
        self._by_short = dict[str, list[ElasticNode]]()
        for node in nodes:
            self._by_short.setdefault(short_host_name(node.name), []).append(node)

    def of_host(self, name: str) -> ElasticNode | None:
        """Return a host's node; None for a host that has none."""
        candidates = self._by_short.get(short_host_name(name), ())
        return next((node for node in candidates if is_same_host(name, node.name)), None)
