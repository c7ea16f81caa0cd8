"""A local request that waits beside tasks of campaigns, and which of them end for it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from gridbridge.model.campaigns.crowded_cell import Amounts, HostResources, ResourceShortage


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnTask:
    """An array of a campaign, by the job that it is at its cluster."""

    campaign: int
    array: int
    ending: frozenset[int] = frozenset()  # places whose tasks are deleted already
    is_ending: bool = False  # all of them are


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptibleTask:
    """A best-effort task of a campaign that runs."""

    campaign: int
    array: int
    place: int
    host: str
    since: datetime
    amounts: Amounts = field(default_factory=dict)
    alone: frozenset[str] = frozenset()
    is_ending: bool = False  # it is being deleted


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedRequest:
    """One request, where it could start but for what is held, and by whom that is."""

    cluster: str
    asked: ResourceShortage
    places: tuple[HostResources, ...]
    free: Amounts = field(default_factory=dict)  # of the whole cluster's
    tasks: tuple[PreemptibleTask, ...]
    others: frozenset[str] = frozenset()  # hosts on which somebody else's job runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption:
    """Tasks end so that a local request can start."""

    cluster: str
    job: int
    task: int  # the first of an array that waits; 0: it is none
    host: str
    lacked: tuple[str, ...]  # resources
    tasks: tuple[PreemptibleTask, ...]


Jobs = Mapping[int, OwnTask]  # by their ids at a cluster
Request = tuple[str, int, int]  # cluster, job, task
Tried = Mapping[Request, tuple[datetime, ...]]  # when tasks ended for it
