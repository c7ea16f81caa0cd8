"""Stores the jobs and the accounting of an embedded cluster in one SQLite file.

Each change is one transaction that holds the write lock from its beginning, so that its reads still
hold when it writes. A process that is killed has done all of a change or none of it.
"""

import os
import time
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager

from gridbridge.batch.embedded import embedded_accounting, process_identity
from gridbridge.batch.embedded.embedded_accounting import MOST_JOBS
from gridbridge.batch.embedded.embedded_commands import OWN
from gridbridge.batch.embedded.embedded_job import (
    EmbeddedJob,
    EmbeddedJobEnd,
    EmbeddedTaskEnd,
    EmbeddedTransferQueue,
    NewEmbeddedJob,
)
from gridbridge.batch.embedded.keeper_locks import JobKeeperLocks
from gridbridge.batch.embedded.schema import FILE, open_store_file
from gridbridge.batch.embedded.text_encoding import decode_from_sqlite, encode_for_sqlite
from gridbridge.errors import GridbridgeError
from gridbridge.model.settings import OBJECT_NAME

STARTABLE = " WHERE pid = 0 AND held = 0 AND error = x''"
ALLOWED = " AND iif(pinned = x'', wanted, pinned) IN (x'', ?)"
ORDERED = " ORDER BY id"
IN_TURN = " ORDER BY yields, id LIMIT 1"
OF_ARRAY = " WHERE array = ? AND array > 0 ORDER BY place"
SECONDS = 365 * 86400  # the longest walltime
MOST = 2**31 - 1  # slots, or jobs that wait
MOST_TASKS = 100_000  # of one array
LOST = "its keeper died: nobody saw its end"


class EmbeddedRequestRefused(GridbridgeError):
    """Raised when an embedded cluster can never do what was asked."""


class NoSuchEmbeddedJob(GridbridgeError):
    """Raised when no job of this id waits or runs on an embedded cluster."""


