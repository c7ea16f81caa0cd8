"""Ends a running task at its walltime, or when it is preempted by a waiting job.

The task's keeper checks both conditions. A preempted task gets the signals of sge-methods/preempt:
a signal that announces the preemption, then the checkpoint signal, then SIGKILL after ten seconds.
"""

import os
import sqlite3
import time
from contextlib import suppress
from math import inf
from signal import SIGKILL, SIGUSR2

from gridbridge.batch.embedded.embedded_cluster_rows import EmbeddedJob, EmbeddedJobEnd
from gridbridge.batch.embedded.job_store import EmbeddedJobStore
from gridbridge.batch.embedded.process_identity import signal_job_process_group

MAKE_WAY = 56  # signal to the first process of a task (batch/task.sh)
PATIENCE_S = 10.0  # time for a preempted task to save its work
LOOK_S = 1.0
WALLTIME, PLACE, DELETION = "walltime", "place", "deletion"  # values of model.job.JobKillReason


class EmbeddedWalltimeAndPreemption:
    """The walltime and preemption limits of one running job, checked by its keeper."""

    def __init__(self, database: EmbeddedJobStore, job: EmbeddedJob, pid: int) -> None:
        self._database = database
        self._job = job
        self._pid = pid
        self._until_s = time.monotonic() + job.walltime_s if job.walltime_s else inf
        self._killed_for = ""

    @property
    def wait_s(self) -> float | None:
        """The seconds until the next check is due; None if no limit applies."""
        left_s = max(0.0, self._until_s - time.monotonic())
        if self._job.yields:
            return min(LOOK_S, left_s)
        return None if left_s == inf else left_s

    def look(self) -> None:
        """Kill the job if it exceeded its walltime, or its grace time after preemption.

        A locked database is ignored until the next check: a job without its keeper would have no
        end.
        """
        if time.monotonic() >= self._until_s:
            self._kill(WALLTIME)
            return
        with suppress(sqlite3.OperationalError):
            if self._job.yields and self._overstays():
                self._kill(PLACE)

    def judge(self, job: EmbeddedJob, end: EmbeddedJobEnd) -> EmbeddedJobEnd:
        """Return the job's end, with the kill reason if this check killed the job."""
        if end.signal is None:
            return end
        return end._replace(killed_for=self._killed_for or (DELETION if job.deleting else ""))

    def _overstays(self) -> bool:
        jobs = self._database.jobs(self._job.id)
        told_at = jobs[0].way_at if jobs else None
        return told_at is not None and not 0 <= time.time() - told_at < PATIENCE_S

    def _kill(self, why: str) -> None:
        """Kill the job's process group; its first process is not reaped yet."""
        self._killed_for, self._until_s = why, inf
        with suppress(ProcessLookupError):
            os.killpg(self._pid, SIGKILL)


def preempt_embedded_tasks(database: EmbeddedJobStore) -> None:
    """Preempt running tasks if that frees enough slots for the next job in turn.

    The newest tasks are preempted first, and no more than needed; no task is preempted if all of
    them would not suffice.
    """
    first = database.first_in_turn()
    if first is None or first.yields or first.slots <= database.slots - database.used:
        return
    with database.change():
        first = database.first_in_turn()
        if first and not first.yields:
            for job in _victims(database, first.slots - (database.slots - database.used)):
                database.set(job.id, way_at=time.time())
                _tell(job)


def _victims(database: EmbeddedJobStore, needed: int) -> list[EmbeddedJob]:
    running = database.running_to_yield()
    needed -= sum(job.slots for job in running if job.way_at or job.deleting)
    chosen: list[EmbeddedJob] = []
    for job in running:
        if needed > 0 and not (job.way_at or job.deleting):
            chosen.append(job)
            needed -= job.slots
    return chosen if needed <= 0 else []


def _tell(job: EmbeddedJob) -> None:
    with suppress(ProcessLookupError):
        if job.array:
            os.kill(job.pid, MAKE_WAY)
        signal_job_process_group(job.pid, job.birth, SIGUSR2)
