"""Why a campaign's tasks did or did not go to a cluster in the last cycle, in numbers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from gridbridge.model.campaigns.campaign_events import EventCode


class SendCause(StrEnum):
    """Why; a closed set."""

    SENT = "sent"
    NO_ANSWER = "no_answer"
    DROPPED = "dropped"  # it has left gridbridge.toml
    CLOSED = "closed"  # an event closes the cluster to the campaign
    PREPARING = "preparing"  # its prologue or epilogue runs there, or waits
    DRAINED = "drained"  # somebody wants nothing more to be sent there
    STRESSED = "stressed"  # its stress script says that it is above its limit
    TRIED = "tried"  # a test has its task there
    MAX_JOBS = "max_jobs"  # as many of its tasks are there as its JDL allows
    MAX_ARRAYS = "max_arrays"  # its owner, or everybody, has as many arrays as the cluster takes
    TOO_LARGE = "too_large"  # the whole cluster has fewer slots than one task needs
    KEPT_OFF = "kept_off"  # the tasks that are left failed there, and wait for another cluster
    FULL = "full"  # too few free slots for one task
    WAITING_THERE = "waiting_there"  # what is free goes to tasks that wait there already
    JOB_RATIO = "job_ratio"  # as many of its tasks wait there as its job ratio sends
    ELSEWHERE = "elsewhere"  # all of its tasks went to other clusters
    OTHERS_FIRST = "others_first"  # what is free goes to other campaigns


class CampaignOrder(StrEnum):
    """Why other campaigns are served before one."""

    TEST = "test"
    TESTS = "tests"  # so many of its owner's tests come first there already
    AFFINITY = "affinity"  # the cluster runs campaigns of their owners before those of others
    SHARE = "share"  # who shares with its owner has used less
    PRIORITY = "priority"
    AGE = "age"


@dataclass(frozen=True, slots=True, kw_only=True)
class SendReason:
    """Of one campaign and one cluster."""

    campaign: int
    cluster: str
    cause: SendCause
    sent: int = 0  # tasks, in that cycle
    free_slots: int = 0
    slots: int = 1  # of one task
    all_slots: int = 0  # of the cluster; 0: not known
    listed: int = 0  # of its tasks there
    waiting: int = 0  # of those, not running yet
    max_jobs: int = 0
    job_ratio: float | None = None  # tasks for each free slot; tests have none
    waiting_there: int = 0  # tasks of all campaigns
    may_wait: int = 0  # more of them, by the flood rate
    code: EventCode | None = None  # of the event that closes it
    until: datetime | None = None  # then one task is tried; None: its owner has to close it
    stress: float | None = None  # None: the script did not tell
    stress_limit: float = 0.0
    before: tuple[int, ...] = ()  # campaigns to which what was free went
    order: CampaignOrder | None = None  # why that
    own: float = 0.0  # priority, or slot-seconds used, by `order`
    theirs: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCycle:
    """The last cycle, as everybody may see it."""

    at: datetime
    free_slots: Mapping[str, int] = field(default_factory=dict)  # of the clusters that answered
    besteffort_slots: Mapping[str, int] = field(default_factory=dict)  # free for best-effort tasks
    reasons: tuple[SendReason, ...] = ()
    stressed: tuple[str, ...] = ()  # clusters to which nothing is sent while they are
