"""The accounting of an embedded cluster: how its jobs ended, a row for each."""

import sqlite3
import time

from gridbridge.batch.embedded.embedded_job import EmbeddedJob, EmbeddedJobEnd, TaskEnd
from gridbridge.batch.embedded.text_encoding import loaded, stored, text

MOST_JOBS = 2**63 - 1  # as SQLite counts
END = "exit_status, signal, reason, user_s, system_s, max_rss_kb, killed_for"
ONE = f"SELECT account, {END} FROM ended WHERE id = ?"  # noqa: S608 - names of ours
TASKS = (
    f"SELECT account, place, ended_at - started_at, {END} FROM ended"  # noqa: S608 - the same
    " WHERE array = ? AND array > 0 ORDER BY place"
)


def record(db: sqlite3.Connection, job: EmbeddedJob, end: EmbeddedJobEnd) -> None:
    """Note how a job ended."""
    row = (job.id, *map(stored, (job.name, job.account, job.owner)), job.slots)
    times = (job.submitted_at, job.started_at, time.time())
    values = (*row, *times, *map(stored, end), job.array, job.place)
    marks = ", ".join("?" * len(values))
    db.execute(f"INSERT INTO ended VALUES ({marks})", values)  # noqa: S608 - marks


def end_of(db: sqlite3.Connection, number: int) -> tuple[str, EmbeddedJobEnd] | None:
    """Return the account of a job that ended, and how; None when there is no record."""
    if abs(number) > MOST_JOBS:
        return None
    row = db.execute(ONE, (number,)).fetchone()
    return (text(row[0]), EmbeddedJobEnd(*map(loaded, row[1:]))) if row else None


def ends_of(db: sqlite3.Connection, array: int) -> list[TaskEnd]:
    """Return the ends of an array's tasks that there are records of, by their places."""
    rows = db.execute(TASKS, (array,)) if abs(array) <= MOST_JOBS else ()
    return [_task(*row) for row in rows]


def _task(account: bytes, index: int, wallclock_s: float, *end: object) -> TaskEnd:
    return TaskEnd(text(account), index, wallclock_s, EmbeddedJobEnd(*map(loaded, end)))
