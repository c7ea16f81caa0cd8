"""The reasons why the last cycle of the runner sent a campaign's tasks to a cluster, or sent none."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from gridbridge.model.campaigns.campaign_events import CampaignEventCode


class TaskSentOrUnsentCause(StrEnum):
    """Why the last cycle sent a campaign's tasks to a cluster, or sent none."""

    SENT = "sent"
    NO_ANSWER = "no_answer"
    DROPPED = "dropped"  # the cluster was removed from gridbridge.toml
    CLOSED = "closed"  # an event closes the cluster to the campaign
    PREPARING = "preparing"  # a prologue or epilogue waits or runs at the cluster
    DRAINED = "drained"
    STRESSED = "stressed"  # the stress of the cluster is above the limit
    TRIED = "tried"  # the test campaign has sent one task to the cluster already
    MAX_JOBS = "max_jobs"  # the cluster has `max_jobs` tasks already
    MAX_ARRAYS = "max_arrays"  # the cluster accepts no more arrays
    TOO_LARGE = "too_large"  # one task needs more slots than the cluster has
    KEPT_OFF = "kept_off"  # all unsent tasks avoid the cluster
    FULL = "full"  # too few free slots for one task
    WAITING_THERE = "waiting_there"  # free slots are kept for waiting tasks
    JOB_RATIO = "job_ratio"  # the job ratio allows no more tasks
    ELSEWHERE = "elsewhere"  # all tasks went to other clusters
    OTHERS_FIRST = "others_first"  # campaigns that come first got the free slots


class CampaignPrecedenceReason(StrEnum):
    """Why a cluster serves one campaign before another campaign."""

    TEST = "test"
    TESTS = "tests"  # the owner has reached the limit of test campaigns that come first
    AFFINITY = "affinity"  # the owner of the first campaign has an affinity to the cluster
    SHARE = "share"  # the user, project or group of the first campaign has less usage
    PRIORITY = "priority"
    AGE = "age"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSendExplanation:
    """Why a campaign sent tasks to a cluster or sent none, with the numbers of the cycle that decided."""

    campaign: int
    cluster: str
    cause: TaskSentOrUnsentCause
    sent: int = 0
    free_slots: int = 0
    slots: int = 1  # slots of one task
    all_slots: int = 0  # slots of the cluster; 0: unknown
    listed: int = 0  # number of tasks in the cluster's job list
    waiting: int = 0  # number of waiting tasks in the cluster's job list
    max_jobs: int = 0
    job_ratio: float | None = None  # tasks for each free slot; None: test campaign
    waiting_there: int = 0  # number of waiting tasks of all campaigns
    may_wait: int = 0  # number of tasks that may still be sent to wait
    code: CampaignEventCode | None = None  # code of the event that closes the cluster
    until: datetime | None = None  # time of the next probe; None: the owner must close the event
    stress: float | None = None  # output of the stress script; None: no output
    stress_limit: float = 0.0
    before: tuple[int, ...] = ()  # campaigns that got the free slots
    order: CampaignPrecedenceReason | None = None  # why the campaigns of `before` came first
    own: float = 0.0  # priority or used slot-seconds of the campaign
    theirs: float = 0.0  # priority or used slot-seconds of the campaign that came first


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTaskSendExplanations:
    """The reasons why the last cycle sent or did not send tasks, as published for all users."""

    at: datetime
    free_slots: Mapping[str, int] = field(default_factory=dict)  # free slots of the clusters that answered
    besteffort_slots: Mapping[str, int] = field(default_factory=dict)  # free slots for best-effort tasks
    reasons: tuple[TaskSendExplanation, ...] = ()
    stressed: tuple[str, ...] = ()  # clusters whose stress is above the limit
