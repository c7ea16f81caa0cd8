"""The reasons why a campaign's tasks went, or did not go, to a cluster in the last cycle."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from gridbridge.model.campaigns.campaign_events import CampaignEventCode


class TaskSendCause(StrEnum):
    """Why tasks of a campaign were sent to a cluster or not; a closed set."""

    SENT = "sent"
    NO_ANSWER = "no_answer"
    DROPPED = "dropped"  # the cluster was removed from gridbridge.toml
    CLOSED = "closed"  # an event closes the cluster to the campaign
    PREPARING = "preparing"  # a prologue or epilogue waits or runs at the cluster
    DRAINED = "drained"  # the cluster is drained
    STRESSED = "stressed"  # the stress script is above its limit
    TRIED = "tried"  # a test campaign has sent its task there
    MAX_JOBS = "max_jobs"  # the JDL's max_jobs tasks are there
    MAX_ARRAYS = "max_arrays"  # the cluster's limit of arrays is reached
    TOO_LARGE = "too_large"  # one task needs more slots than the cluster has
    KEPT_OFF = "kept_off"  # the remaining tasks avoid this cluster
    FULL = "full"  # too few free slots for one task
    WAITING_THERE = "waiting_there"  # free slots are kept for tasks that wait there
    JOB_RATIO = "job_ratio"  # the job ratio allows no more tasks
    ELSEWHERE = "elsewhere"  # all tasks went to other clusters
    OTHERS_FIRST = "others_first"  # free slots went to other campaigns


class CampaignPrecedenceReason(StrEnum):
    """Why other campaigns were served before a campaign."""

    TEST = "test"
    TESTS = "tests"  # the owner has the most tests that come first there
    AFFINITY = "affinity"  # the cluster has an affinity to the other owners
    SHARE = "share"  # the other claimant has used less
    PRIORITY = "priority"
    AGE = "age"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSendReason:
    """Why one campaign sent tasks to one cluster or not, with the numbers of that cycle."""

    campaign: int
    cluster: str
    cause: TaskSendCause
    sent: int = 0  # tasks sent in that cycle
    free_slots: int = 0
    slots: int = 1  # slots of one task
    all_slots: int = 0  # slots of the cluster; 0: unknown
    listed: int = 0  # listed tasks of the campaign there
    waiting: int = 0  # listed tasks that wait
    max_jobs: int = 0
    job_ratio: float | None = None  # tasks for each free slot; None for tests
    waiting_there: int = 0  # waiting tasks of all campaigns
    may_wait: int = 0  # further tasks that the flood rate allows to wait
    code: CampaignEventCode | None = None  # code of the event that closes the cluster
    until: datetime | None = None  # time of the next probe; None: the owner has to close the event
    stress: float | None = None  # None: no output of the stress script
    stress_limit: float = 0.0
    before: tuple[int, ...] = ()  # campaigns that got the free slots
    order: CampaignPrecedenceReason | None = None  # why these campaigns came first
    own: float = 0.0  # the campaign's priority or used slot-seconds, by `order`
    theirs: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTaskSendReasons:
    """The send reasons of the last cycle, as every user may see them."""

    at: datetime
    # free slots of the clusters that answered
    free_slots: Mapping[str, int] = field(default_factory=dict)
    besteffort_slots: Mapping[str, int] = field(default_factory=dict)  # free for best-effort tasks
    reasons: tuple[TaskSendReason, ...] = ()
    stressed: tuple[str, ...] = ()  # clusters whose stress is above the limit
