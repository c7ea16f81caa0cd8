"""The jobs and transfer queues of an embedded cluster, as rows of its SQLite file."""

from typing import NamedTuple

from gridbridge.batch.qstat_state_letters import render_job_state_letters
from gridbridge.model.states import JobStateFact


class EmbeddedJob(NamedTuple):
    """A waiting or running job of an embedded cluster; its fields are the table's columns."""

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
    wanted: str = ""  # the requested queue; empty: any
    pinned: str = ""  # the only queue in which the job may start now; empty: any
    at: str = ""  # transfer queue of the running job; empty: the cluster's own slots
    restarted: int = 0
    reason: str = ""  # why no remote cluster took the job
    array: int = 0  # id of the array's first task; 0: no array
    place: int = 0  # the index in the array, from 1
    walltime_s: int = 0  # 0: unlimited
    yields: int = 0  # the job is preemptible
    way_at: float | None = None  # when the job got the signal of its preemption

    @property
    def facts(self) -> tuple[str, ...]:
        """The job's state facts, in the words of model.states."""
        waits = ((JobStateFact.WAITING, True), (JobStateFact.ERROR, self.error))
        runs = (
            (JobStateFact.RUNNING, True),
            (JobStateFact.SUSPENDED, self.suspended),
            (JobStateFact.BY_HAND, self.suspended),
            (JobStateFact.DELETING, self.deleting),
        )
        either = ((JobStateFact.HELD, self.held), (JobStateFact.RESTARTED, self.restarted))
        candidates = (*(runs if self.pid else waits), *either)
        return tuple(fact for fact, holds in candidates if holds)

    @property
    def letters(self) -> str:
        """The job's state in qstat's letters."""
        return render_job_state_letters(self.facts)


class EmbeddedTransferQueue(NamedTuple):
    """A transfer queue of an embedded cluster, whose jobs a starter starts (queue_conf(5))."""

    name: str
    slots: int
    methods: str  # folder of starter, suspend, resume, terminate, epilog and sensor
    remote: str  # remote cluster whose load values open and close the queue
    pending_limit: int  # waiting remote jobs that close the queue; 0: no limit


class EmbeddedJobRequest(NamedTuple):
    """The request for a new job or array of an embedded cluster."""

    name: str
    account: str
    shell: str
    cwd: str
    output: str
    slots: int
    held: bool
    script: bytes
    queue: str = ""
    tasks: int = 0  # number of array tasks; 0: a single job
    walltime_s: int = 0
    yields: bool = False


class EmbeddedJobEnd(NamedTuple):
    """A job's exit status or signal; neither if its keeper died before the end."""

    exit_status: int | None = None
    signal: int | None = None
    reason: str = ""
    user_s: float = 0.0
    system_s: float = 0.0
    max_rss_kb: int = 0
    killed_for: str = ""  # value of model.job.JobKillReason; empty: not killed


class EmbeddedArrayTaskEnd(NamedTuple):
    """The end of an array task, with its account, index and wallclock time."""

    account: str
    place: int
    wallclock_s: float
    end: EmbeddedJobEnd
