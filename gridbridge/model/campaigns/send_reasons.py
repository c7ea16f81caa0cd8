"""Why the runner's last cycle sent tasks of a campaign to a cluster, or sent none."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from gridbridge.model.campaigns.campaign_events import CampaignEventCode


class TaskSentOrUnsentCause(StrEnum):
    SENT = "sent"
    NO_ANSWER = "no_answer"
    DROPPED = "dropped"  # the cluster was removed from gridbridge.toml
    CLOSED = "closed"  # an open event closes the cluster to the campaign
    PREPARING = "preparing"  # a prologue or epilogue waits or runs at the cluster
    DRAINED = "drained"
    STRESSED = "stressed"
    NIGHT = "night"  # the walltime of the nightly tasks does not end in the present night
    TRIED = "tried"  # the test campaign has sent one task to the cluster already
    MAX_JOBS = "max_jobs"
    FIRST_TASKS = "first_tasks"  # too few of the campaign's first tasks have succeeded
    MAX_PARALLEL = "max_parallel"  # the campaign has as many tasks at clusters as its JDL allows
    FILE_SERVER = "file_server"  # the load, or a limit, of a file server allows no more tasks
    INPUTS_TRAVEL = "inputs_travel"  # half of the tasks that a file server allows wait for their input files
    MAX_ARRAYS = "max_arrays"  # the cluster accepts no more arrays
    TOO_LARGE = "too_large"  # one task needs more slots than the cluster has
    KEPT_OFF = "kept_off"  # all unsent tasks avoid the cluster, because they failed there
    FULL = "full"  # too few free slots for one task
    FIRST_CARRY = "first_carry"  # the first task's input files are being carried to the cluster, and timed
    INPUTS_ELSEWHERE = "inputs_elsewhere"  # other clusters start the tasks sooner than their input files can be carried
    WAITING_THERE = "waiting_there"  # the free slots are kept for tasks that already wait at the cluster
    JOB_RATIO = "job_ratio"  # the job ratio (tasks per free slot) allows no more tasks
    ELSEWHERE = "elsewhere"  # all tasks of the campaign went to other clusters
    OTHERS_FIRST = "others_first"  # campaigns that are served first got the free slots


class CampaignPrecedenceReason(StrEnum):
    TEST = "test"
    TESTS = "tests"  # the owner has too many test campaigns to serve all first
    AFFINITY = "affinity"  # the cluster has an affinity to the owner of the campaign served first
    SHARE = "share"  # the user, project or group of the campaign served first has less usage
    PRIORITY = "priority"
    AGE = "age"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSendExplanation:
    campaign: int
    cluster: str
    cause: TaskSentOrUnsentCause
    sent: int = 0
    jobs: int = 0  # number of jobs that run the sent tasks
    free_slots: int = 0
    slots: int = 1
    all_slots: int = 0  # slots of the cluster; 0: unknown
    listed: int = 0  # number of the campaign's tasks in the cluster's job list
    waiting: int = 0  # number of the campaign's waiting tasks in the cluster's job list
    max_jobs: int = 0
    max_parallel: int = 0
    first_tasks: int = 0
    succeeded: int = 0  # number of the campaign's tasks that have succeeded
    storage: str = ""  # storage area whose file server allows no more tasks
    load: float | None = None  # last load of the file server
    load_at: datetime | None = None  # time of the last load; None: no load was reported
    load_target: float | None = None  # None: the file server has only a fixed limit
    server_tasks: int = 0  # number of tasks of all campaigns at the file server's clusters
    server_limit: int = 0  # largest allowed number of these tasks
    job_ratio: float | None = None  # tasks for each free slot; None: test campaign
    waiting_there: int = 0  # number of tasks of all campaigns that wait at the cluster
    may_wait: int = 0  # number of additional tasks that may wait at the cluster
    code: CampaignEventCode | None = None
    until: datetime | None = None  # time of the next probe; None: the owner must close the event
    stress: float | None = None
    stress_limit: float = 0.0
    starts_from: datetime | None = None  # when nightly tasks may start next; None: no night is long enough
    starts_until: datetime | None = None
    carry_s: float = 0.0  # seconds in which the input files of one task are carried to the cluster
    before: tuple[int, ...] = ()  # numbers of the campaigns that got the free slots
    order: CampaignPrecedenceReason | None = None  # why the campaigns in `before` came first
    own: float = 0.0  # the campaign's priority or used slot-seconds, depending on `order`
    theirs: float = 0.0  # priority or usage of the campaign that was served first


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTaskSendExplanations:
    at: datetime
    free_slots: Mapping[str, int] = field(default_factory=dict)  # number of free slots, by cluster that answered
    besteffort_slots: Mapping[str, int] = field(default_factory=dict)  # free slots for best-effort tasks, by cluster
    reasons: tuple[TaskSendExplanation, ...] = ()
    stressed: tuple[str, ...] = ()
