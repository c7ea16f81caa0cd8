"""The jobs and transfer queues of an embedded cluster, as rows of its SQLite file."""

from typing import NamedTuple

from gridbridge.batch.qstat_state_letters import render_job_state_letters
from gridbridge.model.job_and_queue_states import JobStateFact


class EmbeddedJob(NamedTuple):
    """A waiting or running job of an embedded cluster; the fields are columns of table `job`."""

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
    wanted: str = ""  # requested queue; empty: any queue
    pinned: str = ""  # the only queue in which the job may start now; empty: any queue
    at: str = ""  # transfer queue in which the job runs; empty: queue `embedded`
    restarted: int = 0
    reason: str = ""  # why all remote clusters refused the job
    array: int = 0  # job id of the array's first task; 0: not an array task
    place: int = 0  # array index, from 1
    walltime_s: int = 0  # 0: no limit
    yields: int = 0  # 1: the job is preemptible
    way_at: float | None = None  # when the preemption signal was sent

    @property
    def facts(self) -> tuple[str, ...]:
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
    def state_letters(self) -> str:
        return render_job_state_letters(self.facts)


class EmbeddedTransferQueue(NamedTuple):
    name: str
    slots: int
    methods: str  # folder of the queue methods and the load sensor
    remote: str  # remote cluster whose load values open and close the queue
    pending_limit: int  # this number of waiting remote jobs closes the queue; 0: no limit


class EmbeddedJobRequest(NamedTuple):
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
    """A job's exit status or signal; both are None if the job's keeper process died first."""

    exit_status: int | None = None
    signal: int | None = None
    reason: str = ""
    user_s: float = 0.0
    system_s: float = 0.0
    max_rss_kb: int = 0
    written_kb: int = 0
    killed_for: str = ""  # why the job was killed (JobKillReason); empty: not killed


class EmbeddedArrayTaskEnd(NamedTuple):
    """How an array task ended; `place` is the task's index in the array."""

    account: str
    place: int
    wallclock_s: float
    end: EmbeddedJobEnd
