"""Holds, releases, suspends, resumes, deletes and preempts the jobs of an embedded cluster.

Signals are sent within a verb's transaction, while the pid is the job's. Callers repeat interrupted verbs.
"""

import os
import sqlite3
import time
from contextlib import suppress
from math import inf
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGUSR2

from gridbridge.batch.embedded import embedded_job_start
from gridbridge.batch.embedded.embedded_cluster_rows import EmbeddedJob, EmbeddedJobEnd
from gridbridge.batch.embedded.embedded_job_processes import signal_job_process_group
from gridbridge.batch.embedded.embedded_job_store import EmbeddedJobStore, EmbeddedRequestRefusal, NoSuchEmbeddedJob
from gridbridge.batch.embedded.embedded_program_calls import OWN
from gridbridge.model.campaigns.task_index_and_attempt_texts import parse_array_index_ranges


def hold_embedded_job(database: EmbeddedJobStore, number: int) -> None:
    """Hold a job; a running job continues."""
    with database.write_transaction():
        database.update_job(database.live_job(number).id, held=1)


def release_embedded_job(database: EmbeddedJobStore, number: int, name: str) -> None:
    """Release a held job, and rename the job unless `name` is empty."""
    with database.write_transaction():
        job = database.live_job(number)
        database.update_job(job.id, held=0, name=name or job.name)


def suspend_embedded_job(database: EmbeddedJobStore, number: int) -> None:
    """Suspend a running job, or hold a waiting job."""
    with database.write_transaction():
        job = database.live_job(number)
        _signal_job_unless_transferred(job, SIGSTOP)
        held = job.held if job.at else 1
        database.update_job(job.id, held=held, suspended=int(job.pid > 0))
    embedded_job_start.run_embedded_queue_method(database, job, "suspend")


def resume_embedded_job(database: EmbeddedJobStore, number: int) -> None:
    """Resume a suspended job or release a held job, even if `suspend_embedded_job` was interrupted."""
    with database.write_transaction():
        job = database.live_job(number)
        _signal_job_unless_transferred(job, SIGCONT)
        held = job.held if job.at else 0
        database.update_job(job.id, held=held, suspended=0)
    embedded_job_start.run_embedded_queue_method(database, job, "resume")


def delete_embedded_job(database: EmbeddedJobStore, number: int) -> None:
    """Kill a running job, or remove a waiting job.

    A removed waiting job gets no accounting record, as in Grid Engine.
    """
    with database.write_transaction():
        job = database.live_job(number)
        _kill_or_remove_job(database, job)
    embedded_job_start.run_embedded_queue_method(database, job, "terminate")


def pin_embedded_job_to_queue(database: EmbeddedJobStore, number: int, queue: str) -> None:
    """Restrict a job to one queue; an empty queue lifts the restriction."""
    with database.write_transaction():
        database.slots_by_queue(queue)
        database.update_job(database.live_job(number).id, pinned=queue)


def keep_embedded_job_home(database: EmbeddedJobStore, number: int, reason: str) -> None:
    """Restrict a job to the queue `embedded`, and record the reason."""
    with database.write_transaction():
        job = database.live_job(number)
        if job.slots > database.local_slots:
            raise EmbeddedRequestRefusal(f"job {number}: {job.slots} slots requested, {OWN} has {database.local_slots}")
        database.update_job(job.id, wanted=OWN, reason=reason)


def clear_embedded_job_error(database: EmbeddedJobStore, number: int) -> None:
    with database.write_transaction():
        database.update_job(database.live_job(number).id, error="")


def release_embedded_array(database: EmbeddedJobStore, array: int, name: str) -> None:
    """Release the held tasks of an array, and rename the tasks unless `name` is empty."""
    with database.write_transaction():
        for job in _existing_array_tasks(database, array):
            database.update_job(job.id, held=0, name=name or job.name)


def delete_embedded_array(database: EmbeddedJobStore, array: int, indices: str) -> None:
    ranges = parse_array_index_ranges(indices) if indices else None
    with database.write_transaction():
        for job in _existing_array_tasks(database, array):
            if ranges is None or any(job.place in span for span in ranges):
                _kill_or_remove_job(database, job)


