"""The accounting of an embedded cluster: a row in its SQLite file for each ended job."""

import sqlite3
import time

from gridbridge.batch.embedded.embedded_job import EmbeddedJob, EmbeddedJobEnd, EmbeddedTaskEnd
from gridbridge.batch.embedded.text_encoding import (
    decode_from_sqlite,
    decode_stored_text,
    encode_for_sqlite,
)

MOST_JOBS = 2**63 - 1  # as SQLite counts
END = "exit_status, signal, reason, user_s, system_s, max_rss_kb, killed_for"
ONE = f"SELECT account, {END} FROM ended WHERE id = ?"  # noqa: S608 - names of ours
TASKS = (
    f"SELECT account, place, ended_at - started_at, {END} FROM ended"  # noqa: S608 - the same
    " WHERE array = ? AND array > 0 ORDER BY place"
)


def record_job_end(db: sqlite3.Connection, job: EmbeddedJob, end: EmbeddedJobEnd) -> None:
    """Write the accounting row of an ended job."""
    row = (job.id, *map(encode_for_sqlite, (job.name, job.account, job.owner)), job.slots)
    times = (job.submitted_at, job.started_at, time.time())
    values = (*row, *times, *map(encode_for_sqlite, end), job.array, job.place)
    marks = ", ".join("?" * len(values))
    db.execute(f"INSERT INTO ended VALUES ({marks})", values)  # noqa: S608 - marks


def read_recorded_end(db: sqlite3.Connection, number: int) -> tuple[str, EmbeddedJobEnd] | None:
    """Return an ended job's account and end, None if there is no accounting row."""
    if abs(number) > MOST_JOBS:
        return None
    row = db.execute(ONE, (number,)).fetchone()
    return (
        (decode_stored_text(row[0]), EmbeddedJobEnd(*map(decode_from_sqlite, row[1:])))
        if row
        else None
    )


def read_recorded_task_ends(db: sqlite3.Connection, array: int) -> list[EmbeddedTaskEnd]:
    """Return the recorded ends of an array's tasks, by index."""
    rows = db.execute(TASKS, (array,)) if abs(array) <= MOST_JOBS else ()
    return [_task(*row) for row in rows]


def _task(account: bytes, index: int, wallclock_s: float, *end: object) -> EmbeddedTaskEnd:
    return EmbeddedTaskEnd(
        decode_stored_text(account),
        index,
        wallclock_s,
        EmbeddedJobEnd(*map(decode_from_sqlite, end)),
    )
