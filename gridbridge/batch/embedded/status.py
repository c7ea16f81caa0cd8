"""Queries an embedded cluster for the services: snapshots, how jobs ended, and job details."""

import time
from collections.abc import Collection, Container, Mapping, Sequence
from datetime import UTC, datetime

from gridbridge import __version__
from gridbridge.batch.embedded.embedded_program_calls import (
    PrintedEmbeddedJob,
    PrintedEmbeddedJobEnd,
    parse_embedded_cluster_and_jobs,
    parse_embedded_job_ends,
    run_embedded_program,
)
from gridbridge.errors import GridbridgeError
from gridbridge.model.cluster_snapshot import ClusterJobListRow, ClusterSnapshot, QueueInstanceStatus
from gridbridge.model.job_and_queue_states import JobState
from gridbridge.model.jobs_and_accounting import (
    ArrayEndQuery,
    ClusterArrayLimits,
    JobAccountAndErrors,
    JobEnd,
    JobKillReason,
)
from gridbridge.model.site.site_check_facts import ClusterFacts
from gridbridge.model.transfer_name import PREFIX
from gridbridge.model.transfer_route import EmbeddedClusterAccessSettings
from gridbridge.shell.program_runs import LIST_BYTES

QUEUE = "embedded"  # name of the queue whose jobs run in this cluster
OURS = f"{PREFIX}."


def query_cluster_snapshot(
    folder: EmbeddedClusterAccessSettings,
    cluster: str,
    job_ids: Collection[int],
    transfer_queues: Container[str] = (),
    _uncounted: Collection[int] = (),
) -> tuple[ClusterSnapshot, float]:
    taken_at, began = datetime.now(UTC), time.monotonic()
    answer = _run_embedded_program_for_output(folder, "list")
    took_s = time.monotonic() - began
    whole, listed = parse_embedded_cluster_and_jobs(answer)
    queue = _parse_queue_instance(f"{QUEUE}={whole.used}/{whole.slots}", whole.host, int(whole.yielding or 0))
    transfer_queue_instances = (_parse_queue_instance(text, whole.host) for text in whole.queues.split())
    rows: dict[int, list[ClusterJobListRow]] = {}
    for job in listed:
        number = int(job.array or job.id)
        if number in job_ids or job.name.startswith(OURS):
            rows.setdefault(number, []).append(_job_list_row_of_embedded_job(job, whole.host))
    snapshot = ClusterSnapshot(
        cluster=cluster,
        taken_at=taken_at,
        queues=(queue, *transfer_queue_instances),
        jobs={number: tuple(statuses) for number, statuses in rows.items()},
        pending=int(whole.waiting),
        free_slots=0 if QUEUE in transfer_queues else queue.slots_free_for_ordinary_jobs,
        besteffort_slots=queue.free_slots,
    )
    return snapshot, took_s


def query_cluster_facts(folder: EmbeddedClusterAccessSettings, _now: float) -> ClusterFacts:
    """Return the cluster's slots and gridbridge's version, or why the cluster does not answer."""
    try:
        cluster, _ = query_cluster_snapshot(folder, "", ())
    except GridbridgeError as error:
        return ClusterFacts(trouble=str(error), master=folder.folder)
    return ClusterFacts(version=__version__, slots=cluster.queues[0].slots_total, master=folder.folder)


def list_transfer_queues(folder: EmbeddedClusterAccessSettings) -> dict[str, int]:
    """Return the number of slots of each transfer queue."""
    _, *queues = query_cluster_snapshot(folder, "", ())[0].queues
    return {queue.name.partition("@")[0]: queue.slots_total for queue in queues}


def query_job_end(folder: EmbeddedClusterAccessSettings, job_id: int, account: str) -> JobEnd | None:
    lines = parse_embedded_job_ends(_run_embedded_program_for_output(folder, "ended", str(job_id)))
    return _job_end_of_printed_lines(lines[0]) if lines and lines[0].account == account else None


