"""Events of clusters, campaigns and tasks: what went wrong, how often, and what it bars.

Equal ones are one event that counts: a million tasks that fail alike are one line. CiGri's words
are kept for what CiGri knows.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class EventKind(StrEnum):
    """What an event is about; CiGri's classes."""

    CLUSTER = "cluster"
    CAMPAIGN = "campaign"
    TASK = "job"


class EventCode(StrEnum):
    """What happened; a closed set."""

    GET_JOBS = "GET_JOBS"  # a cluster does not tell how it is
    DROPPED = "DROPPED"  # a cluster with tasks has left gridbridge.toml; until: root wrote them off
    SUBMIT_JOB = "SUBMIT_JOB"  # a cluster takes no array of the campaign's owner now
    RUNNER_SUBMIT_ERROR = "RUNNER_SUBMIT_ERROR"  # a cluster refuses the campaign's arrays
    OWNER_UNKNOWN = "OWNER_UNKNOWN"  # nobody knows its owner's account
    NO_LEDGER = "NO_LEDGER"  # root's ledger of it can't be read, or lacks what is there
    NO_FILE = "NO_FILE"  # root can't read the campaign's file now
    SETUP_ERROR = "SETUP_ERROR"  # a cluster can't start the campaign's tasks
    BLACKLIST = "BLACKLIST"  # tasks in a row failed by themselves there
    SINK = "SINK"  # its successes there are much too short
    NO_CLUSTER = "NO_CLUSTER"  # tasks wait that none of the campaign's clusters takes
    FILE_REFUSED = "FILE_REFUSED"  # root submits nothing of the campaign's file
    RESTORED = "RESTORED"  # the state file was older than what root's ledger knows
    DISPUTED = "DISPUTED"  # records tell several ends of tasks; until: they are given up
    EXIT_ERROR = "EXIT_ERROR"  # tasks failed by themselves
    WALLTIME = "WALLTIME"  # tasks ran too long, and are not tried again
    FRAG = "FRAG"  # tasks were deleted at their cluster
    SITE_FAULT = "SITE_FAULT"  # tasks were lost with their hosts, and are not tried again
    PREEMPTED = "PREEMPTED"  # tasks lost their places too often
    NOT_STARTED = "NOT_STARTED"  # tasks that no cluster could start, and are not tried again
    EPILOG_EXIT_ERROR = "EPILOG_EXIT_ERROR"  # a campaign's epilogue failed
    RESUBMIT = "RESUBMIT"  # tasks asked too often to run again


ROOTS = (EventCode.OWNER_UNKNOWN, EventCode.NO_LEDGER)  # root acts as nobody; of deletions, too
PAUSING = (EventCode.SUBMIT_JOB, EventCode.NO_FILE, *ROOTS)
OF_SUBMISSION = (*PAUSING, EventCode.RUNNER_SUBMIT_ERROR)  # over once an array was taken
HEALING = (*OF_SUBMISSION, EventCode.SETUP_ERROR)
BARRING = (*HEALING, EventCode.BLACKLIST, EventCode.SINK)  # they close a cluster to a campaign


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignEvent:
    """One event; it is closed when it is healed, or somebody closes it."""

    number: int = 0  # 0: not yet kept
    kind: EventKind
    code: EventCode
    campaign: int = 0  # 0: of a cluster, whoever uses it
    cluster: str = ""
    exit_status: int | None = None  # with which the tasks ended
    tasks: int = 0
    first_task: int | None = None
    opened_at: datetime
    last_at: datetime
    probes: int = 0
    until: datetime | None = None  # then it is tried again; None: nothing heals it by itself
    closed_at: datetime | None = None
    host: str = ""  # where all of the tasks ran; empty: on several, or nobody knows
    why: str = ""  # in the words of who refused; empty: nobody said

    @property
    def what(self) -> tuple[EventCode, int, str, int | None]:
        """What makes it equal to another one."""
        return self.code, self.campaign, self.cluster, self.exit_status


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSuccessRecord:
    """How the tasks of a campaign fared at one cluster."""

    campaign: int
    cluster: str
    errors_in_row: int = 0  # the last tasks, that failed by themselves
    error_host: str = ""  # where all of them ran; empty: on several, or nobody knows
    successes: int = 0
    durations_s: tuple[int, ...] = ()  # of the last successes
    is_trusted: bool = False  # its owner has said that short tasks are right there
    wiped_in_row: int = 0  # tasks that nikita deleted as they waited, since one began there


@dataclass(frozen=True, slots=True, kw_only=True)
class EventChanges:
    """What becomes of the events in one cycle."""

    events: tuple[CampaignEvent, ...] = ()  # new ones, and known ones that changed
    records: tuple[ClusterSuccessRecord, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownEvents:
    """What everybody may see: the open ones, and those that were closed of late."""

    at: datetime
    events: tuple[CampaignEvent, ...] = ()
