"""What ends a running task before its program does: its walltime, and a place that others need.

Its keeper watches over both. A task that makes way is told by the signals of sge-methods/preempt:
it learns that its place is needed, gets the checkpoint signal, and is killed ten seconds later.
"""

import os
import sqlite3
import time
from contextlib import suppress
from math import inf
from signal import SIGKILL, SIGUSR2

from gridbridge.batch.embedded.embedded_job import EmbeddedJob, EmbeddedJobEnd
from gridbridge.batch.embedded.job_store import JobStore
from gridbridge.batch.embedded.process_identity import signal_group

MAKE_WAY = 56  # to a task's first process (batch/task.sh)
PATIENCE_S = 10.0  # for what a task has to save
LOOK_S = 1.0
WALLTIME, PLACE, DELETION = "walltime", "place", "deletion"  # words of model.job.KilledFor


class TaskLimits:
    """The limits of one running job, as its keeper watches them."""

    def __init__(self, database: JobStore, job: EmbeddedJob, pid: int) -> None:
        self._database = database
        self._job = job
        self._pid = pid
        self._until_s = time.monotonic() + job.walltime_s if job.walltime_s else inf
        self._killed_for = ""

    @property
    def wait_s(self) -> float | None:
        """Until when nothing has to be looked at; None: not at all."""
        left_s = max(0.0, self._until_s - time.monotonic())
        if self._job.yields:
            return min(LOOK_S, left_s)
        return None if left_s == inf else left_s

    def look(self) -> None:
        """Kill the job when it overran its walltime, or did not make way in time.

        A database that does not answer is asked again: without its keeper the job has no end.
        """
        if time.monotonic() >= self._until_s:
            self._kill(WALLTIME)
            return
        with suppress(sqlite3.OperationalError):
            if self._job.yields and self._overstays():
                self._kill(PLACE)

    def judge(self, job: EmbeddedJob, end: EmbeddedJobEnd) -> EmbeddedJobEnd:
        """Return the end with what the job was killed for, if it died."""
        if end.signal is None:
            return end
        return end._replace(killed_for=self._killed_for or (DELETION if job.deleting else ""))

    def _overstays(self) -> bool:
        jobs = self._database.jobs(self._job.id)
        told_at = jobs[0].way_at if jobs else None
        return told_at is not None and not 0 <= time.time() - told_at < PATIENCE_S

    def _kill(self, why: str) -> None:
        """Kill it and all that is in its group; its first process is not reaped yet."""
        self._killed_for, self._until_s = why, inf
        with suppress(ProcessLookupError):
            os.killpg(self._pid, SIGKILL)


def make_way(database: JobStore) -> None:
    """Tell tasks to make way where that gives the job whose turn it is its slots.

    The newest first, and no more than it needs; none when all of them would not do.
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


def _victims(database: JobStore, needed: int) -> list[EmbeddedJob]:
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
        signal_group(job.pid, job.birth, SIGUSR2)
