"""What people are told of the balancer's nodes, and of one job or host."""

from dataclasses import dataclass
from datetime import datetime

from gridbridge.model.elastic.owned_nodes import OwnedNode, PoolFailureRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancerOverview:
    """The balancer's nodes and pools, as it keeps them."""

    nodes: tuple[OwnedNode, ...] = ()
    pools: tuple[tuple[str, PoolFailureRecord], ...] = ()
    last_round: datetime | None = None
    spent: float = 0.0  # this month
    asked: tuple[tuple[str, str], ...] = ()  # hosts, and what the next round does about them


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOrHostExplanation:
    """A job or a host, and what the balancer makes of it."""

    what: str
    is_known: bool  # the job waits, or the host is the cell's or the balancer's
    node: OwnedNode | None = None
    reason: str
    sentence: str  # of the whole plan
    unseen: tuple[str, ...] = ()  # what a round sees and this account does not
