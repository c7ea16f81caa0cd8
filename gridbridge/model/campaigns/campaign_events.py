"""Events of clusters, campaigns and tasks, with CiGri's codes if CiGri knows the event.

Equal failures are counted in one event, so a million tasks that fail alike make one event.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class CampaignEventSubject(StrEnum):
    """What an event is about: a cluster, a campaign or tasks (CiGri's classes)."""

    CLUSTER = "cluster"
    CAMPAIGN = "campaign"
    TASK = "job"


class CampaignEventCode(StrEnum):
    """The kind of failure that an event reports."""

    GET_JOBS = "GET_JOBS"  # a cluster does not answer queries
    DROPPED = "DROPPED"  # a cluster missing in gridbridge.toml has tasks; with `until`: root declared the tasks lost
    SUBMIT_JOB = "SUBMIT_JOB"  # a cluster accepts no array of the owner for now
    RUNNER_SUBMIT_ERROR = "RUNNER_SUBMIT_ERROR"  # a cluster rejects the campaign's arrays
    OWNER_UNKNOWN = "OWNER_UNKNOWN"  # the owner's account does not exist
    NO_LEDGER = "NO_LEDGER"  # root's ledger of submitted tasks is unreadable or lacks arrays
    NO_FILE = "NO_FILE"  # root can't read the campaign's file for now
    SETUP_ERROR = "SETUP_ERROR"  # a cluster can't start the campaign's tasks
    BLACKLIST = "BLACKLIST"  # programs of several tasks in a row failed at a cluster
    SINK = "SINK"  # tasks succeed suspiciously fast at a cluster: a black hole
    NO_CLUSTER = "NO_CLUSTER"  # no cluster of the campaign may run the waiting tasks
    FILE_REFUSED = "FILE_REFUSED"  # root refuses the campaign's file
    RESTORED = "RESTORED"  # an older copy of the state file was restored
    DISPUTED = "DISPUTED"  # accounting records of tasks contradict each other; with `until`: tasks given up
    EXIT_ERROR = "EXIT_ERROR"  # programs of tasks ended with a failure status or by a signal
    WALLTIME = "WALLTIME"  # tasks overran their walltime and are not retried
    FRAG = "FRAG"  # a user deleted tasks at their cluster
    SITE_FAULT = "SITE_FAULT"  # tasks were lost with their hosts and are not retried
    PREEMPTED = "PREEMPTED"  # tasks were preempted too often
    NOT_STARTED = "NOT_STARTED"  # no cluster could start the tasks
    EPILOG_EXIT_ERROR = "EPILOG_EXIT_ERROR"
    RESUBMIT = "RESUBMIT"  # tasks requested too many reruns by exit status 66 or 67


# root can't submit or delete arrays for the owner
ROOT_EVENTS = (CampaignEventCode.OWNER_UNKNOWN, CampaignEventCode.NO_LEDGER)
PAUSING_EVENTS = (CampaignEventCode.SUBMIT_JOB, CampaignEventCode.NO_FILE, *ROOT_EVENTS)
# events that end when the cluster accepts an array
SUBMISSION_EVENTS = (*PAUSING_EVENTS, CampaignEventCode.RUNNER_SUBMIT_ERROR)
SELF_HEALING_EVENTS = (*SUBMISSION_EVENTS, CampaignEventCode.SETUP_ERROR)
# events that close a cluster to a campaign
BLACKLISTING_EVENTS = (*SELF_HEALING_EVENTS, CampaignEventCode.BLACKLIST, CampaignEventCode.SINK)


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignEvent:
    """A problem of a cluster, a campaign or tasks; open until the problem ends or a person closes the event."""

    number: int = 0  # number of the event; 0: not yet stored
    kind: CampaignEventSubject
    code: CampaignEventCode
    campaign: int = 0  # number of the campaign; 0: an event of a cluster
    cluster: str = ""
    exit_status: int | None = None  # exit status of the failed tasks
    tasks: int = 0
    first_task: int | None = None
    opened_at: datetime
    last_at: datetime
    probes: int = 0
    until: datetime | None = None  # time of the next retry; None: only a person closes the event
    closed_at: datetime | None = None
    host: str = ""  # host of all counted tasks; empty: several hosts or unknown
    why: str = ""  # error message; may be empty

    @property
    def identity(self) -> tuple[CampaignEventCode, int, str, int | None]:
        """The code, campaign, cluster and exit status; failures with equal values are counted in one event."""
        return self.code, self.campaign, self.cluster, self.exit_status


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignSuccessAtCluster:
    """The recent successes and failures of a campaign's tasks at one cluster."""

    campaign: int
    cluster: str
    errors_in_row: int = 0  # number of program errors in a row
    error_host: str = ""  # host of all errors in a row; empty: several hosts, or unknown
    successes: int = 0
    durations_s: tuple[int, ...] = ()  # run times of the last successful tasks
    is_trusted: bool = False  # the owner confirmed that short tasks are correct
    wiped_in_row: int = 0  # number of waiting tasks that nikita deleted since a task started


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsChangedInCycle:
    """The events and success records that a cycle changes."""

    events: tuple[CampaignEvent, ...] = ()
    records: tuple[CampaignSuccessAtCluster, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCampaignEvents:
    """The open events and recently closed events, as published for all users."""

    at: datetime
    events: tuple[CampaignEvent, ...] = ()
