"""Reads a cell's accounting file, and determines a job's final end from its records.

8.1.9 writes line feeds of a job's request into its record unchanged, so any user of the cell can
forge whole records of another user's job. A record is evidence, never proof.
"""

import logging
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from gridbridge.batch.gridengine import client_commands
from gridbridge.batch.gridengine.qacct import (
    job_end_of_accounting_record,
    parse_accounting_records,
    parse_array_task_records,
)
from gridbridge.batch.gridengine.qacct import read_accounting_lines as read_accounting_lines
from gridbridge.batch.gridengine.submit import run_client
from gridbridge.errors import CommandFailed
from gridbridge.model.job import ArrayEndQuery, FutureDatedJobEnd, JobEnd
from gridbridge.model.remote_job_accounting import RESCHEDULED, JobRunAccounting, RemoteJobRunAccounting
from gridbridge.model.transfer_route import GridEngineCellAccess
from gridbridge.shell.runner import LIST_BYTES, CompletedProgram

CLOCKS_DIFFER = timedelta(minutes=5)  # tolerated difference of two clusters' clocks

Records = Sequence[JobRunAccounting | RemoteJobRunAccounting]
NO_LINE, NOT_READ = 1, 2  # exit statuses of grep(1)
UNREADABLE = re.compile(rb"unable to open|accounting: (?!No such file)")  # qacct, on standard error
_log = logging.getLogger(__name__)


def settle_job_end(records: Records, now: datetime) -> tuple[JobEnd | None, bool]:
    """Return the end that a job's records show, and whether the records contradict each other.

    Contradicting ends are not believed. Runs that were requeued, ends in the future, and parts of a
    parallel job are ignored; a run whose end nobody saw contradicts no other.
    """
    end, is_disputed = final_or_future_job_end(records, now)
    return (None if isinstance(end, FutureDatedJobEnd) else end), is_disputed


def final_or_future_job_end(records: Records, now: datetime) -> tuple[JobEnd | FutureDatedJobEnd | None, bool]:
    """Return a job's end, or the end that its records place in the future.

    A job that ended by itself before now keeps that end. A failed run before now may have been
    requeued and settles nothing: the time of an end is execd's, whose clock may be ahead.
    """
    final = [record for record in records if _is_final(record)]
    future = [record for record in final if record.ended_at and record.ended_at > now + CLOCKS_DIFFER]
    past = [record for record in final if record not in future]
    if future and not any(job_end_of_accounting_record(record).exit_status is not None for record in past):
        return _future(final, future[-1]), False
    return _agreed([job_end_of_accounting_record(record) for record in past])


def _future(final: Records, last: JobRunAccounting | RemoteJobRunAccounting) -> FutureDatedJobEnd:
    ends = [job_end_of_accounting_record(record) for record in final]
    is_one = len(_kinds(ends)) == 1
    at = last.ended_at
    assert at  # a future-dated record has an end time
    return FutureDatedJobEnd(ended_at=at, host=last.host, end=ends[-1] if is_one else None)


def _agreed(ends: Sequence[JobEnd]) -> tuple[JobEnd | None, bool]:
    observed = [end for end in ends if not end.is_unseen] or ends
    if len(_kinds(observed)) > 1:
        return None, True
    return (max(reversed(observed), key=_run_s) if observed else None), False


def _run_s(end: JobEnd) -> float:
    """Return how long a job ran; of several equal ends the longest run counts.

    So a forged record can't reduce the usage of a job.
    """
    return end.wallclock_s or 0.0


def _kinds(ends: Sequence[JobEnd]) -> set[tuple[int | None, int | None]]:
    return {(end.exit_status, end.signal) for end in ends}


def _is_final(record: JobRunAccounting | RemoteJobRunAccounting) -> bool:
    return record.failed not in RESCHEDULED and not record.pe_task


def query_accounting_records(cell: GridEngineCellAccess, job_id: int) -> tuple[JobRunAccounting, ...]:
    """Return a job's accounting records, of all its tasks and runs.

    qacct runs in UTC, because it prints local times without a zone. An unreadable file is an error,
    although qacct then prints the same as for an empty file.
    """
    argv = client_commands.qacct_command(cell, str(job_id))
    answer = run_client(cell, argv, zone="UTC", most_bytes=LIST_BYTES)
    is_empty = b"no jobs running since startup" in answer.stdout
    if b"not found" in answer.stderr or (is_empty and not UNREADABLE.search(answer.stderr)):
        return ()
    return parse_accounting_records(answer.checked().stdout, zone=UTC)


def query_array_accounting_records(
    cell: GridEngineCellAccess, arrays: Sequence[ArrayEndQuery]
) -> tuple[tuple[JobRunAccounting, ...], bool]:
    """Return the accounting records of array tasks, and whether the file could be read.

    If the file is missing, as after a rotation, the rotated files are read. An incomplete last line
    is read the next time.
    """
    answer = _searched(cell, arrays)
    if answer.status not in (NO_LINE, NOT_READ):
        answer.checked()
    return tuple(parse_array_task_records(answer.stdout, arrays)), answer.status != NOT_READ


def _searched(cell: GridEngineCellAccess, arrays: Sequence[ArrayEndQuery]) -> CompletedProgram:
    """Search the arrays' accounting lines, also in rotated files if requested and fast enough."""
    accounts = [array.account for array in arrays]
    if since := min((array.looks_since for array in arrays if array.looks_since), default=None):
        try:
            argv = client_commands.search_rotated_files_command(cell, accounts, int(since.timestamp()))
            return run_client(cell, argv, most_bytes=LIST_BYTES)
        except CommandFailed as error:
            _log.warning("event=not_all_accounting_read cell=%s why=%r", cell.cell, str(error))
    return run_client(cell, client_commands.search_accounting_command(cell, accounts), most_bytes=LIST_BYTES)
