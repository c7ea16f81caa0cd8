"""Values of the published JSON files, the service's state for everybody.

The files contain nothing beyond `qstat`: no job arguments and no environments.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from gridbridge.model.remote_job_accounting import RemoteJobRunAccounting
from gridbridge.model.states import JobState, QueueInstanceState


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTransfer:
    """One attempt to run a task remotely; unknown texts are empty, other values None."""

    transfer: str  # gb.<cluster>.<job>.<task>.<attempt>
    owner: str
    queue: str  # the local transfer queue
    remote: str  # cluster
    remote_id: int | None = None
    phase: str  # StarterPhase
    desired: str = ""  # DesiredLocalJobState
    local_state: str = ""  # letters of qstat, as last seen
    local_since: datetime | None = None  # start or submission of the local task, from qstat
    remote_state: str = ""
    remote_facts: tuple[str, ...] = ()  # JobStateFact
    remote_host: str = ""
    since: datetime | None = None  # begin of the remote state
    missing_since: datetime | None = None  # begin of the job's absence from remote job lists
    created_at: datetime
    outcome: str = ""  # the remote job's end, once known
    closed_at: datetime | None = None
    cause: str = ""  # TransferFailureCause
    reason: str = ""  # the cause in words, or the progress

    @property
    def there(self) -> JobState:
        """The state of the remote job."""
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
    left_out: int = 0  # events between the first and the last ones


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTransferTask:
    """A local task with its owner's transfers, first attempt first."""

    job: str  # 12, or 12.3 for a task of an array
    attempts: tuple[PublishedTransferHistory, ...] = ()
    left_out: int = 0  # earlier attempts
    is_proved: bool = True  # the home job list showed the task with this owner


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedOpenTransfers:
    """Every open transfer, oldest first."""

    transfers: tuple[PublishedTransfer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedQueueOnHost:
    """One queue on one host, a queue instance."""

    name: str  # all.q@host
    used: int
    reserved: int
    total: int
    state: str = ""  # letters of qstat -f
    facts: tuple[str, ...] = ()  # QueueInstanceStateFact

    @property
    def host(self) -> str:
        """The host part of the queue instance's name."""
        return self.name.rpartition("@")[2]

    @property
    def known(self) -> QueueInstanceState:
        """The state of the queue instance."""
        return QueueInstanceState(self.facts, self.state)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedClusterStatus:
    """A cluster's last good answer, and the trouble of its last query."""

    cluster: str
    asked_at: datetime
    taken_at: datetime | None = None  # None before its first good answer
    trouble: str = ""  # error of the last query
    pending: int | None = None  # eligible waiting tasks of all owners
    free_slots: int | None = None
    slots: int | None = None  # slots of the cluster's own batch queues
    used: int | None = None  # used slots of these queues
    besteffort_slots: int | None = None  # free slots for preemptible campaign tasks
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

    sha256: str  # digest of the file's bytes
    since: datetime
    refused_sha256: str = ""  # digest of the refused file; empty if unreadable
    refused: tuple[str, ...] = ()  # problems of the refused file


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedServiceStatus:
    """The running service: version, transfer queues and configuration."""

    cluster: str  # the home cluster
    version: str
    started_at: datetime
    keep_closed_h: float
    routes: tuple[PublishedTransferQueue, ...] = ()
    configuration: PublishedConfigurationStatus | None = None
    full: str = ""  # a full folder of the service, which closes the queues


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRemoteUsage:
    """The usage of a local task's remote jobs, in the order of their ends."""

    job: str  # 12, or 12.3 for a task of an array
    records: tuple[RemoteJobRunAccounting, ...] = ()
    left_out: int = 0  # earlier records


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedAccountingProgress:
    """The reading progress in a cluster's accounting file."""

    cluster: str
    path: str
    read_at: datetime | None = None  # None before the first time
    is_behind: bool = False  # the file has more lines than one round reads
    trouble: str = ""  # error of the last reading
    skipped: int = 0  # unreadable lines under our accounts


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedAccountingPositions:
    """The reading progress in every accounting file."""

    readings: tuple[PublishedAccountingProgress, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedClusterDrain:
    """The drain of a cluster: its author, time and reason."""

    by: str
    at: datetime
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedFastJobFailure:
    """A local job that failed fast at a remote cluster."""

    job: int
    owner: str
    was_accepted: bool  # the cluster had accepted it


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedClusterBreaker:
    """The circuit breaker of a cluster: its fast failures and the end of its pause."""

    cluster: str
    failed: tuple[PublishedFastJobFailure, ...] = ()  # successive failures since the last closing
    owners: tuple[str, ...] = ()  # owners of the failures that closed the queues, two at most
    times: int = 0  # closings since a remote job ran; closings by one owner count once
    failures: int = 0  # failed jobs that closed the queues
    until: datetime | None = None  # end of the pause; then a job may probe the cluster
    cause: str = ""  # TransferFailureCause of the last failure


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
    """The contents of all published files at one moment; None for a missing file."""

    service: PublishedServiceStatus | None = None
    load: PublishedLoadValues | None = None
    clusters: Mapping[str, PublishedClusterStatus] = field(default_factory=dict)
    drained: Mapping[str, PublishedClusterDrain] = field(default_factory=dict)
    breakers: Mapping[str, PublishedClusterBreaker] = field(default_factory=dict)
    transfers: tuple[PublishedTransfer, ...] = ()
