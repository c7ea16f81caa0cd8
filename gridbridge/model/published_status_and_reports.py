"""The contents of reports and of JSON files published for all users, which show nothing that qstat hides."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from gridbridge.model.job_and_queue_states import JobState, QueueInstanceState
from gridbridge.model.jobs_and_accounting import RemoteJobRunAccounting
from gridbridge.model.transfer_messages_in_spool import DesiredLocalJobState


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTransfer:
    """A transfer, as published for all users; unknown values are empty or None."""

    transfer: str  # name of the transfer: gb.<cluster>.<job>.<task>.<attempt>
    name: str = ""  # name of the local job (qsub -N), as in the last job list of the home cluster
    owner: str
    queue: str
    remote: str
    remote_id: int | None = None
    phase: str
    desired: str = ""
    local_state: str = ""  # state of the local job, in letters as qstat shows them
    local_since: datetime | None = None  # time of the local task's start, or of a waiting task's submission
    remote_state: str = ""
    remote_facts: tuple[str, ...] = ()
    remote_host: str = ""
    since: datetime | None = None  # when the remote job entered its present state
    missing_since: datetime | None = None  # since when the remote job list lacks the job
    created_at: datetime
    outcome: str = ""  # how the remote job ended; empty: unknown
    closed_at: datetime | None = None
    cause: str = ""
    reason: str = ""  # sentence for users about the progress, a delay or a failure

    @property
    def needs_answer_of_cluster(self) -> bool:
        """Whether only the remote cluster's next answer can tell how the job goes on."""
        return not (self.closed_at or self.outcome or self.desired == DesiredLocalJobState.DEAD)

    @property
    def remote_job_state(self) -> JobState:
        return JobState(self.remote_facts, self.remote_state)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTransferEvent:
    at: datetime
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTransferHistory:
    """A transfer with its events, oldest first."""

    transfer: PublishedTransfer
    events: tuple[PublishedTransferEvent, ...] = ()
    left_out: int = 0  # number of events omitted from the middle of the history


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTaskTransfers:
    """The transfers of a local task, first attempt first."""

    job: str  # local job id, such as 12, or 12.3 for a task of an array
    attempts: tuple[PublishedTransferHistory, ...] = ()
    left_out: int = 0  # number of earlier attempts that are left out
    is_proved: bool = True  # whether a job list of the home cluster has shown this owner


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedOpenTransfers:
    """All transfers that have not ended, oldest first."""

    transfers: tuple[PublishedTransfer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedQueueOnHost:
    name: str  # queue instance, such as all.q@host
    used: int
    reserved: int
    total: int
    state: str = ""  # state letters of the queue instance, as in qstat -f
    facts: tuple[str, ...] = ()

    @property
    def host_name(self) -> str:
        return self.name.rpartition("@")[2]

    @property
    def queue_instance_state(self) -> QueueInstanceState:
        return QueueInstanceState(self.facts, self.state)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedClusterAnswer:
    """The last complete answer of a cluster, and the error of a later query that failed."""

    cluster: str
    asked_at: datetime
    taken_at: datetime | None = None  # when the cluster last answered completely
    trouble: str = ""
    pending: int | None = None  # number of waiting tasks that may start
    free_slots: int | None = None
    slots: int | None = None  # number of slots of ordinary batch queues
    used: int | None = None  # number of used slots of ordinary batch queues
    besteffort_slots: int | None = None  # free slots for best-effort tasks
    queues: tuple[PublishedQueueOnHost, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTransferQueue:
    queue: str
    cluster: str
    pending_limit: int
    slots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedConfigurationStatus:
    """The gridbridge.toml in force, and the errors of a newer, refused gridbridge.toml."""

    sha256: str
    since: datetime
    refused_sha256: str = ""  # digest of the refused gridbridge.toml; empty: no file is refused, or it is unreadable
    refused: tuple[str, ...] = ()  # errors in the refused gridbridge.toml


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedServiceStatus:
    cluster: str  # home cluster
    version: str
    started_at: datetime
    keep_closed_h: float
    routes: tuple[PublishedTransferQueue, ...] = ()
    configuration: PublishedConfigurationStatus | None = None
    full: str = ""  # full folder that closes the transfer queues; empty: all folders have space


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRemoteUsage:
    """The usage of the remote jobs of one local task, in the order in which they ended."""

    job: str  # local job id, such as 12, or 12.3 for a task of an array
    records: tuple[RemoteJobRunAccounting, ...] = ()
    left_out: int = 0  # number of earlier records that are left out


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedAccountingProgress:
    cluster: str
    path: str
    read_at: datetime | None = None
    is_behind: bool = False  # whether the file has more new lines than one round reads
    trouble: str = ""  # why the file could not be read; empty: the file was read
    skipped: int = 0  # number of lines that name a transfer but can't be parsed


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedAccountingPositions:
    readings: tuple[PublishedAccountingProgress, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedClusterDrain:
    """A drain; a site-wide one comes from `gridbridge drain --all`, and ends with `gridbridge undrain --all`."""

    by: str
    at: datetime
    reason: str
    is_site_wide: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedFastJobFailure:
    """A transferred job that failed within seconds at a remote cluster."""

    job: int
    owner: str
    was_accepted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedClusterBreaker:
    """The breaker of a remote cluster; fast job failures close the cluster's transfer queues for a time."""

    cluster: str
    failed: tuple[PublishedFastJobFailure, ...] = ()  # the successive jobs that failed fast
    owners: tuple[str, ...] = ()  # owners of the failed jobs, at most two
    times: int = 0  # number of closures since a job last ran at the cluster
    failures: int = 0
    until: datetime | None = None  # after this time one job is sent as a probe of the cluster
    cause: str = ""  # cause of the last failure, a value of TransferFailureCause


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedBreakersOfClusters:
    breakers: tuple[PublishedClusterBreaker, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedLoadValues:
    """The load values of transfer queues; old values mean that the poller does not run."""

    taken_at: datetime
    stale: timedelta
    values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedFilesSnapshot:
    """The contents of the published files at one moment; None stands for a missing file."""

    service: PublishedServiceStatus | None = None
    load: PublishedLoadValues | None = None
    clusters: Mapping[str, PublishedClusterAnswer] = field(default_factory=dict)
    drained: Mapping[str, PublishedClusterDrain] = field(default_factory=dict)
    breakers: Mapping[str, PublishedClusterBreaker] = field(default_factory=dict)
    transfers: tuple[PublishedTransfer, ...] = ()


FIRST_EVENTS, LAST_EVENTS = 10, 40  # a long history shows this many first and last events
UNPRINTABLE = "\N{REPLACEMENT CHARACTER}"


def replace_control_characters(text: str) -> str:
    """Replace control characters, which could change what a terminal shows."""
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
    cluster: str
    answers: bool
    taken_at: datetime | None
    waiting: int | None  # number of waiting tasks that may start
    free_slots: int | None
    why: str
    closed_by: str = ""  # most important reason why the cluster gets no new jobs and tasks; empty: it gets them


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferQueueReport:
    queue: str
    cluster: str
    is_open: bool
    used: int
    total: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferAndAwaitedEvent:
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
    late: tuple[str, ...] = ()  # programs that are late with a round, or paused


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferAttemptExplanation:
    transfer: PublishedTransfer
    where: str
    here: str
    there: str
    waits_for: str  # what the transfer waits for; empty: the transfer has ended
    events: tuple[PublishedTransferEvent, ...]
    left_out: int = 0  # number of events omitted from the middle of the history


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTaskExplanation:
    """What `gridbridge why` says of a local task: its transfers, the newest last."""

    job: str
    attempts: tuple[TransferAttemptExplanation, ...]
    left_out: int = 0  # number of earlier attempts that are left out


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalledDecisionWithInputs:
    number: int
    at: datetime
    program: str
    sentence: str
    inputs: Mapping[str, object]
