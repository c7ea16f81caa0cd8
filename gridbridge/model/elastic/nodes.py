"""Nodes: hosts that somebody else's machine or power supply makes come and go."""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum


class NodeState(Enum):
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
        return self in (NodeState.REQUESTED, NodeState.BOOTING, NodeState.JOINING)

    @property
    def is_there(self) -> bool:
        """Whether it counts among a cluster's nodes."""
        return self not in (NodeState.STANDBY, NodeState.GONE, NodeState.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node that the balancer owns."""

    name: str
    state: NodeState = NodeState.READY
    up_since: datetime | None = None  # None: nobody knows
    since: datetime | None = None  # it is in its state; None: nobody knows
    idle_since: datetime | None = None  # None: it is busy, or nobody knows
    pool: str = ""  # where it came from
    group: str = ""  # the nodes that parallel tasks may use together with it; empty: all
    is_kept: bool = False  # somebody wants it to stay


def is_same_host(one: str, other: str) -> bool:
    """Say whether two names mean one host; a name without a domain is that of any domain."""
    if one == other:
        return True
    short, _, domain = one.partition(".")
    other_short, _, other_domain = other.partition(".")
    return short == other_short and not (domain and other_domain)