class EmbeddedJobStore:
    """One process's connection to the SQLite file; it must not be used after a fork."""

    def __init__(self, folder: str, create: bool = False) -> None:
        self.folder = folder
        self._db = open_store_file(folder, create)
        self.keepers = JobKeeperLocks(f"{folder}/keepers")

    def is_there(self) -> bool:
        """Say whether the cluster's folder still exists."""
        return os.path.exists(f"{self.folder}/{FILE}")

    @contextmanager
    def change(self) -> Iterator[None]:
        """Run a block as one write transaction."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    @contextmanager
    def one_view(self) -> Iterator[None]:
        """Run a block of reads on one snapshot of the file."""
        self._db.execute("BEGIN")
        try:
            yield
        finally:
            self._db.execute("ROLLBACK")

    @property
    def slots(self) -> int:
        """How many slots the cluster has."""
        return self._number("SELECT slots FROM cluster")

    @slots.setter
    def slots(self, slots: int) -> None:
        if not 0 <= slots <= MOST:
            raise EmbeddedRequestRefused(f"{slots} slots; 0 to {MOST}")
        with self.change():
            self._db.execute("DELETE FROM cluster")
            self._db.execute("INSERT INTO cluster VALUES (?)", (slots,))

    @property
    def used(self) -> int:
        """The number of own slots that running and suspended jobs use."""
        return self.used_in("")

    @property
    def waiting(self) -> int:
        """The number of jobs that could start: not held, not in error, no array tasks."""
        return self._number(f"SELECT count(*) FROM job{STARTABLE} AND array = 0")  # noqa: S608 - ours

    @property
    def yielding(self) -> int:
        """The number of slots that preemptible jobs use."""
        return self._number("SELECT coalesce(sum(slots), 0) FROM job WHERE pid > 0 AND yields = 1")

    def add(self, request: NewEmbeddedJob, owner: str) -> int:
        """Add a new job or array, and return its id."""
        with self.change():
            self._require_room(request)
            job = self._insert(request, owner, 0, min(1, request.tasks))
            if request.tasks:
                self.set(job, array=job)
            for index in range(2, request.tasks + 1):
                self._insert(request, owner, job, index)
            self._db.execute("INSERT INTO script VALUES (?, ?)", (job, request.script))
        return job

    def _insert(self, request: NewEmbeddedJob, owner: str, array: int, index: int) -> int:
        values = {
            "name": request.name,
            "account": request.account,
            "owner": owner,
            "shell": request.shell,
            "cwd": request.cwd,
            "output": request.output,
            "wanted": request.queue,
            "slots": request.slots,
            "held": request.held,
            "submitted_at": time.time(),
            "walltime_s": request.walltime_s,
            "yields": request.yields,
            "array": array,
            "place": index,
        }
        into = f"INSERT INTO job ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})"  # noqa: S608 - names of ours
        job = self._db.execute(into, tuple(map(encode_for_sqlite, values.values()))).lastrowid
        assert job is not None
        return job

    def jobs(self, number: int = 0, name: str = "") -> list[EmbeddedJob]:
        """Return the waiting and running jobs: all, one, or those of a name; oldest first."""
        if number:
            return self._jobs(" WHERE id = ?", number) if abs(number) <= MOST_JOBS else []
        if name:
            return self._jobs(f" WHERE name = ?{ORDERED}", encode_for_sqlite(name))
        return self._jobs(ORDERED)

    def job(self, number: int) -> EmbeddedJob:
        """Return one job; NoSuchEmbeddedJob if it is gone."""
        jobs = self.jobs(number) if number else []
        if not jobs:
            raise NoSuchEmbeddedJob(f"job {number} does not exist")
        return jobs[0]

    def tasks(self, array: int) -> list[EmbeddedJob]:
        """Return the waiting and running tasks of an array, by index."""
        return self._jobs(OF_ARRAY, array) if abs(array) <= MOST_JOBS else []

    def script(self, job: EmbeddedJob) -> bytes:
        """Return a job's script, which all tasks of an array share."""
        row = self._db.execute("SELECT text FROM script WHERE job = ?", (job.array or job.id,))
        return bytes(row.fetchone()[0])

    def _require_room(self, request: NewEmbeddedJob) -> None:
        has = self.require(request.queue)
        most = has[request.queue] if request.queue else max(has.values())
        if not 1 <= request.slots <= most:
            where = f"queue {request.queue}" if request.queue else "the cluster"
            raise EmbeddedRequestRefused(f"{request.slots} slots asked for, {where} has {most}")
        if not (0 <= request.tasks <= MOST_TASKS and 0 <= request.walltime_s <= SECONDS):
            raise EmbeddedRequestRefused(
                f"0 to {MOST_TASKS} tasks, and a walltime of 0 to {SECONDS} s"
            )

    def require(self, queue: str) -> dict[str, int]:
        """Return the slots of each queue; EmbeddedRequestRefused if `queue` does not exist."""
        has = {OWN: self.slots} | {
            transfer_queue.name: transfer_queue.slots for transfer_queue in self.queues()
        }
        if queue and queue not in has:
            raise EmbeddedRequestRefused(f"no queue {queue}; there are {', '.join(has)}")
        return has

    def queues(self) -> list[EmbeddedTransferQueue]:
        """Return the transfer queues, by name."""
        rows = self._db.execute("SELECT * FROM queue ORDER BY name")
        return [EmbeddedTransferQueue(*map(decode_from_sqlite, row)) for row in rows]

    def put_queue(self, queue: EmbeddedTransferQueue) -> None:
        """Make a transfer queue, or replace its settings."""
        if queue.name == OWN or not OBJECT_NAME.holds(queue.name):
            raise EmbeddedRequestRefused(
                f"queue {queue.name!r}: {OBJECT_NAME.right}; {OWN} is no transfer queue"
            )
        for number in (queue.slots, queue.pending_limit):
            if not 0 <= number <= MOST:
                raise EmbeddedRequestRefused(f"queue {queue.name}: {number} is not 0 to {MOST}")
        with self.change():
            row = tuple(map(encode_for_sqlite, queue))
            self._db.execute("INSERT OR REPLACE INTO queue VALUES (?, ?, ?, ?, ?)", row)

    def next_to_start(self, opened: Container[str] = ()) -> EmbeddedJob | None:
        """Return the next job that can start, with the queue in which it starts.

        Each queue is strictly first in, first out, so that later jobs can't starve a wide one.
        Preemptible jobs come after all others. Only the transfer queues in `opened` count.
        """
        queues = (queue for queue in self.queues() if queue.name in opened)
        return self._first(OWN, self.slots) or next(filter(None, map(self.first_for, queues)), None)

    def first_for(self, queue: EmbeddedTransferQueue) -> EmbeddedJob | None:
        """Return the job that a transfer queue would start now if it were open."""
        return self._first(queue.name, queue.slots)

    def _first(self, queue: str, slots: int) -> EmbeddedJob | None:
        at = "" if queue == OWN else queue
        job = self.first_in_turn(queue)
        is_room = job and job.slots <= slots - self.used_in(at)
        return job._replace(at=at) if job and is_room else None

    def first_in_turn(self, queue: str = OWN) -> EmbeddedJob | None:
        """Return the first job of a queue, whether enough slots are free or not."""
        return next(
            iter(self._jobs(f"{STARTABLE}{ALLOWED}{IN_TURN}", encode_for_sqlite(queue))), None
        )

    def running_to_yield(self) -> list[EmbeddedJob]:
        """Return the running preemptible jobs, the newest first."""
        return self._jobs(" WHERE pid > 0 AND yields = 1 ORDER BY started_at DESC, id DESC")

    def used_in(self, at: str) -> int:
        """Return the used slots of a transfer queue, or the own slots for an empty name."""
        query = "SELECT coalesce(sum(slots), 0) FROM job WHERE pid > 0 AND at = ?"
        return int(self._db.execute(query, (encode_for_sqlite(at),)).fetchone()[0])

    def set(self, number: int, **values: object) -> None:
        """Change columns of a job's row."""
        columns = ", ".join(f"{column} = ?" for column in values)
        row = (*map(encode_for_sqlite, values.values()), number)
        self._db.execute(f"UPDATE job SET {columns} WHERE id = ?", row)  # noqa: S608 - our names

    def remove(self, job: EmbeddedJob) -> None:
        """Delete a job's row, and its script unless another task of the array needs it."""
        self._db.execute("DELETE FROM job WHERE id = ?", (job.id,))
        query = "SELECT count(*) FROM job WHERE array = ? AND array > 0"
        if not self._number(query, job.array):
            self._db.execute("DELETE FROM script WHERE job = ?", (job.array or job.id,))

    def put_back(self, job: EmbeddedJob, error: str = "") -> None:
        """Let a transfer queue's job wait again, or wait in error state."""
        self.set(
            job.id,
            pid=0,
            birth="",
            started_at=None,
            suspended=0,
            deleting=0,
            at="",
            restarted=1,
            error=error,
        )

    def account_for(self, job: EmbeddedJob, end: EmbeddedJobEnd) -> None:
        """Move a job from the job list to the accounting."""
        embedded_accounting.record_job_end(self._db, job, end)
        self.remove(job)

    def end_of(self, number: int) -> tuple[str, EmbeddedJobEnd] | None:
        """Return an ended job's account and end; None if there is no record."""
        return embedded_accounting.read_recorded_end(self._db, number)

    def ends_of(self, array: int) -> list[EmbeddedTaskEnd]:
        """Return the recorded ends of an array's tasks, by index."""
        return embedded_accounting.read_recorded_task_ends(self._db, array)

    def lost(self) -> list[EmbeddedJob]:
        """Return the jobs recorded as running that have neither a keeper nor a process."""
        return [
            job
            for job in self._jobs(" WHERE pid > 0")
            if not self.keepers.is_kept(job.id)
            and process_identity.process_birth_id(job.pid) != job.birth
        ]

    def account_for_lost(self) -> Iterable[int]:
        """Account for the lost jobs, and return their ids.

        A lost job of a transfer queue waits again unless it was deleted: its remote job may live,
        and the next start adopts that job.
        """
        if not self.lost():
            return ()
        with self.change():
            lost = self.lost()
            for job in lost:
                if job.at and not job.deleting:
                    self.put_back(job)
                else:
                    self.account_for(job, EmbeddedJobEnd(reason=LOST))
        return [job.id for job in lost if not job.at or job.deleting]

    def _jobs(self, condition: str, *values: object) -> list[EmbeddedJob]:
        query = f"SELECT * FROM job{condition}"  # noqa: S608 - of this module's own text
        return [
            EmbeddedJob(*map(decode_from_sqlite, row)) for row in self._db.execute(query, values)
        ]

    def _number(self, query: str, *values: object) -> int:
        return int(self._db.execute(query, values).fetchone()[0])
