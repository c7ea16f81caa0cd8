"""Waiting local requests, and campaign tasks preempted to free resources for a request.

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
    task: int = 0  # first waiting task of the array job; 0: no array job
    slots: int = 1  # requested slots; of a range the least number
    amounts: Amounts = field(default_factory=dict)  # requested amounts of a whole task
    # default requests, which count only where the resource exists
    defaults: Amounts = field(default_factory=dict)
    alone: frozenset[str] = frozenset()  # requested resources that need an exclusive host
    pe: str = ""  # parallel environment, possibly with wildcards
    queues: tuple[str, ...] = ()  # acceptable queues; empty: any queue
    others: Pairs = ()  # all other requested resources


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueInstanceResources:
    """A queue instance where local jobs may start now, with its free resources."""

    name: str  # name such as all.q@host
    slots: int
    free: Amounts = field(default_factory=dict)  # free amounts of the host
    own: Amounts = field(default_factory=dict)  # free amounts of the queue itself
    alone: frozenset[str] = frozenset()  # resources that make the host exclusive

    @property
    def host(self) -> str:
        """The host of the queue instance."""
        return self.name.rpartition("@")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJobWithResources:
    """A running job or task, with the resources that it holds."""

    job: int
    task: int = 0
    host: str
    since: datetime | None = None
    amounts: Amounts = field(default_factory=dict)
    alone: frozenset[str] = frozenset()  # resources that make the host exclusive to the job
    makes_way: bool = False  # whether the job is preemptible: in a best-effort queue
    is_deleting: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRequestsAndResources:
    """A cluster's waiting requests, running jobs and free resources."""

    asked: tuple[WaitingLocalRequest, ...] = ()  # waiting requests in the scheduler's order
    holders: tuple[RunningJobWithResources, ...] = ()
    places: tuple[QueueInstanceResources, ...] = ()
    free: Amounts = field(default_factory=dict)  # free amounts of the whole cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignArrayJob:
    """The campaign and array of a job at a cluster, with its tasks that are being deleted."""

    campaign: int
    array: int
    ending: frozenset[int] = frozenset()  # indices of tasks that are being deleted
    is_ending: bool = False  # whether all tasks are being deleted


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
    is_ending: bool = False  # whether the task is being deleted


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedLocalRequest:
    """A local request that could start if best-effort tasks released their resources."""

    cluster: str
    asked: WaitingLocalRequest
    places: tuple[QueueInstanceResources, ...]
    free: Amounts = field(default_factory=dict)  # free amounts of the whole cluster
    tasks: tuple[PreemptibleTask, ...]
    others: frozenset[str] = frozenset()  # hosts that also run jobs of other people


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksPreemptedForRequest:
    """Tasks that are ended so that one local request can start."""

    cluster: str
    job: int
    task: int  # first waiting task of the array job; 0: no array job
    host: str
    lacked: tuple[str, ...]  # names of the resources that the request lacked
    tasks: tuple[PreemptibleTask, ...]


ArrayJobsById = Mapping[int, CampaignArrayJob]  # campaign arrays by job id at one cluster
LocalRequestId = tuple[str, int, int]  # cluster, job, task
PreemptionHistory = Mapping[LocalRequestId, tuple[datetime, ...]]  # times at which tasks were preempted for a request
