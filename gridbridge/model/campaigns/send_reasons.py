"""The reasons why the last cycle sent a campaign's tasks to a cluster or not."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from gridbridge.model.campaigns.campaign_events import CampaignEventCode


class TaskSentOrUnsentCause(StrEnum):
    """Why tasks of a campaign were sent to a cluster or not; a closed set."""

    SENT = "sent"
    NO_ANSWER = "no_answer"
    DROPPED = "dropped"  # the cluster was removed from gridbridge.toml
    CLOSED = "closed"  # an event closes the cluster to the campaign
    PREPARING = "preparing"  # a prologue or epilogue waits or runs at the cluster
    DRAINED = "drained"  # the cluster is drained
    STRESSED = "stressed"  # the stress script is above its limit
    TRIED = "tried"  # the test campaign has sent its one task to the cluster
    MAX_JOBS = "max_jobs"  # the cluster has the JDL's max_jobs tasks already
    MAX_ARRAYS = "max_arrays"  # the cluster's limit of arrays is reached
    TOO_LARGE = "too_large"  # one task needs more slots than the cluster has
    KEPT_OFF = "kept_off"  # the remaining tasks avoid this cluster
    FULL = "full"  # too few free slots for one task
    WAITING_THERE = "waiting_there"  # free slots are kept for tasks waiting at the cluster
    JOB_RATIO = "job_ratio"  # the job ratio allows no more tasks
    ELSEWHERE = "elsewhere"  # all tasks went to other clusters
    OTHERS_FIRST = "others_first"  # free slots went to other campaigns


class CampaignPrecedenceReason(StrEnum):
    """Why other campaigns were served before a campaign."""

    TEST = "test"
    TESTS = "tests"  # the owner's tests with precedence reached their limit
    AFFINITY = "affinity"  # the cluster prefers the owners of the other campaigns
    SHARE = "share"  # the other user, project or group has less usage
    PRIORITY = "priority"
    AGE = "age"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSendExplanation:
    """Why one campaign sent tasks to one cluster or not, with the numbers of that cycle."""

    campaign: int
    cluster: str
    cause: TaskSentOrUnsentCause
    sent: int = 0  # tasks sent in that cycle
    free_slots: int = 0
    slots: int = 1  # slots of one task
    all_slots: int = 0  # slots of the cluster; 0: unknown
    listed: int = 0  # tasks of the campaign that the cluster lists
    waiting: int = 0  # waiting tasks among the listed tasks
    max_jobs: int = 0
    job_ratio: float | None = None  # tasks for each free slot; None for tests
    waiting_there: int = 0  # waiting tasks of all campaigns at the cluster
    may_wait: int = 0  # number of further tasks that may wait by the flood rate
    code: CampaignEventCode | None = None  # code of the event that closes the cluster
    until: datetime | None = None  # time of the next probe; None: the owner must close the event
    stress: float | None = None  # output of the stress script; None: no output
    stress_limit: float = 0.0
    before: tuple[int, ...] = ()  # campaigns that got the free slots
    order: CampaignPrecedenceReason | None = None  # why these campaigns came first
    own: float = 0.0  # own priority or used slot-seconds, as `order` says
    theirs: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTaskSendExplanations:
    """The send reasons of the last cycle, as every user may see them."""

    at: datetime
    # free slots of the clusters that answered
    free_slots: Mapping[str, int] = field(default_factory=dict)
    besteffort_slots: Mapping[str, int] = field(default_factory=dict)  # free for best-effort tasks
    reasons: tuple[TaskSendExplanation, ...] = ()
    stressed: tuple[str, ...] = ()  # clusters whose stress is above the limit
