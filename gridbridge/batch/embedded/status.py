"""What the service asks of an embedded cluster."""

import time
from collections.abc import Container
from datetime import UTC, datetime

from gridbridge.batch.embedded import commands
from gridbridge.batch.embedded.answers import ClusterLine, JobLine, read_end, read_jobs
from gridbridge.model.ids import PREFIX
from gridbridge.model.job import JobDetail, JobEnd
from gridbridge.model.route import Folder
from gridbridge.model.snapshot import ClusterSnapshot, JobStatus, QueueStatus
from gridbridge.model.states import JobState
from gridbridge.shell.runner import run

QUEUE = "embedded"  # it has one
OURS = f"{PREFIX}."


def snapshot(
    folder: Folder,
    cluster: str,
    wanted: Container[int],
    transfer_queues: Container[str] = (),
    _uncounted: Container[int] = (),
) -> tuple[ClusterSnapshot, float]:
    """Return the cluster as it is, with the jobs of these ids, and how many seconds it took."""
    taken_at, began = datetime.now(UTC), time.monotonic()
    answer = _ask(folder, commands.show(folder))
    took_s = time.monotonic() - began
    whole, listed = read_jobs(answer)
    queue, *others = _queues(whole)
    ours = [job for job in listed if int(job.id) in wanted or job.name.startswith(OURS)]
    seen = ClusterSnapshot(
        cluster=cluster,
        taken_at=taken_at,
        queues=(queue, *others),
        jobs={int(job.id): (_status(job, whole.host),) for job in ours},
        pending=int(whole.waiting),
        free_slots=0 if QUEUE in transfer_queues else queue.free_slots,
    )
    return seen, took_s


def end(folder: Folder, job_id: int, account: str) -> JobEnd | None:
    """Return how the job of this id and account ended; None while nothing tells it."""
    line = read_end(_ask(folder, commands.ended(folder, str(job_id))))
    if line is None or line.account != account:
        return None
    return JobEnd(
        exit_status=_number(line.exit_status),
        signal=_number(line.signal),
        reason=line.reason or (f"signal {line.signal}" if line.signal else ""),
        host=line.host,
        user_s=float(line.user_s),
        system_s=float(line.system_s),
    )


def details(folder: Folder, job_id: int) -> tuple[JobDetail, ...]:
    """Return what is known of a job that waits or runs, nothing when it does neither."""
    _, listed = read_jobs(_ask(folder, commands.show_job(folder, str(job_id))))
    return tuple(_detail(job) for job in listed)


def vocabulary(_folder: Folder) -> None:
    """Check no words: it refuses itself, at once, what it does not have."""


def _queues(whole: ClusterLine) -> tuple[QueueStatus, ...]:
    """Return its own slots and then the transfer queues, as queues of its one host."""
    own = f"{QUEUE}={whole.used}/{whole.slots}"
    return tuple(_queue(each, whole.host) for each in (own, *whole.queues.split()))


def _queue(told: str, host: str) -> QueueStatus:
    name, _, slots = told.rpartition("=")
    used, _, total = slots.partition("/")
    return QueueStatus(
        name=f"{name}@{host}",
        slots_used=int(used),
        slots_reserved=0,
        slots_total=int(total),
    )


def _status(job: JobLine, host: str) -> JobStatus:
    state = JobState(job.facts.split(), job.state)
    return JobStatus(
        job_id=int(job.id),
        name=job.name,
        owner=job.owner,
        state=state,
        queue=f"{job.queue or QUEUE}@{host}" if state.is_running else "",
        since=datetime.fromtimestamp(float(job.since), UTC),
        slots=int(job.slots),
    )


def _detail(job: JobLine) -> JobDetail:
    return JobDetail(
        job_id=int(job.id),
        name=job.name,
        owner=job.owner,
        account=job.account,
        errors=(job.error,) if job.error else (),
        messages=(job.message,) if job.message else (),
    )


def _number(text: str) -> int | None:
    return int(text) if text else None


def _ask(folder: Folder, argv: commands.Argv) -> bytes:
    return run(argv, folder.environment(), folder.timeout_s).checked().stdout