def query_array_ends(
    folder: EmbeddedClusterAccessSettings, arrays: Sequence[ArrayEndQuery]
) -> dict[str, dict[int, JobEnd | None]]:
    """Return how array tasks ended: {account string of the array: {task index: end}}."""
    ends: dict[str, dict[int, JobEnd | None]] = {}
    for array in arrays:
        lines = parse_embedded_job_ends(_run_embedded_program_for_output(folder, "ended", str(array.job_id), "--tasks"))
        ends[array.account] = {
            int(line.place): _job_end_of_printed_lines(line) for line in lines if line.account == array.account
        }
    return ends


def query_begun_indices(folder: EmbeddedClusterAccessSettings, arrays: Mapping[int, str]) -> dict[int, frozenset[int]]:
    """Return the indices of each array's waiting and running tasks; ended arrays are left out."""
    _, listed = parse_embedded_cluster_and_jobs(_run_embedded_program_for_output(folder, "list"))
    living: dict[int, list[int]] = {}
    for job in listed:
        if job.array and arrays.get(int(job.array)) == job.account:
            living.setdefault(int(job.array), []).append(int(job.place))
    return {array: frozenset(indices) for array, indices in living.items()}


def _job_end_of_printed_lines(line: PrintedEmbeddedJobEnd) -> JobEnd:
    return JobEnd(
        exit_status=int(line.exit_status) if line.exit_status else None,
        signal=int(line.signal) if line.signal else None,
        reason=line.reason or (f"signal {line.signal}" if line.signal else ""),
        host=line.host,
        user_s=float(line.user_s),
        system_s=float(line.system_s),
        wallclock_s=float(line.wallclock_s) if line.wallclock_s else None,
        max_rss_kb=float(line.max_rss_kb) if line.max_rss_kb else None,
        written_kb=float(line.written_kb) if line.written_kb else None,
        killed_for=JobKillReason(line.killed_for),
    )


def query_array_limits(_: EmbeddedClusterAccessSettings) -> ClusterArrayLimits:
    """Return no limits: an embedded cluster does not limit arrays."""
    return ClusterArrayLimits()


def query_job_details(folder: EmbeddedClusterAccessSettings, job_id: int) -> tuple[JobAccountAndErrors, ...]:
    """Return the account string and error message of a waiting or running job; empty for any other job."""
    _, listed = parse_embedded_cluster_and_jobs(_run_embedded_program_for_output(folder, "list", f"--job={job_id}"))
    return tuple(
        JobAccountAndErrors(
            job_id=int(job.id),
            name=job.name,
            owner=job.owner,
            account=job.account,
            errors=(job.error,) if job.error else (),
            messages=(job.message,) if job.message else (),
        )
        for job in listed
    )


def query_requestable_names(_folder: EmbeddedClusterAccessSettings) -> None:
    """Return None: an embedded cluster checks resource names at submission."""


def _parse_queue_instance(text: str, host: str, yielding: int = 0) -> QueueInstanceStatus:
    name, _, slots = text.rpartition("=")
    used, _, total = slots.partition("/")
    return QueueInstanceStatus(
        name=f"{name}@{host}",
        slots_used=int(used),
        slots_reserved=0,
        slots_total=int(total),
        slots_yielding=yielding,
        sends_away=name != QUEUE,  # all other queues of an embedded cluster are transfer queues
    )


def _job_list_row_of_embedded_job(job: PrintedEmbeddedJob, host: str) -> ClusterJobListRow:
    state = JobState(job.facts.split(), job.state)
    return ClusterJobListRow(
        job_id=int(job.array or job.id),
        tasks=(range(int(job.place), int(job.place) + 1),) if job.place else (),
        name=job.name,
        owner=job.owner,
        state=state,
        queue=f"{job.queue or QUEUE}@{host}" if state.is_running else "",
        since=datetime.fromtimestamp(float(job.since), UTC),
        slots=int(job.slots),
    )


def _run_embedded_program_for_output(folder: EmbeddedClusterAccessSettings, *words: str) -> bytes:
    return run_embedded_program(folder, *words, most_bytes=LIST_BYTES).require_success().stdout
