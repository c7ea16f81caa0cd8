"""Stores the jobs, queues and accounting of an embedded cluster in a SQLite file."""

import os
import sqlite3
import time
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from gridbridge.batch.embedded import embedded_job_processes
from gridbridge.batch.embedded.embedded_cluster_rows import (
    EmbeddedArrayTaskEnd,
    EmbeddedJob,
    EmbeddedJobEnd,
    EmbeddedJobRequest,
    EmbeddedTransferQueue,
)
from gridbridge.batch.embedded.embedded_job_processes import EmbeddedJobKeeperLocks
from gridbridge.batch.embedded.embedded_program_calls import OWN
from gridbridge.errors import GridbridgeError, StateError
from gridbridge.model.config_key_descriptions import OBJECT_NAME

FILE = "jobs.db"
PATIENCE_S = 10.0  # timeout for the lock of the SQLite file; a transaction takes milliseconds
TABLES = """
CREATE TABLE cluster (slots INTEGER NOT NULL);
CREATE TABLE queue (
    name BLOB PRIMARY KEY, slots INTEGER NOT NULL, methods BLOB NOT NULL,
    remote BLOB NOT NULL, pending_limit INTEGER NOT NULL
);
CREATE TABLE job (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name BLOB NOT NULL, account BLOB NOT NULL, owner BLOB NOT NULL,
    shell BLOB NOT NULL, cwd BLOB NOT NULL, output BLOB NOT NULL,
    slots INTEGER NOT NULL, submitted_at REAL NOT NULL,
    held INTEGER NOT NULL, error BLOB NOT NULL DEFAULT x'',
    pid INTEGER NOT NULL DEFAULT 0, birth BLOB NOT NULL DEFAULT x'', started_at REAL,
    suspended INTEGER NOT NULL DEFAULT 0, deleting INTEGER NOT NULL DEFAULT 0,
    wanted BLOB NOT NULL DEFAULT x'', pinned BLOB NOT NULL DEFAULT x'',
    at BLOB NOT NULL DEFAULT x'', restarted INTEGER NOT NULL DEFAULT 0,
    reason BLOB NOT NULL DEFAULT x'', array INTEGER NOT NULL DEFAULT 0,
    place INTEGER NOT NULL DEFAULT 0, walltime_s INTEGER NOT NULL DEFAULT 0,
    yields INTEGER NOT NULL DEFAULT 0, way_at REAL
);
CREATE INDEX startable ON job (yields, id) WHERE pid = 0 AND held = 0 AND error = x'';
CREATE INDEX running ON job (id) WHERE pid > 0;
CREATE INDEX job_name ON job (name);
CREATE INDEX job_array ON job (array) WHERE array > 0;
CREATE TABLE script (job INTEGER PRIMARY KEY, text BLOB NOT NULL);
CREATE TABLE ended (
    id INTEGER PRIMARY KEY, name BLOB NOT NULL, account BLOB NOT NULL, owner BLOB NOT NULL,
    slots INTEGER NOT NULL, submitted_at REAL NOT NULL, started_at REAL NOT NULL,
    ended_at REAL NOT NULL, exit_status INTEGER, signal INTEGER, reason BLOB NOT NULL,
    user_s REAL NOT NULL, system_s REAL NOT NULL, max_rss_kb INTEGER NOT NULL,
    written_kb INTEGER NOT NULL, killed_for BLOB NOT NULL DEFAULT x'', array INTEGER NOT NULL DEFAULT 0,
    place INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX ended_array ON ended (array) WHERE array > 0;
"""
VERSION = 1  # version of the SQLite file's tables
MOST_JOBS = 2**63 - 1  # SQLite's largest integer
END = "exit_status, signal, reason, user_s, system_s, max_rss_kb, written_kb, killed_for"
ONE = f"SELECT account, {END} FROM ended WHERE id = ?"  # noqa: S608 - constants
TASKS = (
    f"SELECT account, place, ended_at - started_at, {END} FROM ended"  # noqa: S608 - constants
    " WHERE array = ? AND array > 0 ORDER BY place"
)
STARTABLE = " WHERE pid = 0 AND held = 0 AND error = x''"
ALLOWED = " AND iif(pinned = x'', wanted, pinned) IN (x'', ?)"
ORDERED = " ORDER BY id"
IN_TURN = " ORDER BY yields, id LIMIT 1"
OF_ARRAY = " WHERE array = ? AND array > 0 ORDER BY place"
SECONDS = 365 * 86400  # maximal walltime
MOST = 2**31 - 1  # maximal number of slots, or of waiting jobs
MOST_TASKS = 100_000
LOST = "the keeper process died: the exit status of the job is unknown"


