"""Contents of the JSON files that the service publishes for all users, and reports made from the files.

The files contain no more than qstat shows: no arguments and no environment of a job.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from gridbridge.model.job_and_queue_states import JobState, QueueInstanceState
from gridbridge.model.jobs_and_accounting import RemoteJobRunAccounting


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTransfer:
    """A transfer, as published for all users; unknown values are empty or None."""

    transfer: str  # name: gb.<cluster>.<job>.<task>.<attempt>
    owner: str
    queue: str
    remote: str
    remote_id: int | None = None
    phase: str
    desired: str = ""
    local_state: str = ""  # state of the local job, in the letters of qstat
    local_since: datetime | None = None  # start or submission of the local task
    remote_state: str = ""
    remote_facts: tuple[str, ...] = ()
    remote_host: str = ""
    since: datetime | None = None  # when the remote job entered its present state
    missing_since: datetime | None = None  # when the job disappeared from the remote job list
    created_at: datetime
    outcome: str = ""  # end of the remote job; empty: unknown
    closed_at: datetime | None = None
    cause: str = ""
    reason: str = ""  # sentence about a delay, a failure or the progress

    @property
    def there(self) -> JobState:
        """The state of the remote job."""
        return JobState(self.remote_facts, self.remote_state)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTransferEvent:
    """An event in the history of a transfer."""

    at: datetime
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTransferHistory:
    """A transfer with its events, oldest first."""

    transfer: PublishedTransfer
    events: tuple[PublishedTransferEvent, ...] = ()
    left_out: int = 0  # number of events omitted in the middle


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTaskTransfers:
    """The transfers of a local task, first attempt first."""

    job: str  # local job id, such as 12, or 12.3 for a task of an array
    attempts: tuple[PublishedTransferHistory, ...] = ()
    left_out: int = 0  # number of omitted earlier attempts
    is_proved: bool = True  # whether the job list at home has shown the task with this owner


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedOpenTransfers:
    """All transfers that have not ended, oldest first."""

    transfers: tuple[PublishedTransfer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedQueueOnHost:
    """A queue on one host, as published for all users."""

    name: str  # queue instance, such as all.q@host
    used: int
    reserved: int
    total: int
    state: str = ""  # state of the queue instance, in the letters of qstat -f
    facts: tuple[str, ...] = ()

    @property
    def host(self) -> str:
        """The name of the queue instance's host."""
        return self.name.rpartition("@")[2]

    @property
    def known(self) -> QueueInstanceState:
        """The state of the queue instance."""
        return QueueInstanceState(self.facts, self.state)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedClusterAnswer:
    """The last complete answer of a cluster, and the error of the last query."""

    cluster: str
    asked_at: datetime
    taken_at: datetime | None = None  # time of the last complete answer
    trouble: str = ""  # error of the last query; empty: no error
    pending: int | None = None  # number of waiting tasks that may start
    free_slots: int | None = None
    slots: int | None = None  # slots of ordinary batch queues
    used: int | None = None  # used slots of ordinary batch queues
    besteffort_slots: int | None = None  # free slots for best-effort tasks
    queues: tuple[PublishedQueueOnHost, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTransferQueue:
    """A transfer queue with its remote cluster and limits."""

    queue: str
    cluster: str
    pending_limit: int
    slots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedConfigurationStatus:
    """The gridbridge.toml that is in force, and the errors in a newer file that was refused."""

    sha256: str  # digest of the file in force
    since: datetime
    refused_sha256: str = ""  # digest of the refused file; empty: unreadable
    refused: tuple[str, ...] = ()  # errors in the refused file


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedServiceStatus:
    """The running service: version, start, transfer queues and configuration."""

    cluster: str  # home cluster
    version: str
    started_at: datetime
    keep_closed_h: float
    routes: tuple[PublishedTransferQueue, ...] = ()
    configuration: PublishedConfigurationStatus | None = None
    full: str = ""  # a folder without free space, which closes the transfer queues


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRemoteUsage:
    """The usage of a local task's remote jobs, in the order of the jobs' ends."""

    job: str  # local job id, such as 12, or 12.3 for a task of an array
    records: tuple[RemoteJobRunAccounting, ...] = ()
    left_out: int = 0  # number of omitted earlier records


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedAccountingProgress:
    """How far a cluster's accounting file was read."""

    cluster: str
    path: str
    read_at: datetime | None = None  # time of the last reading; None: never read
    is_behind: bool = False  # the accounting file has more lines than one round reads
    trouble: str = ""  # error of the last reading; empty: no error
    skipped: int = 0  # unreadable lines that name a transfer


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedAccountingPositions:
    """How far the accounting file of each cluster was read."""

    readings: tuple[PublishedAccountingProgress, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedClusterDrain:
    """Who drained a cluster, when and why."""

    by: str
    at: datetime
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedFastJobFailure:
    """A transferred job that failed within seconds at a remote cluster."""

    job: int
    owner: str
    was_accepted: bool  # the remote cluster had accepted the job


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedClusterBreaker:
    """The breaker of a remote cluster: the jobs that failed fast, and the end of the pause."""

    cluster: str
    failed: tuple[PublishedFastJobFailure, ...] = ()  # consecutive jobs that failed fast
    owners: tuple[str, ...] = ()  # at most two owners of failed jobs
    times: int = 0  # how often the breaker has closed the queues since a remote job last ran
    failures: int = 0
    until: datetime | None = None  # end of the pause, after which a job probes the cluster
    cause: str = ""  # value of TransferFailureCause of the last failure


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedBreakersOfClusters:
    """The breakers of all remote clusters at which jobs failed."""

    breakers: tuple[PublishedClusterBreaker, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedLoadValues:
    """The load values of transfer queues; old load values show that the poller does not run."""

    taken_at: datetime
    stale: timedelta
    values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedFilesSnapshot:
    """The contents of all published files at one moment; None stands for a missing file."""

    service: PublishedServiceStatus | None = None
    load: PublishedLoadValues | None = None
    clusters: Mapping[str, PublishedClusterAnswer] = field(default_factory=dict)
    drained: Mapping[str, PublishedClusterDrain] = field(default_factory=dict)
    breakers: Mapping[str, PublishedClusterBreaker] = field(default_factory=dict)
    transfers: tuple[PublishedTransfer, ...] = ()


FIRST_EVENTS, LAST_EVENTS = 10, 40  # numbers of events shown at the start and at the end of a long history
UNPRINTABLE = "\N{REPLACEMENT CHARACTER}"  # character shown instead of a control character


def replace_control_characters(text: str) -> str:
    """Replace control characters in a user's text, since they could control a terminal."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else UNPRINTABLE for letter in text)


def number_with_noun(number: int, singular: str, more: str = "") -> str:
    """Return a number with its noun, such as `1 slot` or `2 slots`."""
    return f"{number} {singular if number == 1 else more or singular + 's'}"


def format_duration(passed: timedelta) -> str:
    """Format a duration in one or two units, such as `3 h 5 min`."""
    seconds = max(0, round(passed.total_seconds()))
    if seconds < 120:
        return f"{seconds} s"
    minutes, hours = seconds // 60, seconds // 3600
    if hours < 2:
        return f"{minutes} min"
    return f"{hours} h {minutes % 60} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatusReport:
    """What `gridbridge status` says of a cluster: whether the cluster answers, waiting tasks and free slots."""

    cluster: str
    answers: bool
    taken_at: datetime | None
    waiting: int | None  # number of waiting tasks that may start
    free_slots: int | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferQueueReport:
    """What `gridbridge status` says of a transfer queue: whether the queue starts jobs, or why the queue is closed."""

    queue: str
    cluster: str
    is_open: bool
    used: int
    total: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferAndAwaitedEvent:
    """What `gridbridge status` says of a transfer: its state, and the event for which the transfer waits."""

    job: str  # local job id, such as 12, or 12.3 for a task of an array
    transfer: PublishedTransfer
    waits_for: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteStatusReport:
    """The report of `gridbridge status`; a nonempty `alarm` warns that the report may be old."""

    alarm: str
    clusters: tuple[ClusterStatusReport, ...] = ()
    queues: tuple[TransferQueueReport, ...] = ()
    transfers: tuple[TransferAndAwaitedEvent, ...] = ()
    drained: tuple[str, ...] = ()  # drained clusters to which no transfer queue leads
    late: tuple[str, ...] = ()  # programs whose rounds are late or paused


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferAttemptExplanation:
    """A transfer in sentences for `gridbridge why`: place, state at home, remote state, and awaited event."""

    transfer: PublishedTransfer
    where: str
    here: str
    there: str
    waits_for: str  # empty: the transfer has ended
    events: tuple[PublishedTransferEvent, ...]
    left_out: int = 0  # number of events omitted in the middle


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTaskExplanation:
    """The transfers of a local task in sentences for `gridbridge why`, newest last."""

    job: str
    attempts: tuple[TransferAttemptExplanation, ...]
    left_out: int = 0  # number of omitted earlier attempts


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalledProgramDecision:
    """A decision from the journal, with the inputs that are needed to repeat the decision."""

    number: int
    at: datetime
    program: str
    sentence: str
    inputs: Mapping[str, object]  # inputs of the decision as JSON values
