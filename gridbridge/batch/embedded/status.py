"""What the service asks of an embedded cluster."""

import time
from collections.abc import Collection, Container, Mapping, Sequence
from datetime import UTC, datetime

from gridbridge.batch.embedded import embedded_commands
from gridbridge.batch.embedded.embedded_output import (
    ClusterLine,
    EndLine,
    JobLine,
    read_end,
    read_ends,
    read_jobs,
)
from gridbridge.model.ids import PREFIX
from gridbridge.model.job import ArrayEndQuery, ArrayLimits, JobDetail, JobEnd, KillReason
from gridbridge.model.route import EmbeddedFolder
from gridbridge.model.snapshot import ClusterSnapshot, JobStatus, QueueStatus
from gridbridge.model.states import JobState
from gridbridge.shell.runner import LIST_BYTES, run

QUEUE = "embedded"  # it has one
OURS = f"{PREFIX}."


def snapshot(
    folder: EmbeddedFolder,
    cluster: str,
    job_ids: Collection[int],
    transfer_queues: Container[str] = (),
    _uncounted: Collection[int] = (),
) -> tuple[ClusterSnapshot, float]:
    """Return the cluster as it is, with the jobs of these ids, and how many seconds it took."""
    taken_at, began = datetime.now(UTC), time.monotonic()
    answer = _ask(folder, embedded_commands.show(folder))
    took_s = time.monotonic() - began
    whole, listed = read_jobs(answer)
    queue, *other_queues = _queues(whole)
    rows: dict[int, list[JobStatus]] = {}
    for job in listed:
        number = int(job.array or job.id)
        if number in job_ids or job.name.startswith(OURS):
            rows.setdefault(number, []).append(_status(job, whole.host))
    snapshot = ClusterSnapshot(
        cluster=cluster,
        taken_at=taken_at,
        queues=(queue, *other_queues),
        jobs={number: tuple(statuses) for number, statuses in rows.items()},
        pending=int(whole.waiting),
        free_slots=0 if QUEUE in transfer_queues else queue.free_for_others,
        besteffort_slots=queue.free_slots,
    )
    return snapshot, took_s


def end(folder: EmbeddedFolder, job_id: int, account: str) -> JobEnd | None:
    """Return how the job of this id and account ended; None while nothing tells it."""
    line = read_end(_ask(folder, embedded_commands.ended(folder, str(job_id))))
    if line is None or line.account != account:
        return None
    return _end(line)


def ends_of(
    folder: EmbeddedFolder, arrays: Sequence[ArrayEndQuery]
) -> dict[str, dict[int, JobEnd | None]]:
    """Return how tasks of arrays ended that did, by the arrays' accounts and their places.

    Each array is a question to a file here.
    """
    return {array.account: _array_ends(folder, array) for array in arrays}


def _array_ends(folder: EmbeddedFolder, array: ArrayEndQuery) -> dict[int, JobEnd | None]:
    lines = read_ends(_ask(folder, embedded_commands.ended_tasks(folder, str(array.job_id))))
    return {int(line.place): _end(line) for line in lines if line.account == array.account}


def living_of(folder: EmbeddedFolder, arrays: Mapping[int, str]) -> dict[int, frozenset[int]]:
    """Return the places of arrays that have not ended, of those that have some."""
    _, listed = read_jobs(_ask(folder, embedded_commands.show(folder)))
    living: dict[int, list[int]] = {}
    for job in listed:
        if job.array and arrays.get(int(job.array)) == job.account:
            living.setdefault(int(job.array), []).append(int(job.place))
    return {array: frozenset(indices) for array, indices in living.items()}


def _end(line: EndLine) -> JobEnd:
    return JobEnd(
        exit_status=_number(line.exit_status),
        signal=_number(line.signal),
        reason=line.reason or (f"signal {line.signal}" if line.signal else ""),
        host=line.host,
        user_s=float(line.user_s),
        system_s=float(line.system_s),
        wallclock_s=float(line.wallclock_s) if line.wallclock_s else None,
        killed_for=KillReason(line.killed_for),
    )


def array_limits(_: EmbeddedFolder) -> ArrayLimits:
    """Return no limits: an embedded cluster has none of its own."""
    return ArrayLimits()


def details(folder: EmbeddedFolder, job_id: int) -> tuple[JobDetail, ...]:
    """Return what is known of a job that waits or runs, nothing when it does neither."""
    _, listed = read_jobs(_ask(folder, embedded_commands.show_job(folder, str(job_id))))
    return tuple(_detail(job) for job in listed)


def vocabulary(_folder: EmbeddedFolder) -> None:
    """Check no words: it refuses itself, at once, what it does not have."""


def _queues(whole: ClusterLine) -> tuple[QueueStatus, ...]:
    """Return its own slots and then the transfer queues, as queues of its one host."""
    own = f"{QUEUE}={whole.used}/{whole.slots}"
    transfer_queues = (_queue(text, whole.host) for text in whole.queues.split())
    return (_queue(own, whole.host, int(whole.yielding or 0)), *transfer_queues)


def _queue(text: str, host: str, yielding: int = 0) -> QueueStatus:
    name, _, slots = text.rpartition("=")
    used, _, total = slots.partition("/")
    return QueueStatus(
        name=f"{name}@{host}",
        slots_used=int(used),
        slots_reserved=0,
        slots_total=int(total),
        slots_yielding=yielding,
    )


def _status(job: JobLine, host: str) -> JobStatus:
    state = JobState(job.facts.split(), job.state)
    return JobStatus(
        job_id=int(job.array or job.id),
        tasks=(range(int(job.place), int(job.place) + 1),) if job.place else (),
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


def _ask(folder: EmbeddedFolder, argv: embedded_commands.Argv) -> bytes:
    return run(argv, folder.environment(), folder.timeout_s, most_bytes=LIST_BYTES).checked().stdout
