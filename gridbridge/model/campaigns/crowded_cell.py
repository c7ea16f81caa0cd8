"""A cluster where tasks that make way hold what waiting jobs lack, as its adapter shows it.

Amounts are of consumables: what a host has, such as memory, or the whole cluster, such as licences.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from gridbridge.model.request import Pairs

Amounts = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceShortage:
    """What one waiting job, or each waiting task of an array, asks for; it could start now."""

    job: int
    task: int = 0  # the first that waits; 0: it is no array
    slots: int = 1  # of a range the least
    amounts: Amounts = field(default_factory=dict)  # of one task, all its slots together
    defaults: Amounts = field(default_factory=dict)  # the same, only where there is any of it
    alone: frozenset[str] = frozenset()  # resources by which it asks for a host alone
    pe: str = ""  # its parallel environment, maybe with wildcards
    queues: tuple[str, ...] = ()  # any of them will do
    others: Pairs = ()  # all else that it asks for


@dataclass(frozen=True, slots=True, kw_only=True)
class HostResources:
    """A queue on one host in which local jobs may start now, with what is free there."""

    name: str  # all.q@host
    slots: int
    free: Amounts = field(default_factory=dict)  # of its host's
    own: Amounts = field(default_factory=dict)  # of the queue's own, which no task of others holds
    alone: frozenset[str] = frozenset()  # resources by which its host can be had alone

    @property
    def host(self) -> str:
        """The host's part of the name."""
        return self.name.rpartition("@")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceHolder:
    """A job or task that runs, and what it holds."""

    job: int
    task: int = 0
    host: str
    since: datetime | None = None
    amounts: Amounts = field(default_factory=dict)
    alone: frozenset[str] = frozenset()  # resources by which it has its host alone
    makes_way: bool = False  # for local jobs: it runs in a queue of such tasks
    is_deleting: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CrowdedCell:
    """Who waits and who runs, and what is free."""

    asked: tuple[ResourceShortage, ...] = ()  # in the order in which the scheduler looks at them
    holders: tuple[ResourceHolder, ...] = ()
    places: tuple[HostResources, ...] = ()
    free: Amounts = field(default_factory=dict)  # of the whole cluster's
