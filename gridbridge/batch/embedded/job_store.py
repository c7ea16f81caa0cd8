"""The jobs of an embedded cluster and its accounting, in one SQLite file.

Each change is one transaction that has the write lock from its beginning, so what it read still
holds when it writes; a process that is killed has done all of it or nothing.
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
    EmbeddedQueue,
    NewJob,
    TaskEnd,
)
from gridbridge.batch.embedded.keeper_locks import KeeperLocks
from gridbridge.batch.embedded.schema import FILE, open_file
from gridbridge.batch.embedded.text_encoding import loaded, stored
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


class RequestRefused(GridbridgeError):
    """The cluster can't ever do what was asked."""


class NoSuchEmbeddedJob(GridbridgeError):
    """No such job waits or runs here."""


class JobStore:
    """One process's connection; the process must not fork and go on with it."""

    def __init__(self, folder: str, create: bool = False) -> None:
        self.folder = folder
        self._db = open_file(folder, create)
        self.keepers = KeeperLocks(f"{folder}/keepers")

    def is_there(self) -> bool:
        """Say whether the cluster's folder was not removed meanwhile."""
        return os.path.exists(f"{self.folder}/{FILE}")

    @contextmanager
    def change(self) -> Iterator[None]:
        """Do all of a change or nothing."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    @contextmanager
    def one_view(self) -> Iterator[None]:
        """Read what was true at one moment."""
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
            raise RequestRefused(f"{slots} slots; 0 to {MOST}")
        with self.change():
            self._db.execute("DELETE FROM cluster")
            self._db.execute("INSERT INTO cluster VALUES (?)", (slots,))

    @property
    def used(self) -> int:
        """How many of its own slots the running jobs have, suspended ones included."""
        return self.used_in("")

    @property
    def waiting(self) -> int:
        """How many jobs could start: neither held nor in error, nor tasks of an array."""
        return self._number(f"SELECT count(*) FROM job{STARTABLE} AND array = 0")  # noqa: S608 - ours

    @property
    def yielding(self) -> int:
        """How many of the used slots are those of jobs that make way."""
        return self._number("SELECT coalesce(sum(slots), 0) FROM job WHERE pid > 0 AND yields = 1")

    def add(self, request: NewJob, owner: str) -> int:
        """Take a new job, or an array, and return its number."""
        with self.change():
            self._require_room(request)
            job = self._insert(request, owner, 0, min(1, request.tasks))
            if request.tasks:
                self.set(job, array=job)
            for index in range(2, request.tasks + 1):
                self._insert(request, owner, job, index)
            self._db.execute("INSERT INTO script VALUES (?, ?)", (job, request.script))
        return job

    def _insert(self, request: NewJob, owner: str, array: int, index: int) -> int:
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
        job = self._db.execute(into, tuple(map(stored, values.values()))).lastrowid
        assert job is not None
        return job

    def jobs(self, number: int = 0, name: str = "") -> list[EmbeddedJob]:
        """Return the jobs that wait or run: all, one, or those of a name; oldest first."""
        if number:
            return self._jobs(" WHERE id = ?", number) if abs(number) <= MOST_JOBS else []
        if name:
            return self._jobs(f" WHERE name = ?{ORDERED}", stored(name))
        return self._jobs(ORDERED)

    def job(self, number: int) -> EmbeddedJob:
        """Return one job; UnknownJob when it is gone."""
        jobs = self.jobs(number) if number else []
        if not jobs:
            raise NoSuchEmbeddedJob(f"job {number} does not exist")
        return jobs[0]

    def tasks(self, array: int) -> list[EmbeddedJob]:
        """Return the tasks of an array that wait or run, by their places."""
        return self._jobs(OF_ARRAY, array) if abs(array) <= MOST_JOBS else []

    def script(self, job: EmbeddedJob) -> bytes:
        """Return a job's script; the tasks of an array share one."""
        row = self._db.execute("SELECT text FROM script WHERE job = ?", (job.array or job.id,))
        return bytes(row.fetchone()[0])

    def _require_room(self, request: NewJob) -> None:
        has = self.require(request.queue)
        most = has[request.queue] if request.queue else max(has.values())
        if not 1 <= request.slots <= most:
            where = f"queue {request.queue}" if request.queue else "the cluster"
            raise RequestRefused(f"{request.slots} slots asked for, {where} has {most}")
        if not (0 <= request.tasks <= MOST_TASKS and 0 <= request.walltime_s <= SECONDS):
            raise RequestRefused(f"0 to {MOST_TASKS} tasks, and a walltime of 0 to {SECONDS} s")

    def require(self, queue: str) -> dict[str, int]:
        """Return the slots of each queue; Refused when the one that is named is not there."""
        has = {OWN: self.slots} | {
            transfer_queue.name: transfer_queue.slots for transfer_queue in self.queues()
        }
        if queue and queue not in has:
            raise RequestRefused(f"no queue {queue}; there are {', '.join(has)}")
        return has

    def queues(self) -> list[EmbeddedQueue]:
        """Return the transfer queues, by name."""
        rows = self._db.execute("SELECT * FROM queue ORDER BY name")
        return [EmbeddedQueue(*map(loaded, row)) for row in rows]

    def put_queue(self, queue: EmbeddedQueue) -> None:
        """Make a transfer queue, or make it another one."""
        if queue.name == OWN or not OBJECT_NAME.holds(queue.name):
            raise RequestRefused(
                f"queue {queue.name!r}: {OBJECT_NAME.right}; {OWN} is no transfer queue"
            )
        for number in (queue.slots, queue.pending_limit):
            if not 0 <= number <= MOST:
                raise RequestRefused(f"queue {queue.name}: {number} is not 0 to {MOST}")
        with self.change():
            row = tuple(map(stored, queue))
            self._db.execute("INSERT OR REPLACE INTO queue VALUES (?, ?, ?, ?, ?)", row)

    def next_to_start(self, opened: Container[str] = ()) -> EmbeddedJob | None:
        """Return the first job that could start, and where: in a free own slot, or away.

        Strictly first in, first out in each queue: a wide job keeps later ones from passing it
        for ever. Jobs that make way come after all others. Of the transfer queues only the `opened`
        ones count.
        """
        queues = (queue for queue in self.queues() if queue.name in opened)
        return self._first(OWN, self.slots) or next(filter(None, map(self.first_for, queues)), None)

    def first_for(self, queue: EmbeddedQueue) -> EmbeddedJob | None:
        """Return the job that a transfer queue would start now, were it open."""
        return self._first(queue.name, queue.slots)

    def _first(self, queue: str, slots: int) -> EmbeddedJob | None:
        at = "" if queue == OWN else queue
        job = self.first_in_turn(queue)
        is_room = job and job.slots <= slots - self.used_in(at)
        return job._replace(at=at) if job and is_room else None

    def first_in_turn(self, queue: str = OWN) -> EmbeddedJob | None:
        """Return the job whose turn it is in a queue, whether there is room for it or not."""
        return next(iter(self._jobs(f"{STARTABLE}{ALLOWED}{IN_TURN}", stored(queue))), None)

    def running_to_yield(self) -> list[EmbeddedJob]:
        """Return the running jobs that make way, the newest first."""
        return self._jobs(" WHERE pid > 0 AND yields = 1 ORDER BY started_at DESC, id DESC")

    def used_in(self, at: str) -> int:
        """Return how many slots of a transfer queue the running jobs have, or of its own."""
        query = "SELECT coalesce(sum(slots), 0) FROM job WHERE pid > 0 AND at = ?"
        return int(self._db.execute(query, (stored(at),)).fetchone()[0])

    def set(self, number: int, **values: object) -> None:
        """Change columns of a job."""
        columns = ", ".join(f"{column} = ?" for column in values)
        row = (*map(stored, values.values()), number)
        self._db.execute(f"UPDATE job SET {columns} WHERE id = ?", row)  # noqa: S608 - our names

    def remove(self, job: EmbeddedJob) -> None:
        """Forget a job, and its script when no other task needs that."""
        self._db.execute("DELETE FROM job WHERE id = ?", (job.id,))
        query = "SELECT count(*) FROM job WHERE array = ? AND array > 0"
        if not self._number(query, job.array):
            self._db.execute("DELETE FROM script WHERE job = ?", (job.array or job.id,))

    def put_back(self, job: EmbeddedJob, error: str = "") -> None:
        """Let a job of a transfer queue wait again, or wait in error state."""
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
        """Move a job from the list to the accounting."""
        embedded_accounting.record(self._db, job, end)
        self.remove(job)

    def end_of(self, number: int) -> tuple[str, EmbeddedJobEnd] | None:
        """Return the account of a job that ended, and how; None when there is no record."""
        return embedded_accounting.end_of(self._db, number)

    def ends_of(self, array: int) -> list[TaskEnd]:
        """Return the ends of an array's tasks that there are records of, by their places."""
        return embedded_accounting.ends_of(self._db, array)

    def lost(self) -> list[EmbeddedJob]:
        """Return the jobs that run without a keeper and have ended: nobody knows how."""
        return [
            job
            for job in self._jobs(" WHERE pid > 0")
            if not self.keepers.is_kept(job.id) and process_identity.birth(job.pid) != job.birth
        ]

    def account_for_lost(self) -> Iterable[int]:
        """Account for the jobs that are lost, and return their numbers.

        One of a transfer queue waits again, unless it was deleted: it runs elsewhere, and the
        transfer knows how to take it up.
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
        return [EmbeddedJob(*map(loaded, row)) for row in self._db.execute(query, values)]

    def _number(self, query: str, *values: object) -> int:
        return int(self._db.execute(query, values).fetchone()[0])
