"""Local requests that wait for resources of campaigns' tasks, and tasks preempted for them.

Amounts are of consumables: of a host, such as memory, or of the whole cluster, such as licences.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from gridbridge.model.job_request import Pairs

Amounts = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingLocalRequest:
    """The resources that a waiting local job, or a task of it, requests."""

    job: int
    task: int = 0  # first waiting task; 0: not an array
    slots: int = 1  # the least of a slot range
    amounts: Amounts = field(default_factory=dict)  # amounts of one task, for all of its slots
    # amounts that count only where the resource exists
    defaults: Amounts = field(default_factory=dict)
    alone: frozenset[str] = frozenset()  # resources that request an exclusive host
    pe: str = ""  # parallel environment, possibly with wildcards
    queues: tuple[str, ...] = ()  # any of these queues will do
    others: Pairs = ()  # all other requested resources


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueInstanceResources:
    """A queue instance where local jobs may start now, with its free resources."""

    name: str  # all.q@host
    slots: int
    free: Amounts = field(default_factory=dict)  # free amounts of the host
    own: Amounts = field(default_factory=dict)  # free amounts of the queue itself
    alone: frozenset[str] = frozenset()  # resources that make the host exclusive

    @property
    def host(self) -> str:
        """The host of the queue instance."""
        return self.name.rpartition("@")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceHolder:
    """A running job or task, with the resources that it holds."""

    job: int
    task: int = 0
    host: str
    since: datetime | None = None
    amounts: Amounts = field(default_factory=dict)
    alone: frozenset[str] = frozenset()  # resources by which the job has its host exclusively
    makes_way: bool = False  # preemptible: runs in a best-effort queue
    is_deleting: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRequestsAndResources:
    """A cluster's waiting requests, running jobs and free resources, as its adapter shows them."""

    asked: tuple[WaitingLocalRequest, ...] = ()  # in the scheduler's order
    holders: tuple[ResourceHolder, ...] = ()
    places: tuple[QueueInstanceResources, ...] = ()
    free: Amounts = field(default_factory=dict)  # free amounts of the whole cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignArrayJob:
    """The campaign and array of a job at a cluster, with its tasks that are being deleted."""

    campaign: int
    array: int
    ending: frozenset[int] = frozenset()  # indices of tasks that are being deleted
    is_ending: bool = False  # all tasks are being deleted


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptibleTask:
    """A running best-effort task of a campaign, with the resources that it holds."""

    campaign: int
    array: int
    place: int
    host: str
    since: datetime
    amounts: Amounts = field(default_factory=dict)
    alone: frozenset[str] = frozenset()
    is_ending: bool = False  # the task is being deleted


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedLocalRequest:
    """A local request that could start if best-effort tasks released their resources."""

    cluster: str
    asked: WaitingLocalRequest
    places: tuple[QueueInstanceResources, ...]
    free: Amounts = field(default_factory=dict)  # free amounts of the whole cluster
    tasks: tuple[PreemptibleTask, ...]
    others: frozenset[str] = frozenset()  # hosts with other people's jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptedTasks:
    """Tasks that are ended so that one local request can start."""

    cluster: str
    job: int
    task: int  # first waiting task; 0: not an array
    host: str
    lacked: tuple[str, ...]  # resources that the request lacked
    tasks: tuple[PreemptibleTask, ...]


ArrayJobsById = Mapping[int, CampaignArrayJob]  # by job id at a cluster
LocalRequestId = tuple[str, int, int]  # cluster, job, task
PreemptionHistory = Mapping[
    LocalRequestId, tuple[datetime, ...]
]  # times at which tasks were preempted for a request
