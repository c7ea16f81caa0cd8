"""What the service shows people: the values in the published JSON files.

Nothing in them is more than `qstat` would show anybody: no arguments, no environments.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from gridbridge.model.accounting import RemoteRecord
from gridbridge.model.states import JobState, QueueState


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTransfer:
    """One attempt to run a task elsewhere; texts are empty and the rest None while unknown."""

    transfer: str  # gb.<cluster>.<job>.<task>.<attempt>
    owner: str
    queue: str  # the local transfer queue
    remote: str  # cluster
    remote_id: int | None = None
    phase: str  # message.Phase
    desired: str = ""  # message.Desired
    local_state: str = ""  # letters of qstat, as last seen
    local_since: datetime | None = None  # as qstat says: its start, or its submission
    remote_state: str = ""
    remote_facts: tuple[str, ...] = ()  # model.states.Fact
    remote_host: str = ""
    since: datetime | None = None  # of the remote state
    missing_since: datetime | None = None  # the other cluster does not list it since then
    created_at: datetime
    outcome: str = ""  # how the remote job ended, once that is known
    closed_at: datetime | None = None
    cause: str = ""  # message.Cause
    reason: str = ""  # the same in words, or how far it is

    @property
    def there(self) -> JobState:
        """What its remote job is."""
        return JobState(self.remote_facts, self.remote_state)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownEvent:
    """One line of a transfer's history."""

    at: datetime
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownHistory:
    """A transfer with all that is known to have happened to it, oldest first."""

    transfer: ShownTransfer
    events: tuple[ShownEvent, ...] = ()
    left_out: int = 0  # events between the first and the last ones


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTransferTask:
    """A task of a local job with its owner's transfers of it, first attempt first."""

    job: str  # 12, or 12.3 for a task of an array
    attempts: tuple[ShownHistory, ...] = ()
    left_out: int = 0  # earlier attempts
    is_proved: bool = True  # home's own list had it as this person's


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTransfers:
    """Every open transfer, oldest first."""

    transfers: tuple[ShownTransfer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownQueue:
    """One queue on one host."""

    name: str  # all.q@host
    used: int
    reserved: int
    total: int
    state: str = ""  # letters of qstat -f
    facts: tuple[str, ...] = ()  # model.states.QueueFact

    @property
    def host(self) -> str:
        """The host's part of the name."""
        return self.name.rpartition("@")[2]

    @property
    def known(self) -> QueueState:
        """What it is."""
        return QueueState(self.facts, self.state)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCluster:
    """A cluster as it last answered, and what is wrong if it does not."""

    cluster: str
    asked_at: datetime
    taken_at: datetime | None = None  # None before its first good answer
    trouble: str = ""  # of the last question
    pending: int | None = None  # tasks of anybody that could start
    free_slots: int | None = None
    slots: int | None = None  # of its own queues for batch jobs
    used: int | None = None  # of those
    besteffort_slots: int | None = None  # that are free for campaigns' tasks that make way
    queues: tuple[ShownQueue, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTransferQueue:
    """A transfer queue, where it leads and when it closes."""

    queue: str
    cluster: str
    pending_limit: int
    slots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownConfiguration:
    """Which gridbridge.toml is in force, and why a newer one is not."""

    sha256: str  # of its bytes
    since: datetime
    refused_sha256: str = ""  # of the other one's; empty too where that could not be read
    refused: tuple[str, ...] = ()  # a line for each thing that is wrong with it


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownService:
    """The service itself."""

    cluster: str  # the local one
    version: str
    started_at: datetime
    keep_closed_h: float
    routes: tuple[ShownTransferQueue, ...] = ()
    configuration: ShownConfiguration | None = None
    full: str = ""  # which of our folders is full, so that the queues are closed


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRemoteUsage:
    """What the remote jobs of a local job or task used, in the order in which they ended."""

    job: str  # 12, or 12.3 for a task of an array
    records: tuple[RemoteRecord, ...] = ()
    left_out: int = 0  # earlier records


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownAccountingReading:
    """How far a cluster's accounting file was read."""

    cluster: str
    path: str
    read_at: datetime | None = None  # None before the first time
    is_behind: bool = False  # there was more than one look reads
    trouble: str = ""  # of the last look
    skipped: int = 0  # lines under our accounts that could not be read


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownAccountingReadings:
    """Every accounting file that is read."""

    readings: tuple[ShownAccountingReading, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownDrain:
    """Who drained a cluster, since when and why."""

    by: str
    at: datetime
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownFastFailure:
    """A local job that failed fast at a cluster."""

    job: int
    owner: str
    was_accepted: bool  # the cluster had accepted it


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownBreaker:
    """How jobs failed at a cluster, and until when its queues are closed for that."""

    cluster: str
    failed: tuple[ShownFastFailure, ...] = ()  # in a row, since it was last closed
    owners: tuple[str, ...] = ()  # owners of those that closed it, two at most
    times: int = 0  # closings since a job ran there; those by one owner alone count once
    failures: int = 0  # jobs that closed it
    until: datetime | None = None  # after that a job may probe it
    cause: str = ""  # message.Cause of the last failure


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownBreakers:
    """The breakers of all remote clusters at which jobs failed."""

    breakers: tuple[ShownBreaker, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownLoadValues:
    """The load values, whose age is the sign that the poller lives."""

    taken_at: datetime
    stale: timedelta
    values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedState:
    """All that the published files say at one moment; None is a file that is not there."""

    service: ShownService | None = None
    load: ShownLoadValues | None = None
    clusters: Mapping[str, ShownCluster] = field(default_factory=dict)
    drained: Mapping[str, ShownDrain] = field(default_factory=dict)
    breakers: Mapping[str, ShownBreaker] = field(default_factory=dict)
    transfers: tuple[ShownTransfer, ...] = ()
