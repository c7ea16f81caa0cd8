"""Verbs on the jobs of an embedded cluster; each verb is one transaction.

A signal is sent within its transaction, so that it reaches the process that is recorded as running.
A verb whose process was killed is repeated by its caller.
"""

from signal import SIGCONT, SIGKILL, SIGSTOP

from gridbridge.batch.embedded import queue_methods
from gridbridge.batch.embedded.embedded_cluster_rows import EmbeddedJob
from gridbridge.batch.embedded.embedded_commands import OWN
from gridbridge.batch.embedded.job_store import EmbeddedJobStore, EmbeddedRequestRefusal, NoSuchEmbeddedJob
from gridbridge.batch.embedded.process_identity import signal_job_process_group
from gridbridge.model.campaigns.task_attempt_ranges import parse_array_index_ranges


def hold_embedded_job(database: EmbeddedJobStore, number: int) -> None:
    """Hold a waiting job; a running job continues."""
    with database.change():
        database.set(database.job(number).id, held=1)


def release_embedded_job(database: EmbeddedJobStore, number: int, name: str) -> None:
    """Release a held job, and rename it if a name is given."""
    with database.change():
        job = database.job(number)
        database.set(job.id, held=0, name=name or job.name)


def suspend_embedded_job(database: EmbeddedJobStore, number: int) -> None:
    """Suspend a running job, or hold a waiting job."""
    with database.change():
        job = database.job(number)
        _signal(job, SIGSTOP)
        held = job.held if job.at else 1
        database.set(job.id, held=held, suspended=int(job.pid > 0))
    queue_methods.run_embedded_queue_method(database, job, "suspend")


def resume_embedded_job(database: EmbeddedJobStore, number: int) -> None:
    """Undo `suspend_embedded_job`, even if that was interrupted."""
    with database.change():
        job = database.job(number)
        _signal(job, SIGCONT)
        held = job.held if job.at else 0
        database.set(job.id, held=held, suspended=0)
    queue_methods.run_embedded_queue_method(database, job, "resume")


def delete_embedded_job(database: EmbeddedJobStore, number: int) -> None:
    """Kill a running job, or remove a waiting job without accounting, as Grid Engine does."""
    with database.change():
        job = database.job(number)
        _end(database, job)
    queue_methods.run_embedded_queue_method(database, job, "terminate")


def pin_embedded_job_to_queue(database: EmbeddedJobStore, number: int, queue: str) -> None:
    """Restrict a job to one queue; an empty queue lifts the restriction."""
    with database.change():
        database.require(queue)
        database.set(database.job(number).id, pinned=queue)


def keep_embedded_job_home(database: EmbeddedJobStore, number: int, reason: str) -> None:
    """Restrict a job to the cluster's own slots, and record the reason."""
    with database.change():
        job = database.job(number)
        if job.slots > database.slots:
            raise EmbeddedRequestRefusal(f"job {number} needs {job.slots} slots, {OWN} has {database.slots}")
        database.set(job.id, wanted=OWN, reason=reason)


def clear_embedded_job_error(database: EmbeddedJobStore, number: int) -> None:
    """Clear a job's error state, so that it is started again."""
    with database.change():
        database.set(database.job(number).id, error="")


def release_embedded_array(database: EmbeddedJobStore, array: int, name: str) -> None:
    """Release the held tasks of an array, and rename them if a name is given."""
    with database.change():
        for job in _tasks(database, array):
            database.set(job.id, held=0, name=name or job.name)


def delete_embedded_array(database: EmbeddedJobStore, array: int, indices: str) -> None:
    """Delete all tasks of an array, or the tasks with some indices."""
    ranges = parse_array_index_ranges(indices) if indices else None
    with database.change():
        for job in _tasks(database, array):
            if ranges is None or any(job.place in span for span in ranges):
                _end(database, job)


def _tasks(database: EmbeddedJobStore, array: int) -> list[EmbeddedJob]:
    if tasks := database.tasks(array):
        return tasks
    raise NoSuchEmbeddedJob(f"array {array} does not exist")


def _end(database: EmbeddedJobStore, job: EmbeddedJob) -> None:
    """Kill a running job, or remove a waiting job."""
    _signal(job, SIGKILL)
    if job.pid:
        database.set(job.id, deleting=1)
    else:
        database.remove(job)


def _signal(job: EmbeddedJob, number: int) -> None:
    """Signal a job's process group; for a transfer queue's job run a method (queue_conf(5))."""
    if job.pid and not job.at:
        signal_job_process_group(job.pid, job.birth, number)