def _existing_array_tasks(database: EmbeddedJobStore, array: int) -> list[EmbeddedJob]:
    if tasks := database.live_array_tasks(array):
        return tasks
    raise NoSuchEmbeddedJob(f"array {array} does not exist")


def _kill_or_remove_job(database: EmbeddedJobStore, job: EmbeddedJob) -> None:
    _signal_job_unless_transferred(job, SIGKILL)
    if job.pid:
        database.update_job(job.id, deleting=1)
    else:
        database.remove_job(job)


def _signal_job_unless_transferred(job: EmbeddedJob, number: int) -> None:
    """Signal a job's process group; jobs of transfer queues get their signals from queue methods."""
    if job.pid and not job.at:
        signal_job_process_group(job.pid, job.birth, number)


MAKE_WAY = 56  # signal that announces a preemption to the first process of a task (batch/task.sh)
PATIENCE_S = 10.0  # time for a preempted task to save its work
LOOK_S = 1.0
WALLTIME, PLACE, DELETION = "walltime", "place", "deletion"


class EmbeddedJobWalltimeAndPreemptionEnforcer:
    """Enforces the walltime and the preemption of one running job."""

    def __init__(self, database: EmbeddedJobStore, job: EmbeddedJob, pid: int) -> None:
        self._database = database
        self._job = job
        self._pid = pid
        self._until_s = time.monotonic() + job.walltime_s if job.walltime_s else inf
        self._killed_for = ""

    @property
    def seconds_until_kill_check(self) -> float | None:
        left_s = max(0.0, self._until_s - time.monotonic())
        if self._job.yields:
            return min(LOOK_S, left_s)
        return None if left_s == inf else left_s

    def kill_job_if_due(self) -> None:
        """Kill the job after its walltime, or PATIENCE_S after its preemption.

        A locked database delays only the kill of a preempted job.
        """
        if time.monotonic() >= self._until_s:
            self._kill_job(WALLTIME)
            return
        with suppress(sqlite3.OperationalError):
            if self._job.yields and self._is_kill_after_preemption_due():
                self._kill_job(PLACE)

    def add_kill_reason_to_job_end(self, job: EmbeddedJob, end: EmbeddedJobEnd) -> EmbeddedJobEnd:
        """Return the job's end with the reason of a kill: walltime, preemption or deletion."""
        if end.signal is None:
            return end
        return end._replace(killed_for=self._killed_for or (DELETION if job.deleting else ""))

    def _is_kill_after_preemption_due(self) -> bool:
        jobs = self._database.live_jobs(self._job.id)
        told_at = jobs[0].way_at if jobs else None
        return told_at is not None and not 0 <= time.time() - told_at < PATIENCE_S

    def _kill_job(self, why: str) -> None:
        """Kill the job's process group; the pid is valid, because the first process is not reaped yet."""
        self._killed_for, self._until_s = why, inf
        with suppress(ProcessLookupError):
            os.killpg(self._pid, SIGKILL)


def preempt_embedded_tasks(database: EmbeddedJobStore) -> None:
    """Preempt the newest running tasks, as many as the next waiting job needs; none if all together are too few.

    A task gets an announcing signal and the checkpoint signal, and SIGKILL after PATIENCE_S.
    """
    first = database.first_waiting_job()
    if first is None or first.yields or first.slots <= database.local_slots - database.used_slots():
        return
    with database.write_transaction():
        first = database.first_waiting_job()
        if first and not first.yields:
            for job in _choose_tasks_to_preempt(database, first.slots - (database.local_slots - database.used_slots())):
                database.update_job(job.id, way_at=time.time())
                _announce_preemption_to_job(job)


def _choose_tasks_to_preempt(database: EmbeddedJobStore, needed: int) -> list[EmbeddedJob]:
    running = database.running_preemptible_jobs()
    needed -= sum(job.slots for job in running if job.way_at or job.deleting)
    chosen: list[EmbeddedJob] = []
    for job in running:
        if needed > 0 and not (job.way_at or job.deleting):
            chosen.append(job)
            needed -= job.slots
    return chosen if needed <= 0 else []


def _announce_preemption_to_job(job: EmbeddedJob) -> None:
    with suppress(ProcessLookupError):
        if job.array:
            os.kill(job.pid, MAKE_WAY)
        signal_job_process_group(job.pid, job.birth, SIGUSR2)
