"""A job of an embedded cluster: what is asked for it, what is known of it, and how it ended."""

from typing import NamedTuple

from gridbridge.batch.state_letters import job_letters
from gridbridge.model.states import JobFact


class EmbeddedJob(NamedTuple):
    """A job that waits or runs; columns of its table in their order."""

    id: int
    name: str
    account: str
    owner: str
    shell: str
    cwd: str
    output: str
    slots: int
    submitted_at: float
    held: int
    error: str
    pid: int
    birth: str
    started_at: float | None
    suspended: int
    deleting: int
    wanted: str = ""  # the queue it asked for; empty: any
    pinned: str = ""  # the only queue it may start in for now
    at: str = ""  # the transfer queue that it runs in; empty: the cluster's own slots
    restarted: int = 0
    reason: str = ""  # why it came home
    array: int = 0  # the number of the first task of its array; 0: it is in none
    place: int = 0  # in that array, from 1
    walltime_s: int = 0  # 0: it may run for ever
    yields: int = 0  # it makes way for others
    way_at: float | None = None  # when it was told to

    @property
    def facts(self) -> tuple[str, ...]:
        """What it is, in the words of model.states."""
        waits = ((JobFact.WAITING, True), (JobFact.ERROR, self.error))
        runs = (
            (JobFact.RUNNING, True),
            (JobFact.SUSPENDED, self.suspended),
            (JobFact.BY_HAND, self.suspended),
            (JobFact.DELETING, self.deleting),
        )
        either = ((JobFact.HELD, self.held), (JobFact.RESTARTED, self.restarted))
        candidates = (*(runs if self.pid else waits), *either)
        return tuple(fact for fact, holds in candidates if holds)

    @property
    def letters(self) -> str:
        """The same as it is shown."""
        return job_letters(self.facts)


class EmbeddedQueue(NamedTuple):
    """A transfer queue: slots whose jobs are started by a starter (queue_conf(5))."""

    name: str
    slots: int
    methods: str  # the folder of starter, suspend, resume, terminate, epilog and sensor
    remote: str  # the cluster whose load values open and close it
    pending_limit: int  # it is closed while this many jobs wait there; 0: never


class NewJob(NamedTuple):
    """What is asked for a new job."""

    name: str
    account: str
    shell: str
    cwd: str
    output: str
    slots: int
    held: bool
    script: bytes
    queue: str = ""
    tasks: int = 0  # of an array; 0: it is none
    walltime_s: int = 0
    yields: bool = False


class EmbeddedJobEnd(NamedTuple):
    """How a job ended: an exit status or a signal, or neither when nobody saw it."""

    exit_status: int | None = None
    signal: int | None = None
    reason: str = ""
    user_s: float = 0.0
    system_s: float = 0.0
    max_rss_kb: int = 0
    killed_for: str = ""  # a word of model.job.KilledFor


class TaskEnd(NamedTuple):
    """How a task of an array ended."""

    account: str
    place: int
    wallclock_s: float
    end: EmbeddedJobEnd