def encode_text_as_bytes(value: object) -> object:
    """Encode a text as bytes; return a value of another type unchanged."""
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value


def decode_from_sqlite(value: Any) -> Any:
    """Decode bytes from SQLite as text; return a value of another type unchanged."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def open_embedded_job_store_file(folder: str, create: bool) -> sqlite3.Connection:
    """Open or create a cluster's SQLite file; raise StateError if the file is missing or not the caller's."""
    path = f"{folder}/{FILE}"
    if create:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    elif not os.path.exists(path):
        raise StateError(f"{folder}: not an embedded cluster")
    if os.stat(folder).st_uid != os.getuid():
        raise StateError(f"{folder}: only the folder's owner may run jobs")
    db = sqlite3.connect(path, timeout=PATIENCE_S, isolation_level=None)
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version > VERSION:
        raise StateError(f"{path}: written by a newer version of gridbridge")
    if version == 0:
        if not create:
            raise StateError(f"{folder}: not an embedded cluster")
        _create_tables(db)
    return db


def _create_tables(db: sqlite3.Connection) -> None:
    """Create the tables of the SQLite file; concurrent calls create the tables once."""
    db.execute("BEGIN IMMEDIATE")
    try:
        if not db.execute("PRAGMA user_version").fetchone()[0]:
            for statement in filter(str.strip, TABLES.split(";")):
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {VERSION}")
        db.execute("COMMIT")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


class EmbeddedRequestRefusal(GridbridgeError):
    """Raised when an embedded cluster can never satisfy a request."""


class NoSuchEmbeddedJob(GridbridgeError):
    """Raised when no job of this id waits or runs on an embedded cluster."""


class EmbeddedJobStore:
    """A process's connection to the SQLite file of an embedded cluster; unusable after a fork."""

    def __init__(self, folder: str, create: bool = False) -> None:
        self.folder = folder
        self._db = open_embedded_job_store_file(folder, create)
        self.keepers = EmbeddedJobKeeperLocks(f"{folder}/keepers")

    def has_database_file(self) -> bool:
        return os.path.exists(f"{self.folder}/{FILE}")

    @contextmanager
    def write_transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    @contextmanager
    def read_transaction(self) -> Iterator[None]:
        """Run the reads of a `with` block on one snapshot of the SQLite file."""
        self._db.execute("BEGIN")
        try:
            yield
        finally:
            self._db.execute("ROLLBACK")

    @property
    def local_slots(self) -> int:
        """The number of slots of queue `embedded`."""
        return self._query_single_number("SELECT slots FROM cluster")

    @local_slots.setter
    def local_slots(self, slots: int) -> None:
        if not 0 <= slots <= MOST:
            raise EmbeddedRequestRefusal(f"{slots} slots; expected 0 to {MOST}")
        with self.write_transaction():
            self._db.execute("DELETE FROM cluster")
            self._db.execute("INSERT INTO cluster VALUES (?)", (slots,))

    @property
    def waiting_job_count(self) -> int:
        """The number of jobs that wait for slots; held jobs, jobs in error state and array tasks don't count."""
        return self._query_single_number(f"SELECT count(*) FROM job{STARTABLE} AND array = 0")  # noqa: S608 - constants

    @property
    def preemptible_slots(self) -> int:
        return self._query_single_number("SELECT coalesce(sum(slots), 0) FROM job WHERE pid > 0 AND yields = 1")

    def add_job(self, request: EmbeddedJobRequest, owner: str) -> int:
        with self.write_transaction():
            self._require_satisfiable_request(request)
            job = self._insert_waiting_job(request, owner, 0, min(1, request.tasks))
            if request.tasks:
                self.update_job(job, array=job)
            for index in range(2, request.tasks + 1):
                self._insert_waiting_job(request, owner, job, index)
            self._db.execute("INSERT INTO script VALUES (?, ?)", (job, request.script))
        return job

    def _insert_waiting_job(self, request: EmbeddedJobRequest, owner: str, array: int, index: int) -> int:
        same = ("name", "account", "shell", "cwd", "output", "slots", "held", "walltime_s", "yields")
        values = {column: getattr(request, column) for column in same}
        values |= {"owner": owner, "wanted": request.queue, "submitted_at": time.time(), "array": array, "place": index}
        into = f"INSERT INTO job ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})"  # noqa: S608 - constants
        job = self._db.execute(into, tuple(map(encode_text_as_bytes, values.values()))).lastrowid
        assert job is not None
        return job

    def live_jobs(self, number: int = 0, name: str = "") -> list[EmbeddedJob]:
        """Return the waiting and running jobs, oldest first, or only those with this id or name."""
        if number:
            return self._select_jobs(" WHERE id = ?", number) if abs(number) <= MOST_JOBS else []
        if name:
            return self._select_jobs(f" WHERE name = ?{ORDERED}", encode_text_as_bytes(name))
        return self._select_jobs(ORDERED)

    def live_job(self, number: int) -> EmbeddedJob:
        """Return a waiting or running job; raise NoSuchEmbeddedJob for any other id."""
        jobs = self.live_jobs(number) if number else []
        if not jobs:
            raise NoSuchEmbeddedJob(f"job {number} does not exist")
        return jobs[0]

    def live_array_tasks(self, array: int) -> list[EmbeddedJob]:
        """Return an array's waiting and running tasks, sorted by array index."""
        return self._select_jobs(OF_ARRAY, array) if abs(array) <= MOST_JOBS else []

    def job_script(self, job: EmbeddedJob) -> bytes:
        row = self._db.execute("SELECT text FROM script WHERE job = ?", (job.array or job.id,))
        return bytes(row.fetchone()[0])

    def _require_satisfiable_request(self, request: EmbeddedJobRequest) -> None:
        has = self.slots_by_queue(request.queue)
        most = has[request.queue] if request.queue else max(has.values())
        if not 1 <= request.slots <= most:
            where = f"queue {request.queue}" if request.queue else "the cluster"
            raise EmbeddedRequestRefusal(f"{request.slots} slots requested, but {where} has {most}")
        if not (0 <= request.tasks <= MOST_TASKS and 0 <= request.walltime_s <= SECONDS):
            raise EmbeddedRequestRefusal(f"expected 0 to {MOST_TASKS} tasks, and a walltime of 0 to {SECONDS} s")

    def slots_by_queue(self, queue: str) -> dict[str, int]:
        """Return the number of slots of each queue; raise EmbeddedRequestRefusal if `queue` does not exist."""
        has = {OWN: self.local_slots} | {transfers.name: transfers.slots for transfers in self.transfer_queues()}
        if queue and queue not in has:
            raise EmbeddedRequestRefusal(f"queue {queue} does not exist; expected one of {', '.join(has)}")
        return has

    def transfer_queues(self) -> list[EmbeddedTransferQueue]:
        return [EmbeddedTransferQueue(*row) for row in self._select_rows("SELECT * FROM queue ORDER BY name")]

    def save_transfer_queue(self, queue: EmbeddedTransferQueue) -> None:
        if queue.name == OWN or not OBJECT_NAME.holds(queue.name):
            raise EmbeddedRequestRefusal(f"queue {queue.name!r}: {OBJECT_NAME.right}; {OWN} is not a transfer queue")
        for number in (queue.slots, queue.pending_limit):
            if not 0 <= number <= MOST:
                raise EmbeddedRequestRefusal(f"queue {queue.name}: {number} is invalid; expected 0 to {MOST}")
        with self.write_transaction():
            row = tuple(map(encode_text_as_bytes, queue))
            self._db.execute("INSERT OR REPLACE INTO queue VALUES (?, ?, ?, ?, ?)", row)

    def next_startable_job(self, opened: Container[str] = ()) -> EmbeddedJob | None:
        """Return the next job that can start, with its queue in field `at`; None if there is none.

        Queues are first in, first out, so that small jobs can't delay a large job for ever. Preemptible jobs are
        last. Only the transfer queues in `opened` start jobs.
        """
        queues = (queue for queue in self.transfer_queues() if queue.name in opened)
        own_job = self._first_waiting_job_that_fits(OWN, self.local_slots)
        return own_job or next(filter(None, map(self.next_job_of_queue, queues)), None)

    def next_job_of_queue(self, queue: EmbeddedTransferQueue) -> EmbeddedJob | None:
        """Return the job that a transfer queue would start next if the queue were open."""
        return self._first_waiting_job_that_fits(queue.name, queue.slots)

    def _first_waiting_job_that_fits(self, queue: str, slots: int) -> EmbeddedJob | None:
        at = "" if queue == OWN else queue
        job = self.first_waiting_job(queue)
        is_room = job and job.slots <= slots - self.used_slots(at)
        return job._replace(at=at) if job and is_room else None

    def first_waiting_job(self, queue: str = OWN) -> EmbeddedJob | None:
        """Return the first waiting job of a queue, even if its slots are not free."""
        return next(iter(self._select_jobs(f"{STARTABLE}{ALLOWED}{IN_TURN}", encode_text_as_bytes(queue))), None)

    def running_preemptible_jobs(self) -> list[EmbeddedJob]:
        """Return the running preemptible jobs, the newest first."""
        return self._select_jobs(" WHERE pid > 0 AND yields = 1 ORDER BY started_at DESC, id DESC")

    def used_slots(self, at: str = "") -> int:
        """Return how many slots the jobs of queue `at` use; empty `at` stands for queue `embedded`."""
        query = "SELECT coalesce(sum(slots), 0) FROM job WHERE pid > 0 AND at = ?"
        return self._query_single_number(query, encode_text_as_bytes(at))

    def update_job(self, number: int, **values: object) -> None:
        columns = ", ".join(f"{column} = ?" for column in values)
        row = (*map(encode_text_as_bytes, values.values()), number)
        self._db.execute(f"UPDATE job SET {columns} WHERE id = ?", row)  # noqa: S608 - constants

    def remove_job(self, job: EmbeddedJob) -> None:
        """Delete a job's row, and the script if no other task of the array needs the script."""
        self._db.execute("DELETE FROM job WHERE id = ?", (job.id,))
        query = "SELECT count(*) FROM job WHERE array = ? AND array > 0"
        if not self._query_single_number(query, job.array):
            self._db.execute("DELETE FROM script WHERE job = ?", (job.array or job.id,))

    def requeue_job(self, job: EmbeddedJob, error: str = "") -> None:
        """Requeue a job of a transfer queue, in error state if `error` is given."""
        cleared = {"pid": 0, "birth": "", "started_at": None, "suspended": 0, "deleting": 0, "at": ""}
        self.update_job(job.id, **cleared, restarted=1, error=error)

    def record_job_end(self, job: EmbeddedJob, end: EmbeddedJobEnd) -> None:
        """Move an ended job from table `job` to table `ended`, the accounting."""
        times = (job.submitted_at, job.started_at, time.time())
        row = (job.id, job.name, job.account, job.owner, job.slots, *times, *end, job.array, job.place)
        marks = ", ".join("?" * len(row))
        self._db.execute(f"INSERT INTO ended VALUES ({marks})", tuple(map(encode_text_as_bytes, row)))  # noqa: S608
        self.remove_job(job)

    def job_end(self, number: int) -> tuple[str, EmbeddedJobEnd] | None:
        rows = self._select_rows(ONE, number) if abs(number) <= MOST_JOBS else ()
        return next(((account, EmbeddedJobEnd(*end)) for account, *end in rows), None)

    def array_task_ends(self, array: int) -> list[EmbeddedArrayTaskEnd]:
        """Return how the ended tasks of an array ended, sorted by array index."""
        rows = self._select_rows(TASKS, array) if abs(array) <= MOST_JOBS else ()
        return [
            EmbeddedArrayTaskEnd(account, place, run_s, EmbeddedJobEnd(*end)) for account, place, run_s, *end in rows
        ]

    def find_jobs_without_processes(self) -> list[EmbeddedJob]:
        """Return the jobs recorded as running although their keeper process and first process have ended."""
        return [
            job
            for job in self._select_jobs(" WHERE pid > 0")
            if not self.keepers.is_job_locked(job.id) and embedded_job_processes.unique_process_id(job.pid) != job.birth
        ]

    def end_or_requeue_lost_jobs(self) -> Iterable[int]:
        """Write the accounting of jobs whose keeper and first process are gone; return the job ids.

        A transfer queue's job is requeued unless a user deleted it: the next starter takes over a living remote job.
        """
        if not self.find_jobs_without_processes():
            return ()
        with self.write_transaction():
            lost = self.find_jobs_without_processes()
            for job in lost:
                if job.at and not job.deleting:
                    self.requeue_job(job)
                else:
                    self.record_job_end(job, EmbeddedJobEnd(reason=LOST))
        return [job.id for job in lost if not job.at or job.deleting]

    def _select_jobs(self, condition: str, *values: object) -> list[EmbeddedJob]:
        return [EmbeddedJob(*row) for row in self._select_rows(f"SELECT * FROM job{condition}", *values)]  # noqa: S608

    def _select_rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        return [tuple(map(decode_from_sqlite, row)) for row in self._db.execute(query, values)]

    def _query_single_number(self, query: str, *values: object) -> int:
        return int(self._db.execute(query, values).fetchone()[0])
