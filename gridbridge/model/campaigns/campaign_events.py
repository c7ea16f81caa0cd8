"""Events of clusters, campaigns and tasks, with CiGri's codes if any; equal failures share an event."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from gridbridge.model.campaigns.task_resource_usage import TaskUsageAtCluster


class CampaignEventSubject(StrEnum):
    """What an event is about: a cluster, a campaign or tasks (CiGri's classes)."""

    CLUSTER = "cluster"
    CAMPAIGN = "campaign"
    TASK = "job"


class CampaignEventCode(StrEnum):
    GET_JOBS = "GET_JOBS"  # a cluster does not answer queries
    DROPPED = "DROPPED"  # a cluster with tasks is missing in gridbridge.toml; `until` set: root declared the tasks lost
    SUBMIT_JOB = "SUBMIT_JOB"  # a cluster now accepts no array of the owner
    RUNNER_SUBMIT_ERROR = "RUNNER_SUBMIT_ERROR"  # a cluster rejects the campaign's arrays
    OWNER_UNKNOWN = "OWNER_UNKNOWN"
    NO_LEDGER = "NO_LEDGER"  # root's ledger of submitted tasks is unreadable or lacks arrays
    NO_FILE = "NO_FILE"  # root can't read the campaign's file now
    SETUP_ERROR = "SETUP_ERROR"  # a cluster can't start the campaign's tasks
    BLACKLIST = "BLACKLIST"  # several tasks in a row failed at a cluster because of their programs
    SINK = "SINK"  # tasks succeed suspiciously fast at a cluster: a black hole
    NO_CLUSTER = "NO_CLUSTER"  # some waiting tasks may run at no cluster of the campaign
    PREDECESSOR_FAILED = (
        "PREDECESSOR_FAILED"  # a campaign for which this campaign waits has failed tasks, or was cancelled
    )
    FILE_REFUSED = "FILE_REFUSED"
    RESTORED = "RESTORED"  # an older copy of the state file was restored
    DISPUTED = "DISPUTED"  # accounting records contradict each other; `until` set: the owner gave up the tasks
    EXIT_ERROR = "EXIT_ERROR"  # tasks ended with a failure status or by a signal
    WALLTIME = "WALLTIME"  # tasks overran their walltime and are not retried
    FRAG = "FRAG"  # a person deleted tasks at their cluster
    SITE_FAULT = "SITE_FAULT"  # tasks were lost with their hosts and are not retried
    PREEMPTED = "PREEMPTED"  # tasks were preempted too often and are not retried
    NOT_STARTED = "NOT_STARTED"  # no cluster could start the tasks, which are not retried
    INPUT_ERROR = "INPUT_ERROR"  # input files can't be carried to a cluster, or tasks ended because they were missing
    OUTPUT_ERROR = "OUTPUT_ERROR"  # outputs of tasks can't be brought from a cluster
    CHECKPOINT_ERROR = "CHECKPOINT_ERROR"  # checkpoints of tasks can't be carried to a cluster
    EPILOG_EXIT_ERROR = "EPILOG_EXIT_ERROR"
    WALLTIME_SHORT = "WALLTIME_SHORT"  # many of the first tasks overran their walltime
    MEMORY_SMALL = "MEMORY_SMALL"  # many of the first tasks needed more memory than requested
    RESUBMIT = "RESUBMIT"  # tasks requested too many reruns, with exit status 66 or 67


# Because of these events root can't submit or delete arrays for the owner.
ROOT_EVENTS = (CampaignEventCode.OWNER_UNKNOWN, CampaignEventCode.NO_LEDGER)
PAUSING_EVENTS = (CampaignEventCode.SUBMIT_JOB, CampaignEventCode.NO_FILE, *ROOT_EVENTS)
# These events end when the cluster accepts an array.
SUBMISSION_EVENTS = (*PAUSING_EVENTS, CampaignEventCode.RUNNER_SUBMIT_ERROR)
SELF_HEALING_EVENTS = (*SUBMISSION_EVENTS, CampaignEventCode.SETUP_ERROR)
# These events close a cluster to a campaign.
BLACKLISTING_EVENTS = (*SELF_HEALING_EVENTS, CampaignEventCode.BLACKLIST, CampaignEventCode.SINK)
# These events warn from the usage of ended tasks.
USAGE_EVENTS = (CampaignEventCode.WALLTIME_SHORT, CampaignEventCode.MEMORY_SMALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignEvent:
    """A problem of a cluster, a campaign or tasks, open until the problem ends or a person closes it."""

    number: int = 0  # 0: not yet stored
    kind: CampaignEventSubject
    code: CampaignEventCode
    campaign: int = 0  # 0: the event concerns a whole cluster
    cluster: str = ""
    exit_status: int | None = None
    tasks: int = 0
    first_task: int | None = None
    opened_at: datetime
    last_at: datetime
    probes: int = 0
    until: datetime | None = None  # time of the next retry; None: only a person closes the event
    closed_at: datetime | None = None
    host: str = ""  # host on which all counted tasks ran; empty: several hosts, or unknown
    why: str = ""

    @property
    def identity(self) -> tuple[CampaignEventCode, int, str, int | None]:
        """Code, campaign, cluster and exit status; failures with the same identity count as one event."""
        return self.code, self.campaign, self.cluster, self.exit_status


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignSuccessAtCluster:
    campaign: int
    cluster: str
    errors_in_row: int = 0  # number of tasks in a row that failed because of their programs
    error_host: str = ""  # host of all `errors_in_row`; empty: several hosts, or unknown
    successes: int = 0
    durations_s: tuple[int, ...] = ()  # run times of the last successful tasks
    is_trusted: bool = False  # the owner confirmed that short run times are correct
    wiped_in_row: int = 0  # number of waiting tasks that nikita has deleted since a task last started


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureEventsChangedInCycle:
    events: tuple[CampaignEvent, ...] = ()
    records: tuple[CampaignSuccessAtCluster, ...] = ()
    usages: tuple[TaskUsageAtCluster, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedCampaignEvents:
    """The open events and recently closed events, as published for all users."""

    at: datetime
    events: tuple[CampaignEvent, ...] = ()
