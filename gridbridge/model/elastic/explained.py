"""What people are told of the balancer's nodes, and of one job or host."""

from dataclasses import dataclass
from datetime import datetime

from gridbridge.model.elastic.owned import Owned, PoolRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The balancer's nodes and pools, as it keeps them."""

    nodes: tuple[Owned, ...] = ()
    pools: tuple[tuple[str, PoolRecord], ...] = ()
    last_round: datetime | None = None
    spent: float = 0.0  # this month
    asked: tuple[tuple[str, str], ...] = ()  # hosts, and what the next round does about them


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """A job or a host, and what the balancer makes of it."""

    what: str
    is_known: bool  # the job waits, or the host is the cell's or the balancer's
    node: Owned | None = None
    reason: str
    sentence: str  # of the whole plan
    unseen: tuple[str, ...] = ()  # what a round sees and this account does not
