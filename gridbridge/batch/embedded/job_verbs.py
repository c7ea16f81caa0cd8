"""Acts on the jobs of an embedded cluster, each of them one transaction.

A signal is sent within its transaction: what is noted as running then has the process that is
noted (see keeper). A command that was killed in between is repeated by its caller.
"""

from signal import SIGCONT, SIGKILL, SIGSTOP

from gridbridge.batch.embedded import queue_methods
from gridbridge.batch.embedded.embedded_commands import OWN
from gridbridge.batch.embedded.embedded_job import EmbeddedJob
from gridbridge.batch.embedded.job_store import JobStore, NoSuchEmbeddedJob, RequestRefused
from gridbridge.batch.embedded.process_identity import signal_group
from gridbridge.model.campaigns.attempt_numbers import parse_index_ranges


def hold(database: JobStore, number: int) -> None:
    """Keep a waiting job from starting; a running one runs on."""
    with database.change():
        database.set(database.job(number).id, held=1)


def release(database: JobStore, number: int, name: str) -> None:
    """Let a held job start; under another name if one is given."""
    with database.change():
        job = database.job(number)
        database.set(job.id, held=0, name=name or job.name)


def suspend(database: JobStore, number: int) -> None:
    """Stop a running job, keep a waiting one from starting."""
    with database.change():
        job = database.job(number)
        _signal(job, SIGSTOP)
        held = job.held if job.at else 1
        database.set(job.id, held=held, suspended=int(job.pid > 0))
    queue_methods.run(database, job, "suspend")


def resume(database: JobStore, number: int) -> None:
    """Take back what `suspend` did, whichever it was, also half done."""
    with database.change():
        job = database.job(number)
        _signal(job, SIGCONT)
        held = job.held if job.at else 0
        database.set(job.id, held=held, suspended=0)
    queue_methods.run(database, job, "resume")


def delete(database: JobStore, number: int) -> None:
    """End a running job, forget a waiting one; like Grid Engine, without accounting for that."""
    with database.change():
        job = database.job(number)
        _end(database, job)
    queue_methods.run(database, job, "terminate")


def pin(database: JobStore, number: int, queue: str) -> None:
    """Let a job start in one queue only; in those that it asked for again if none is given."""
    with database.change():
        database.require(queue)
        database.set(database.job(number).id, pinned=queue)


def stay(database: JobStore, number: int, reason: str) -> None:
    """Let a job start in the cluster's own slots only, for a reason."""
    with database.change():
        job = database.job(number)
        if job.slots > database.slots:
            raise RequestRefused(
                f"job {number} needs {job.slots} slots, {OWN} has {database.slots}"
            )
        database.set(job.id, wanted=OWN, reason=reason)


def clear(database: JobStore, number: int) -> None:
    """Let a job in error state be tried again."""
    with database.change():
        database.set(database.job(number).id, error="")


def release_array(database: JobStore, array: int, name: str) -> None:
    """Let the held tasks of an array start, under another name if one is given."""
    with database.change():
        for job in _tasks(database, array):
            database.set(job.id, held=0, name=name or job.name)


def delete_array(database: JobStore, array: int, indices: str) -> None:
    """Delete the tasks of an array, or only those at some places, as `delete` does."""
    ranges = parse_index_ranges(indices) if indices else None
    with database.change():
        for job in _tasks(database, array):
            if ranges is None or any(job.place in span for span in ranges):
                _end(database, job)


def _tasks(database: JobStore, array: int) -> list[EmbeddedJob]:
    if tasks := database.tasks(array):
        return tasks
    raise NoSuchEmbeddedJob(f"array {array} does not exist")


def _end(database: JobStore, job: EmbeddedJob) -> None:
    """Kill a running job, forget a waiting one."""
    _signal(job, SIGKILL)
    if job.pid:
        database.set(job.id, deleting=1)
    else:
        database.remove(job)


def _signal(job: EmbeddedJob, number: int) -> None:
    """Signal a job; one of a transfer queue has methods instead (queue_conf(5))."""
    if job.pid and not job.at:
        signal_group(job.pid, job.birth, number)
