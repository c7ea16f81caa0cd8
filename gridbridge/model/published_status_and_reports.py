"""Values of the published JSON files, the service's state for everybody.

The files contain no more than qstat shows: no job arguments and no environments.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from gridbridge.model.jobs_and_accounting import RemoteJobRunAccounting
from gridbridge.model.states import JobState, QueueInstanceState


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTransfer:
    """A published attempt to run a task remotely; unknown values are empty or None."""

    transfer: str  # transfer name: gb.<cluster>.<job>.<task>.<attempt>
    owner: str
    queue: str  # name of the local transfer queue
    remote: str  # name of the remote cluster
    remote_id: int | None = None
    phase: str  # value of StarterPhase
    desired: str = ""  # value of DesiredLocalJobState
    local_state: str = ""  # last listed state of the local job, in qstat's letters
    local_since: datetime | None = None  # start or submission time of the local task
    remote_state: str = ""
    remote_facts: tuple[str, ...] = ()  # values of JobStateFact for the remote job
    remote_host: str = ""
    since: datetime | None = None  # begin of the remote job's state
    missing_since: datetime | None = None  # time since which remote lists lack the job
    created_at: datetime
    outcome: str = ""  # the remote job's end; empty: not known
    closed_at: datetime | None = None
    cause: str = ""  # value of TransferFailureCause
    reason: str = ""  # cause of a delay or failure in words, or the progress

    @property
    def there(self) -> JobState:
        """The state of the remote job, from the published facts."""
        return JobState(self.remote_facts, self.remote_state)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTransferEvent:
    """One line of a transfer's history."""

    at: datetime
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTransferHistory:
    """A transfer with its known events, oldest first."""

    transfer: PublishedTransfer
    events: tuple[PublishedTransferEvent, ...] = ()
    left_out: int = 0  # number of omitted events between the first and the last events


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTaskTransfers:
    """A local task with its owner's transfers, first attempt first."""

    job: str  # local job id, such as 12, or 12.3 for a task of an array
    attempts: tuple[PublishedTransferHistory, ...] = ()
    left_out: int = 0  # number of omitted earlier attempts
    is_proved: bool = True  # whether the home job list showed the task with this owner


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedOpenTransfers:
    """Every open transfer, oldest first."""

    transfers: tuple[PublishedTransfer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedQueueOnHost:
    """One queue on one host, a queue instance."""

    name: str  # name of the queue instance, such as all.q@host
    used: int
    reserved: int
    total: int
    state: str = ""  # state of the queue instance in the letters of qstat -f
    facts: tuple[str, ...] = ()  # values of QueueInstanceStateFact

    @property
    def host(self) -> str:
        """The host part of the queue instance's name."""
        return self.name.rpartition("@")[2]

    @property
    def known(self) -> QueueInstanceState:
        """The state of the queue instance, from the published facts."""
        return QueueInstanceState(self.facts, self.state)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedClusterAnswer:
    """A cluster's last good answer, and the error of its last query."""

    cluster: str
    asked_at: datetime
    taken_at: datetime | None = None  # time of the last good answer; None: no good answer yet
    trouble: str = ""  # error of the last query; empty: no error
    pending: int | None = None  # number of eligible waiting tasks of all owners
    free_slots: int | None = None
    slots: int | None = None  # number of slots in the cluster's own batch queues
    used: int | None = None  # number of used slots in the cluster's own batch queues
    besteffort_slots: int | None = None  # number of free slots for campaign tasks
    queues: tuple[PublishedQueueOnHost, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTransferQueue:
    """A transfer queue with its remote cluster and its limits."""

    queue: str
    cluster: str
    pending_limit: int
    slots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedConfigurationStatus:
    """The gridbridge.toml in force, and the problems of a newer refused file."""

    sha256: str  # digest of the gridbridge.toml in force
    since: datetime
    refused_sha256: str = ""  # digest of the refused gridbridge.toml; empty: unreadable
    refused: tuple[str, ...] = ()  # problems of the refused gridbridge.toml


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedServiceStatus:
    """The running service: version, transfer queues and configuration."""

    cluster: str  # name of the home cluster
    version: str
    started_at: datetime
    keep_closed_h: float
    routes: tuple[PublishedTransferQueue, ...] = ()
    configuration: PublishedConfigurationStatus | None = None
    full: str = ""  # path of a full folder, which closes the transfer queues


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRemoteUsage:
    """The usage of a local task's remote jobs, in the order of their ends."""

    job: str  # local job id, such as 12, or 12.3 for a task of an array
    records: tuple[RemoteJobRunAccounting, ...] = ()
    left_out: int = 0  # number of omitted earlier records


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedAccountingProgress:
    """The progress in reading a cluster's accounting file."""

    cluster: str
    path: str
    read_at: datetime | None = None  # time of the last reading; None: never read
    is_behind: bool = False  # whether the file has more lines than one round reads
    trouble: str = ""  # error of the last reading; empty: no error
    skipped: int = 0  # number of unreadable lines that name a transfer


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedAccountingPositions:
    """The progress in reading every cluster's accounting file."""

    readings: tuple[PublishedAccountingProgress, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedClusterDrain:
    """The drain of a cluster: its author, time and reason."""

    by: str
    at: datetime
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedFastJobFailure:
    """A transferred job that failed within seconds at its remote cluster."""

    job: int
    owner: str
    was_accepted: bool  # whether the remote cluster had accepted the job


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedClusterBreaker:
    """The circuit breaker of a cluster: its fast failures and the end of its pause."""

    cluster: str
    failed: tuple[PublishedFastJobFailure, ...] = ()  # successive fast failures
    owners: tuple[str, ...] = ()  # at most two owners of the jobs whose failure closed the queues
    times: int = 0  # how often the queues closed since a remote job last ran
    failures: int = 0  # number of failed jobs that closed the queues
    until: datetime | None = None  # end of the pause; then a job may probe the cluster
    cause: str = ""  # value of TransferFailureCause of the last failure


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedBreakersOfClusters:
    """The circuit breakers of all remote clusters with failed jobs."""

    breakers: tuple[PublishedClusterBreaker, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedLoadValues:
    """The published load values, whose age shows whether the poller lives."""

    taken_at: datetime
    stale: timedelta
    values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedFilesSnapshot:
    """The contents of all published files at one moment; a missing file is None."""

    service: PublishedServiceStatus | None = None
    load: PublishedLoadValues | None = None
    clusters: Mapping[str, PublishedClusterAnswer] = field(default_factory=dict)
    drained: Mapping[str, PublishedClusterDrain] = field(default_factory=dict)
    breakers: Mapping[str, PublishedClusterBreaker] = field(default_factory=dict)
    transfers: tuple[PublishedTransfer, ...] = ()


FIRST_EVENTS, LAST_EVENTS = 10, 40  # events shown at the begin and end of a long history
UNPRINTABLE = "\N{REPLACEMENT CHARACTER}"  # character shown for a control character


def replace_control_characters(text: str) -> str:
    """Replace control characters of users' texts, which could control a terminal."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else UNPRINTABLE for letter in text)


def number_with_noun(number: int, singular: str, more: str = "") -> str:
    """Return a number with its noun: 1 slot, 2 slots."""
    return f"{number} {singular if number == 1 else more or singular + 's'}"


def format_duration(passed: timedelta) -> str:
    """Format a duration in one or two units."""
    seconds = max(0, round(passed.total_seconds()))
    if seconds < 120:
        return f"{seconds} s"
    minutes, hours = seconds // 60, seconds // 3600
    if hours < 2:
        return f"{minutes} min"
    return f"{hours} h {minutes % 60} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatusReport:
    """Whether a cluster answers, with its waiting tasks and free slots."""

    cluster: str
    answers: bool
    taken_at: datetime | None
    waiting: int | None  # number of eligible waiting tasks of all owners
    free_slots: int | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferQueueReport:
    """Whether a transfer queue takes jobs, with the reason."""

    queue: str
    cluster: str
    is_open: bool
    used: int
    total: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferAndAwaitedEvent:
    """A transfer and the event that it waits for."""

    job: str  # local job id, such as 12, or 12.3 for a task of an array
    transfer: PublishedTransfer
    waits_for: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteStatusReport:
    """The whole site report; a nonempty `alarm` says that the report may be old."""

    alarm: str
    clusters: tuple[ClusterStatusReport, ...] = ()
    queues: tuple[TransferQueueReport, ...] = ()
    transfers: tuple[TransferAndAwaitedEvent, ...] = ()
    drained: tuple[str, ...] = ()  # drained clusters without a transfer queue, with reasons
    late: tuple[str, ...] = ()  # findings about stuck or paused rounds of other programs


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferAttemptExplanation:
    """One transfer attempt in words: place, home state, remote state and wait."""

    transfer: PublishedTransfer
    where: str
    here: str
    there: str
    waits_for: str  # event that the transfer waits for; empty: a closed transfer
    events: tuple[PublishedTransferEvent, ...]
    left_out: int = 0  # number of omitted events between the first and the last events


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTaskExplanation:
    """A local task with its transfer attempts, newest last."""

    job: str
    attempts: tuple[TransferAttemptExplanation, ...]
    left_out: int = 0  # number of omitted earlier attempts


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalledProgramDecision:
    """A program's decision from the state file, with the inputs to repeat the decision."""

    number: int
    at: datetime
    program: str
    sentence: str
    inputs: Mapping[str, object]  # JSON values of the decision's inputs
