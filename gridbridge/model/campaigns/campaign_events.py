"""Events of clusters, campaigns and tasks: failures, their counts and closed clusters.

Equal failures are counted in one event, so a million tasks that fail alike are one line. Event
codes that CiGri also has bear CiGri's names.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class CampaignEventSubject(StrEnum):
    """The subject of an event: cluster, campaign or tasks (CiGri's classes)."""

    CLUSTER = "cluster"
    CAMPAIGN = "campaign"
    TASK = "job"


class CampaignEventCode(StrEnum):
    """The failure that an event reports; a closed set."""

    GET_JOBS = "GET_JOBS"  # a cluster does not answer queries
    DROPPED = "DROPPED"  # a removed cluster has tasks; `until` set: root wrote the tasks off
    SUBMIT_JOB = "SUBMIT_JOB"  # a cluster temporarily accepts no array of the owner
    RUNNER_SUBMIT_ERROR = "RUNNER_SUBMIT_ERROR"  # a cluster rejects the campaign's arrays
    OWNER_UNKNOWN = "OWNER_UNKNOWN"  # the owner's account does not exist
    NO_LEDGER = "NO_LEDGER"  # root's ledger can't be read or lacks arrays that the cluster has
    NO_FILE = "NO_FILE"  # root temporarily can't read the campaign's file
    SETUP_ERROR = "SETUP_ERROR"  # a cluster can't start the campaign's tasks
    BLACKLIST = "BLACKLIST"  # programs of several tasks in a row failed at a cluster
    SINK = "SINK"  # tasks succeed suspiciously fast at a cluster: a black hole
    NO_CLUSTER = "NO_CLUSTER"  # none of the campaign's clusters may run the waiting tasks
    FILE_REFUSED = "FILE_REFUSED"  # root refuses the campaign's file
    RESTORED = "RESTORED"  # the state file was older than root's ledger
    DISPUTED = "DISPUTED"  # accounting records of tasks conflict; `until` set: tasks given up
    EXIT_ERROR = "EXIT_ERROR"  # programs of tasks failed by exit status or signal
    WALLTIME = "WALLTIME"  # tasks overran their walltime and are not retried
    FRAG = "FRAG"  # a user deleted tasks at their cluster
    SITE_FAULT = "SITE_FAULT"  # tasks were lost with their hosts and are not retried
    PREEMPTED = "PREEMPTED"  # tasks were preempted too often
    NOT_STARTED = "NOT_STARTED"  # no cluster could start these tasks; they are not retried
    EPILOG_EXIT_ERROR = "EPILOG_EXIT_ERROR"  # a campaign's epilogue failed
    RESUBMIT = "RESUBMIT"  # tasks requested too many reruns by exit status 66 or 67


ROOT_EVENTS = (
    CampaignEventCode.OWNER_UNKNOWN,
    CampaignEventCode.NO_LEDGER,
)  # root can neither submit nor delete arrays as the owner
PAUSING_EVENTS = (CampaignEventCode.SUBMIT_JOB, CampaignEventCode.NO_FILE, *ROOT_EVENTS)
SUBMISSION_EVENTS = (
    *PAUSING_EVENTS,
    CampaignEventCode.RUNNER_SUBMIT_ERROR,
)  # these events end when the cluster accepts an array
SELF_HEALING_EVENTS = (*SUBMISSION_EVENTS, CampaignEventCode.SETUP_ERROR)
BLACKLISTING_EVENTS = (
    *SELF_HEALING_EVENTS,
    CampaignEventCode.BLACKLIST,
    CampaignEventCode.SINK,
)  # these events close a cluster to a campaign


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignEvent:
    """An event of a cluster, campaign or tasks; open until its cause ends or a person closes it."""

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
    why: str = ""  # error message of the program that refused; empty: none

    @property
    def what(self) -> tuple[CampaignEventCode, int, str, int | None]:
        """The key by which equal failures are counted in one event."""
        return self.code, self.campaign, self.cluster, self.exit_status


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignSuccessAtCluster:
    """Counts of a campaign's recent successes and failures at one cluster."""

    campaign: int
    cluster: str
    errors_in_row: int = 0  # consecutive program errors up to now
    error_host: str = ""  # host of all these errors; empty: several hosts or unknown
    successes: int = 0
    durations_s: tuple[int, ...] = ()  # run times of the last successes
    is_trusted: bool = False  # whether the owner confirmed that short tasks are correct
    wiped_in_row: int = 0  # waiting tasks that nikita deleted since the last task start


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignEventChanges:
    """Events and success records that one cycle changes."""

    events: tuple[CampaignEvent, ...] = ()  # new and changed events
    records: tuple[CampaignSuccessAtCluster, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCampaignEvents:
    """The open events and the recently closed ones, as all users may see them."""

    at: datetime
    events: tuple[CampaignEvent, ...] = ()
